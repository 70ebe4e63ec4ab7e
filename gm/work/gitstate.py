"""The state of the workspace's repository in one value: branch, head, distance, what is dirty, what is in progress.

The plan's own files (`work/**`, `closes/**`) are told apart, so that keeping a plan does not make the tree look dirty.
"""

from __future__ import annotations

import os
import posixpath
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gm.system.names import show_path
from gm.work.git import name_of, read_git, run_git, text_of
from gm.work.plan import is_plan_path

EntryKind = Literal["changed", "renamed", "unmerged", "untracked"]

_MARKS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied", "T": "type changed"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One path that differs from HEAD.

    Attributes:
        path: relative to the workspace as Python has names, `/` between parts; `../` for one beside the workspace.
        index: git's letter for the index against HEAD, `.` for no change.
        tree: git's letter for the working tree against the index, `.` for no change.
        original: where a renamed or copied path came from.
        submodule: the path is a submodule.
    """

    path: str
    kind: EntryKind
    index: str = "."
    tree: str = "."
    original: str | None = None
    submodule: bool = False

    @property
    def staged(self) -> bool:
        """Whether a commit without paths takes it."""
        return self.kind in ("changed", "renamed") and self.index != "."

    @property
    def unstaged(self) -> bool:
        """Whether the working tree differs from the index."""
        return self.kind in ("changed", "renamed") and self.tree != "."

    def brief(self) -> str:
        """Return one short line: git's two letters (`??`, `UU`, ` M` …) and the path."""
        letters = "??" if self.kind == "untracked" else (self.index + self.tree).replace(".", " ")
        return f"{letters} {show_path(self.path)}"

    def change(self, letter: str) -> str:
        """Return a letter of git as a word."""
        return _MARKS.get(letter, letter)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that git has begun and not ended.

    Attributes:
        name: rebase, am, merge, cherry-pick, revert or bisect.
        detail: where it stands: `step 2 of 5, branch topic onto 1a2b3c4`.
        go_on: the command that goes on once the conflicts are resolved and added.
        give_up: the command that takes it back.
    """

    name: str
    detail: str
    go_on: str
    give_up: str


@dataclass(frozen=True, slots=True)
class GitState:
    """The state of a repository.

    Attributes:
        root: the top folder of the working tree.
        folder: git's folder of this working tree (`.git`, or a worktree's own).
        shared: git's folder that all worktrees share.
        prefix: the workspace relative to the root, `""` or with a `/` at its end.
        branch: None when HEAD is detached.
        head: full object id, None on a branch without commits.
        upstream: `origin/main`, None without one.
        ahead: commits that the upstream lacks; None without an upstream, or when it is gone.
        behind: commits of the upstream that the branch lacks; None likewise.
        unpushed: commits that no remote has; None when there is no remote.
        shallow: history is cut off.
        entries: what is dirty, without the plan's files.
        plan: the plan's files that are not committed.
    """

    root: Path
    folder: Path
    shared: Path
    prefix: str
    branch: str | None
    head: str | None
    upstream: str | None
    ahead: int | None
    behind: int | None
    unpushed: int | None
    shallow: bool
    entries: tuple[Entry, ...]
    plan: tuple[Entry, ...]
    operation: Operation | None

    @property
    def conflicts(self) -> tuple[Entry, ...]:
        """The paths with conflicts."""
        return tuple(entry for entry in (*self.entries, *self.plan) if entry.kind == "unmerged")

    @property
    def plan_commit(self) -> str:
        """The call that commits the plan's files."""
        folders = sorted({entry.path.partition("/")[0] for entry in self.plan})
        return f"gm.git_commit(message='Plan', paths={folders})"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a repository lies; see `GitState` for the fields."""

    root: Path
    folder: Path
    shared: Path
    prefix: str
    shallow: bool


def find_repository(workspace: Path) -> Place:
    """Return where the repository of a workspace lies.

    Raises:
        Unavailable: `git_missing`.
        Refused: `not_a_repository` (also in a bare one), `dubious_ownership`.
    """
    questions = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--is-shallow-repository")
    answers = read_git(workspace, "rev-parse", *questions).split(b"\n")
    if len(answers) != len(questions) + 1:  # a folder's name holds a newline
        answers = [read_git(workspace, "rev-parse", question).removesuffix(b"\n") for question in questions]
    root, folder, shared = (Path(name_of(answer)) for answer in answers[:3])
    relative = os.path.relpath(workspace.resolve(), root.resolve()).replace(os.sep, "/")
    prefix = "" if relative == "." else relative + "/"
    return Place(root, folder, Path(os.path.normpath(workspace / shared)), prefix, answers[3] == b"true")


def read_git_state(workspace: Path) -> GitState:
    """Read the state of the workspace's repository; takes no lock and starts nothing but git.

    Raises:
        Unavailable: `git_missing`, `git_timeout`.
        Refused: `not_a_repository`, `dubious_ownership`.
    """
    place = find_repository(workspace)
    status = parse_status(_status(workspace, "normal"), place.prefix)
    entries = _with_whole_plan(workspace, place, status.entries)
    plan = tuple(entry for entry in entries if is_plan_path(entry.path))
    unpushed = status.ahead if status.ahead is not None else _unpushed(workspace, status.head)
    return GitState(
        root=place.root,
        folder=place.folder,
        shared=place.shared,
        prefix=place.prefix,
        branch=status.branch,
        head=status.head,
        upstream=status.upstream,
        ahead=status.ahead,
        behind=status.behind,
        unpushed=unpushed,
        shallow=place.shallow,
        entries=tuple(entry for entry in entries if not is_plan_path(entry.path)),
        plan=plan,
        operation=read_operation(place.folder),
    )


def _status(workspace: Path, untracked: str, *paths: str) -> bytes:
    return read_git(
        workspace, "status", "--porcelain=v2", "--branch", "-z", f"--untracked-files={untracked}", "--", *paths
    )


def _with_whole_plan(workspace: Path, place: Place, entries: list[Entry]) -> list[Entry]:
    """Replace untracked plan folders, which git names as one entry, by the files in them."""
    folders = [e.path for e in entries if e.kind == "untracked" and e.path.endswith("/") and is_plan_path(e.path)]
    if not folders:
        return entries
    kept = [entry for entry in entries if entry.path not in folders]
    whole = parse_status(_status(workspace, "all", *(f":(literal){folder}" for folder in folders)), place.prefix)
    return kept + whole.entries


def _unpushed(workspace: Path, head: str | None) -> int | None:
    """Count the commits of HEAD that no remote branch has; None without a remote."""
    if not run_git(workspace, "remote").stdout.strip():
        return None
    if head is None:
        return 0
    return int(read_git(workspace, "rev-list", "--count", "HEAD", "--not", "--remotes"))


@dataclass(slots=True)
class Status:
    """What `git status --porcelain=v2 --branch -z` said."""

    branch: str | None = None
    head: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    entries: list[Entry] = field(default_factory=list)


def parse_status(output: bytes, prefix: str) -> Status:
    """Parse `git status --porcelain=v2 --branch -z`.

    Args:
        output: its bytes; paths in it are relative to the repository's root.
        prefix: the workspace relative to the root, with a `/` at its end, or empty.
    """
    status = Status()
    records = iter(output.split(b"\0"))
    for record in records:
        mark, _, rest = record.partition(b" ")
        if mark == b"#":
            _header(status, rest)
        elif mark == b"1":
            xy, submodule, *_, path = rest.split(b" ", 7)
            status.entries.append(_entry("changed", xy, submodule, path, prefix))
        elif mark == b"2":
            xy, submodule, *_, path = rest.split(b" ", 8)
            status.entries.append(_entry("renamed", xy, submodule, path, prefix, next(records, b"")))
        elif mark == b"u":
            xy, submodule, *_, path = rest.split(b" ", 9)
            status.entries.append(_entry("unmerged", xy, submodule, path, prefix))
        elif mark == b"?":
            status.entries.append(Entry(from_root(rest, prefix), "untracked"))
    return status


def _header(status: Status, line: bytes) -> None:
    name, _, value = line.partition(b" ")
    text = text_of(value)
    if name == b"branch.oid":
        status.head = None if text == "(initial)" else text
    elif name == b"branch.head":
        status.branch = None if text == "(detached)" else text
    elif name == b"branch.upstream":
        status.upstream = text
    elif name == b"branch.ab":
        ahead, behind = text.split()
        status.ahead, status.behind = int(ahead), -int(behind)


def _entry(kind: EntryKind, xy: bytes, submodule: bytes, path: bytes, prefix: str, original: bytes = b"") -> Entry:
    return Entry(
        path=from_root(path, prefix),
        kind=kind,
        index=chr(xy[0]),
        tree=chr(xy[1]),
        original=from_root(original, prefix) if original else None,
        submodule=submodule.startswith(b"S"),
    )


def from_root(raw: bytes, prefix: str) -> str:
    """Return a path of git's output (relative to the root) relative to the workspace; `../` leads out of it."""
    path = name_of(raw)
    if not prefix:
        return path
    if path.startswith(prefix):
        return path[len(prefix) :] or "./"
    if path.endswith("/") and prefix.startswith(
        path
    ):  # a folder with the workspace in it, as an untracked one is named
        return "./"
    slash = "/" if path.endswith("/") else ""
    return posixpath.relpath(path, prefix) + slash


