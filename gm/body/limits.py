"""Limits of a body; each has an error that names it."""

from __future__ import annotations

DEFAULT_BUDGET_MS = 180_000
"""A body that runs longer becomes a background run, unless `timeoutMs` says otherwise."""

MAX_BUDGET_MS = 300_000
"""The largest `timeoutMs`."""

BACKGROUND_LIFE_S = 60 * 60.0
"""A background run is ended after this time, counted from its start."""

MEMORY_BYTES = 2 * 1024**3
"""Memory that a body may allocate."""

OUTPUT_BYTES = 10_000_000
"""Bytes that a body may print to stdout and stderr together, and the size of its value as JSON."""

SHOWN_BYTES = 16 * 1024
"""Bytes of each stream that a result shows; the whole is in a blob."""

VERB_CALLS = 10_000
"""Verb calls of one body."""

MESSAGE_BYTES = 128 * 1024 * 1024
"""A longer line on a body's channel ends the body."""

BODIES = 64
"""Bodies that run at the same time, background runs among them."""
