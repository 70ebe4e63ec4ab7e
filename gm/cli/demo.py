"""`gm demo`: a whole session against a scratch repository, through the real relay over pipes, told on the terminal."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import click

from gm.cli.host import Answer, Host
from gm.errors import GmError, Unavailable
from gm.protocol.server import SKILL_URI
from gm.run.reader import LogReader
from gm.run.store import find_run
from gm.run.verify import verify
from gm.system.environ import child_environment
from gm.system.paths import state_folder

_FILES = {
    "amount.py": '''\
"""Parses amounts of money."""


def parse_amount(text):
    """Return the amount in cents."""
    whole, _, cents = text.partition(".")
    return int(whole) * 100 + int(cents or 0)
''',
    "check_amount.py": """\
from amount import parse_amount

assert parse_amount("3.50") == 350
assert parse_amount("-3.50") == -350, parse_amount("-3.50")
print("all amounts are right")
""",
}
_TASK = "parse_amount gets negative amounts wrong: make check_amount.py pass"


@click.command()
@click.option("--keep", is_flag=True, help="Keep the scratch repository and print where it lies.")
def demo(keep: bool) -> None:
    """Play a whole session against a scratch repository, as a host would.

    Opens the server, reads the skill, plans a row, finds and mends a fault, loses the worker in the middle, comes back
    a day later in a second session, closes the row with its witness, finishes, and verifies the log. It needs git and
    nothing else: no account, no network.
    """
    folder = Path(tempfile.mkdtemp(prefix="gm-demo-"))
    try:
        _Demo(folder / "money").play()
        if keep:
            click.echo(f"\nThe repository is kept: {folder / 'money'}   (gm log --workspace {folder / 'money'})")
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


class DemoFailed(GmError):
    """The demo saw something that should not be."""


class _Demo:
    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._number = 0
        self._row = ""
        self._witness = 0

    def play(self) -> None:
        started = time.monotonic()
        self._make_repository()
        with self._start() as host:
            self._open(host)
            self._read_skill(host)
            self._first_context(host)
            self._plan(host)
            self._look_and_change(host)
            self._lose_worker(host)
            self._check(host)
            host.close()
        with self._start() as host:
            self._come_back(host)
            self._close_row(host)
            self._finish(host)
            status = host.close()
        self._verify(status)
        click.echo(f"\nDone in {time.monotonic() - started:.1f} s: {self._number} steps, one run, nothing lost.")

    def _start(self) -> Host:
        return Host.start(self._workspace, "--workspace", str(self._workspace))

    # --- the acts ---

    def _make_repository(self) -> None:
        self._workspace.mkdir()
        for name, text in _FILES.items():
            (self._workspace / name).write_text(text)
        if shutil.which("git") is None:
            raise Unavailable("git_missing", "The demo needs git on PATH.", "Install git and try again.")
        for arguments in (
            ["init", "-q", "-b", "main"],
            ["config", "user.name", "gm demo"],
            ["config", "user.email", "demo@localhost"],
            ["add", "."],
            ["commit", "-q", "-m", "Parse amounts"],
        ):
            subprocess.run(["git", *arguments], cwd=self._workspace, check=True, env=child_environment())
        self._say("A scratch repository with a fault in it", f"{self._workspace}: amount.py, check_amount.py")

    def _open(self, host: Host) -> None:
        answer = host.open()
        assert answer.result is not None
        self._say(
            "The host starts `gm serve` and opens",
            f"initialize answered in {answer.ms:.0f} ms by the relay, while the worker still imports: "
            f"{answer.result['serverInfo']['name']} {answer.result['serverInfo']['version']}, "
            f"protocol {answer.result['protocolVersion']}",
        )
        tools = host.request("tools/list")
        assert tools.result is not None
        names = ", ".join(tool["name"] for tool in tools.result["tools"])
        size = sum(len(str(tool)) for tool in tools.result["tools"])
        self._detail(f"tools/list in {tools.ms:.0f} ms: {names} (about {size // 4:,} tokens in all)")

    def _read_skill(self, host: Host) -> None:
        refused = host.call("run_code", code="1 + 1")
        self._expect(refused.failed, "run_code before the skill is refused", refused)
        self._say("The gate: no body before the skill was read", refused.text.splitlines()[0])
        skill = host.request("resources/read", {"uri": SKILL_URI})
        assert skill.result is not None
        self._detail(f"resources/read {SKILL_URI}: {len(skill.result['contents'][0]['text']):,} characters")

    def _first_context(self, host: Host) -> None:
        answer = host.call("next_context", task=_TASK)
        self._expect(not answer.failed, "the first context", answer)
        self._say("The first context", answer.text)

    def _plan(self, host: Host) -> None:
        code = """
            row = await gm.prd_add(title="Negative amounts", doneWhen="python check_amount.py exits with 0")
            doubt = await gm.unknown_add(question="Which sign do the cents of -3.50 have?", blocks=[row["id"]])
            await gm.unknown_resolve(id=doubt["id"], answer="That of the whole", source="check_amount.py:4")
            row["id"]
            """
        answer = self._body(host, "The plan: a row, and a doubt that is answered with its source", code)
        self._row = answer.text.strip().splitlines()[-1]
        context = host.call("next_context", focus=self._row, note="planned")
        self._say("The next context, with the row in focus", "\n".join(context.text.splitlines()[9:]))

    def _look_and_change(self, host: Host) -> None:
        code = """
            text = await gm.read_file(path="amount.py")
            before = await gm.run_shell(command="python3 check_amount.py || python check_amount.py")
            edit = await gm.edit_file(
                path="amount.py",
                old="    return int(whole) * 100 + int(cents or 0)\\n",
                new="    sign = -1 if whole.startswith(\\"-\\") else 1\\n"
                    "    return int(whole) * 100 + sign * int(cents or 0)\\n",
            )
            print(text["lines"], "lines; the check before:", before["stderr"].strip().splitlines()[-1])
            edit["diff"]
            """
        self._body(host, "One body, several verbs: read, check, edit", code)

    def _lose_worker(self, host: Host) -> None:
        pid = self._worker()
        request = host.send("tools/call", {"name": "run_code", "arguments": {"code": "await asyncio.sleep(60)"}})
        time.sleep(0.5)
        begun = time.monotonic()
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        context = host.request("tools/call", {"name": "next_context", "arguments": {"note": "what happened?"}})
        interrupted = host.wait(request, since=begun)
        self._expect(interrupted.failed and not context.failed, "a killed worker comes back", context)
        self._say(f"The worker (pid {pid}) is killed in the middle of a body", interrupted.text)
        self._detail(f"the host's connection lives on; the next context came {context.ms:.0f} ms after the kill")

    def _check(self, host: Host) -> None:
        code = """
            check = await gm.run_shell(command="python3 check_amount.py || python check_amount.py")
            print(check["stdout"].strip(), "| exit", check["exit"])
            check["seq"]
            """
        answer = self._body(host, "The check passes; its seq is the witness", code)
        self._witness = int(answer.text.strip().splitlines()[-1])

    def _come_back(self, host: Host) -> None:
        host.open()
        context = host.call("next_context")
        self._expect(not context.failed and _TASK in context.text, "a second session resumes the run", context)
        self._say("A day later, a second session: one context is enough to go on", context.text)
        host.request("resources/read", {"uri": SKILL_URI})

    def _close_row(self, host: Host) -> None:
        refused = self._body(
            host,
            "Nothing is done without a witness: a read is refused",
            f'await gm.attempt(gm.prd_resolve(id="{self._row}", event=1, commit="HEAD"))',
        )
        self._expect("witness_not_a_check" in refused.text, "a read is no witness", refused)
        code = f"""
            commit = await gm.git_commit(message="Give the cents their sign", paths=["amount.py"])
            await gm.prd_resolve(id="{self._row}", event={self._witness}, commit=commit["sha"])
            """
        self._body(host, f"Commit, and close the row with event {self._witness}", code)

    def _finish(self, host: Host) -> None:
        refused = host.call("finish", summary="Negative amounts are right.")
        said = (refused.result or {}).get("structuredContent", {})
        self._expect(said.get("ended") is False, "an end with something open is refused", refused)
        self._say("finish names what is still open", refused.text)
        gaps = ["plan files: the plan stays uncommitted in this demo", "dirty tree: nothing else is worth a commit"]
        ended = host.call("finish", summary="Negative amounts are right.", gaps=gaps)
        self._expect("has ended" in ended.text, "the run ends", ended)
        self._say("With its gap named, the run ends", ended.text)

    def _verify(self, status: int) -> None:
        run = find_run(state_folder(self._workspace), None)
        found = verify(run.folder)
        self._expect(status == 0 and found.ok, "the log is whole", found)
        text = f"gm log verify: {found.events} events, {found.blobs} blobs, every line's hash fits the one before"
        self._say("The relay has left with the host, and the log is whole", text)

    # --- telling ---

    def _body(self, host: Host, title: str, code: str) -> Answer:
        source = textwrap.dedent(code).strip()
        answer = host.call("run_code", code=source)
        self._expect(not answer.failed, title, answer)
        self._say(title, source)
        self._detail("→ " + answer.text.replace("\n", "\n  "))
        return answer

    def _worker(self) -> int:
        """Return the pid of the worker, from the run's log."""
        run = find_run(state_folder(self._workspace), None)
        pids = [event["pid"] for event in LogReader(run.folder) if event["kind"] in ("run-start", "restart")]
        return int(pids[-1])

    def _say(self, title: str, text: str) -> None:
        self._number += 1
        click.secho(f"\n{self._number:2}. {title}", bold=True)
        self._detail(text)

    def _detail(self, text: str) -> None:
        click.echo(textwrap.indent(text, "    "))
        sys.stdout.flush()

    def _expect(self, holds: bool, what: str, seen: Any) -> None:
        if not holds:
            shown = seen.text if isinstance(seen, Answer) else repr(seen)
            raise DemoFailed("demo_failed", f"The demo expected: {what}. It saw: {shown}", "Please report this.")
