"""gm beside other MCP servers, one program, one run: start, memory, tool definitions, and a task of ten steps.

Usage: python -m bench.peers [--save] [--rounds N] [--scratch FOLDER]

Everyone gets the same repository and does the same ten steps: read three files, search for a word, edit one file, run
the tests, edit another, run the tests again, look at the difference, commit. A step may share a call with others where
the server allows that and no step needs the answer of another one in the same call. The peers are installed from npm
and PyPI into the folder of the outside judges. Tokens are characters / 4, of what a model would write and read.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gm.cli.host import Answer, Host  # noqa: E402
from tests.outside.scratch import Scratch, default_folder  # noqa: E402
from tests.outside.stage import CHECKOUT, Stage, stage  # noqa: E402
from tests.outside.verdict import Unavailable  # noqa: E402

RESULT = ROOT / "bench" / "results" / "peers.md"
SKILL = "skill://gm/SKILL.md"
TASK = "make the tests pass"
TEST = "python3 -m unittest -q"
WORD = "as_text"
FIRST = ("ledger.py", "sum(entry.cents for entry in entries)", "sum(entry.signed_cents for entry in entries)")
SECOND = (
    "report.py",
    'f"{cents // 100}.{cents % 100:02}"',
    "f\"{'-' * (cents < 0)}{abs(cents) // 100}.{abs(cents) % 100:02}\"",
)
MESSAGE = "Refunds lower the total"
REMARKS = (
    "gm's tokens of the code surface hold the skill (read once a session) and a context; its calls are logged, and a "
    "check is a witness that a row is closed with, which no peer keeps. The definitions count name, description and "
    "input schema. FastMCP's definitions stay as small with any number of verbs; a model must search for them first. "
    "A call of Serena's takes 100 ms at least.",
)
FILES = ("ledger.py", "report.py", "test_ledger.py")


# --- the repository --------------------------------------------------------------------------------------------------


def fill(place: Stage) -> None:
    """Write and commit the repository of the task: a small program with a fault in each of two files."""
    kinds = ("sale", "fee", "rent", "wage", "tax", "post", "fuel", "food")
    ledger = ['"""Entries of a ledger."""\n\nfrom dataclasses import dataclass\n']
    ledger.append(
        "\n@dataclass\nclass Entry:\n    kind: str\n    cents: int\n"
        "\n    @property\n    def signed_cents(self) -> int:\n"
        '        return -self.cents if self.kind == "refund" else self.cents\n'
    )
    ledger.append("\n\ndef total(entries) -> int:\n    return sum(entry.cents for entry in entries)\n")
    for kind in kinds:
        ledger.append(f'\n\ndef {kind}_entries(entries):\n    """The entries of kind {kind}."""\n')
        ledger.append(f'    return [entry for entry in entries if entry.kind == "{kind}"]\n')
    report = ['"""A ledger as text."""\n\nfrom ledger import total\n\n\ndef as_text(cents: int) -> str:\n']
    report.append('    return f"{cents // 100}.{cents % 100:02}"\n')
    for kind in kinds:
        report.append(f'\n\ndef {kind}_line(entries) -> str:\n    """A line for {kind}."""\n')
        report.append(f'    return "{kind}: " + as_text(total([e for e in entries if e.kind == "{kind}"]))\n')
    test = (
        "import unittest\n\nfrom ledger import Entry, total\nfrom report import as_text\n\n\n"
        "class Test(unittest.TestCase):\n"
        "    def test_total(self):\n"
        '        self.assertEqual(total([Entry("sale", 500), Entry("refund", 700)]), -200)\n\n'
        '    def test_text(self):\n        self.assertEqual(as_text(-250), "-2.50")\n'
    )
    for name, text in zip(FILES, ("".join(ledger), "".join(report), test), strict=True):
        (place.workspace / name).write_text(text)
    (place.workspace / ".gitignore").write_text("__pycache__/\n.serena/\n")
    place.git("add", ".")
    place.git("commit", "-q", "-m", "A ledger")


# --- playing ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """What a task took.

    Attributes:
        calls: calls of tools and reads of resources.
        written: characters that the model writes.
        read: characters that it reads.
        seconds: between sending and answer, of all calls.
    """

    calls: int = 0
    written: int = 0
    read: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Player:
    """The hosts of one peer (some need two servers), and what is counted."""

    hosts: Sequence[Host]
    tally: Tally = field(default_factory=Tally)

    def call(self, tool: str, server: int = 0, **arguments: Any) -> str:
        """Call a tool; its text. An error ends the program: the task must be done, not tried."""
        answer = self._count(tool, arguments, lambda: self.hosts[server].call(tool, **arguments))
        return answer.text

    def read_resource(self, uri: str) -> None:
        """Read a resource, as a call of the host's tool for that."""
        answer = self.hosts[0].request("resources/read", {"uri": uri})
        assert answer.result is not None
        self._count("read", {"uri": uri}, lambda: answer, answer.result["contents"][0]["text"])

    def _count(
        self, tool: str, arguments: dict[str, Any], ask: Callable[[], Answer], text: str | None = None
    ) -> Answer:
        begun = time.monotonic()
        answer = ask()
        if answer.failed:
            raise SystemExit(f"{tool} {arguments}: {answer.text}")
        self.tally.seconds += time.monotonic() - begun
        self.tally.calls += 1
        self.tally.written += len(tool) + len(json.dumps(arguments, ensure_ascii=False))
        self.tally.read += len(answer.text if text is None else text)
        return answer


