"""The private control frames between relay and worker: JSON lines whose first key is `gm`.

They share the pipe with the host's frames, so their order among those is certain. A host cannot send one: the
relay answers any frame of the host that has no `jsonrpc` member with -32600.

Relay → worker:

| frame | meaning |
|---|---|
| `{"gm": "handover", "requests": [{"id", "sent": [[boot, n], …]}]}` | among the requests that follow, these \
were sent to earlier workers, as the n-th request of worker `boot`; ask the log whether one was begun |
| `{"gm": "rehearse"}` | play a small session of your own, so that all that a first call needs is loaded and warm \
(to a worker that stands by for an update) |
| `{"gm": "state", "run"?, "workspace"?, "gate", "tools"?, "follows"?}` | what the command line said may have changed \
since: the run to resume now, whether the gate is open, the digest of the tools that the host knows (to a worker that \
is taken into use after another one); with `follows` the worker before has given its run up but not ended |
| `{"gm": "alone"}` | the worker before has ended, and the servers that it had started with it |
| `{"gm": "idle?", "token"}` | say whether nothing runs, cancelled calls and background bodies included |
| `{"gm": "update", "state", "build", "reason"?}` | what came of the hand-over to a build, for the next context: \
`done`, `failed`, or `waits-for-host` for one that speaks another relay protocol |
| `{"gm": "stop", "jobs": bool, "release"?: bool}` | end now; with `jobs` background jobs as well; with `release` \
another worker waits for the run |

Worker → relay:

| frame | meaning |
|---|---|
| `{"gm": "ready"}` | everything is imported; frames are read from now on |
| `{"gm": "state", "run"?, "workspace"?, "gate"?, "tools"?, "folder"?}` | what a successor must know: the \
run it resumes and where, whether the gate is open; it is given these as `--run`, `--workspace` and `--gate-open`; \
`folder` is the run's, for what is printed to stderr |
| `{"gm": "idle", "token", "idle": bool, "why"?}` | the answer to `idle?` |
| `{"gm": "rehearsed"}` | the answer to `rehearse`, however it went |
| `{"gm": "released"}` | after a `stop` with `release`: nothing is written to the run any more, another worker may \
open it |

Both sides pass over a frame that they do not know: relay and worker may be of different builds.

A worker does nothing to its run (it takes no lock, writes no event) before a `state` frame or a host's frame that needs
it: it may be started to stand by while another one still serves.

Both sides count the host's requests of one worker (one boot) from 1, in the order of the pipe. The pair (boot, n)
names a request for good, also when the host uses an id twice.
"""

from __future__ import annotations

import json
from typing import Any

PREFIX = b'{"gm":'


def encode(kind: str, **fields: Any) -> bytes:
    """Return one control frame with its newline."""
    return json.dumps({"gm": kind, **fields}, separators=(",", ":")).encode("ascii") + b"\n"


def is_control(line: bytes) -> bool:
    """Tell a control frame from a host's frame by its first bytes."""
    return line.startswith(PREFIX)


def decode(line: bytes) -> dict[str, Any]:
    """Return the fields of a control frame, its kind under `gm`."""
    frame = json.loads(line)
    assert isinstance(frame, dict)
    return frame
