"""A body's source text: compiled as one async function, and its errors shown with the body's own lines.

Runs inside the body's process; standard library only.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import CodeType, TracebackType
from typing import Any

from gm.errors import GmError

FILENAME = "<body>"

_SHOWN_FRAMES = 12
_SHOWN_LINE = 160
_SHOWN_MESSAGE = 4_000
_INDENT = "    "

BodyFunction = Callable[..., Coroutine[Any, Any, Any]]


def compile_body(code: str, namespace: dict[str, Any], names: Sequence[str]) -> BodyFunction:
    """Compile `code` as `async def body(<names>)` whose last expression is its result, and fill linecache with it.

    Args:
        code: the source; `await` and `return` may stand at its top level.
        namespace: the globals of the function.
        names: parameters of the function, so that the body may assign to them (`json = json.loads(…)`).

    Returns:
        The function; called with keyword arguments for those of `names` that it still has as parameters
        (see its `__code__.co_varnames`).

    Raises:
        SyntaxError: with line and offset in `code`.
        ValueError: the source holds a NUL.
    """
    linecache.cache[FILENAME] = (len(code), None, code.splitlines(keepends=True), FILENAME)
    tree = ast.parse(code, FILENAME)
    shared = _check(tree, code)
    statements = tree.body
    hoisted: list[ast.stmt] = []
    while statements and _is_future(statements[0]):
        hoisted.append(statements.pop(0))
    if statements and isinstance(last := statements[-1], ast.Expr):
        statements[-1] = ast.copy_location(ast.Return(last.value), last)
    if shared:
        statements.insert(0, ast.Global(sorted(shared)))
    parameters = [ast.arg(name) for name in names if name not in shared]
    function = ast.AsyncFunctionDef(
        name="body",
        args=ast.arguments(
            posonlyargs=[], args=parameters, vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
        ),
        body=statements or [ast.Pass()],
        decorator_list=[],
        returns=None,
        type_comment=None,
    )
    if "type_params" in ast.AsyncFunctionDef._fields:
        vars(function)["type_params"] = []
    module = ast.fix_missing_locations(ast.Module(body=[*hoisted, function], type_ignores=[]))
    exec(_compile(module), namespace)
    compiled: BodyFunction = namespace.pop("body")
    return compiled


def _compile(module: ast.Module) -> CodeType:
    try:
        return compile(module, FILENAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        error.text = None
        raise


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _check(tree: ast.Module, code: str) -> set[str]:
    """Refuse what cannot stand in a body; the names that a `global` declares anywhere in it."""
    shared: set[str] = set()
    for node, top in _nodes(tree):
        if isinstance(node, ast.Global):
            shared.update(node.names)
        elif isinstance(node, ast.ImportFrom) and top and any(alias.name == "*" for alias in node.names):
            message = (
                f"`from {node.module or '.'} import *` cannot stand in a body: its names are the locals of a function"
            )
            raise _syntax_error(message, node, code)
        elif isinstance(node, ast.Yield | ast.YieldFrom) and top:
            raise _syntax_error("`yield` outside a function", node, code)
    return shared


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every node and whether it runs in the body itself rather than in a function or class inside it."""
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, top = pending.pop()
        yield node, top
        inside = top and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef)
        pending.extend((child, inside) for child in ast.iter_child_nodes(node))


def _syntax_error(message: str, node: Any, code: str) -> SyntaxError:
    line = code.splitlines()[node.lineno - 1]
    end = node.end_col_offset + 1 if node.end_lineno == node.lineno else len(line) + 1
    return SyntaxError(message, (FILENAME, node.lineno, node.col_offset + 1, line, node.lineno, end))


# --- errors as a body's author reads them -------------------------------------------------------------------------


def describe_error(error: BaseException, code: str, limits: str, workspace: str) -> dict[str, Any]:
    """Return what a failing body answers: `{code, message, hint, type, line?, trace}` and a verb's further data.

    Args:
        error: what the body raised.
        code: its source.
        limits: how the memory limit is named, `2,048 MB`.
        workspace: a line of a module in this folder is shown as well.
    """
    lines = code.splitlines()
    described: dict[str, Any] = {"type": type(error).__name__}
    if isinstance(error, GmError):
        described |= error.as_json()
    elif isinstance(error, SyntaxError) and error.filename in (FILENAME, None):
        where = f" (line {error.lineno})" if error.lineno else ""
        message = f"{type(error).__name__}: {error.msg}{where}"
        described |= {"code": "syntax_error", "message": message, "hint": _syntax_hint(error)}
        return described | {"line": error.lineno or 1, "trace": _syntax_trace(error, lines)}
    elif isinstance(error, MemoryError):
        message = f"The body needed more memory than its limit of {limits}."
        described |= {"code": "memory_limit", "message": message, "hint": "Work on smaller pieces, or in a child."}
    else:
        described |= {"code": "exception", "message": _headline(error), "hint": _hint(error)}
    frames = list(_frames(error.__traceback__))
    if frames:
        described["line"] = frames[-1][0]
    described["trace"] = "\n".join(_trace(error, lines, workspace))
    return described


