"""Configuration of other servers: layers, variables, faults that are named, comments, trust, editing by the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gm.run.trust import digest_of, trust
from gm.servers.config import INSTALLER_STARTUP_MS, read_config
from gm.servers.matching import holds_match
from gm.servers.tools import doubled_name, verb_name
from gm.system.program import self_command
from tests.servers.sessions import ODD


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GMNEW_TRUST_WORKSPACE", raising=False)
    folder = tmp_path.resolve() / "w"
    (folder / ".gm").mkdir(parents=True)
    return folder


def layer(path: Path, **servers: Any) -> Path:
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def test_a_later_layer_replaces_an_entry_whole_and_can_switch_it_off(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = layer(tmp_path / "d.json", a={"command": "one", "args": ["x"], "deny": ["y"]}, b={"command": "two"})
    monkeypatch.setenv("GMNEW_MCP_DEFAULTS", str(defaults))
    extra = layer(
        tmp_path / "e.json", a={"command": "three"}, b={"command": "two", "disabled": True}, c={"url": "http://x"}
    )
    config = read_config(workspace, extra)
    assert [(entry.name, entry.command, entry.args, entry.deny) for entry in config.servers] == [
        ("a", "three", (), frozenset()),
        ("c", None, (), frozenset()),
    ]
    assert config.disabled == ("b",)


def test_the_builds_defaults_are_playwriter_and_gmloop(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GMNEW_MCP_DEFAULTS")
    config = read_config(workspace, None)
    assert config.problems == ()
    playwriter, gmloop = config.servers
    assert playwriter.args == ("-y", "-p", "github:AnEntrypoint/pw#ebbba11", "playwriter-project")
    assert (playwriter.environment, playwriter.deny) == ({"PLAYWRITER_TELEMETRY": "0"}, frozenset({"reset"}))
    assert (playwriter.startup_ms, playwriter.requires) == (INSTALLER_STARTUP_MS, {"node": 22})
    assert (gmloop.args, gmloop.when) == (("mcp",), "**/*.yyp")
    assert Path(gmloop.command or "").stem == "gmloop"


def test_missing_files_are_problems_when_they_are_required(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GMNEW_MCP_DEFAULTS", str(tmp_path / "none.json"))
    config = read_config(workspace, tmp_path / "nothing.json")
    assert [problem.message.endswith("is missing") for problem in config.problems] == [True, True]


def test_variables_are_filled_in_everywhere_and_a_missing_one_stops_that_server_only(
    workspace: Path, tmp_path: Path
) -> None:
    extra = layer(
        tmp_path / "e.json",
        good={"command": "${TOOL}", "args": ["--at=${PLACE}/x"], "env": {"A": "${TOOL}${PLACE}"}},
        bad={"url": "https://h/${NO_SUCH}", "headers": {"Authorization": "Bearer ${NO_SUCH}"}},
    )
    good, bad = read_config(workspace, extra, environment={"TOOL": "t", "PLACE": "p"}).servers
    assert (good.command, good.args, good.environment, good.fault) == ("t", ("--at=p/x",), {"A": "tp"}, None)
    assert bad.fault == "the environment variable NO_SUCH is not set"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("text", "must be an object"),
        ({}, "needs `command`"),
        ({"command": 7}, "`command` must be a string, not int"),
        ({"command": "x", "args": "y"}, "`args` must be an array"),
        ({"command": "x", "timeoutMs": 0}, "`timeoutMs` must be from 1"),
        ({"command": "x", "timeoutMs": True}, "`timeoutMs` must be a whole number"),
        ({"command": "x", "ignore": ["/abs"]}, "without a leading slash"),
        ({"command": "x", "ignore": ["../up"]}, "without `..`"),
    ],
)
def test_a_bad_entry_is_named_with_what_is_wrong_and_the_others_are_used(
    workspace: Path, tmp_path: Path, entry: Any, said: str
) -> None:
    config = read_config(workspace, layer(tmp_path / "e.json", bad=entry, good={"command": "x"}))
    assert [server.name for server in config.servers] == ["good"]
    (problem,) = config.problems
    assert problem.server == "bad"
    assert said in problem.message


def test_an_unknown_key_is_ignored_and_the_nearest_known_one_named(workspace: Path, tmp_path: Path) -> None:
    config = read_config(workspace, layer(tmp_path / "e.json", a={"command": "x", "timeoutMS": 5}))
    assert len(config.servers) == 1
    assert "did you mean `timeoutMs`" in config.problems[0].message


def test_a_file_may_hold_comments_and_a_broken_one_is_named_with_the_line(workspace: Path, tmp_path: Path) -> None:
    extra = tmp_path / "e.json"
    extra.write_text('{"mcpServers": { // mine\n "a": {"command": "x // y", "args": ["1", /* two */],},\n}}\n')
    (server,) = read_config(workspace, extra).servers
    assert (server.command, server.args) == ("x // y", ("1",))
    extra.write_text('{"mcpServers":\n {"a" 1}}')
    (problem,) = read_config(workspace, extra).problems
    assert problem.message == f"{extra} cannot be used: line 2: ':' expected"


def test_a_workspaces_file_counts_only_with_the_content_that_was_trusted(workspace: Path) -> None:
    own = layer(workspace / ".gm" / "mcp.json", mine={"command": "x"})
    assert read_config(workspace, None).servers == ()
    assert read_config(workspace, None).waiting is not None
    digest = digest_of(own)
    assert digest is not None
    trust(workspace, "mcp.json", digest)
    assert [entry.name for entry in read_config(workspace, None).servers] == ["mine"]
    layer(own, mine={"command": "y"})
    assert read_config(workspace, None).servers == ()


@pytest.mark.parametrize(
    ("server", "tool", "verb", "doubled"),
    [
        ("files", "read", "files_read", "files_read"),
        ("gmloop", "gmloop_format", "gmloop_format", "gmloop_gmloop_format"),
        ("my-server", "do.it now", "my_server_do_it_now", "my_server_do_it_now"),
        ("a", "übersicht", "a__bersicht", "a__bersicht"),
        ("9lives", "go", "_9lives_go", "_9lives_go"),
    ],
)
def test_names_of_verbs(server: str, tool: str, verb: str, doubled: str) -> None:
    assert (verb_name(server, tool), doubled_name(server, tool)) == (verb, doubled)


@pytest.mark.parametrize("repository", [True, False])
def test_when_looks_at_gits_files_or_three_folders_deep(tmp_path: Path, repository: bool) -> None:
    if repository:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert not holds_match(tmp_path, "**/*.yyp")
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "g.yyp").write_text("")
    assert holds_match(tmp_path, "**/*.yyp")
    assert not holds_match(tmp_path, "*.yyp")
    (tmp_path / "top.yyp").write_text("")
    assert holds_match(tmp_path, "*.yyp")


def gm(workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        self_command("servers", "--workspace", str(workspace), *arguments),
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def test_add_test_and_remove_keep_comments_and_order(workspace: Path) -> None:
    own = workspace / ".gm" / "mcp.json"
    assert gm(workspace, "add", "first", "--", sys.executable, ODD, "plain").returncode == 0
    text = own.read_text()
    own.write_text(text.replace('"mcpServers"', '// ours\n  "mcpServers"'))
    refused = gm(workspace, "add", "second", "--env", "A=b", "--", sys.executable, ODD)
    assert refused.returncode == 1
    assert "not trusted as it stands" in refused.stderr
    assert gm(workspace, "trust", "--yes").returncode == 0
    assert gm(workspace, "add", "second", "--env", "A=b", "--", sys.executable, ODD).returncode == 0
    assert "// ours" in own.read_text()
    listed = json.loads(gm(workspace, "--json").stdout)
    assert [server["name"] for server in listed["servers"]] == ["first", "second"]
    tested = json.loads(gm(workspace, "test", "second", "--json").stdout)
    assert (tested["state"], tested["error"]) == ("running", None)
    assert "second_echo" in tested["tools"]
    assert gm(workspace, "remove", "first").returncode == 0
    assert "// ours" in own.read_text()
    assert [server["name"] for server in json.loads(gm(workspace, "--json").stdout)["servers"]] == ["second"]
    assert gm(workspace, "remove", "first").returncode == 1


def test_testing_a_server_that_does_not_start_says_why(workspace: Path) -> None:
    gm(workspace, "add", "broken", "--", sys.executable, ODD, "exits-always")
    done = gm(workspace, "test", "broken")
    assert done.returncode == 1
    assert "no, thank you" in done.stderr
    assert (
        "there is no no-such-program-here on PATH"
        in gm(workspace, "add", "none", "--", "no-such-program-here").stderr + gm(workspace, "test", "none").stderr
    )


def test_add_refuses_what_gm_would_refuse_to_read(workspace: Path) -> None:
    refused = gm(workspace, "add", "no name", "--", sys.executable)
    assert refused.returncode == 2
    assert "'no name' is no name for a server" in refused.stderr
    assert not (workspace / ".gm" / "mcp.json").exists()


def test_testing_an_untrusted_entry_shows_first_what_it_starts(workspace: Path) -> None:
    own = workspace / ".gm" / "mcp.json"
    own.parent.mkdir(exist_ok=True)
    own.write_text(json.dumps({"mcpServers": {"odd": {"command": sys.executable, "args": [ODD, "plain"]}}}))
    done = gm(workspace, "test", "odd")
    assert done.returncode == 0
    assert f"is not trusted; this test starts: {sys.executable} {ODD} plain" in done.stderr
    gm(workspace, "trust", "--yes")
    assert gm(workspace, "test", "odd").stderr == ""