@dataclass(frozen=True, slots=True)
class Peer:
    """A server, or two that are used together.

    Attributes:
        name: in the table.
        servers: their command lines, given the stage.
        first: the cheapest call of a tool that shows that it works.
        task: the ten steps.
        lacks: which steps it cannot do.
    """

    name: str
    servers: Callable[[Stage], list[list[str]]]
    first: Callable[[Player], object]
    task: Callable[[Player], object]
    lacks: str = ""
    path: tuple[Path, ...] = ()


def play_gm_code(player: Player) -> None:
    player.read_resource(SKILL)
    player.call("next_context", task=TASK)
    reads = "\n".join(f'print((await gm.read_file(path="{name}"))["text"])' for name in FILES)
    player.call("run_code", code=f'{reads}\n(await gm.grep(pattern="{WORD}"))["matches"]')
    edit = "e = await gm.edit_file(path={0!r}, old={1!r}, new={2!r})\nprint(e['diff'])\n"
    test = f'r = await gm.run_shell(command="{TEST}")\nprint(r["exit"], r["stderr"])\n'
    player.call("run_code", code=edit.format(*FIRST) + test)
    commit = 'print((await gm.git_diff())["diff"])\nassert r["exit"] == 0\n'
    commit += f'(await gm.git_commit(message="{MESSAGE}", paths={list(FILES[:2])!r}))["sha"]'
    player.call("run_code", code=edit.format(*SECOND) + test + commit)


def play_gm_tools(player: Player) -> None:
    player.call("next_context", task=TASK)
    for name in FILES:
        player.call("read_file", path=name)
    player.call("grep", pattern=WORD)
    for path, old, new in (FIRST, SECOND):
        player.call("edit_file", path=path, old=old, new=new)
        player.call("run_shell", command=TEST)
    player.call("git_diff")
    player.call("git_commit", message=MESSAGE, paths=list(FILES[:2]))


def play_codemode(player: Player) -> None:
    player.call("search", query="read file, grep, edit file, run shell, git diff, git commit")
    names = ["read_file", "grep", "edit_file", "run_shell", "git_diff", "git_commit"]
    player.call("get_schema", tools=names)
    reads = "\n".join(f'texts.append((await call_tool("read_file", {{"path": "{name}"}}))["text"])' for name in FILES)
    player.call(
        "execute",
        code=f'texts = []\n{reads}\ntexts.append(await call_tool("grep", {{"pattern": "{WORD}"}}))\nreturn texts',
    )
    edit = 'e = await call_tool("edit_file", {{"path": {0!r}, "old": {1!r}, "new": {2!r}}})\n'
    test = f'r = await call_tool("run_shell", {{"command": "{TEST}"}})\n'
    player.call("execute", code=edit.format(*FIRST) + test + 'return [e["diff"], r["exit"], r["stderr"]]')
    commit = 'd = await call_tool("git_diff", {})\nassert r["exit"] == 0\n'
    message = f'{{"message": "{MESSAGE}", "paths": {list(FILES[:2])!r}}}'
    commit += f'c = await call_tool("git_commit", {message})\n'
    player.call(
        "execute", code=edit.format(*SECOND) + test + commit + 'return [e["diff"], r["stderr"], d["diff"], c["exit"]]'
    )


def play_filesystem(player: Player) -> None:
    player.call("read_multiple_files", paths=list(FILES))
    for path, old, new in (FIRST, SECOND):
        player.call("edit_file", path=path, edits=[{"oldText": old, "newText": new}])
    player.call("git_diff_unstaged", server=1, repo_path=".")
    player.call("git_add", server=1, repo_path=".", files=list(FILES[:2]))
    player.call("git_commit", server=1, repo_path=".", message=MESSAGE)