def _headline(error: BaseException) -> str:
    if isinstance(error, GmError):
        return f"[{error.code}] {error.message}"
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the body's own __str__ may raise anything
        text = "(its message cannot be shown)"
    if len(text) > _SHOWN_MESSAGE:
        text = text[:_SHOWN_MESSAGE] + f"… ({len(text):,} characters)"
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    return f"{name}: {text}" if text else name


def _trace(error: BaseException, lines: list[str], workspace: str) -> Iterator[str]:
    frames = list(_frames(error.__traceback__))
    for index, (line, start, end) in enumerate(frames):
        if len(frames) > _SHOWN_FRAMES and index == _SHOWN_FRAMES // 2:
            yield f"… {len(frames) - _SHOWN_FRAMES} more lines of the body …"
        if len(frames) <= _SHOWN_FRAMES or not _SHOWN_FRAMES // 2 <= index < len(frames) - _SHOWN_FRAMES // 2:
            yield from _marked(line, start, end, lines)
    origin = _origin(error.__traceback__, workspace)
    if origin:
        yield f"raised in {origin}"
    if isinstance(error, BaseExceptionGroup):
        for number, member in enumerate(error.exceptions[:_SHOWN_FRAMES], 1):
            yield f"{number} of {len(error.exceptions)}: {_headline(member)}"
            yield from (_INDENT + text for text in _trace(member, lines, workspace))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and not isinstance(error, GmError):
        yield f"{'caused by' if error.__cause__ else 'while handling'} {_headline(cause)}"


def _frames(trace: TracebackType | None) -> Iterator[tuple[int, int | None, int | None]]:
    """Yield the body's own lines in a traceback with the columns (in bytes) of what was running."""
    while trace is not None:
        frame_code = trace.tb_frame.f_code
        if frame_code.co_filename == FILENAME:
            start = end = None
            for index, position in enumerate(frame_code.co_positions()):
                if index == trace.tb_lasti // 2:
                    if position[0] == trace.tb_lineno:
                        start, end = position[2], position[3] if position[1] == position[0] else None
                    break
            yield trace.tb_lineno, start, end
        trace = trace.tb_next


def _origin(trace: TracebackType | None, workspace: str) -> str:
    """Return where an error was raised when that is a module of the workspace."""
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame_code = trace.tb_frame.f_code
    if not frame_code.co_filename.startswith(workspace):
        return ""
    return f"{frame_code.co_filename}, line {trace.tb_lineno}, in {frame_code.co_qualname}"


def _marked(number: int, start: int | None, end: int | None, lines: list[str]) -> Iterator[str]:
    text = lines[number - 1] if 0 < number <= len(lines) else ""
    if start is None:
        yield f"line {number}: {text.strip()[:_SHOWN_LINE]}"
        return
    data = text.encode(errors="surrogatepass")
    first = len(data[:start].decode(errors="replace"))
    last = len(data[:end].decode(errors="replace")) if end is not None else len(text.rstrip())
    yield from _underlined(number, text, first, last)


def _underlined(number: int, text: str, first: int, last: int) -> Iterator[str]:
    """Yield a line and the carets under its characters `first` to `last`."""
    skipped = len(text) - len(text.lstrip())
    if first > skipped + _SHOWN_LINE // 2:
        skipped = first - _SHOWN_LINE // 4
    shown = text.rstrip()[skipped : skipped + _SHOWN_LINE]
    head = f"line {number}: "
    yield head + shown
    width = max(1, min(last, skipped + len(shown)) - first)
    yield " " * (len(head) + max(0, first - skipped)) + "^" * width


def _syntax_trace(error: SyntaxError, lines: list[str]) -> str:
    number = error.lineno or 1
    text = lines[number - 1] if 0 < number <= len(lines) else ""
    first = (error.offset or 1) - 1
    last = (error.end_offset or 0) - 1 if error.end_lineno == number else len(text.rstrip())
    return "\n".join(_underlined(number, text, first, max(last, first + 1)))


def _syntax_hint(error: SyntaxError) -> str:
    if "import *" in error.msg:
        return "Import the module, or name what you need: `from module import a, b`."
    return ""


def _hint(error: BaseException) -> str:
    text = str(error) if isinstance(error, RuntimeError | NameError | TypeError | AttributeError) else ""
    if "cannot be called from a running event loop" in text:
        return "A body is async already: write `await main()` instead of `asyncio.run(main())`."
    if isinstance(error, NameError) and error.name in ("true", "false", "null", "undefined"):
        return "Python writes True, False and None."
    if isinstance(error, NameError) and error.name in ("console", "require", "const", "let"):
        return 'That is JavaScript: send the body with lang: "js".'
    if "coroutine" in text:
        return 'A verb call must be awaited before its result is used: `(await gm.verb(…))["field"]`.'
    return ""
