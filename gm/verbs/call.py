"""One way through for every verb call, from whatever surface: look up, bind, take a turn, run, name what went wrong."""

from __future__ import annotations

import errno
import json
import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gm.errors import Conflict, GmError, NotFound, Unavailable, UsageError
from gm.system.names import show_path
from gm.verbs.context import LOG_WRITE_FAILED, VerbContext
from gm.verbs.order import Order
from gm.verbs.registry import Registry, Verb

_BRIEF = 2000


async def call_verb(registry: Registry, order: Order, ctx: VerbContext, name: str, arguments: Mapping[str, Any]) -> Any:
    """Run the verb `name` with JSON `arguments` and return its result.

    Raises:
        UsageError: there is no such verb, or the arguments do not fit.
        GmError: what the verb raises; an `OSError` in it comes with a stable code (`not_found`, `no_space` …), any
            other exception as `internal`, naming the `warning` event that holds the traceback. `effect_unlogged`: the
            verb did its work and the log could not be written.
    """
    verb = registry.get(name)
    try:
        bound = verb.bind(arguments, ctx.resolve)
        located = _located(verb, bound, ctx)
        async with order.turn(verb, located, ctx.report, from_shell=ctx.surface == "shell"):
            result = await verb.function(ctx, **bound)
    except Exception as error:
        raise _named(verb, ctx, error) from error
    if ctx.unlogged:
        failed = ctx.unlogged[0]
        raise failed if verb.read_only else effect_unlogged(name, ctx.cause, failed, result)
    return result if isinstance(result, dict) or verb.remote else {"value": result}


def _named(verb: Verb, ctx: VerbContext, error: Exception) -> GmError:
    """Return what a verb raised as an error of gm; when its log failed as well, as one that says so."""
    if isinstance(error, GmError):
        found = error
    else:
        found = os_error(error) if isinstance(error, OSError) else _internal(ctx, verb.name, error)
    failed = found if found.code == LOG_WRITE_FAILED else next(iter(ctx.unlogged), None)
    if failed is None or verb.read_only:
        return found
    return effect_unlogged(verb.name, ctx.cause, failed, because=found if found is not failed else None)


def effect_unlogged(
    name: str, cause: int, failed: GmError, result: Any = None, *, because: GmError | None = None
) -> GmError:
    """Return the error of a call that may have taken effect although the log could not be written.

    Args:
        name: the verb.
        cause: seq of the event under which the call stands.
        failed: why the log could not be written.
        result: what the verb returned; None when that is not known.
        because: what the verb itself failed with.
    """
    path = result.get("path") if isinstance(result, dict) else None
    done = f"{name} did its work" if result is not None else f"{name} may have taken effect"
    about = f" on {path}" if isinstance(path, str) else f" ({because.message})" if because is not None else ""
    return GmError(
        "effect_unlogged",
        f"{done}{about}, but no event of it is in the log after event {cause}: {failed.message}",
        "Make room on the disk or mend it. Look at what the call has done before it is made again: it may be there.",
        seq=cause,
        verb=name,
        **({} if result is None else {"result": _brief(result)}),
    )


def _brief(value: Any) -> Any:
    """Return a result with its long texts cut, and None in the place of what is long all the same."""
    if isinstance(value, str):
        return value if len(value) <= _BRIEF else f"{value[: _BRIEF // 2]}\n…\n{value[-_BRIEF // 2 :]}"
    if isinstance(value, dict):
        return {name: _brief(member) for name, member in value.items()}
    if isinstance(value, list) and len(json.dumps(value, default=str)) > _BRIEF:
        return None
    return value


def _located(verb: Verb, bound: Mapping[str, Any], ctx: VerbContext) -> dict[str, Any]:
    """Return the arguments with a text `path` (one that may be a URI as well) as the file it names."""
    path = bound.get("path")
    if isinstance(path, str) and "://" not in path and path and "\0" not in path:
        return {**bound, "path": ctx.resolve(path)}
    return dict(bound)


def _internal(ctx: VerbContext, name: str, error: Exception) -> GmError:
    text = "".join(traceback.format_exception(error))
    seq = ctx.record("warning", code="internal", message=f"{name}: {type(error).__name__}: {error}", traceback=text)
    message = f"{name} failed inside gm ({type(error).__name__}: {error}); event {seq} holds the traceback."
    return GmError("internal", message, f"query_log with seq {seq} and full shows it; this is a fault of gm.", seq=seq)


_KINDS: dict[str, tuple[type[GmError], str, str, str]] = {
    "ENOENT": (NotFound, "not_found", "{} does not exist.", "list_dir shows what is there."),
    "ENOTDIR": (
        UsageError,
        "not_a_directory",
        "{}: a part of this path, or the path itself, is not a folder.",
        "list_dir on the parts of the path shows which.",
    ),
    "EISDIR": (UsageError, "is_a_directory", "{} is a folder.", "list_dir lists it."),
    "EACCES": (Unavailable, "permission_denied", "{}: permission denied.", "stat_file shows its mode."),
    "EPERM": (Unavailable, "permission_denied", "{}: the system does not permit it.", "stat_file shows its mode."),
    "EROFS": (Unavailable, "read_only", "{} lies on a read-only file system.", "Write elsewhere."),
    "ENOSPC": (Unavailable, "no_space", "{}: no space is left on the device.", "Free some space, then try again."),
    "EDQUOT": (Unavailable, "no_space", "{}: the disk quota is used up.", "Free some space, then try again."),
    "EFBIG": (Unavailable, "no_space", "{}: larger than the system allows.", "Write less."),
    "EEXIST": (Conflict, "already_exists", "{} is there already.", "Choose another name."),
    "ENOTEMPTY": (Conflict, "not_empty", "{} is not empty.", "list_dir shows what is in it."),
    "ELOOP": (UsageError, "symlink_loop", "{}: its symlinks lead in a circle.", "stat_file shows where they lead."),
    "ENAMETOOLONG": (UsageError, "name_too_long", "{}: the name is too long.", "Choose a shorter one."),
    "EMFILE": (Unavailable, "too_many_files", "{}: too many files are open.", "Try again with fewer calls at once."),
    "ENFILE": (Unavailable, "too_many_files", "{}: too many files are open.", "Try again with fewer calls at once."),
    "EBUSY": (Conflict, "busy", "{} is in use.", "Try again later."),
    "ETXTBSY": (Conflict, "busy", "{} is a program that runs.", "End it first."),
    "ENXIO": (UsageError, "not_a_file", "{} is no regular file.", "stat_file shows its kind."),
}


def os_error(error: OSError) -> GmError:
    """Return an error of the operating system as one with a stable code and a message that names the path."""
    named = error.filename if isinstance(error.filename, str | bytes | Path) else None
    where = show_path(os.fspath(named)) if named is not None else "The operation"
    name = errno.errorcode.get(error.errno or 0, "")
    found = _KINDS.get(name)
    if found is None:
        reason = error.strerror or str(error) or type(error).__name__
        return GmError("os_error", f"{where}: {reason}.", errno=name)
    kind, code, message, hint = found
    return kind(code, message.format(where), hint)
