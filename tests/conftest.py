"""The SDK is imported whole before any test module, so that no test meets the part of it that gm's worker imports.

What the worker leaves out (`gm.servers.sdk`) would stay left out for the client's tests in the same process.
"""

from __future__ import annotations

import mcp

__all__ = ["mcp"]
