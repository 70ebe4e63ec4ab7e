"""Imports the SDK's low-level server, or its client, without the parts that gm never runs of it.

`import mcp` loads all of the SDK, an HTTP server and a cryptography library among it: 640 ms and 63 MB where the server
alone takes 280 ms and 45 MB. A host waits for that at every start and after every crash. So while the server is
imported, these parts are placeholders; they are taken away again at once, and whoever imports one later gets the real
one. When an SDK cannot be imported in this way, it is imported whole. (docs/decisions/002-sdk-import.md)
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import threading
import types
from collections.abc import Sequence
from typing import Any

_LOCK = threading.Lock()
_HTTP_SERVER = (
    *("starlette", "uvicorn", "sse_starlette", "python_multipart", "mcp.server.auth", "mcp.server.mcpserver"),
    *("mcp.server.sse", "mcp.server.streamable_http", "mcp.server.streamable_http_manager"),
    "mcp.server.transport_security",
)
_CLIENT = ("mcp.client", "httpx2", "httpcore2", "cryptography", "jwt")


class _Placeholder(types.ModuleType):
    """A module whose every name is an empty class, so that annotations and base classes can name it."""

    __path__: list[str] = []  # noqa: RUF012 - what makes it a package to the import system

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__class_getitem__": classmethod(lambda cls, item: cls)})
        setattr(self, name, made)
        return made


class _Placeholders(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a placeholder for each module that is left out."""

    def __init__(self, left_out: Sequence[str]) -> None:
        self._left_out = left_out

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if any(name == left_out or name.startswith(left_out + ".") for left_out in self._left_out):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Placeholder(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the placeholder empty."""


def import_server() -> bool:
    """Import `mcp.server.lowlevel`; afterwards it is in `sys.modules`, and no placeholder is.

    Returns:
        Whether the parts could be left out.
    """
    return _import("mcp.server.lowlevel", (*_HTTP_SERVER, *_CLIENT))


def import_client() -> bool:
    """Import `mcp.client.client` after the server; what `mcp` itself exports of the client stays a placeholder's.

    Returns:
        Whether the parts could be left out.
    """
    return _import("mcp.client.client", _HTTP_SERVER)


def _import(module: str, left_out: Sequence[str]) -> bool:
    if module in sys.modules:
        return False
    with _LOCK:
        return _import_alone(module, left_out)


def _import_alone(module: str, left_out: Sequence[str]) -> bool:
    finder = _Placeholders(left_out)
    before = set(sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(module)
    except Exception:  # noqa: BLE001 - an SDK of another shape: whatever it was, the plain import below tells
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - before:
            if name.split(".")[0] in ("mcp", "mcp_types") or isinstance(sys.modules[name], _Placeholder):
                del sys.modules[name]
        importlib.import_module(module)
        return False
    sys.meta_path.remove(finder)
    _take_away()
    return True


def _take_away() -> None:
    """Remove the placeholders, also as attributes of their packages."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, _Placeholder):
            del sys.modules[name]
            package, _, attribute = name.rpartition(".")
            parent = sys.modules.get(package)
            if parent is not None and getattr(parent, attribute, None) is module:
                delattr(parent, attribute)
