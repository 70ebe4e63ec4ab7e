"""The environment that gm gives to the processes it starts, and the secrets in its own.

A frozen program's bootloader sets variables that belong to the bundle; a child that inherits them loads the
bundle's libraries instead of the system's. They are taken out of this process's environment first thing
(`strip_bundle_variables`), and `child_environment` is the only way a process of ours is given an environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

_LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def strip_bundle_variables() -> None:
    """Remove from this process's environment what a frozen program's bootloader put there.

    The user's own entries of a library path are kept; entries inside any bundle of ours go, also those of an older
    build that started this one. `_PYI_*` variables and certificate paths inside a bundle go whole.
    """
    for name in list(os.environ):
        if name.startswith("_PYI_") or name == "PYINSTALLER_RESET_ENVIRONMENT":
            del os.environ[name]
    for name in _LIBRARY_PATHS:
        value = os.environ.get(name)
        original = os.environ.pop(name + "_ORIG", None)
        if value is None:
            continue
        source = value if original is None else f"{value}{os.pathsep}{original}"
        kept = list(dict.fromkeys(part for part in source.split(os.pathsep) if part and not _in_bundle(part)))
        if kept:
            os.environ[name] = os.pathsep.join(kept)
        else:
            del os.environ[name]
    for name in _CERTIFICATES:
        value = os.environ.get(name)
        if value is not None and _in_bundle(value):
            del os.environ[name]


def _in_bundle(path: str) -> bool:
    """Tell whether `path` lies in the folder of this or another frozen build (its `_internal`)."""
    if os.path.basename(os.path.normpath(path)) == "_internal":
        return True
    if f"{os.sep}_internal{os.sep}" in path:
        return True
    bundle = getattr(sys, "_MEIPASS", None)
    return bundle is not None and os.path.realpath(path).startswith(os.path.realpath(bundle))


def child_environment(extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Return the environment for a child process: the user's own, plus `extra` (None removes a variable)."""
    environment = dict(os.environ)
    for name in [name for name in environment if name.startswith(("_PYI_", "GM_INTERNAL_"))]:
        del environment[name]
    for name, value in (extra or {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


_SECRET_WORDS = ("TOKEN", "SECRET", "KEY", "PASSWORD")
_SECRET_CHARACTERS = 12


def secrets() -> dict[str, str]:
    """Return the variables that hold secrets, by name.

    A secret is the value, at least 12 characters long and no path, of a variable whose name holds TOKEN, SECRET,
    KEY or PASSWORD.
    """
    found = {}
    for name, value in os.environ.items():
        if len(value) < _SECRET_CHARACTERS or not any(word in name.upper() for word in _SECRET_WORDS):
            continue
        if value.startswith(("/", "~", "./", "../")) or value[1:3] in (":\\", ":/"):
            continue
        found[name] = value
    return found
