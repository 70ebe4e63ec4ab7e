import json
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from gm.code.callers import CallersResult, CallSite, find_callers
from gm.errors import NotFound, Unavailable, UsageError

from .conftest import Repository


def places(sites: list[CallSite]) -> list[tuple[str, int]]:
    return [(site["path"], site["line"]) for site in sites]


def sure(repository: Repository, files: Mapping[str, str], name: str) -> list[tuple[str, int]]:
    repository.track(files)
    return places(find_callers(repository.root, name)["sure"])


def test_the_answer_names_definition_site_and_the_function_around_it(repository: Repository) -> None:
    repository.track(
        {
            "src/a.ts": "export function target() {}\n",
            "src/b.ts": "import { target } from './a'\nclass Box {\n  open() {\n    return target()\n  }\n}\n",
        }
    )
    result = find_callers(repository.root, "target")
    assert result["definitions"] == [
        {"name": "target", "kind": "function", "path": "src/a.ts", "line": 1, "column": 17, "endLine": 1}
    ]
    assert result["sure"] == [
        {
            "path": "src/b.ts",
            "line": 4,
            "column": 12,
            "kind": "call",
            "function": "Box.open",
            "text": "return target()",
        }
    ]
    assert (result["total"], result["byName"], result["partial"]) == (1, [], False)


MODULES = [
    ({"a.ts": "export const f = () => 1", "b.ts": "import { f } from './a'\nf()"}, [("b.ts", 2)]),
    ({"a.ts": "export const f = () => 1", "b.ts": "import { f } from './a.js'\nf()"}, [("b.ts", 2)]),
    ({"d/index.ts": "export const f = () => 1", "b.ts": "import { f } from './d'\nf()"}, [("b.ts", 2)]),
    ({"a.ts": "export const f = () => 1", "b.ts": "import { f as g } from './a'\ng()"}, [("b.ts", 2)]),
    ({"a.ts": "const f = () => 1\nexport { f as g }", "b.ts": "import { g } from './a'\ng()"}, [("b.ts", 2)]),
    ({"a.ts": "export default function f() {}", "b.ts": "import any from './a'\nany()"}, [("b.ts", 2)]),
    ({"a.ts": "function f() {}\nexport default f", "b.ts": "import any from './a'\nany()"}, [("b.ts", 2)]),
    ({"a.ts": "export const f = () => 1", "b.ts": "import * as n from './a'\nn.f()"}, [("b.ts", 2)]),
    (
        {
            "a.ts": "export const f = 1 && (() => 1)",
            "b.ts": "export * from './a'",
            "c.ts": "import { f } from './b'\nf()",
        },
        [("c.ts", 2)],
    ),
    (
        {
            "a.ts": "export const f = () => 1",
            "b.ts": "export { f as g } from './a'",
            "c.ts": "export { g as h } from './b'",
            "d.ts": "import { h } from './c'\nh()",
        },
        [("d.ts", 2)],
    ),
    (
        {
            "a.ts": "export const f = () => 1",
            "b.ts": "import { f } from './a'\nexport { f }",
            "c.ts": "export * as n from './b'",
            "d.ts": "import { n } from './c'\nn.f()",
        },
        [("d.ts", 2)],
    ),
    ({"a.js": "exports.f = function () {}", "b.js": "const a = require('./a')\na.f()"}, [("b.js", 2)]),
    ({"a.js": "function f() {}\nmodule.exports = { f }", "b.js": "const { f } = require('./a')\nf()"}, [("b.js", 2)]),
    ({"a.js": "function f() {}\nmodule.exports = { g: f }", "b.js": "require('./a').g()"}, [("b.js", 1)]),
    ({"a.js": "module.exports = f\nfunction f() {}", "b.js": "const x = require('./a')\nx()"}, [("b.js", 2)]),
    ({"a.js": "module.exports = f\nfunction f() {}", "b.mjs": "import x from './a.js'\nx()"}, [("b.mjs", 2)]),
    (
        {"a.js": "exports = module.exports = f\nfunction f() {}", "i.js": "module.exports = require('./a')"}
        | {"b.js": "const x = require('.')\nx()", "index.js": "module.exports = require('./i')"},
        [("b.js", 2)],
    ),
    ({"a.ts": "export class C { f() {} }", "b.ts": "import { C } from './a'\nconst c = new C()\nc.f()"}, [("b.ts", 3)]),
    (
        {
            "a.ts": "export class A { f() {} }",
            "b.ts": "import { A } from './a'\nclass B extends A { g() { this.f() } }",
        },
        [("b.ts", 2)],
    ),
    (
        {
            "a.ts": "export class A { f() {} }",
            "b.ts": "import { A } from './a'\nclass B extends A { f() { super.f() } }",
        },
        [("b.ts", 2)],
    ),
    ({"a.ts": "export const o = { f() {} }", "b.ts": "import { o } from './a'\no.f()"}, [("b.ts", 2)]),
    ({"a.ts": "export class C { static f() {} }", "b.ts": "import { C } from './a'\nC.f()"}, [("b.ts", 2)]),
    (
        {"a.vue": "<script>\nexport function f() {}\n</script>", "b.ts": "import { f } from './a.vue'\nf()"},
        [("b.ts", 2)],
    ),
]


