from __future__ import annotations

import sys

if sys.platform == "win32":  # their builds are shell scripts
    collect_ignore = [
        "test_publish.py",
        "test_pack.py",
        "test_frozen.py",
        "test_frozen_system.py",
        "test_frozen_update.py",
    ]