def read_operation(folder: Path) -> Operation | None:
    """Return the operation in progress in a working tree, from the files that git keeps of it.

    Args:
        folder: git's folder of that working tree.
    """
    if (folder / "rebase-merge").is_dir():
        return _rebase(folder / "rebase-merge", "msgnum", "end")
    if (folder / "rebase-apply").is_dir():
        if (folder / "rebase-apply" / "applying").exists():
            step = _steps(folder / "rebase-apply", "next", "last")
            return Operation("am", step, "git am --continue", "git am --abort")
        return _rebase(folder / "rebase-apply", "next", "last")
    for name, file in (("merge", "MERGE_HEAD"), ("cherry-pick", "CHERRY_PICK_HEAD"), ("revert", "REVERT_HEAD")):
        commit = _line(folder / file)
        if commit:
            return Operation(name, f"of {commit[:12]}", f"git {name} --continue", f"git {name} --abort")
    todo = _line(folder / "sequencer" / "todo").partition(" ")[0]
    if todo:
        name = "revert" if todo == "revert" else "cherry-pick"
        return Operation(name, "between two commits", f"git {name} --continue", f"git {name} --abort")
    if (folder / "BISECT_LOG").exists():
        start = _line(folder / "BISECT_START")
        return Operation("bisect", f"begun on {start}", "git bisect good, or git bisect bad", "git bisect reset")
    return None


def _rebase(folder: Path, number: str, total: str) -> Operation:
    branch = _line(folder / "head-name").removeprefix("refs/heads/")
    onto = _line(folder / "onto")[:12]
    detail = f"{_steps(folder, number, total)}, branch {branch} onto {onto}"
    return Operation("rebase", detail, "git rebase --continue", "git rebase --abort")


def _steps(folder: Path, number: str, total: str) -> str:
    return f"step {_line(folder / number) or '?'} of {_line(folder / total) or '?'}"


def _line(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").partition("\n")[0].strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class LockFile:
    """A lock file of git; its age tells a git at work from one that was killed."""

    path: str
    age_s: int


def read_locks(place: Place) -> list[LockFile]:
    """Return git's lock files in the usual places, with their age in seconds."""
    found = []
    names = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock", "MERGE_HEAD.lock")
    paths = {folder / name: None for folder in (place.folder, place.shared) for name in names}
    for base in (place.shared / "refs" / "heads", place.shared / "refs" / "remotes"):
        paths |= dict.fromkeys(base.rglob("*.lock"))
    for path in paths:
        try:
            age = time.time() - path.lstat().st_mtime
        except OSError:
            continue
        found.append(LockFile(show_path(path), max(0, round(age))))
    return found