@pytest.mark.parametrize(("files", "expected"), MODULES)
def test_imports_exports_and_members_are_followed_between_files(
    repository: Repository, files: dict[str, str], expected: list[tuple[str, int]]
) -> None:
    assert sure(repository, files, "f") == expected


PACKAGES = [
    (
        {
            "tsconfig.json": '{ // with a comment\n "compilerOptions": { "paths": { "@x/*": ["packages/*/src"], }, } }',
            "packages/one/src/index.ts": "export const f = () => 1",
            "app/b.ts": "import { f } from '@x/one'\nf()",
        },
        [("app/b.ts", 2)],
    ),
    (
        {
            "base.json": "{}",
            "config/tsconfig.base.json": '{"compilerOptions": {"baseUrl": "..", "paths": {"~/*": ["lib/*"]}}}',
            "app/tsconfig.json": '{"extends": "../config/tsconfig.base.json"}',
            "lib/a.ts": "export const f = () => 1",
            "app/b.ts": "import { f } from '~/a'\nf()",
        },
        [("app/b.ts", 2)],
    ),
    (
        {
            "packages/one/package.json": json.dumps(
                {"name": "@x/one", "exports": {".": {"types": "./dist/index.d.ts", "import": "./dist/index.mjs"}}}
            ),
            "packages/one/src/index.ts": "export const f = () => 1",
            "app/b.ts": "import { f } from '@x/one'\nf()",
        },
        [("app/b.ts", 2)],
    ),
    (
        {
            "packages/one/package.json": json.dumps({"name": "one", "exports": {"./sub/*": "./lib/*.js"}}),
            "packages/one/src/deep.ts": "export const f = () => 1",
            "app/b.ts": "import { f } from 'one/sub/deep'\nf()",
        },
        [("app/b.ts", 2)],
    ),
    (
        {
            "packages/one/package.json": json.dumps({"name": "one", "main": "lib/main.js"}),
            "packages/one/lib/main.js": "exports.f = () => 1",
            "app/b.js": "require('one').f()",
        },
        [("app/b.js", 1)],
    ),
    (
        {
            "package.json": json.dumps({"name": "me", "imports": {"#in/*": "./src/*.ts"}}),
            "src/a.ts": "export const f = () => 1",
            "src/b.ts": "import { f } from '#in/a'\nf()",
        },
        [("src/b.ts", 2)],
    ),
]


