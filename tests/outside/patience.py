"""Calls of more than a minute, with and without a progress token: what a host hears, and when it is answered.

No judge of others' making; it stands here because it takes more than a minute. Many hosts stop waiting after 60 s in
which no progress came.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gm.cli.host import Host
from gm.protocol.server import SKILL_URI
from gm.protocol.versions import STATELESS_VERSION
from tests.outside.scratch import Scratch
from tests.outside.stage import stage
from tests.outside.verdict import Verdict

SLEEP_S = 66
LONGEST_SILENCE_S = 6.0


def judge(scratch: Scratch, program: str, what: str) -> list[Verdict]:
    """Let two calls take more than a minute at the same time, in both eras."""
    with ThreadPoolExecutor() as both:
        return list(both.map(lambda version: _play(program, what, version), ("2025-11-25", STATELESS_VERSION)))


def _play(program: str, what: str, version: str) -> Verdict:
    verdict = Verdict(f"calls over 60 s, {version}, {what}")
    with stage(program) as place:
        environment = {"CLAUDE_PROJECT_DIR": None, **place.environment()}
        with Host.start(place.workspace, command=place.serve(), environment=environment) as host:
            host.open(version)
            host.request("resources/read", {"uri": SKILL_URI})
            host.call("next_context", task="wait")
            _wait(verdict, host)
            host.close()
    return verdict


def _wait(verdict: Verdict, host: Host) -> None:
    def send(code: str, **meta: Any) -> Any:
        params = {"name": "run_code", "arguments": {"code": code}, **({"_meta": meta} if meta else {})}
        return host.send("tools/call", params)

    begun = time.monotonic()
    told: list[float] = []
    patient = send(f"await asyncio.sleep({SLEEP_S}); 'patient'", progressToken="patient")
    silent = send(f"await asyncio.sleep({SLEEP_S}); print('to its end'); 'silent'")
    seen = 0
    silent_at = 0.0
    while not host.answered(patient) and time.monotonic() - begun < SLEEP_S + 20:
        time.sleep(0.1)
        progress = [n for n in host.notifications if n["method"] == "notifications/progress"]
        if len(progress) > seen:
            seen = len(progress)
            told.append(time.monotonic() - begun)
        if not silent_at and host.answered(silent):
            silent_at = time.monotonic() - begun
    answer = host.wait(patient)
    took = time.monotonic() - begun
    verdict.check("with a token: its own result", answer.text.strip() == "patient", answer.text)
    verdict.check("with a token: after the body's end", took >= SLEEP_S, took)
    gaps = [later - earlier for earlier, later in zip([0.0, *told], [*told, took], strict=True)]
    verdict.check(f"with a token: never {LONGEST_SILENCE_S:.0f} s without a word", max(gaps) <= LONGEST_SILENCE_S, gaps)
    verdict.check("without a token: answered before 55 s", 0 < silent_at < 55, silent_at)
    handed = host.wait(silent).text
    verdict.check("without a token: told that it goes on in the background", "background" in handed, handed)
    name = next((word.strip("`'\".,;:()") for word in handed.split() if "body-" in word), "")
    code = "import json\nwhile (j := await gm.job_status(name=NAME))['state'] == 'running': await asyncio.sleep(0.2)\nj"
    ended = host.call("run_code", code=code.replace("NAME", repr(name.split("=")[-1].strip("'\""))))
    verdict.check("without a token: its end can be asked for", "silent" in ended.text, (handed, ended.text))
    verdict.notes.append(f"longest silence {max(gaps):.1f} s, background after {silent_at:.1f} s")
