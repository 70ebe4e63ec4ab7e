"""The GitHub store: the assets of one release, through `gh`."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gm.system.environ import child_environment
from release.freeze import ReleaseFailed

TAG = "latest"
_TRIES = 4
_TIMEOUT_S = 600

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[bytes]"]


def run_gh(arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """Run `gh` and return what came of it; one that hangs counts as one that failed.

    Raises:
        ReleaseFailed: there is no `gh`.
    """
    try:
        return subprocess.run(
            ["gh", *arguments],
            env=child_environment({"GH_PROMPT_DISABLED": "1"}),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(arguments, 1, b"", f"no answer within {_TIMEOUT_S} s".encode())
    except OSError as error:
        raise ReleaseFailed("no_gh", f"gh cannot be run: {error.strerror}", "install the GitHub CLI") from error


class GitHubStore:
    """The assets of the release `latest` of a repository.

    An upload with `--clobber` deletes first and uploads then, and an asset cannot be renamed onto another. So a
    replacement is uploaded under a new name, the old asset deleted and the new one renamed: about a second without
    the name, which updaters read as no news.

    An answer can be lost after the request has done its work. So whatever changes something looks, before it is tried
    again, whether that has happened. An upload that was cut leaves an asset whose state is not `uploaded`: it cannot
    be downloaded, and blocks its name until it is deleted.

    Args:
        repository: `owner/name`.
        tag: the release's tag; the release is made when it is missing.
        run: runs `gh` with arguments (tests record them).
        pause: waits between tries.
    """

    def __init__(
        self,
        repository: str,
        tag: str = TAG,
        *,
        run: Run = run_gh,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._repository = repository
        self._tag = tag
        self._run = run
        self._pause = pause

    def check(self) -> None:
        """Make the release when it is missing; refuse one that is immutable, whose assets could never be replaced."""
        done = self._gh("release", "view", self._tag, "--json", "tagName,isImmutable", missing=True)
        if done is None:
            notes = "The newest build of every target. `manifest.json` names them; gm updates itself from here."
            self._gh("release", "create", self._tag, "--title", "Latest build", "--notes", notes, "--prerelease")
            done = self._gh("release", "view", self._tag, "--json", "tagName,isImmutable")
        if done and json.loads(done).get("isImmutable"):
            raise ReleaseFailed(
                "immutable_release",
                f"the release {self._tag} is immutable, so its manifest can never be replaced",
                "turn immutable releases off for this repository and use another tag",
            )

    def names(self) -> list[str]:
        """Return the names of the release's assets, also of those that were cut."""
        return list(self._assets())

    def read(self, name: str) -> bytes | None:
        """Download an asset; one whose upload was cut has no bytes."""
        asset = self._assets().get(name)
        if asset is None or not _is_whole(asset):
            return None
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "asset"
            self._gh("release", "download", self._tag, "--pattern", name, "--output", str(target), "--clobber")
            return target.read_bytes()

    def add(self, name: str, file: Path) -> None:
        """Upload a new asset; a part of one, which a cut upload has left, makes room for it."""
        there = self._assets().get(name)
        if there is not None and _is_whole(there):
            raise ReleaseFailed("exists", f"the asset {name} exists already; archives are never overwritten")
        if there is not None:
            self.remove(name)
        size = file.stat().st_size

        def arrived() -> bool:
            asset = self._assets().get(name)
            if asset is not None and not (_is_whole(asset) and asset["size"] == size):
                self.remove(name)
                return False
            return asset is not None

        with tempfile.TemporaryDirectory() as folder:
            named = Path(folder) / name
            shutil.copyfile(file, named)
            self._gh("release", "upload", self._tag, str(named), unless=arrived)

    def replace(self, name: str, file: Path) -> None:
        """Upload under a new name, delete the old asset, rename the new one."""
        fresh = f"{name}.{time.time_ns()}"
        self.add(fresh, file)
        assets = self._assets()
        if fresh not in assets:
            raise ReleaseFailed("gh_failed", f"{fresh} was uploaded, but the release does not list it")
        if name in assets:
            old = ("api", "--method", "DELETE", str(assets[name]["apiUrl"]))
            self._gh(*old, unless=lambda: name not in self._assets())
        renamed = ("api", "--method", "PATCH", str(assets[fresh]["apiUrl"]), "--raw-field", f"name={name}")
        self._gh(*renamed, unless=lambda: name in self._assets())

    def remove(self, name: str) -> None:
        """Delete an asset."""
        if name in self._assets():
            delete = ("release", "delete-asset", self._tag, name, "--yes")
            self._gh(*delete, unless=lambda: name not in self._assets())

    def _assets(self) -> dict[str, dict[str, Any]]:
        """Return the release's assets by name."""
        text = self._gh("release", "view", self._tag, "--json", "assets")
        return {asset["name"]: asset for asset in json.loads(text or b"{}").get("assets", [])}

    def _gh(self, *arguments: str, missing: bool = False, unless: Callable[[], bool] = lambda: False) -> bytes | None:
        """Run `gh`, a few times when the server does not answer.

        With `missing`, None for a release that is not there. `unless` is asked after a try that failed: true when
        what it was to do is done all the same.
        """
        command = [*arguments] if arguments[0] == "api" else [*arguments, "--repo", self._repository]
        error = ""
        for attempt in range(_TRIES):
            if attempt:
                self._pause(2.0**attempt)
            done = self._run(command)
            if done.returncode == 0:
                return done.stdout
            error = done.stderr.decode("utf-8", "replace").strip()
            if missing and "release not found" in error.lower():
                return None
            if unless():
                return b""
            if "HTTP 4" in error and "HTTP 429" not in error and "HTTP 422" not in error:
                break
        raise ReleaseFailed("gh_failed", f"gh {' '.join(arguments[:3])} fails: {error}")


def _is_whole(asset: dict[str, Any]) -> bool:
    return bool(asset["state"] == "uploaded")
