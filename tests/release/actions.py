"""A small runner of GitHub workflows: one job after the other, their `run:` texts by bash as they stand.

It knows the expressions, conditions, shells and actions that release.yml uses and refuses every other one, so that a
workflow that needs more than is understood here fails its tests instead of passing them unread.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STEP_S = 300
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_COMPARISON = re.compile(r"([a-z_.]+) (==|!=) '([^']*)'", re.IGNORECASE)
SHELLS = {"bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"], None: ["bash", "-e"]}


class NotUnderstood(AssertionError):
    """The workflow uses something that this runner does not know."""


@dataclass
class Step:
    """What became of a step: its exit status, None when it was skipped, and what it said."""

    name: str
    status: int | None
    output: str = ""
    seconds: float = 0.0


@dataclass
class Machine:
    """A fresh machine of a runner with the checkout in `workspace`.

    Attributes:
        workspace: a clone of the repository.
        folder: everything else: the home, the temporary folder, the summary, the programs.
        known: the values of expressions, by their names (`github.ref`).
        artifacts: where artifacts are handed over, one folder each; shared by the machines of a run.
        not_run: steps whose `run:` is not executed; the test looks at them otherwise.
    """

    workspace: Path
    folder: Path
    known: Mapping[str, str]
    artifacts: Path
    not_run: tuple[str, ...] = ("Install", "Test")
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("home", "temp", "bin"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        python = self.folder / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        self.known = {**self.known, "runner.temp": str(self.folder / "temp")}
        self.environment = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_REPOSITORY": self.known["github.repository"],
            "GITHUB_REF": self.known["github.ref"],
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "RUNNER_TEMP": str(self.folder / "temp"),
            "NO_PROXY": "*",
        }

    @property
    def temp(self) -> Path:
        return self.folder / "temp"

    @property
    def summary(self) -> Path:
        return self.folder / "summary.md"

    def expand(self, text: str) -> str:
        """Return a text with its expressions replaced."""
        return _EXPRESSION.sub(lambda match: self.value(match[1].strip()), str(text))

    def value(self, name: str) -> str:
        if name not in self.known:
            raise NotUnderstood(f"the expression {name!r}")
        return self.known[name]

    def holds(self, condition: str | None, failed: bool) -> bool:
        """Tell whether a condition holds; one without a status function is false after a failure."""
        text = (condition or "success()").strip()
        if text.startswith("${{"):
            text = text.removeprefix("${{").removesuffix("}}").strip()
        parts = [part.strip() for part in text.split("&&")]
        outcome = True
        for part in parts:
            if part == "success()":
                outcome &= not failed
            elif part == "!cancelled()":
                pass
            elif match := _COMPARISON.fullmatch(part):
                outcome &= (self.value(match[1]) == match[3]) == (match[2] == "==")
            else:
                raise NotUnderstood(f"the condition {part!r}")
        return outcome and not (failed and "!cancelled()" not in parts)

    def run_job(self, workflow: Mapping[str, Any], name: str) -> list[Step]:
        """Run a job's steps and return what became of them; nothing when the job's condition does not hold."""
        job = workflow["jobs"][name]
        if not self.holds(job.get("if"), failed=False):
            return []
        steps = []
        self.known = {**self.known, **{f"env.{key}": self.expand(text) for key, text in workflow["env"].items()}}
        for step in job["steps"]:
            title = step.get("name") or step["uses"].partition("@")[0]
            failed = any(done.status for done in steps)
            if not self.holds(step.get("if"), failed):
                steps.append(Step(title, None))
            elif "uses" in step:
                steps.append(Step(title, 0, self._use(step)))
            elif title in self.not_run:
                steps.append(Step(title, None))
            else:
                steps.append(self._run(workflow, job, step, title))
        return steps

    def _run(self, workflow: Mapping[str, Any], job: Mapping[str, Any], step: Mapping[str, Any], title: str) -> Step:
        environment = dict(self.environment)
        for level in (workflow, job, step):
            environment |= {name: self.expand(text) for name, text in level.get("env", {}).items()}
        shell = None
        for level in (workflow, job):
            shell = level.get("defaults", {}).get("run", {}).get("shell", shell)
        shell = step.get("shell", shell)
        if shell not in SHELLS or set(step) - {"name", "if", "env", "run", "shell"}:
            raise NotUnderstood(f"the step {title!r}: {sorted(step)}, shell {shell!r}")
        script = self.temp / "step.sh"
        script.write_text(self.expand(step["run"]))
        begun = time.monotonic()
        done = subprocess.run(
            [*SHELLS[shell], str(script)],
            cwd=self.workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_S,
        )
        return Step(title, done.returncode, done.stdout, time.monotonic() - begun)

    def _use(self, step: Mapping[str, Any]) -> str:
        action = step["uses"].partition("@")[0]
        given = {name: value if isinstance(value, bool) else self.expand(value) for name, value in step["with"].items()}
        doubles: dict[str, Callable[[dict[str, Any]], str]] = {
            "actions/checkout": self._checkout,
            "actions/setup-python": self._setup_python,
            "actions/upload-artifact": self._upload,
            "actions/download-artifact": self._download,
            "actions/attest": self._attest,
        }
        if action not in doubles:
            raise NotUnderstood(f"the action {action}")
        return doubles[action](given)

    def _checkout(self, given: dict[str, Any]) -> str:
        assert given == {"fetch-depth": "0", "persist-credentials": False}
        assert (self.workspace / ".git").exists()
        return ""

    def _setup_python(self, given: dict[str, Any]) -> str:
        assert given == {"python-version": self.known["env.PYTHON_VERSION"]}
        return ""

    def matches(self, patterns: str) -> list[Path]:
        """Return the files below the checkout that lines of glob patterns name."""
        return sorted({path for line in patterns.split() for path in self.workspace.glob(line) if path.is_file()})

    def _upload(self, given: dict[str, Any]) -> str:
        files = self.matches(given["path"])
        assert files and given["if-no-files-found"] == "error"
        folder = self.artifacts / given["name"]
        if folder.exists():
            assert given["overwrite"] is True, "an artifact of that name exists already"
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        parents = {path.parent for path in files}
        assert len(parents) == 1, "files of one folder lie at the artifact's top"
        for path in files:
            shutil.copyfile(path, folder / path.name)
        return ""

    def _download(self, given: dict[str, Any]) -> str:
        """As version 8 does: a folder each, but one artifact alone, or merged ones, right into `path`."""
        assert set(given) <= {"path", "merge-multiple"}
        folders = sorted(self.artifacts.iterdir()) if self.artifacts.exists() else []
        flat = given.get("merge-multiple") is True or len(folders) == 1
        for folder in folders:
            target = self.workspace / given["path"] / ("" if flat else folder.name)
            shutil.copytree(folder, target, dirs_exist_ok=True)
        return ""

    def _attest(self, given: dict[str, Any]) -> str:
        found = self.matches(given["subject-path"])
        assert found, "there is nothing to attest"
        return "\n".join(path.name for path in found)
