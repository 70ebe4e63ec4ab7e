"""What a Python body can write, and what it answers."""

from __future__ import annotations

import json

from tests.body.conftest import Play, Stage


def test_the_last_expression_is_the_value(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.value("1+1") == 2
        assert await stage.value("a = 1\n{'a': a, 'b': [None, True, 'x']}") == {"a": 1, "b": [None, True, "x"]}
        assert await stage.value("for i in range(3):\n    i") is None
        assert await stage.value("") is None
        assert await stage.value("# nothing") is None
        assert await stage.value("'text'") == "text"

    play(scene)


def test_a_return_at_the_top_level_ends_the_body(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.value("if True:\n    return {'early': 1}\nprint('never')") == {"early": 1}
        result = await stage.run("return 5\nprint('never')")
        assert (result.value, result.stdout.text) == (5, "")

    play(scene)


def test_await_stands_at_the_top_level(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.value("await asyncio.sleep(0)\n(await gm.echo(value=3))['value']") == 3
        assert await stage.value("async with asyncio.timeout(5):\n    x = 1\nx") == 1
        assert await stage.value("async def few():\n    yield 1\n    yield 2\n[x async for x in few()]") == [1, 2]

    play(scene)


def test_names_are_there_without_import_and_may_be_assigned(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.value("json.loads('[1]'), re.sub('a', 'b', 'a'), str(Path('x'))") == [[1], "b", "x"]
        assert await stage.value("json = json.loads('[1]')\njson") == [1]
        assert await stage.value("def f():\n    return json.dumps(1)\nf()") == "1"
        assert await stage.value("n = 0\ndef f():\n    global n\n    n += 1\nf()\nn") == 1
        assert await stage.value("from __future__ import annotations\ndef f(x: nonsense): return x\nf(2)") == 2
        assert await stage.value("__name__") == "__main__"

    play(scene)


def test_workspace_is_the_current_folder_and_first_on_the_path(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        (stage.workspace / "mine.py").write_text("WORD = 'from the workspace'\n")
        code = "import os, sys, mine\n[os.getcwd(), sys.path[0], mine.WORD]"
        assert await stage.value(code) == [str(stage.workspace), str(stage.workspace), "from the workspace"]
        assert await stage.value("import sqlite3, unittest, csv\n1") == 1

    play(scene)


def test_import_gm_gives_the_gm_of_the_body_unless_the_workspace_has_one(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.value("import gm as g\n(await g.echo(value=1))['value']") == 1
        (stage.workspace / "gm").mkdir()
        (stage.workspace / "gm" / "__init__.py").write_text("MINE = 7\n")
        (stage.workspace / "gm" / "deep.py").write_text("DEEP = 8\n")
        assert await stage.value("import gm as g, gm.deep\n[g.MINE, g.deep.DEEP]") == [7, 8]
        assert await stage.value("(await gm.echo(value=2))['value']") == 2

    play(scene)


def test_nothing_leaks_from_body_to_body(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        await stage.value("import builtins, os\nbuiltins.leak = 1\nos.environ['LEAK'] = '1'\nos.chdir('/')")
        assert await stage.value("import os, builtins\n[hasattr(builtins, 'leak'), os.environ.get('LEAK')]") == [
            False,
            None,
        ]

    play(scene)


def test_values_that_are_not_json_are_shown_by_repr_with_a_note(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("{'p': Path('a'), 's': {1}, 't': (1, 2)}")
        assert result.value["s"] == "{1}" and result.value["t"] == [1, 2] and "Path" in result.value["p"]
        assert "repr" in result.notes[0]
        result = await stage.run("a = []\na.append(a)\na")
        assert result.value == "[[...]]" and "Circular" in result.notes[0]
        result = await stage.run("[float('nan'), {'x': float('-inf')}, 1.5]")
        assert result.value == ["nan", {"x": "-inf"}, 1.5] and result.notes
        result = await stage.run("class Odd:\n    def __repr__(self): raise ValueError\nOdd()")
        assert "Odd" in result.value
        json.dumps(result.as_json(), allow_nan=False)

    play(scene)


def test_a_value_that_was_not_awaited_is_awaited(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("gm.echo(value='a')")
        assert result.value["value"] == "a" and "awaited" in result.notes[0]

    play(scene)


def test_tasks_that_were_still_running_are_named(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("t = asyncio.create_task(gm.pause(ms=60000))\nawait asyncio.sleep(0.01)\n1")
        assert result.value == 1 and "still running" in result.notes[0]
        (call,) = stage.events("code-call")
        assert call["error"]["code"] == "cancelled"

    play(scene)


def test_printed_text_is_captured_also_from_children_and_odd_bytes(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = (
            "import subprocess, sys, os\nprint('one')\nsubprocess.run(['echo', 'two'])\n"
            "print('ü \\udc80')\nos.write(1, b'\\xff\\n')\nprint('err', file=sys.stderr)\nsys.stdout.write('end')"
        )
        result = await stage.run(code)
        assert result.stdout.text == "one\ntwo\nü \\udc80\n\\xff\nend"
        assert result.stderr.text == "err\n"
        (end,) = stage.events("code-end")
        assert end["stdout"] == result.stdout.text and end["stderr"] == "err\n"

    play(scene)


def test_stdin_is_empty(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.value("import sys\nsys.stdin.read() if sys.stdin else ''") == ""
        assert (await stage.run("import subprocess\nsubprocess.run(['cat'], timeout=5).returncode")).value == 0

    play(scene)


def test_exit_without_a_status_is_no_error(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.value("raise SystemExit") is None
        assert (await stage.error("import sys\nsys.exit('why')"))["code"] == "exit"

    play(scene)


def test_multiprocessing_works(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = (
            "import multiprocessing, os\nq = multiprocessing.Queue()\n"
            "p = multiprocessing.Process(target=lambda: q.put(os.getpid()))\np.start()\nv = q.get(timeout=10)\n"
            "p.join()\n[v == p.pid, p.exitcode]"
        )
        assert await stage.value(code) == [True, 0]

    play_forked(scene)


def test_a_program_that_is_started_gets_the_environment_of_the_user(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        run = "subprocess.run([sys.executable, '-c', 'print(40 + 2)'], capture_output=True, text=True)"
        assert await stage.value(f"import subprocess, sys\n{run}.stdout") == "42\n"

    play(scene)
