"""Budgets, background runs, stopping, limits."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gm.body import limits, running
from gm.errors import GmError, NotFound, UsageError
from gm.system.redact import Redactor
from tests.body.conftest import Play, Stage, until

SPIN = "print('so far', flush=True)\nawait gm.echo()\nwhile True: pass"


def test_a_body_over_its_budget_becomes_a_background_run(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("print('so far')\nawait gm.pause(ms=700)\nprint('more')\n'late value'", timeout_ms=300)
        assert result.background and result.ok
        assert result.stdout.text == "so far\n"
        assert "in the background as body-1" in result.as_text() and "job_stop(name='body-1')" in result.as_text()
        job = stage.host.job("body-1")
        assert (job.state, job.background, job.last_verb, job.stdout) == ("running", True, "pause", "so far\n")
        assert [job.name for job in stage.host.jobs()] == ["body-1"]
        await until(lambda: stage.host.job("body-1").state == "done")
        ended = stage.host.job("body-1").as_json()
        assert ended["value"] == "late value" and ended["stdout"] == "so far\nmore\n"
        (end,) = stage.events("code-end")
        assert end["background"] is True and end["ok"] is True and end["value"] == "late value"

    play(scene)


def test_without_progress_the_move_to_the_background_comes_earlier(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run(SPIN, background_after=0.3)
        assert result.background and stage.events("code-start")[0]["timeoutMs"] == 180_000

    play_forked(scene)


def test_a_call_that_is_given_up_leaves_a_background_run(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        call = asyncio.ensure_future(stage.run(SPIN))
        await until(lambda: stage.events("code-call"))
        assert stage.host.to_background(1) == "body-1" and stage.host.to_background(9) is None
        call.cancel()
        await asyncio.wait([call])
        assert stage.host.job("body-1").background and stage.host.job("body-1").state == "running"

    play_forked(scene)


def test_a_body_that_spins_is_dead_at_once_when_it_is_stopped(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("import os\nprint(os.getpid())\n" + SPIN, timeout_ms=400)
        start = time.monotonic()
        job = await stage.host.stop(result.body)
        assert time.monotonic() - start < 2.0
        assert job.state == "stopped" and job.result is not None and job.result.error is not None
        assert job.result.error["code"] == "stopped"
        (end,) = stage.events("code-end")
        assert end["reason"] == "stopped" and "so far" in end["stdout"]
        assert (await stage.host.stop(result.body)).state == "stopped"
        with pytest.raises(NotFound):
            await stage.host.stop("body-99")

    play(scene)


def test_stop_all_ends_background_runs_only_when_told_so(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        await stage.run(SPIN, timeout_ms=200)
        waited_for = asyncio.ensure_future(stage.run("await gm.pause(ms=400)\n'kept'"))
        await until(lambda: len(stage.host.jobs()) == 2)
        assert await stage.host.stop_all(background_only=True) == ["body-1"]
        assert (await waited_for).value == "kept"

    play_forked(scene)


def test_leaving_the_host_ends_all_bodies_and_logs_it(play: Play) -> None:
    seen = []

    async def scene(stage: Stage) -> None:
        seen.append(stage)
        await stage.run(SPIN, timeout_ms=300)

    play(scene)
    (end,) = seen[0].events("code-end")
    assert end["reason"] == "worker_end" and end["ok"] is False


def test_a_background_run_has_a_longest_life(play_forked: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BACKGROUND_LIFE_S", 0.6)

    async def scene(stage: Stage) -> None:
        result = await stage.run(SPIN, timeout_ms=200)
        await until(lambda: stage.host.job(result.body).state == "stopped")
        assert stage.events("code-end")[0]["reason"] == "life_limit"

    play_forked(scene)


def test_a_budget_above_the_largest_is_cut_and_one_that_is_none_is_refused(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert "300,000" in (await stage.run("1", timeout_ms=600_000)).notes[0]
        with pytest.raises(UsageError):
            await stage.run("1", timeout_ms=0)

    play_forked(scene)


def test_too_much_output_ends_the_body_and_names_the_limit(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("while True: print('x' * 100_000)")
        assert result.error is not None
        assert result.error["code"] == "output_limit" and "10,000,000" in result.error["message"]
        assert len(result.stdout.text) < 20_000 and result.stdout.size == limits.OUTPUT_BYTES

    play(scene)


def test_long_output_is_shown_by_head_and_tail_and_kept_whole(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("print('first')\nfor i in range(20_000): print(i)\nprint('last')")
        assert result.stdout.text.startswith("first\n") and result.stdout.text.endswith("last\n")
        assert len(result.stdout.text) < limits.SHOWN_BYTES + 300 and result.stdout.blob is not None
        assert result.stdout.blob in result.stdout.text
        whole = stage.recorder.log.blobs.get(result.stdout.blob).decode()
        assert whole.splitlines()[1:-1] == [str(i) for i in range(20_000)]
        assert stage.events("code-end")[0]["stdout"]["blob"] == result.stdout.blob

    play(scene)


def test_too_large_a_value_names_the_limit(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert (await stage.error("'x' * 11_000_000"))["code"] == "value_limit"
        assert len(await stage.value("'x' * 9_000_000")) == 9_000_000

    play_forked(scene)


def test_too_much_memory_names_the_limit(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        error = await stage.error("x = bytearray(3 << 30)\nlen(x)")
        assert error["code"] == "memory_limit" and "2,048 MB" in error["message"] and error["line"] == 1
        assert await stage.value("len(bytearray(100 << 20))") == 100 << 20

    play(scene)


def test_too_many_verb_calls_name_the_limit(play_forked: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "VERB_CALLS", 20)

    async def scene(stage: Stage) -> None:
        error = await stage.error("for i in range(21): await gm.echo(value=i)")
        assert error["code"] == "call_limit" and "20" in error["message"]
        assert len(stage.events("code-call")) == 20

    play_forked(scene)


def test_a_body_that_floods_its_channel_does_not_stop_the_others(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        flood = asyncio.ensure_future(
            stage.run("await asyncio.gather(*(gm.echo(pad=20_000) for _ in range(2000)))\n'done'")
        )
        for _ in range(5):
            assert await stage.value("1") == 1
        assert (await flood).value == "done"

    play_forked(scene)


def test_a_log_that_cannot_be_written_fails_the_call_and_leaves_no_body(
    play_forked: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(stage: Stage) -> None:
        real = stage.recorder.log.append
        broken = {"code-start"}

        def append(kind: str, /, **fields: Any) -> int:
            if kind in broken:
                raise GmError("log_write_failed", "No space is left.")
            return real(kind, **fields)

        monkeypatch.setattr(stage.recorder.log, "append", append)
        with pytest.raises(GmError, match="No space"):
            await stage.run("1")
        assert stage.host.jobs() == []
        broken.clear()
        broken.add("code-end")
        assert await asyncio.wait_for(stage.value("2"), 10) == 2
        broken.add("code-call")
        error = await asyncio.wait_for(stage.error("await gm.echo()\nawait gm.pause(ms=60_000)"), 10)
        assert error["code"] == "effect_unlogged" and error["verb"] == "echo" and "value" in error["result"]

    play_forked(scene)


def test_a_blob_that_cannot_be_stored_leaves_head_and_tail(play_forked: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(stage: Stage) -> None:
        def put(data: bytes) -> str:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(stage.recorder.log.blobs, "put", put)
        monkeypatch.setattr(stage.recorder.log, "append", lambda kind, **fields: 1)
        result = await stage.run("print('x' * 50_000)\n1")
        assert result.value == 1 and result.stdout.blob is None and "50,001" in result.stdout.text

    play_forked(scene)


def test_no_piece_of_a_secret_is_left_where_output_is_cut(play_forked: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"

    async def scene(stage: Stage) -> None:
        redactor = Redactor({"GH_TOKEN": secret})
        monkeypatch.setattr(stage.recorder.log, "_redactor", redactor)
        monkeypatch.setattr(stage.recorder.log.blobs, "redactor", redactor)
        parts = "t = 'ghp_0123456789abcdef' + 'ghijklmnopqrstuvwxyz'\n"
        result = await stage.run(f"{parts}print(('x' * 1010 + t + 'y' * 60_000 + t + 'z' * 1010))\n1")
        (end,) = stage.events("code-end")
        assert "‹redacted" in end["stdout"]["head"] and "›" in end["stdout"]["tail"]
        shown = result.stdout.text.replace(secret, "")
        for at in range(len(secret) - 5):
            assert secret[at : at + 6] not in end["stdout"]["head"] + end["stdout"]["tail"] + shown

    play_forked(scene)


def test_a_verb_that_was_never_awaited_is_told_on_stderr(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("gm.echo(value=1)\n2")
        assert result.value == 2 and "'gm.echo' was never awaited" in result.stderr.text

    play_forked(scene)
