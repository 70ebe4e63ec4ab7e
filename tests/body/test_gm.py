"""The `gm` object inside a body."""

from __future__ import annotations

from tests.body.conftest import Play, Stage, echo


def test_verbs_take_keywords_one_dict_or_values_in_order(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = "[(await {})['value'], (await {})['someName']]"
        assert await stage.value(code.format("gm.echo(value=1)", "gm.echo(some_name='n')")) == [1, "n"]
        assert await stage.value(code.format("gm.echo({'value': 1})", "gm.echo({'someName': 'n'})")) == [1, "n"]
        assert await stage.value(code.format("gm.echo(1)", "gm.echo(None, 'n')")) == [1, "n"]
        error = await stage.error("await gm.echo(1, 'a', 2, 3)")
        assert error["code"] == "unknown_parameter" and "at most 3" in error["message"]

    play(scene)


def test_an_unknown_verb_is_refused_at_once_with_the_nearest_names(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        error = await stage.error("gm.ecko")
        assert error["code"] == "unknown_verb" and "gm.echo" in error["hint"]
        assert await stage.value("hasattr(gm, 'nothing_like_it'), hasattr(gm, 'echo')") == [False, True]
        assert stage.events("code-call") == []

    play(scene)


def test_wrong_arguments_name_the_parameter(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        error = await stage.error("await gm.echo(value=object())")
        assert error["code"] == "wrong_type" and "`value`" in error["message"]
        error = await stage.error("await gm.echo(value=float('nan'))")
        assert error["code"] == "wrong_type"
        error = await stage.error("await gm.pause(ms='soon')")
        assert error["code"] == "wrong_type" and "`ms`" in error["message"]
        assert (await stage.value("await gm.echo(value=[Path('a')])"))["value"] == ["a"]

    play(scene)


def test_attempt_returns_the_value_or_the_error_as_data(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = (
            "def g(): return 4\n"
            "[await gm.attempt(gm.echo(value=1)), await gm.attempt(lambda: gm.refuse()), await gm.attempt(g),"
            " await getattr(gm, 'try')(lambda: 1 / 0), await gm.attempt(lambda: gm.nowhere)]"
        )
        good, bad, plain, python, unknown = await stage.value(code)
        assert good["value"] == 1 and plain == 4
        assert bad["ok"] is False and bad["error"]["code"] == "no_such_thing" and bad["error"]["hint"]
        assert python["error"]["code"] == "exception" and "ZeroDivisionError" in python["error"]["message"]
        assert unknown["error"]["code"] == "unknown_verb"

    play(scene)


def test_verbs_lists_and_searches_signatures(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        listed = await stage.value("gm.verbs()")
        assert len(listed) == 4 and listed[0] == f"{echo.signature}: Hand its argument back."
        assert await stage.value("[v.split('(')[0] for v in gm.verbs('fail')]") == ["refuse", "break_down"]
        assert await stage.value("gm.verbs('no such words')") == []
        assert "4 verbs" in await stage.value("repr(gm)")

    play(scene)


def test_help_prints_a_verb_s_documentation_while_calls_are_open(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = (
            "waiting = [asyncio.create_task(gm.pause(ms=20)) for _ in range(20)]\nawait asyncio.sleep(0)\n"
            "help(gm.echo)\nawait asyncio.sleep(0.05)\nhelp(gm.pause)\nlen(await asyncio.gather(*waiting))"
        )
        result = await stage.run(code)
        assert result.value == 20
        assert (
            "Hand its argument back." in result.stdout.text and "someName: a name of two words." in result.stdout.text
        )
        result = await stage.run("help()\nhelp(len)")
        assert "break_down()" in result.stdout.text and "number of items" in result.stdout.text

    play(scene)


def test_calls_are_events_under_the_body_s_start(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("await gm.echo(value='a')\nawait gm.attempt(gm.refuse())\n7")
        (start,), (end,) = stage.events("code-start"), stage.events("code-end")
        good, bad = stage.events("code-call")
        assert start["of"] == stage.cause and start["seq"] == result.seq
        assert (start["lang"], start["timeoutMs"], start["body"]) == ("python", 180_000, result.body)
        assert {event["of"] for event in (good, bad, end)} == {start["seq"]}
        assert (good["verb"], good["ok"], good["arguments"]) == ("echo", True, {"value": "a"})
        assert good["output"]["value"] == "a" and good["ms"] >= 0
        assert bad["ok"] is False and bad["error"]["code"] == "no_such_thing"
        assert (end["calls"], end["ok"], end["value"], result.calls) == (2, True, 7, 2)

    play(scene)


def test_five_hundred_gathered_calls_with_large_answers_all_return(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = "r = await asyncio.gather(*(gm.echo(value=i, pad=5000) for i in range(500)))\n[x['value'] for x in r]"
        assert await stage.value(code) == list(range(500))
        big = "x = 'y' * 3_000_000\nr = await gm.echo(value=x, pad=3_000_000)\n[r['value'] == x, len(r['pad'])]"
        assert await stage.value(big) == [True, 3_000_000]

    play(scene)


def test_parallel_verbs_run_at_the_same_time(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = (
            "import time\nt = time.monotonic()\nawait asyncio.gather(*(gm.pause(ms=200) for _ in range(8)))\n"
            "time.monotonic() - t"
        )
        assert await stage.value(code) < 1.0

    play(scene)


def test_verbs_can_be_called_from_a_thread_with_a_loop_of_its_own(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = "await asyncio.to_thread(lambda: asyncio.run(gm.attempt(gm.echo(value=5))))"
        assert (await stage.value(code))["value"] == 5

    play(scene)


def test_new_verbs_are_seen_by_the_next_body(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        from gm.verbs.registry import Registry
        from tests.body.conftest import REGISTRY

        registry = Registry(list(REGISTRY)[:2])
        stage.host._registry = registry
        stage.host.verbs_changed()
        assert len(await stage.value("gm.verbs()")) == 2
        registry.add(REGISTRY.get("refuse"))
        stage.host.verbs_changed()
        assert len(await stage.value("gm.verbs()")) == 3

    play_forked(scene)
