"""JavaScript bodies, where a runtime is on PATH."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from gm.body import jssource
from gm.body.javascript import find_runtime
from tests.body.conftest import Play, Stage, is_alive, until

needs_runtime = pytest.mark.skipif(find_runtime() is None, reason="needs node, deno or bun on PATH")


@pytest.fixture
def no_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", "/nowhere")
    yield


@needs_runtime
def test_a_body_calls_verbs_and_has_the_last_expression_as_value(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = "const x = await gm.echo({ value: [1, 'ü'], someName: 'n' });\nconsole.log('hi', x.someName);\nx.value"
        result = await stage.run(code, lang="js")
        assert (result.value, result.stdout.text, result.lang, result.detected) == ([1, "ü"], "hi n\n", "js", False)
        assert await stage.value("if (true) { return 4 }\n5", lang="js") == 4
        assert await stage.value("const a = 1;", lang="js") is None
        assert await stage.value("1 + 1;;", lang="js") == 2
        assert stage.events("code-start")[0]["lang"] == "js"
        assert stage.events("code-start")[0]["code"] == code
        assert stage.events("code-call")[0]["verb"] == "echo"

    play(scene)


@needs_runtime
def test_javascript_without_lang_is_detected(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("const rows = [1, 2].map((n) => n * 2)\nrows")
        assert (result.value, result.lang, result.detected) == ([2, 4], "js", True)
        assert "JavaScript" in result.as_text()
        assert [start["lang"] for start in stage.events("code-start")] == ["python", "js"]
        error = await stage.error("x = (")
        assert error["code"] == "syntax_error" and "SyntaxError" in error["message"]
        assert (await stage.error("const x = 1", lang="python"))["code"] == "syntax_error"

    play_forked(scene)


@needs_runtime
def test_modules_are_found_from_the_workspace(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        (stage.workspace / "m.mjs").write_text("export default 5; export const k = 6\n")
        (stage.workspace / "c.cjs").write_text("module.exports = { q: 7 }\n")
        package = stage.workspace / "node_modules" / "dep"
        package.mkdir(parents=True)
        (package / "index.js").write_text("exports.name = 'dep'\n")
        code = (
            "import five, { k as six } from './m.mjs'\nimport * as all from './m.mjs';\nimport fs from 'node:fs'\n"
            "import { name } from 'dep'\nconst { q } = require('./c.cjs')\nconst again = await import('./m.mjs')\n"
            "const there = fs.existsSync('m.mjs')\nconst dir = process.cwd();\n"
            "({ five, six, seven: q, k: all.k, again: again.default, name, there, dir })"
        )
        value = await stage.value(code, lang="js")
        assert value.pop("dir") == str(stage.workspace)
        assert value == {"five": 5, "six": 6, "seven": 7, "k": 6, "again": 5, "name": "dep", "there": True}

    play_forked(scene)


@needs_runtime
def test_errors_show_the_body_s_lines(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        error = await stage.error("const f = () => { throw new Error('boo') }\n\n  f()", lang="js")
        assert error["message"] == "Error: boo" and error["line"] == 1
        assert error["trace"].splitlines() == [
            "line 3: f()",
            "        ^",
            "line 1: const f = () => { throw new Error('boo') }",
            "                                ^",
        ]
        error = await stage.error("const a = 1\nawait gm.refuse({ what: 'cake' })", lang="js")
        assert (error["code"], error["message"], error["hint"]) == (
            "no_such_thing",
            "There is no cake.",
            "Look elsewhere.",
        )
        assert error["line"] == 2 and "line 2: await gm.refuse" in error["trace"] and error["where"] == [1, 2]
        error = await stage.error("const ok = 1\nconst = 3", lang="js")
        assert (error["code"], error["line"]) == ("syntax_error", 2)
        error = await stage.error("export const a = 1", lang="js")
        assert error["code"] in ("syntax_error", "exception")

    play_forked(scene)


@needs_runtime
def test_try_hands_errors_back_as_data(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = "[await gm.try(() => gm.echo({ value: 1 })), await gm.try(gm.refuse()), await gm.try(() => { throw 3 })]"
        good, bad, thrown = await stage.value(code, lang="js")
        assert good["value"] == 1 and bad["error"]["code"] == "no_such_thing" and thrown["error"]["message"] == "3"
        code = "try { await gm.refuse() } catch (e) { return [e.code, e.hint, e instanceof gm.Error] }"
        assert await stage.value(code, lang="js") == ["no_such_thing", "Look elsewhere.", True]
        assert (await stage.error("await gm.ecko()", lang="js"))["code"] in ("unknown_verb", "internal")
        code = "const d = await gm.help('echo'); [gm.verbs('fail').length, d.includes('Hand its argument back')]"
        assert await stage.value(code, lang="js") == [2, True]

    play_forked(scene)


@needs_runtime
def test_odd_values_are_shown_with_a_note(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run("({ m: new Map([[1, 2]]), b: 10n, u: undefined })", lang="js")
        assert result.value == {"m": [[1, 2]], "b": "10"} and "Map, bigint" in result.notes[0]
        assert await stage.value("undefined", lang="js") is None
        assert "=>" in await stage.value("() => 1", lang="js")

    play_forked(scene)


@needs_runtime
def test_a_spinning_body_becomes_a_background_run_and_is_killed(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        result = await stage.run(
            "console.log(process.pid)\nawait gm.echo()\nwhile (true) {}", lang="js", timeout_ms=2500
        )
        assert result.background
        pid = int(result.stdout.text)
        begun = time.monotonic()
        await stage.host.stop(result.body)
        assert time.monotonic() - begun < 2 and not is_alive(pid)

    play(scene)


@needs_runtime
def test_what_it_leaves_behind_ends_with_it(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = "require('child_process').spawn('sleep', ['300'], { detached: true, stdio: 'ignore' }).pid"
        pid = await stage.value(code, lang="js")
        await until(lambda: not is_alive(pid))
        error = await stage.error("process.exit(3)", lang="js")
        assert error["code"] == "body_died" and "status 3" in error["message"]

    play_forked(scene)


@needs_runtime
def test_five_hundred_calls_at_once(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        code = "const r = await Promise.all([...Array(500).keys()].map((i) => gm.echo({ value: i, pad: 2000 })))\n"
        assert await stage.value(code + "r.map((x) => x.value)", lang="js") == list(range(500))

    play_forked(scene)


@needs_runtime
def test_bodies_run_beside_each_other(play_forked: Play) -> None:
    async def scene(stage: Stage) -> None:
        values = await asyncio.gather(*(stage.value(f"const n = {n}; n * 2", lang="js") for n in range(4)))
        assert values == [0, 2, 4, 6]

    play_forked(scene)


def test_without_a_runtime_the_error_says_so(play_forked: Play, no_runtime: None) -> None:
    async def scene(stage: Stage) -> None:
        error = await stage.error("1", lang="js")
        assert error["code"] == "no_javascript" and "node, deno or bun" in error["message"]
        error = await stage.error("const rows = await gm.echo({ value: 'x', some: true });\nrows")
        assert error["code"] == "syntax_error" and error["line"] == 1
        assert "`rows = await gm.echo(value='x', some=True)`" in error["hint"]

    play_forked(scene)


@pytest.mark.parametrize(
    ("code", "python"),
    [
        ("const a = await gm.x({ path: 'a.txt', all: true })", "a = await gm.x(path='a.txt', all=True)"),
        ("const r = await Promise.all([gm.x({ p }), gm.y()])", "r = await asyncio.gather(gm.x(p=p), gm.y())"),
        ("const { text } = await gm.x({ a: null })", 'found = await gm.x(a=None); text = found["text"]'),
        ("let ok = a === 1 && await gm.x({ n: { k: 1 } })", 'ok = a == 1 and await gm.x(n={"k": 1})'),
        ("console.log(`n ${gm.x}`)", "print(f'n {gm.x}')"),
    ],
)
def test_a_line_of_javascript_in_python(code: str, python: str) -> None:
    found = jssource.in_python(code)
    assert found is not None and found[2] == python


@pytest.mark.parametrize(
    "code",
    ["x = 5 // 2 +", "print 'x'", "def f(:", "if x\n  y", "for i in range(3) print(i)", "x = [1, 2", "a b", "1 +"],
)
def test_broken_python_is_not_taken_for_javascript(code: str) -> None:
    assert not jssource.is_javascript(code)


@pytest.mark.parametrize(
    "code",
    [
        "const a = 1",
        "await gm.read_file({ path: 'a.txt' })",
        "let x; for (const y of [1]) { x = y }\nx",
        "import fs from 'fs'\nfs.readdirSync('.')",
        "return `a${1}`",
        "rows.map(r => r.id)",
    ],
)
def test_javascript_is_recognised(code: str) -> None:
    assert jssource.is_javascript(code)


def test_a_prepared_body_keeps_its_lines() -> None:
    code = "import {\n  a,\n  b as c,\n} from './m.mjs'\n\n// end\na + c // sum\n"
    prepared = jssource.prepare(code)
    assert prepared.code.count("\n") == code.count("\n")
    assert prepared.code.splitlines()[-1] == "return (a + c) // sum"
    assert jssource.column_before(prepared, 7, 9) == 1
