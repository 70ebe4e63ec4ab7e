"""Limits that several parts must agree on, in bytes, characters or seconds as named."""

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""A longer frame of the host is answered with an error and dropped."""

MAX_RESULT_BYTES = 1_000_000
"""No result of a tool exceeds this on the wire."""

RESULT_CHARACTERS = 45_000
"""A result is cut to this many characters unless `maxChars` says otherwise."""

MAX_RESULT_CHARACTERS = 480_000
"""The largest `maxChars`."""

BLOB_BYTES = 16 * 1024
"""A payload above this goes to a blob; the event keeps digest, size, head and tail."""

BACKGROUND_AFTER_S = 50.0
"""A body whose host asked for no progress becomes a background run after this time at the latest."""

PROGRESS_INTERVAL_S = 5.0
"""Progress is reported at least this often."""
