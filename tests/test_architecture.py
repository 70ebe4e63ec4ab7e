"""Holds the arrows of docs/architecture.md: which package may import which, and who stays with the standard library."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Everybody may import these.
EVERYWHERE = {"gm", "gm.errors"}

ALLOWED: dict[str, set[str]] = {
    "gm.system": set(),
    "gm.protocol": {"gm.system"},
    "gm.work": {"gm.protocol", "gm.system"},
    "gm.search": {"gm.protocol", "gm.system"},
    "gm.code": {"gm.protocol", "gm.system", "gm.search"},
    "gm.run": {"gm.work", "gm.search", "gm.code", "gm.protocol", "gm.system"},
    "gm.verbs": {"gm.run", "gm.work", "gm.search", "gm.code", "gm.protocol", "gm.system"},
    "gm.body": {"gm.verbs", "gm.run", "gm.protocol", "gm.system"},
    "gm.servers": {"gm.verbs", "gm.run", "gm.protocol", "gm.system"},
    "gm.relay": {"gm.protocol", "gm.system"},
    "gm.update": {"installer", "gm.protocol", "gm.system"},
    "installer": {"gm.system"},
    "release": {"gm.update", "installer", "gm.protocol", "gm.system"},
    "gm.gmloop": {"gm.system"},
    "gm.worker": {
        *("gm.servers", "gm.body", "gm.verbs", "gm.run", "gm.work", "gm.search", "gm.code"),
        *("gm.update", "installer", "gm.protocol", "gm.system"),
    },
    "gm.cli": {
        *("gm.servers", "gm.body", "gm.verbs", "gm.run", "gm.work", "gm.search", "gm.code"),
        *("gm.update", "installer", "release", "gm.protocol", "gm.system"),
    },
    "gm.__main__": {"gm.cli", "gm.worker", "gm.relay", "gm.body", "gm.verbs", "gm.system"},
}

# These start before anything else could be imported, or inside a body.
STANDARD_LIBRARY_ONLY = ("gm/relay", "gm/protocol", "gm/system", "gm/verbs/jobwrapper.py", "installer/pointers.py")
BODY_CHILD = ("main", "forkserver", "forked", "spare", "child", "binding", "source", "link", "limits", "tags")


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        path = ROOT / folder
        yield from [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


def package_of(module: str) -> str:
    """The unit of the architecture that a module belongs to."""
    parts = module.split(".")
    if parts[0] != "gm":
        return parts[0]
    if len(parts) == 1:
        return "gm"
    return ".".join(parts[:2])


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            assert node.module is not None
            yield node.lineno, node.module
            if node.module in ("gm", "gm.body"):
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def is_ours(module: str) -> bool:
    return module.split(".")[0] in ("gm", "installer", "release")


def test_imports_point_downwards() -> None:
    wrong = []
    for path in sources("gm", "installer", "release"):
        package = package_of(module_of(path))
        for line, module in imports(path):
            target = package_of(module)
            if not is_ours(module) or target == package or target in EVERYWHERE or module == "gm.__version__":
                continue
            if target not in ALLOWED.get(package, set()):
                wrong.append(f"{path.relative_to(ROOT)}:{line} {package} imports {module}")
    assert wrong == []


def test_every_package_of_the_tree_has_its_arrows() -> None:
    packages = {package_of(module_of(path)) for path in sources("gm", "installer", "release")}
    assert packages - EVERYWHERE - set(ALLOWED) == set()


@pytest.mark.parametrize("folder", STANDARD_LIBRARY_ONLY)
def test_parts_that_start_first_import_the_standard_library_only(folder: str) -> None:
    if not (ROOT / folder).exists():
        pytest.fail(f"{folder} is gone; change this list")
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {module}"
        for path in sources(folder)
        for line, module in imports(path)
        if not is_ours(module) and module.split(".")[0] not in sys.stdlib_module_names
    ]
    assert wrong == []


def test_the_bodys_process_imports_the_standard_library_and_itself_only() -> None:
    allowed = {f"gm.body.{name}" for name in BODY_CHILD} | {"gm.errors", "gm.body"}
    wrong = []
    for name in BODY_CHILD:
        path = ROOT / "gm" / "body" / f"{name}.py"
        for line, module in imports(path):
            if is_ours(module):
                fine = module in allowed or package_of(module) == "gm.system"
            else:
                fine = module.split(".")[0] in sys.stdlib_module_names
            if not fine:
                wrong.append(f"{path.relative_to(ROOT)}:{line} {module}")
    assert wrong == []


def test_files_have_one_purpose_and_a_name_that_says_it() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base2"}
    assert [str(path) for path in sources("gm", "installer", "release") if path.stem in empty] == []


def test_every_module_says_its_purpose_first() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources("gm", "installer", "release", "bench")
        if not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]
    assert silent == []