@pytest.mark.parametrize(("files", "expected"), PACKAGES)
def test_paths_of_tsconfig_and_packages_of_a_monorepo_are_resolved(
    repository: Repository, files: dict[str, str], expected: list[tuple[str, int]]
) -> None:
    assert sure(repository, files, "f") == expected


def test_calls_that_are_not_bound_are_listed_apart_with_the_reason(repository: Repository) -> None:
    repository.track(
        {
            "a.ts": "export function f() {}",
            "b.ts": "x.f()\nfunction g(f) { f() }\nf()\n",
            "c.ts": "import { f } from 'elsewhere'\nf()\n",
            "d.ts": "import { f } from './missing'\nf()\n",
            "e.ts": "function f() {}\n{ f() }",
        }
    )
    result = find_callers(repository.root, "f", file="a.ts")
    assert result["sure"] == []
    assert [(s["path"], s["line"], s["why"]) for s in result["byName"]] == [
        ("b.ts", 1, "member"),
        ("b.ts", 2, "parameter"),
        ("b.ts", 3, "global"),
        ("c.ts", 2, "external"),
        ("d.ts", 2, "unresolved"),
    ]


def test_several_definitions_are_told_apart_by_file_line_and_class(repository: Repository) -> None:
    repository.track(
        {
            "a.ts": "export function f() {}\nf()\n"
            "class A { f() {} g() { this.f() } }\nclass B { f() {} g() { this.f() } }",
            "b.ts": "function f() {}\nf()",
        }
    )
    root = repository.root
    assert len(find_callers(root, "f")["definitions"]) == 4
    assert places(find_callers(root, "f", file="b.ts")["sure"]) == [("b.ts", 2)]
    assert places(find_callers(root, "f", file="a.ts", line=1)["sure"]) == [("a.ts", 2)]
    assert places(find_callers(root, "f", file="a.ts", line=3)["sure"]) == [("a.ts", 3)]
    assert places(find_callers(root, "B.f")["sure"]) == [("a.ts", 4)]
    with pytest.raises(NotFound) as caught:
        find_callers(root, "f", file="a.ts", line=2)
    assert "a.ts:1" in caught.value.hint
    with pytest.raises(NotFound, match=r"none\.ts is no tracked"):
        find_callers(root, "f", file="none.ts")


def test_an_unknown_name_still_lists_calls_by_name_and_says_that_nothing_defines_it(repository: Repository) -> None:
    repository.track({"a.ts": "x.push(1)"})
    result = find_callers(repository.root, "push")
    assert places(result["byName"]) == [("a.ts", 1)]
    assert any("defines push" in note for note in result["notes"])