def play_serena(player: Player) -> None:
    manual = player.call("initial_instructions")
    session = manual.split("session id is `")[1].split("`")[0]
    player.call("serena_repl", session=session, code='s.info("fs", "shell")')
    reads = ", ".join(f's.fs.read_file("{name}")' for name in FILES)
    player.call("serena_repl", session=session, code=f'[{reads}, s.fs.search_for_pattern("{WORD}")]')
    edit = "s.fs.create_text_file({0!r}, open({0!r}).read().replace({1!r}, {2!r}))\n"
    test = f's.shell.execute_shell_command("{TEST}")'
    player.call("serena_repl", session=session, code=edit.format(*FIRST) + test)
    commit = f"s.shell.execute_shell_command(\"{TEST} && git diff && git commit -qam '{MESSAGE}'\")"
    player.call("serena_repl", session=session, code=edit.format(*SECOND) + commit)


def peers(scratch: Scratch) -> list[Peer]:
    """Return gm and those of the others that can be had here."""
    found = [
        Peer(
            "gm, code surface",
            lambda place: [place.serve()],
            lambda player: player.call("next_context", task=TASK),
            play_gm_code,
        ),
        Peer(
            "gm, tools surface",
            lambda place: [place.serve("--surface", "tools")],
            lambda player: player.call("read_file", path=FILES[0]),
            play_gm_tools,
        ),
    ]
    for more in (_codemode, _filesystem, _serena):
        try:
            found.append(more(scratch))
        except Unavailable as error:
            print(f"left out: {error}", file=sys.stderr)
    return found


def _codemode(scratch: Scratch) -> Peer:
    python = scratch.pip("fastmcp", "fastmcp[code-mode]", "mcp-server-git")
    command = [str(python), "-P", str(ROOT / "bench" / "peers_codemode.py")]
    version = _version(python, "fastmcp")
    return Peer(
        f"FastMCP {version} CodeMode",
        lambda place: [command],
        lambda player: player.call("execute", code="return 1"),
        play_codemode,
    )


def _filesystem(scratch: Scratch) -> Peer:
    node = scratch.node()
    binaries = scratch.npm("filesystem", "@modelcontextprotocol/server-filesystem")
    python = scratch.pip("fastmcp", "fastmcp[code-mode]", "mcp-server-git")
    git = python.with_name("mcp-server-git")
    manifest = binaries.parent / "@modelcontextprotocol" / "server-filesystem" / "package.json"
    version = json.loads(manifest.read_text())["version"]
    return Peer(
        f"server-filesystem {version} + mcp-server-git {_version(python, 'mcp-server-git')}",
        lambda place: [
            [str(binaries / "mcp-server-filesystem"), str(place.workspace)],
            [str(git), "--repository", str(place.workspace)],
        ],
        lambda player: (
            player.call("read_text_file", path=FILES[0]),
            player.call("git_status", server=1, repo_path="."),
        ),
        play_filesystem,
        "cannot search contents nor run tests: 7 of the 10 steps",
        (node,),
    )


def _serena(scratch: Scratch) -> Peer:
    python = scratch.pip("serena", "serena-agent")
    options = ["--context", "ide", "--enable-web-dashboard", "false", "--enable-gui-log-window", "false"]
    return Peer(
        f"Serena {_version(python, 'serena-agent')}",
        lambda place: [
            [str(python.with_name("serena")), "start-mcp-server", "--project", str(place.workspace), *options]
        ],
        lambda player: player.call("initial_instructions"),
        play_serena,
        "its own edits need a language server, which it would download: edits by create_text_file",
    )


