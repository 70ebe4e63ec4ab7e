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
    """Run `gh` and return what came of it."""
    return subprocess.run(
        ["gh", *arguments],
        env=child_environment({"GH_PROMPT_DISABLED": "1"}),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=_TIMEOUT_S,
    )


class GitHubStore:
    """The assets of the release `latest` of a repository.

    An upload with `--clobber` deletes first and uploads then, and an asset cannot be renamed onto another. So a
    replacement is uploaded under a new name, the old asset deleted and the new one renamed: about a second without
    the name, which updaters read as no news.

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
        """Return the names of the release's assets."""
        return [asset["name"] for asset in self._assets()]

    def read(self, name: str) -> bytes | None:
        """Download an asset."""
        if name not in self.names():
            return None
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "asset"
            self._gh("release", "download", self._tag, "--pattern", name, "--output", str(target))
            return target.read_bytes()

    def add(self, name: str, file: Path) -> None:
        """Upload a new asset."""
        with tempfile.TemporaryDirectory() as folder:
            named = Path(folder) / name
            shutil.copyfile(file, named)
            self._gh("release", "upload", self._tag, str(named))

    def replace(self, name: str, file: Path) -> None:
        """Upload under a new name, delete the old asset, rename the new one."""
        fresh = f"{name}.{time.time_ns()}"
        self.add(fresh, file)
        assets = {asset["name"]: asset["apiUrl"].partition("api.github.com")[2] for asset in self._assets()}
        if name in assets:
            self._gh("api", "--method", "DELETE", assets[name])
        self._gh("api", "--method", "PATCH", assets[fresh], "--field", f"name={name}")

    def remove(self, name: str) -> None:
        """Delete an asset."""
        if name in self.names():
            self._gh("release", "delete-asset", self._tag, name, "--yes")

    def _assets(self) -> list[dict[str, Any]]:
        text = self._gh("release", "view", self._tag, "--json", "assets")
        assets: list[dict[str, Any]] = json.loads(text or b"{}").get("assets", [])
        return assets

    def _gh(self, *arguments: str, missing: bool = False) -> bytes | None:
        """Run `gh`, a few times when the server does not answer; with `missing`, None for what is not there."""
        command = [*arguments] if arguments[0] == "api" else [*arguments, "--repo", self._repository]
        error = ""
        for attempt in range(_TRIES):
            if attempt:
                self._pause(2.0**attempt)
            done = self._run(command)
            if done.returncode == 0:
                return done.stdout
            error = done.stderr.decode("utf-8", "replace").strip()
            if missing and "not found" in error.lower():
                return None
            if "HTTP 4" in error and "HTTP 429" not in error and "HTTP 422" not in error:
                break
        raise ReleaseFailed("gh_failed", f"gh {' '.join(arguments[:3])} fails: {error}")
