"""A hook that the frozen program runs first: stands in for the libraries of the SDK's HTTP side, which are not bundled.

The SDK imports them at the top of modules that a stdio server needs. Their names can be imported, annotated with and
inherited from; whoever calls one learns that it is not part of this build. Modules that are bundled are found before.
"""

import importlib.abc
import importlib.machinery
import sys
import types

LEFT_OUT = ("starlette", "uvicorn", "sse_starlette", "python_multipart", "jwt", "cryptography")


class _StandIn(types.ModuleType):
    """A module whose every name is a class that cannot be called."""

    __path__: list[str] = []  # noqa: RUF012 - what makes it a package to the import system

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        where = f"{self.__name__}.{name}"

        def refuse(self: object, *arguments: object, **named: object) -> None:
            raise ImportError(f"{where} is not part of this build of gm")

        body = {
            "__init__": refuse,
            "__class_getitem__": classmethod(lambda cls, item: cls),
            "__module__": self.__name__,
        }
        kind = type(name, (Exception,) if name.endswith(("Error", "Exception", "Signature", "Tag")) else (), body)
        setattr(self, name, kind)
        return kind


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last, and finds a stand-in for what nobody else has found."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name.partition(".")[0] in LEFT_OUT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.append(_Finder())
