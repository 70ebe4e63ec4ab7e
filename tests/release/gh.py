"""A double of `gh` for one release: its commands, flags, messages and refusals are those of the GitHub CLI's source.

The assets lie in a folder, so that a server can answer with them; the double runs in a test's process or as a program
(`put_on_path`). It refuses every command and flag that it does not know, as `gh` does.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

FIELDS = {"assets", "isDraft", "isImmutable", "isPrerelease", "name", "tagName", "url"}
API = "https://api.github.com/repos/"


class Refusal(Exception):
    """What `gh` says on stderr when it fails."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refusal(f"unknown flag or argument: {message}")


@dataclass
class Gh:
    """The release `tag` of `repository`; `state` is a file, `assets` a folder beside or below it."""

    state: Path
    assets: Path
    repository: str = "o/r"
    tag: str = "latest"

    @classmethod
    def make(cls, state: Path, assets: Path, *, repository: str = "o/r", exists: bool = True) -> Gh:
        """Make the double with no asset; `exists` tells whether there is the release already."""
        assets.mkdir(parents=True)
        gh = cls(state, assets, repository)
        gh.write({"exists": exists, "immutable": False, "ids": {}, "cut": [], "next": 1, "log": []})
        return gh

    def read(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.state.read_text())
        return state

    def write(self, state: dict[str, Any]) -> None:
        self.state.write_text(json.dumps(state))

    def calls(self) -> list[str]:
        """Return the first two words of each call."""
        return [" ".join(words[:2]) for words in self.read()["log"]]

    def contents(self) -> dict[str, bytes]:
        """Return the assets that are whole."""
        state = self.read()
        return {name: (self.assets / name).read_bytes() for name in state["ids"] if name not in state["cut"]}

    def answer(self, arguments: Sequence[str]) -> tuple[int, bytes, bytes]:
        """Return status, stdout and stderr of `gh` with these arguments."""
        state = self.read()
        state["log"].append(list(arguments))
        try:
            out = self._command(list(arguments), state)
        except Refusal as refusal:
            return 1, b"", f"{refusal}\n".encode()
        finally:
            self.write(state)
        return 0, out.encode(), b""

    def _command(self, arguments: list[str], state: dict[str, Any]) -> str:
        if arguments[:1] == ["api"]:
            return self._api(arguments[1:], state)
        if arguments[:1] != ["release"]:
            raise Refusal(f"unknown command {arguments[:1]}")
        parser = _Parser(allow_abbrev=False, add_help=False)
        parser.add_argument("command", choices=["view", "create", "upload", "download", "delete-asset"])
        parser.add_argument("tag", choices=[self.tag])
        parser.add_argument("--repo", choices=[self.repository], required=True)
        command = arguments[1] if len(arguments) > 1 else ""
        if command == "view":
            parser.add_argument("--json", required=True)
        elif command == "create":
            parser.add_argument("--title", required=True)
            parser.add_argument("--notes", required=True)
            parser.add_argument("--prerelease", action="store_true")
        elif command == "upload":
            parser.add_argument("files", nargs="+")
        elif command == "download":
            parser.add_argument("--pattern", required=True)
            parser.add_argument("--output", required=True)
            parser.add_argument("--clobber", action="store_true")
        elif command == "delete-asset":
            parser.add_argument("name")
            parser.add_argument("--yes", action="store_true", required=True)
        asked = parser.parse_args(arguments[1:])
        if command == "create":
            if state["exists"]:
                raise Refusal("HTTP 422: Validation Failed")
            state["exists"] = True
            return "https://github.com/"
        if not state["exists"]:
            raise Refusal("release not found")
        return str(getattr(self, "_" + command.replace("-", "_"))(asked, state))

    def _view(self, asked: argparse.Namespace, state: dict[str, Any]) -> str:
        wanted = set(asked.json.split(","))
        if wanted - FIELDS:
            raise Refusal(f"Unknown JSON field: {min(wanted - FIELDS)!r}")
        assets = [
            {
                "name": name,
                "apiUrl": f"{API}{self.repository}/releases/assets/{number}",
                "size": (self.assets / name).stat().st_size,
                "state": "starter" if name in state["cut"] else "uploaded",
            }
            for name, number in state["ids"].items()
        ]
        known = {"tagName": self.tag, "isImmutable": state["immutable"], "assets": assets}
        return json.dumps({name: value for name, value in known.items() if name in wanted})

    def _upload(self, asked: argparse.Namespace, state: dict[str, Any]) -> str:
        for file in map(Path, asked.files):
            if file.name in state["ids"]:
                raise Refusal(f"asset under the same name already exists: [{file.name}]")
            (self.assets / file.name).write_bytes(file.read_bytes())
            state["ids"][file.name] = state["next"]
            state["next"] += 1
        return ""

    def _download(self, asked: argparse.Namespace, state: dict[str, Any]) -> str:
        found = [name for name in state["ids"] if fnmatch.fnmatchcase(name, asked.pattern)]
        if not found:
            raise Refusal("no assets match the file pattern" if state["ids"] else "no assets to download")
        if len(found) > 1:
            raise Refusal(f"unable to write more than one asset with `--output`, got {len(found)} assets")
        if found[0] in state["cut"]:
            raise Refusal(f"HTTP 404: Not Found ({API}{self.repository}/releases/assets/{state['ids'][found[0]]})")
        if Path(asked.output).exists() and not asked.clobber:
            raise Refusal(f"{asked.output} already exists (use `--clobber` to overwrite file or `--skip-existing`)")
        Path(asked.output).write_bytes((self.assets / found[0]).read_bytes())
        return ""

    def _delete_asset(self, asked: argparse.Namespace, state: dict[str, Any]) -> str:
        if asked.name not in state["ids"]:
            raise Refusal(f"asset {asked.name} not found in release {self.tag}")
        self._delete(asked.name, state)
        return ""

    def _api(self, arguments: list[str], state: dict[str, Any]) -> str:
        parser = _Parser(allow_abbrev=False, add_help=False)
        parser.add_argument("path")
        parser.add_argument("--method", choices=["DELETE", "PATCH"], required=True)
        parser.add_argument("--raw-field")
        asked = parser.parse_args(arguments)
        numbers = {f"{API}{self.repository}/releases/assets/{number}": name for name, number in state["ids"].items()}
        name = numbers.get(asked.path)
        if name is None:
            raise Refusal(f"gh: Not Found (HTTP 404)\n{asked.path}")
        if asked.method == "DELETE":
            self._delete(name, state)
            return ""
        field, _, new = str(asked.raw_field).partition("=")
        if field != "name" or new in state["ids"]:
            raise Refusal("gh: Validation Failed (HTTP 422)\nReleaseAsset.name already exists")
        state["ids"][new] = state["ids"].pop(name)
        (self.assets / name).rename(self.assets / new)
        return json.dumps({"name": new})

    def _delete(self, name: str, state: dict[str, Any]) -> None:
        del state["ids"][name]
        state["cut"] = [other for other in state["cut"] if other != name]
        (self.assets / name).unlink()

    def put_on_path(self, folder: Path) -> None:
        """Write the program `gh` of this double into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-P", __file__, str(self.state), str(self.assets), self.repository]
        (folder / "gh").write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in words) + ' "$@"\n')
        (folder / "gh").chmod(0o755)


def main() -> int:
    """Be `gh`."""
    if not os.environ.get("GH_TOKEN"):
        print(
            "gh: To use GitHub CLI in a GitHub Actions workflow, set the GH_TOKEN environment variable.",
            file=sys.stderr,
        )
        return 4
    gh = Gh(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    status, out, err = gh.answer(sys.argv[4:])
    sys.stdout.buffer.write(out)
    sys.stderr.buffer.write(err)
    return status


if __name__ == "__main__":
    sys.exit(main())