def _version(python: Path, package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


COLUMNS = (
    ("first answer, ms", "opened"),
    ("first tool call, ms", "first"),
    ("memory, MB", "memory"),
    ("definitions, tokens", "definitions"),
    ("task: calls", "calls"),
    ("task: tokens", "tokens"),
    ("definitions + task", "sum"),
    ("task: ms in calls", "ms"),
)


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(peer: Peer) -> dict[str, float]:
    """Start a peer, do the task once, and return its figures."""
    with stage(CHECKOUT) as place:
        fill(place)
        environment = place.environment({"PYTHONWARNINGS": "ignore"}, path=peer.path)
        clean = {name: None for name in os.environ if name not in environment}
        begun = time.monotonic()
        hosts = [
            Host.start(place.workspace, command=command, environment={**clean, **environment})
            for command in peer.servers(place)
        ]
        try:
            player = Player(hosts)
            for host in hosts:
                host.open()
            opened = time.monotonic() - begun
            definitions = 0
            for host in hosts:
                tools = host.request("tools/list").result
                assert tools is not None
                shown = [{n: tool.get(n) for n in ("name", "description", "inputSchema")} for tool in tools["tools"]]
                definitions += len(json.dumps(shown, ensure_ascii=False))
            peer.first(player)
            first = time.monotonic() - begun
            time.sleep(0.5)
            memory = sum(proportional_memory(pid) for host in hosts for pid in tree(host.process.pid))
            player = Player(hosts)
            peer.task(player)
            check(place, peer)
            tally = player.tally
        finally:
            for host in hosts:
                end(host)
    return {
        "opened": opened * 1000,
        "first": first * 1000,
        "memory": memory,
        "definitions": definitions / 4,
        "calls": tally.calls,
        "tokens": (tally.written + tally.read) / 4,
        "ms": tally.seconds * 1000,
    }


def check(place: Stage, peer: Peer) -> None:
    """Hold what a peer did against what was asked: the tests pass, one commit more, nothing left over."""
    done = subprocess.run(TEST.split(), cwd=place.workspace, env=place.environment(), capture_output=True, check=False)
    if done.returncode or place.git("log", "-1", "--format=%s") != MESSAGE or place.git("diff", "HEAD"):
        raise SystemExit(f"{peer.name} did not do the task: {done.stderr.decode()[-500:]}")


def end(host: Host) -> None:
    """End a server, and what it does not end by itself."""
    pids = tree(host.process.pid)
    try:
        host.close(5)
    except (subprocess.TimeoutExpired, OSError):
        for pid in pids:
            try:
                os.kill(pid, 9)
            except OSError:
                continue
        host.process.wait()


def tree(pid: int) -> list[int]:
    """Return a process and all that came from it."""
    found = [pid]
    for known in found:
        for task in Path(f"/proc/{known}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def proportional_memory(pid: int) -> float:
    """Return a process's share of memory in MB (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def table(figures: dict[str, list[dict[str, float]]], notes: dict[str, str]) -> list[str]:
    """Return the table's lines."""
    lines = [f"| | {' | '.join(title for title, _ in COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for number, (name, rounds) in enumerate(figures.items()):
        for one in rounds:
            one["sum"] = one["definitions"] + one["tokens"]
        cells = [f"{statistics.median(one[key] for one in rounds):,.0f}" for _, key in COLUMNS]
        mark = f" ({number})" if notes[name] else ""
        lines.append(f"| {name}{mark} | {' | '.join(cells)} |")
    lines += ["", *(f"({number}) {name}: {notes[name]}." for number, name in enumerate(figures) if notes[name])]
    return lines


def tests_alone() -> float:
    """Return the milliseconds that the task's test command takes by itself."""
    with stage(CHECKOUT) as place:
        fill(place)
        begun = time.monotonic()
        subprocess.run(TEST.split(), cwd=place.workspace, env=place.environment(), capture_output=True, check=False)
        return (time.monotonic() - begun) * 1000


def where_a_peer_is_better(figures: dict[str, list[dict[str, float]]]) -> list[str]:
    """Return, for each column, who is better than gm's better surface, with the figures; less is better in all."""
    ours = [name for name in figures if name.startswith("gm,")]
    lines = []
    for title, key in COLUMNS:
        middle = {name: statistics.median(one[key] for one in rounds) for name, rounds in figures.items()}
        best = min(middle[name] for name in ours)
        better = sorted((value, name) for name, value in middle.items() if name not in ours and value < best)
        if better:
            lines.append(
                f"- {title}: " + ", ".join(f"{name} {value:,.0f}" for value, name in better) + f"; gm {best:,.0f}"
            )
    return ["Where a peer is better than gm's better surface:", "", *lines] if lines else []


def main() -> None:
    """Measure all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help=f"write the table to {RESULT.relative_to(ROOT)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=default_folder())
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    everyone = peers(Scratch(arguments.scratch))
    figures: dict[str, list[dict[str, float]]] = {peer.name: [] for peer in everyone}
    alone: list[float] = []
    for _ in range(arguments.rounds):
        alone.append(tests_alone())
        for peer in everyone:
            figures[peer.name].append(measure(peer))
    machine = (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}; "
        f"load at the start {load:.1f}; medians of {arguments.rounds} rounds, the peers in turn."
    )
    lines = table(figures, {peer.name: peer.lacks for peer in everyone})
    lines += ["", *where_a_peer_is_better(figures), "", *REMARKS, ""]
    lines.append(
        f"The test command, run twice by all but server-filesystem, takes {statistics.median(alone):,.0f} ms by itself."
    )
    text = "\n".join(["# gm beside other servers", "", "`python -m bench.peers --save`, " + machine, "", *lines, ""])
    print(text)
    if arguments.save:
        RESULT.write_text(text)


if __name__ == "__main__":
    main()
