"""What git would overwrite although no commit has it: ignored and untracked files, text that is only staged."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import anyio

from gm.errors import Refused
from gm.system.names import few
from gm.verbs.context import VerbContext
from gm.verbs.git_process import files_of_index, git_bytes, git_text, repository, shown
from gm.work.git import name_of, text_of
from gm.work.gitstate import from_root

_SUBMODULE = "160000"


def is_folder(path: Path) -> bool:
    """Tell whether a folder stands there, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def refuse_losses(workspace: Path, names: Iterable[str], known: Collection[str], what: str) -> None:
    """Refuse to write files where something would go that git does not track.

    Args:
        workspace: where the names begin.
        names: the files that are going to be written.
        known: files that may go.
        what: what is going to be written, for the message.

    Raises:
        Refused: `local_changes`.
    """
    lost = set()
    for name in names:
        if is_folder(workspace / name):
            for folder, _, files in os.walk(workspace / name):
                beneath = os.path.relpath(folder, workspace).replace(os.sep, "/")
                lost |= {f"{beneath}/{file}" for file in files}
        elif os.path.lexists(workspace / name):
            lost.add(name)
        lost |= _files_among_parents(workspace, name)
    lost -= set(known)
    if lost:
        message = f"In the way of {what} stands what git does not track: {few(shown(sorted(lost)), 5)}."
        raise Refused("local_changes", message, "Move it away or remove it first; nothing was changed.")


def _files_among_parents(workspace: Path, name: str) -> set[str]:
    parents = [str(parent) for parent in PurePosixPath(name).parents]
    return {path for path in parents if os.path.lexists(workspace / path) and not is_folder(workspace / path)}


async def refuse_overwriting(ctx: VerbContext, upstream: str, *, rebase: bool) -> None:
    """Refuse to join HEAD and `upstream` where git would overwrite an ignored file.

    `git merge --no-overwrite-ignore` heeds that option only when it goes forward, and `git rebase` has none. A rebase
    writes what upstream has and then every commit of HEAD's own, also a file that a later one of them deletes.

    Raises:
        Refused: `local_changes`.
    """
    if await git_text(ctx, "rev-list", "--count", f"HEAD..{upstream}") == "0" and not (
        rebase and await git_text(ctx, "rev-list", "--merges", "--max-count=1", f"{upstream}..HEAD")
    ):
        return  # nothing comes in; only a history with merges would be written anew
    if rebase:
        written = await git_bytes(ctx, *_NAMES, "--diff-filter=A", "HEAD", upstream, "--")
        written += await git_bytes(ctx, "log", "-m", "--format=", *_NAMES[1:], f"{upstream}..HEAD", "--")
    else:
        written = await git_bytes(ctx, *_NAMES, "--diff-filter=d", f"HEAD...{upstream}", "--")
    place = await repository(ctx)
    names = sorted({from_root(raw, place.prefix) for raw in written.split(b"\0") if raw})

    def standing() -> list[str]:
        there = {name for name in names if os.path.lexists(ctx.workspace / name)}
        return sorted(there.union(*(_files_among_parents(ctx.workspace, name) for name in names)))

    there = await anyio.to_thread.run_sync(standing)
    if there:
        known = {name_of(raw) for raw in await files_of_index(ctx, [ctx.workspace / name for name in there])}
        new = [name for name in names if name not in known]
        await anyio.to_thread.run_sync(refuse_losses, ctx.workspace, new, known, "what would come in")


_NAMES = ("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z")


@dataclass(frozen=True, slots=True)
class Staged:
    """A text that stands in the index and neither in the file nor in HEAD."""

    blob: str
    size: int


async def only_staged(ctx: VerbContext, source: str, head: str | None, paths: Sequence[str]) -> dict[str, Staged]:
    """Return the texts that are only staged and that the index loses when it is made like `source`, by name.

    Git is made to take them for new, so that it keeps them as long as it keeps what it stores now.

    Args:
        ctx: the call's surroundings.
        source: a commit.
        head: HEAD's commit, if there is one.
        paths: pathspecs.
    """
    place = await repository(ctx)
    blobs = await _staged(ctx, source, paths)
    if head is not None:
        blobs = dict((await _staged(ctx, head, paths)).items() & blobs.items())
    if blobs:
        differ = set((await git_bytes(ctx, *_NAMES, "--", *paths)).split(b"\0"))
        blobs = {name: blob for name, blob in blobs.items() if name in differ}
    asked = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    sizes = text_of(await git_bytes(ctx, "cat-file", "--batch-check=%(objectsize)", stdin=asked)).split("\n")
    for blob in blobs.values():
        with contextlib.suppress(OSError):  # it is in a pack
            os.utime(place.shared / "objects" / blob[:2] / blob[2:])
    return {
        from_root(name, place.prefix): Staged(blob, int(size))
        for (name, blob), size in zip(blobs.items(), sizes, strict=False)
    }


async def _staged(ctx: VerbContext, commit: str, paths: Sequence[str]) -> dict[bytes, str]:
    """Return the blobs of the index that differ from a commit's, by their name from the root."""
    how = ("diff-index", "--cached", "--raw", "--no-renames", "--no-abbrev", "-z")
    raw = (await git_bytes(ctx, *how, commit, "--", *paths)).split(b"\0")
    found = {}
    for about, name in zip(raw[::2], raw[1::2], strict=False):
        _, mode, _, blob, status = text_of(about).split(" ")
        if status not in ("D", "U") and mode != _SUBMODULE:
            found[name] = blob
    return found
