"""How gm starts itself in another part: the frozen executable, or this Python with this checkout."""

from __future__ import annotations

import os
import sys

from gm.system.paths import is_frozen

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def self_command(part: str, *arguments: str) -> list[str]:
    """Return the argv that starts `part` (`worker`, `body`, `job` …) of this very build.

    From a checkout it is this interpreter with safe paths (`-P`), so that a folder named `gm` in the current folder
    is never imported instead of us; a checkout that is not installed is put on `sys.path` explicitly. File names are
    UTF-8 whatever the locale says (`-X utf8`), as in the frozen program.
    """
    if is_frozen():
        return [sys.executable, part, *arguments]
    code = f"import sys; sys.path.insert(0, {_ROOT!r}); from gm.__main__ import main; sys.exit(main())"
    return [sys.executable, "-P", "-X", "utf8", "-c", code, part, *arguments]
