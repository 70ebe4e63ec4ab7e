"""MCP Inspector's command line over stdio: every method, in each era, on both surfaces; its load test; the main job."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.outside.scratch import Scratch
from tests.outside.stage import ROOT, Stage, stage
from tests.outside.verdict import Verdict

PACKAGES = ("node@22", "@modelcontextprotocol/inspector@2.12.0")
ERAS = ("legacy", "auto", "modern")
SKILLS = ("skill://gm/SKILL.md", "skill://gm/WORKFLOWS.md", "skill://gm-continue/SKILL.md")
LOAD_REQUESTS = 1_000
Json = dict[str, Any]


def judge(scratch: Scratch, program: str, what: str) -> list[Verdict]:
    """Put the program in front of the Inspector.

    Args:
        scratch: where the Inspector is installed.
        program: the `gm` to judge.
        what: what it is called in the lines.
    """
    binaries = scratch.npm("inspector", *PACKAGES)
    verdicts = []
    for surface in ("code", "tools"):
        verdict = Verdict(f"MCP Inspector 2.12, {what}, {surface} surface")
        for era in ERAS:
            with stage(program) as place:
                _methods(verdict, _Inspector(binaries, place, era, surface), surface)
        verdicts.append(verdict)
    verdict = Verdict(f"MCP Inspector 2.12 --load, {what}")
    with stage(program) as place:
        _load(verdict, _Inspector(binaries, place, "auto", "tools"))
    verdicts.append(verdict)
    verdict = Verdict(f"MCP Inspector 2.12 mcpdo, the main job, {what}")
    for era in ERAS:
        with stage(program) as place:
            _main_job(verdict, binaries, place, era)
    verdicts.append(verdict)
    return verdicts


class _Inspector:
    def __init__(self, binaries: Path, place: Stage, era: str, surface: str) -> None:
        self.era = era
        self._place, self._binaries = place, binaries
        self._server = place.serve("--surface", surface)

    def ask(self, method: str, *options: str, quiet: bool = True, timeout: float = 60) -> tuple[int, str, str]:
        flags = ["--format", "json", *(["-q"] if quiet else []), "--protocol-era", self.era]
        done = subprocess.run(
            [str(self._binaries / "mcp-inspector"), "--cli", *flags, "--method", method, *options, "--", *self._server],
            cwd=self._place.folder,
            env=self._place.environment(path=(self._binaries,)),
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def result(self, method: str, *options: str) -> Json:
        status, out, err = self.ask(method, *options)
        if status:
            return {"status": status, "error": err or out}
        value = json.loads(out)
        result = value.get("result", value)
        return result if isinstance(result, dict) else {"result": result}

    def call(self, tool: str, arguments: Json) -> Json:
        return self.result("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))


def _methods(verdict: Verdict, inspector: _Inspector, surface: str) -> None:
    def check(name: str, holds: object, seen: object) -> None:
        verdict.check(f"{inspector.era}: {name}", holds, seen)

    opened = inspector.result("initialize")
    version = "2025-11-25" if inspector.era == "legacy" else "2026-07-28"
    check("initialize", opened.get("protocolVersion") == version and opened.get("instructions"), opened)
    extensions = opened.get("capabilities", {}).get("extensions", {})
    check("the skills extension is visible", "io.modelcontextprotocol/skills" in extensions, opened)

    status, out, err = inspector.ask("tools/list", "--strict", quiet=False)
    check("tools/list --strict", status == 0, f"exit {status}: {err}")
    check("no schema has an advice", "portab" not in err.lower(), err)
    tools = json.loads(out)["result"]["tools"] if status == 0 else []
    names = {tool["name"] for tool in tools}
    check("the tools are there", names >= {"next_context", "run_code", "finish"} | _verbs(surface), names)

    context = inspector.call("next_context", {"task": "look", "run": "new"})
    check("tools/call next_context", context.get("structuredContent", {}).get("step") == 1, context)
    if surface == "tools":
        read = inspector.call("read_file", {"path": "a.txt"})
        check("tools/call read_file", read.get("structuredContent", {}).get("lines") == 3, read)
        return  # the rest is the same on both surfaces

    refused = inspector.ask("tools/call", "--tool-name", "run_code", "--tool-args-json", '{"code": "1"}')
    check(
        "a body without the skill is an error with the way on", "ReadMcpResourceTool" in "".join(refused[1:]), refused
    )
    check("and the status says so", refused[0] != 0, refused)

    resources = inspector.result("resources/list")
    check("resources/list", {entry["uri"] for entry in resources.get("resources", [])} == set(SKILLS), resources)
    templates = inspector.result("resources/templates/list")
    check("resources/templates/list", templates.get("resourceTemplates") == [], templates)
    for uri in SKILLS:
        read = inspector.result("resources/read", "--uri", uri)
        check(f"resources/read {uri}", read.get("contents", [{}])[0].get("text"), read)
    status, _, err = inspector.ask("resources/read", "--uri", "skill://gm/none.md")
    check("resources/read of what is not there fails", status != 0 and "skill://gm/none.md" in err, (status, err))

    folder = inspector.result("resources/directory/read", "--uri", "skill://gm")
    listed = [entry["uri"] for entry in folder.get("resources", [])]
    check("resources/directory/read", listed == list(SKILLS[:2]), folder)

    status, out, err = inspector.ask("skills/list", "--verify", "--require-digests")
    check("skills/list --verify --require-digests", status == 0, f"exit {status}: {out}{err}")
    for uri in (SKILLS[0], SKILLS[2]):
        status, out, err = inspector.ask("skills/get", "--uri", uri, "--verify", "--require-digests")
        check(f"skills/get {uri} --verify", status == 0, f"exit {status}: {out}{err}")

    prompts = inspector.result("prompts/list")
    check("prompts/list", [entry["name"] for entry in prompts.get("prompts", [])] == ["gm", "gm-continue"], prompts)
    prompt = inspector.result("prompts/get", "--prompt-name", "gm", "--prompt-args", "task=mend it")
    check("prompts/get", "mend it" in json.dumps(prompt), prompt)


def _verbs(surface: str) -> set[str]:
    return {"read_file", "edit_file", "run_shell", "git_commit"} if surface == "tools" else set()


def _load(verdict: Verdict, inspector: _Inspector) -> None:
    for tool, arguments in (("next_context", {"skill": True}), ("read_file", {"path": "a.txt"})):
        options = ["--tool-name", tool, "--tool-args-json", json.dumps(arguments), "--load"]
        options += ["--load-requests", str(LOAD_REQUESTS), "--load-concurrency", "8"]
        status, out, err = inspector.ask("tools/call", *options, timeout=180)
        if not verdict.check(f"{tool} under load", status == 0, f"exit {status}: {out}{err}"):
            continue
        summary = json.loads(out)["result"]
        holds = (summary["ok"], summary["errors"], summary["toolErrors"]) == (LOAD_REQUESTS, 0, 0)
        verdict.check(f"{tool}: every call is answered without an error", holds, summary)
        latency = summary["latencyMs"]
        verdict.notes.append(
            f"{tool} {summary['throughput']:.0f} calls/s, p50 {latency['p50']} ms, p99 {latency['p99']} ms"
        )


def _main_job(verdict: Verdict, binaries: Path, place: Stage, era: str) -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "tests" / "outside" / "inspector_main_job.sh"), era, place.program, str(place.workspace)],
        cwd=place.folder,
        env=place.environment(path=(binaries,)),
        capture_output=True,
        text=True,
        timeout=180,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    verdict.check(f"{era}: every step", done.returncode == 0, done.stdout + done.stderr)
    verdict.check(f"{era}: the run has ended", "has ended" in done.stdout, done.stdout + done.stderr)
    verdict.check(f"{era}: the file is changed", "2\n" in (place.workspace / "a.txt").read_text())