@pytest.mark.parametrize(
    "arguments", [{"name": " "}, {"name": "f", "line": 3}, {"name": "f", "limit": 0}, {"name": "f", "limit": 10**6}]
)
def test_wrong_arguments_are_usage_errors(repository: Repository, arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        find_callers(repository.root, **arguments)  # type: ignore[arg-type]


def test_places_that_pass_a_function_on_are_listed_apart(repository: Repository) -> None:
    repository.track(
        {"a.ts": "export function f() {}", "b.tsx": "import { f } from './a'\nlist.map(f)\nconst b = <B on={f} />\n"}
    )
    result = find_callers(repository.root, "f")
    assert (result["total"], places(result["references"])) == (0, [("b.tsx", 2), ("b.tsx", 3)])


def test_every_change_is_seen_by_the_next_call(repository: Repository) -> None:
    root = repository.root
    repository.track({"a.ts": "export function f() {}", "b.ts": "import { f } from './a'\nf()\n"})
    repository.commit()
    assert places(find_callers(root, "f")["sure"]) == [("b.ts", 2)]
    (root / "b.ts").write_text("import { f } from './a'\n\n\nf()\n")
    assert places(find_callers(root, "f")["sure"]) == [("b.ts", 4)]
    (root / "a.ts").unlink()
    result = find_callers(root, "f")
    assert (places(result["sure"]), places(result["byName"])) == ([], [("b.ts", 4)])
    repository.git("checkout", "-q", "--", ".")
    assert places(find_callers(root, "f")["sure"]) == [("b.ts", 2)]


def test_files_that_do_not_parse_are_counted_and_still_searched(repository: Repository) -> None:
    repository.track({"a.ts": "function f() {}\nf()\nlet = = 3\n", "b.ts": "const x = 1"})
    result = find_callers(repository.root, "f")
    assert places(result["sure"]) == [("a.ts", 2)]
    assert result["parseErrors"] == {"total": 1, "files": ["a.ts:3"]}


def test_minified_and_oversized_files(repository: Repository) -> None:
    minified = "function f(){}" + "f();" * 20_000
    repository.track({"min.js": minified, "big.js": "f();" * 600_000})
    result = find_callers(repository.root, "f", limit=5)
    assert (result["sureTotal"], len(result["sure"])) == (20_000, 5)
    assert len(result["sure"][4]["text"]) <= 402
    assert "big.js" in result["notes"][0]


def test_a_damaged_cache_is_made_anew_and_said(repository: Repository) -> None:
    repository.track({"a.ts": "function f() {}\nf()"})
    find_callers(repository.root, "f")
    (repository.root / ".gm" / "cache" / "code.sqlite").write_bytes(b"nothing" * 1000)
    result = find_callers(repository.root, "f")
    assert result["sureTotal"] == 1
    assert "anew" in result["notes"][0]
    db = sqlite3.connect(repository.root / ".gm" / "cache" / "code.sqlite")
    db.execute("drop table site")
    db.commit()
    db.close()
    assert find_callers(repository.root, "f")["sureTotal"] == 1


def test_no_repository_no_commits_no_files(tmp_path: Path, repository: Repository) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(Unavailable) as caught:
        find_callers(other, "f")
    assert caught.value.code == "not_a_repository"
    assert find_callers(repository.root, "f")["total"] == 0


def test_circular_imports_and_classes_that_extend_each_other_end(repository: Repository) -> None:
    repository.track(
        {
            "a.ts": "export * from './b'\nexport { q } from './b'\nimport { q } from './a'\nq()",
            "b.ts": "export * from './a'\nexport { q } from './a'\n"
            "import { A } from './c'\nexport class B extends A {}",
            "c.ts": "import { B } from './b'\nexport class A extends B { m() { this.n() } }",
        }
    )
    assert find_callers(repository.root, "q")["byName"][0]["why"] == "unresolved"
    assert find_callers(repository.root, "n")["byNameTotal"] == 1


def test_names_in_other_scripts_and_names_of_prototypes(repository: Repository) -> None:
    repository.track(
        {
            "a.js": "function größe() {}\ngröße()\nfunction constructor() {}\nconstructor()\n"
            "function __proto__() {}\n__proto__()"
        }
    )
    for name, line in [("größe", 2), ("constructor", 4), ("__proto__", 6)]:
        assert places(find_callers(repository.root, name)["sure"]) == [("a.js", line)]


def test_threads_share_one_workspace(repository: Repository) -> None:
    repository.track({f"f{n}.ts": f"export function f{n}() {{}}\nf{n}()" for n in range(60)})
    results: list[CallersResult] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(find_callers(repository.root, f"f{n}"))) for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result["sureTotal"] for result in results] == [1] * 6


def test_a_tsconfig_with_comments_and_commas_anywhere_is_read(repository: Repository) -> None:
    config = (
        '{\n  // "paths": {}\n  "compilerOptions": { /* a */ "baseUrl": ".", "x": "// no comment, }",\n'
        '    "paths": { "~/*": ["lib/*", ], // why\n }, /* b */\n  },\n}\n'
    )
    files = {"tsconfig.json": config, "lib/a.ts": "export const f = () => 1", "b.ts": "import { f } from '~/a'\nf()"}
    assert sure(repository, files, "f") == [("b.ts", 2)]
