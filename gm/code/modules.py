"""From a specifier to a file of the same repository, the way bundlers and the TypeScript compiler look.

Relative paths, index files, `paths` and `baseUrl` of tsconfig, packages of a monorepo by their `exports` and entry
fields, ``#imports``. An entry that is built (``dist/index.js``) stands for the source that it is built from.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_SUFFIXES = (".ts", ".tsx", ".mts", ".cts", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".vue", ".svelte")
_SOURCE_OF = {
    ".js": (".ts", ".tsx", ".js", ".jsx", ".d.ts"),
    ".jsx": (".tsx", ".jsx"),
    ".mjs": (".mts", ".mjs", ".d.mts"),
    ".cjs": (".cts", ".cjs", ".d.cts"),
}
_BUILT = re.compile(
    r"(^|/)(?:dist|lib|build|out|output|es|esm|cjs|umd|types|typings)(?:/(?:esm|cjs|es|umd|src|dev|prod|types|browser|node|development|production))*/"
)
_CONDITIONS = (
    "source",
    "development",
    "import",
    "module",
    "module-sync",
    "browser",
    "node",
    "require",
    "default",
    "types",
)

Config = Callable[[str], Any]
"""Returns the parsed JSON of a configuration file by its path, or None."""


class Modules:
    """Resolves specifiers among the files of one repository.

    Args:
        files: paths of all code files.
        configs: paths of all package.json and tsconfig files.
        read: gives a configuration file's content.
    """

    def __init__(self, files: Iterable[str], configs: Iterable[str], read: Config) -> None:
        self._files = frozenset(files)
        self._configs = frozenset(configs)
        self._read = read
        self._memo: dict[tuple[str, str], str | None] = {}
        self._tsconfigs: dict[str, list[tuple[str, list[tuple[str, list[str]]], str | None]]] = {}
        self._packages: dict[str, str] | None = None

    def resolve(self, importer: str, specifier: str) -> str | None:
        """Return the path of the file that `specifier` names in the file `importer`, or None when none does."""
        folder = posixpath.dirname(importer)
        key = (folder, specifier)
        if key not in self._memo:
            self._memo[key] = self._resolve(folder, specifier.partition("?")[0])
        return self._memo[key]

    def _resolve(self, folder: str, specifier: str) -> str | None:
        if specifier.startswith(("./", "../")) or specifier in (".", ".."):
            path = posixpath.normpath(posixpath.join(folder, specifier))
            return None if path.startswith("..") else self._file("" if path == "." else path)
        if specifier.startswith("/"):
            return None
        if specifier.startswith("#"):
            found = self._subpath_import(folder, specifier)
            if found is not None:
                return found
        return self._mapped(folder, specifier) or self._package(specifier)

    def _file(self, path: str) -> str | None:
        """Return the file that a path without certain ending names."""
        stem, suffix = posixpath.splitext(path)
        for replaced in _SOURCE_OF.get(suffix, ()):
            if stem + replaced in self._files:
                return stem + replaced
        if path in self._files:
            return path
        for added in _SUFFIXES:
            if path + added in self._files:
                return path + added
        manifest = posixpath.join(path, "package.json")
        if manifest in self._configs:
            found = self._entry(path, self._read(manifest), ".")
            if found is not None:
                return found
        for added in _SUFFIXES:
            inside = posixpath.join(path, "index" + added)
            if inside in self._files:
                return inside
        return None

    # --- tsconfig ---

    def _mapped(self, folder: str, specifier: str) -> str | None:
        for base, paths, base_url in self._tsconfig(folder):
            best: tuple[int, list[str], str] | None = None
            for pattern, targets in paths:
                head, star, tail = pattern.partition("*")
                if not star:
                    if pattern == specifier:
                        best = (1 << 30, targets, "")
                    continue
                fits = specifier.startswith(head) and specifier.endswith(tail)
                if fits and len(specifier) >= len(head) + len(tail) and (best is None or len(head) > best[0]):
                    best = (len(head), targets, specifier[len(head) : len(specifier) - len(tail)])
            for target in best[1] if best else ():
                path = posixpath.normpath(posixpath.join(base, target.replace("*", best[2] if best else "", 1)))
                found = self._file(path)
                if found is not None:
                    return found
            if base_url is not None:
                found = self._file(posixpath.normpath(posixpath.join(base_url, specifier)))
                if found is not None:
                    return found
        return None

    def _tsconfig(self, folder: str) -> list[tuple[str, list[tuple[str, list[str]]], str | None]]:
        """Return the path mappings that hold in a folder, the nearest tsconfig's first."""
        if folder in self._tsconfigs:
            return self._tsconfigs[folder]
        found = []
        for name in ("tsconfig.json", "jsconfig.json"):
            path = posixpath.join(folder, name)
            if path in self._configs:
                found += self._mappings(path, set())
        if folder:
            found += self._tsconfig(posixpath.dirname(folder))
        self._tsconfigs[folder] = found
        return found

    def _mappings(self, path: str, seen: set[str]) -> list[tuple[str, list[tuple[str, list[str]]], str | None]]:
        config = self._read(path)
        if path in seen or not isinstance(config, dict):
            return []
        seen.add(path)
        folder = posixpath.dirname(path)
        options = config.get("compilerOptions")
        options = options if isinstance(options, dict) else {}
        base_url = options.get("baseUrl")
        base = posixpath.normpath(posixpath.join(folder, base_url)) if isinstance(base_url, str) else None
        base = "" if base == "." else base
        paths = options.get("paths")
        found: list[tuple[str, list[tuple[str, list[str]]], str | None]] = []
        if isinstance(paths, dict) or base is not None:
            mappings = [
                (pattern, [target for target in targets if isinstance(target, str)])
                for pattern, targets in (paths if isinstance(paths, dict) else {}).items()
                if isinstance(targets, list)
            ]
            found.append((folder if base is None else base, mappings, base))
        extended = config.get("extends")
        references = config.get("references")
        for name in [extended] if isinstance(extended, str) else extended if isinstance(extended, list) else []:
            if isinstance(name, str) and name.startswith("."):
                found += self._mappings(self._config_path(folder, name), seen)
        for reference in references if isinstance(references, list) else []:
            inside = reference.get("path") if isinstance(reference, dict) else None
            if isinstance(inside, str) and posixpath.basename(inside).startswith("tsconfig"):
                found += self._mappings(self._config_path(folder, inside), seen)
        return found

    def _config_path(self, folder: str, name: str) -> str:
        path = posixpath.normpath(posixpath.join(folder, name))
        for candidate in (path, path + ".json", posixpath.join(path, "tsconfig.json")):
            if candidate in self._configs:
                return candidate
        return path

    # --- packages ---

    def _package(self, specifier: str) -> str | None:
        parts = specifier.split("/")
        count = 2 if specifier.startswith("@") else 1
        name, rest = "/".join(parts[:count]), "/".join(parts[count:])
        folder = self._package_folders().get(name)
        if folder is None:
            return None
        manifest = self._read(posixpath.join(folder, "package.json"))
        found = self._entry(folder, manifest, "./" + rest if rest else ".")
        if found is None and rest:
            found = self._file(posixpath.join(folder, rest)) or self._file(posixpath.join(folder, "src", rest))
        return found

    def _package_folders(self) -> dict[str, str]:
        if self._packages is None:
            self._packages = {}
            manifests = (path for path in self._configs if posixpath.basename(path) == "package.json")
            for path in sorted(manifests, key=lambda path: (path.count("/"), path)):
                manifest = self._read(path)
                name = manifest.get("name") if isinstance(manifest, dict) else None
                if isinstance(name, str):
                    self._packages.setdefault(name, posixpath.dirname(path))
        return self._packages

    def _subpath_import(self, folder: str, specifier: str) -> str | None:
        while True:
            path = posixpath.join(folder, "package.json")
            if path in self._configs:
                manifest = self._read(path)
                imports = manifest.get("imports") if isinstance(manifest, dict) else None
                for target in _chosen(imports, specifier) if isinstance(imports, dict) else ():
                    found = self._built(folder, target)
                    if found is not None:
                        return found
            if not folder:
                return None
            folder = posixpath.dirname(folder)

    def _entry(self, folder: str, manifest: Any, subpath: str) -> str | None:
        """Return the file that a package gives for ``.`` or ``./sub``."""
        if not isinstance(manifest, dict):
            return None
        exports = manifest.get("exports")
        if exports is not None:
            table = exports if isinstance(exports, dict) and any(k.startswith(".") for k in exports) else {".": exports}
            for target in _chosen(table, subpath):
                found = self._built(folder, target)
                if found is not None:
                    return found
        if subpath == ".":
            for field in ("source", "module", "main", "types", "typings"):
                entry = manifest.get(field)
                if isinstance(entry, str):
                    found = self._built(folder, entry)
                    if found is not None:
                        return found
            for guess in ("src/index", "index", "lib/index", "src/main"):
                for suffix in _SUFFIXES:
                    path = posixpath.join(folder, guess + suffix)
                    if path in self._files:
                        return path
        return None

    def _built(self, folder: str, target: str) -> str | None:
        """Return an entry's file, or the source that it is built from."""
        target = target.removeprefix("./")
        if target in ("", "."):
            return None
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in self._files and not _BUILT.search(target):
            return path
        source = _BUILT.sub(r"\1src/", target, count=1)
        flat = _BUILT.sub(r"\1", target, count=1)
        for guess in dict.fromkeys((source, target, flat)):
            stem = re.sub(r"(?:\.d)?\.[mc]?[jt]sx?$", "", guess)
            stem = re.sub(r"\.(?:esm|cjs|umd|es|prod|min|esm-bundler|common)$", "", stem)
            found = self._file(posixpath.normpath(posixpath.join(folder, stem)))
            if found is not None:
                return found
        return path if path in self._files else None


def _chosen(table: dict[str, Any], key: str) -> Iterator[str]:
    """Yield the targets that an exports or imports table gives for a key, the likeliest source first."""
    if key in table:
        yield from _conditions(table[key], "")
        return
    best = None
    for pattern in table:
        head, star, tail = pattern.partition("*")
        if (
            star
            and key.startswith(head)
            and key.endswith(tail)
            and len(key) >= len(head) + len(tail)
            and (best is None or len(head) > len(best[0]))
        ):
            best = (head, tail, pattern)
    if best is not None:
        yield from _conditions(table[best[2]], key[len(best[0]) : len(key) - len(best[1])])


def _conditions(value: Any, star: str) -> Iterator[str]:
    if isinstance(value, str):
        yield value.replace("*", star)
    elif isinstance(value, list):
        for item in value:
            yield from _conditions(item, star)
    elif isinstance(value, dict):
        for name in dict.fromkeys((*_CONDITIONS, *value)):
            if name in value:
                yield from _conditions(value[name], star)
