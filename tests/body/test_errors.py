"""What a failing body answers: its own lines with carets, the code and the hint, never gm's traceback."""

from __future__ import annotations

import pytest

from tests.body.conftest import Play, Stage


def test_an_exception_shows_the_body_s_lines_with_carets(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("def f(x):\n    return 10 / x\n\nvalue = 1 + f(0)\n")
        assert result.as_text().splitlines() == [
            "line 4: value = 1 + f(0)",
            "                    ^^^^",
            "line 2: return 10 / x",
            "               ^^^^^^",
            "[exception] ZeroDivisionError: division by zero",
        ]
        assert result.error is not None
        assert (result.error["line"], result.error["type"]) == (2, "ZeroDivisionError")
        (end,) = stage.events("code-end")
        assert end["ok"] is False and end["error"]["code"] == "exception"

    play(scene)


def test_an_error_of_a_verb_shows_its_code_and_hint(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("x = 1\nawait gm.refuse(what='cake')")
        assert result.error is not None
        assert result.error["code"] == "no_such_thing" and result.error["where"] == [1, 2]
        text = result.as_text()
        assert "line 2: await gm.refuse(what='cake')" in text and "^^^" in text
        assert "[no_such_thing] There is no cake." in text and "Look elsewhere." in text
        assert "Traceback" not in text and "gm/body" not in text

    play(scene)


def test_an_error_of_a_verb_can_be_caught(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = "try:\n    await gm.refuse()\nexcept gm.Error as e:\n    r = [e.code, e.message, e.hint, e.data]\nr"
        assert await stage.value(code) == ["no_such_thing", "There is no it.", "Look elsewhere.", {"where": [1, 2]}]

    play(scene)


def test_a_fault_of_gm_names_the_event_that_holds_the_traceback(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        error = await stage.error("await gm.break_down()")
        (warning,) = stage.events("warning")
        assert error["code"] == "internal" and error["seq"] == warning["seq"]
        assert "inside the verb" in warning["message"] and "inside the verb" not in error["message"]

    play(scene)


@pytest.mark.parametrize(
    ("code", "line", "shown"),
    [
        ("a = 1\nb = = 2", 2, "line 2: b = = 2\n            ^"),
        ("x = 1\nfrom os import *", 2, "line 2: from os import *"),
        ("yield 1", 1, "line 1: yield 1"),
        ("if True:\nx = 1", 2, "line 2: x = 1"),
        ("break", 1, "line 1: break"),
        ("x = 'unfinished", 1, "line 1: x = 'unfinished"),
    ],
)
def test_a_syntax_error_shows_its_line(play_forked: Play, code: str, line: int, shown: str) -> None:
    async def scene(stage: Stage) -> None:
        error = await stage.error(code, lang="python")
        assert (error["code"], error["line"]) == ("syntax_error", line)
        assert error["trace"].startswith(shown)

    play_forked(scene)


def test_a_star_import_says_what_to_write_instead(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        error = await stage.error("from os.path import *")
        assert "from os.path import *" in error["message"] and "from module import a, b" in error["hint"]

    play_forked(scene)


def test_a_star_import_inside_a_string_of_code_is_none(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.value("d = {}\nexec('from os.path import *', d)\n'join' in d") is True

    play_forked(scene)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("async def main(): pass\nasyncio.run(main())", "await main()"),
        ("[true]", "True, False and None"),
        ("console.log(1)", "JavaScript"),
        ("gm.echo(value=1)['value']", "awaited"),
    ],
)
def test_what_often_goes_wrong_has_a_hint(play_forked: Play, code: str, hint: str) -> None:
    async def scene(stage: Stage) -> None:
        assert hint in (await stage.error(code))["hint"]

    play_forked(scene)


def test_errors_of_a_module_of_the_workspace_name_its_line(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        (stage.workspace / "bad.py").write_text("\ndef f():\n    raise KeyError('k')\n")
        trace = (await stage.error("import bad\nbad.f()"))["trace"]
        assert "line 2: bad.f()" in trace and "bad.py, line 3, in f" in trace

    play_forked(scene)


def test_grouped_chained_and_deep_errors_stay_short(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        group = "async with asyncio.TaskGroup() as g:\n    g.create_task(gm.refuse())\n    g.create_task(gm.refuse())"
        trace = (await stage.error(group))["trace"]
        assert "1 of " in trace and "[no_such_thing] There is no it." in trace
        chained = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e"
        assert "caused by ZeroDivisionError: division by zero" in (await stage.error(chained))["trace"]
        deep = await stage.error("def f(): f()\nf()")
        assert "RecursionError" in deep["message"] and len(deep["trace"].splitlines()) < 40
        long = await stage.error("raise ValueError('x' * 100000)")
        assert len(long["message"]) < 5000

    play_forked(scene)


def test_carets_stand_right_under_characters_beyond_ascii(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        trace = (await stage.error("größe = 'ü' + missing"))["trace"]
        first, second = trace.splitlines()
        assert first[second.index("^") : second.rindex("^") + 1] == "missing"

    play_forked(scene)


def test_a_body_that_kills_itself_is_told_from_one_that_fails(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        error = await stage.error("import os\nos._exit(3)")
        assert error["code"] == "body_died" and "status 3" in error["message"]
        error = await stage.error("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
        assert error["code"] == "body_died" and "SIGSEGV" in error["message"]
        assert await stage.value("1") == 1

    play(scene)


def test_a_nul_or_a_huge_expression_is_a_syntax_error(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert (await stage.error("a\0b"))["code"] == "syntax_error"
        assert (await stage.error("(" * 100_000))["code"] == "syntax_error"
        assert (await stage.error("-" * 200_000 + "1"))["code"] in ("syntax_error", "memory_limit", "body_died")

    play_forked(scene)
