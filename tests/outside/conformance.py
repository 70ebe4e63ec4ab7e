"""The conformance suite of the protocol's own project, through a bridge of ours: the scenarios that fit gm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.outside.bridge import Bridge, Process
from tests.outside.scratch import Scratch
from tests.outside.stage import Stage, stage
from tests.outside.verdict import Verdict

PACKAGES = ("node@22", "@modelcontextprotocol/conformance@0.2.0-alpha.12")

_LISTS = ("tools-list", "resources-list", "prompts-list", "completion-complete", "json-schema-2020-12")
FITTING = {
    "2025-11-25": ("server-initialize", "server-session-lifecycle", "ping", *_LISTS),
    "2026-07-28": (
        "server-stateless",
        *_LISTS,
        "caching",
        "sep-2164-resource-not-found",
        "sep-2640-skills-enumeration",
        "sep-2640-skills-manifest",
        "sep-2640-skills-directory",
    ),
}
"""Scenarios by the version that they are run in."""

_OWN_TOOLS = "calls a tool that only the suite's own example server has"
_OWN_RESOURCES = "reads a resource that only the suite's own example server has"
_OWN_PROMPTS = "gets a prompt that only the suite's own example server has"
_HTTP = "judges HTTP itself; gm speaks stdio, and the HTTP here is the bridge's"
_TASKS = "gm does not offer the tasks extension: a long body goes on in the background instead"
LEFT_OUT = {
    "tools-call-*, input-required-result-*, elicitation-*": _OWN_TOOLS,
    "resources-read-text, resources-read-binary, resources-templates-read": _OWN_RESOURCES,
    "prompts-get-*": _OWN_PROMPTS,
    "dns-rebinding-protection, http-*, server-sse-*": _HTTP,
    "tasks-*": _TASKS,
    "logging-set-level": "gm does not declare logging: what happens is in its own log",
    "resources-subscribe, resources-unsubscribe": "gm does not declare resources.subscribe: skills do not change",
}
"""Scenarios that do not fit, each with its reason."""

_STDIO_ERA = (
    "on stdio a request without a version in `_meta` belongs to the handshake era, and server/discover is answered in "
    "both; the header that tells the eras apart exists on HTTP only"
)
EXPECTED = {
    "sep-2575-request-meta-invalid-missing-meta": _STDIO_ERA,
    "sep-2575-request-meta-invalid-missing-protocol-version": _STDIO_ERA,
    "sep-2575-http-server-meta-invalid-400": _STDIO_ERA,
    "sep-2575-http-server-method-not-found-404-initialize": "gm serves both eras, so `initialize` is not removed",
    "sep-2575-server-rejects-undeclared-capability": _OWN_TOOLS,
    "sep-2575-missing-capability-http-400": _OWN_TOOLS,
    "sep-2575-server-sends-prompts-list-changed-on-subscription": _OWN_TOOLS,
    "sep-2575-server-sends-tools-list-changed-on-subscription": _OWN_TOOLS,
    "json-schema-2020-12-tool-found": _OWN_TOOLS,
    "sep-2640-directory-read-subdir-mimetype": "gm's own skills have no folder below theirs",
}
"""Checks that fail or warn, each with its reason; any other one that does is a failure of gm."""


def judge(scratch: Scratch, program: str, what: str) -> list[Verdict]:
    """Put the program behind the bridge in front of the suite."""
    binaries = scratch.npm("conformance", *PACKAGES)
    verdicts = []
    set_aside: set[str] = set()
    for version, scenarios in FITTING.items():
        verdict = Verdict(f"MCP conformance 0.2.0-alpha.12, {version}, {what}")
        for scenario in scenarios:
            with stage(program) as place:
                _run(verdict, binaries, place, scenario, version)
        expected = sorted(set(verdict.notes))
        set_aside.update(expected)
        verdict.notes = [f"{len(expected)} checks set aside, {len(LEFT_OUT)} groups of scenarios left out"]
        verdicts.append(verdict)
    for check in sorted(set(EXPECTED) - set_aside):
        verdicts[-1].check(f"{check} is set aside and holds now", False)
    return verdicts


def reasons() -> list[str]:
    """Return what is left out or set aside, each with its reason."""
    return [f"left out: {name}: {why}" for name, why in LEFT_OUT.items()] + [
        f"set aside: {name}: {why}" for name, why in EXPECTED.items()
    ]


def _run(verdict: Verdict, binaries: Path, place: Stage, scenario: str, version: str) -> None:
    def start() -> Process:
        return Process(place.serve(), place.environment(), str(place.workspace))

    found = place.folder / "found"
    options = ["--scenario", scenario, "--spec-version", version, "--force", "-o", str(found)]
    with Bridge(start) as bridge:
        done = subprocess.run(
            [str(binaries / "conformance"), "server", "--url", bridge.url, *options],
            cwd=place.folder,
            env=place.environment(path=(binaries,)),
            capture_output=True,
            text=True,
            timeout=180,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    files = list(found.rglob("checks.json"))
    if not verdict.check(f"{scenario} was run", files, done.stdout + done.stderr):
        return
    for file in files:
        for check in json.loads(file.read_text()):
            if check["status"] == "INFO":
                continue
            if check["status"] != "SUCCESS" and check["id"] in EXPECTED:
                verdict.notes.append(check["id"])
            else:
                verdict.check(f"{scenario}: {check['id']}", check["status"] == "SUCCESS", check.get("errorMessage"))
