"""release.yml itself: what can be read from it, and its steps run by bash as they stand (actions.py, gh.py)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from gm.cli.main import COMMANDS, LazyGroup
from gm.update.manifest import load, read
from gm.update.signature import new_key, verify
from installer.build import current_target, identity, list_files, read_build
from release.__main__ import release
from release.pack import pack
from release.publish import TARGETS, install_scripts, write_entry
from tests.installer.builds import make_build
from tests.owngit import own_git
from tests.release.actions import Machine, NotUnderstood, Step
from tests.release.gh import Gh
from tests.update.server import Server, serve

__all__ = ["own_git"]
ROOT = Path(__file__).parents[2]
WORKFLOW = ".github/workflows/release.yml"
REPOSITORY = "somebody/gmnew"
TARGET = current_target()
OTHERS = [target for target in TARGETS if target != TARGET]

# -- what can be read from it ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / WORKFLOW).read_text("utf-8"))
    return found


def steps_of(workflow: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_actions_are_pinned_to_commits_and_say_which_version_that_is(workflow: dict[str, Any]) -> None:
    lines = [line.strip() for line in (ROOT / WORKFLOW).read_text("utf-8").splitlines() if "uses:" in line]
    assert len(lines) == len([step for step in steps_of(workflow) if "uses" in step]) > 5
    pinned = re.compile(r"(- )?uses: (actions/[a-z-]+)@([0-9a-f]{40}) # v[0-9]+\.[0-9]+\.[0-9]+")
    found = [pinned.fullmatch(line) for line in lines]
    assert all(found), lines
    commits: dict[str, set[str]] = {}
    for match in found:
        assert match is not None
        commits.setdefault(match[2], set()).add(match[3])
    assert all(len(versions) == 1 for versions in commits.values()), "one version of an action in both jobs"


def test_jobs_end_and_may_do_no_more_than_they_need(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert set(workflow["jobs"]) == {"build", "publish"}
    assert "permissions" not in build
    assert publish["permissions"] == {"contents": "write", "id-token": "write", "attestations": "write"}
    assert all(0 < job["timeout-minutes"] <= 45 for job in (build, publish))
    assert publish["concurrency"] == {"group": "release", "cancel-in-progress": False, "queue": "max"}
    assert build["strategy"]["fail-fast"] is False
    assert all(step["with"]["persist-credentials"] is False for step in steps_of(workflow) if "checkout" in str(step))


def test_secrets_reach_only_the_step_that_needs_them(workflow: dict[str, Any]) -> None:
    signing = [step for step in steps_of(workflow) if "secrets." in json.dumps(step)]
    assert [step["name"] for step in signing] == ["Publish"]
    assert "secrets." not in json.dumps({key: value for key, value in workflow.items() if key != "jobs"})
    for step in steps_of(workflow):
        assert ("github.token" in json.dumps(step)) == ("--repository" in step.get("run", "")), step


def test_scripts_hold_no_expression_that_somebody_else_writes(workflow: dict[str, Any]) -> None:
    found = {name for step in steps_of(workflow) for name in re.findall(r"\$\{\{\s*(.*?)\s*\}\}", step.get("run", ""))}
    assert found == {"matrix.target"}


def test_the_matrix_holds_the_targets_that_the_code_knows(workflow: dict[str, Any]) -> None:
    rows = workflow["jobs"]["build"]["strategy"]["matrix"]["include"]
    assert [row["target"] for row in rows] == list(TARGETS)
    systems = {"linux": "ubuntu-", "macos": "macos-", "windows": "windows-"}
    for row in rows:
        system, _, architecture = row["target"].partition("-")
        assert row["runner"].startswith(systems[system]) and set(row) == {"target", "runner"}
        arm = row["runner"].endswith("-arm") or (system == "macos" and not row["runner"].endswith("-intel"))
        assert arm == (architecture == "arm64"), row
    for script, systems_of_script in (("install.sh", ("linux", "macos")), ("install.ps1", ("windows",))):
        text = (ROOT / "installer" / script).read_text("utf-8")
        assert {f"{name}-" in text for name in systems_of_script} == {True}


def test_releases_are_built_by_a_python_that_ci_tests(workflow: dict[str, Any]) -> None:
    version = workflow["env"]["PYTHON_VERSION"]
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    assert version in {row["python"] for row in ci["jobs"]["test"]["strategy"]["matrix"]["include"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    low, high = re.findall(r"3\.([0-9]+)", project["requires-python"])
    assert int(low) <= int(version.partition(".")[2]) < int(high)


def test_what_is_installed_exists_in_the_project(workflow: dict[str, Any]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    texts = [step["run"] for step in steps_of(workflow) if step.get("name") == "Install"]
    assert len(texts) == 2
    named = [re.search(r'-e "?\.(?:\[([a-z,]+)\])?"?$', text) for text in texts]
    assert all(named)
    assert {extra for match in named if match and match[1] for extra in match[1].split(",")} == {"dev"} <= set(extras)


def commands_of(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in a script that runs `release` or gm, without what stands before it."""
    for line in text.splitlines():
        words = shlex.split(line.partition(" | ")[0], comments=True)
        for index, word in enumerate(words):
            if words[index : index + 2] == ["-m", "release"]:
                yield ["release", *words[index + 2 :]]
            elif word.endswith(("/gm", "/gmloop")):
                yield ["gm", *words[index + 1 :]]
            elif word.endswith("/install.sh") and "sh" in words[:index]:
                yield ["gm", "install", *words[index + 1 :]]


def test_every_command_exists_and_knows_its_options(workflow: dict[str, Any]) -> None:
    checked = []
    for words in (words for step in steps_of(workflow) for words in commands_of(step.get("run", ""))):
        command: click.Command = release if words[0] == "release" else LazyGroup("gm")
        rest, path = words[1:], [words[0]]
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            name = rest.pop(0)
            inner = command.get_command(click.Context(command), name)
            assert inner is not None, words
            command = inner
            path.append(name)
        options = {option for parameter in command.params for option in parameter.opts} | {"--help", "--version"}
        assert {word for word in rest if word.startswith("-")} <= options, (words, options)
        required = {parameter.opts[0] for parameter in command.params if parameter.required}
        assert required <= set(rest) or isinstance(command, click.Group), words
        checked.append(" ".join(path))
    wanted = {"release build", "release manifest", "release publish", "release verify", "gm", "gm tool check"}
    assert wanted | {"gm install", "gm selfcheck", "gm uninstall"} == set(checked)
    assert {"install", "selfcheck", "tool", "uninstall"} <= set(COMMANDS)


def test_the_runner_of_these_tests_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    machine = Machine(tmp_path, tmp_path / "m", {"github.repository": "a/b", "github.ref": "x"}, tmp_path / "a")
    assert machine.expand("${{ github.repository }}!") == "a/b!"
    assert machine.holds("${{ !cancelled() && github.ref == 'x' }}", failed=True)
    assert not machine.holds("${{ github.ref == 'x' }}", failed=True)
    for text in ("${{ github.actor }}", "${{ github.ref || 'x' }}"):
        with pytest.raises(NotUnderstood):
            machine.expand(text)
    with pytest.raises(NotUnderstood):
        machine.holds("always()", failed=False)


# -- its steps, run ----------------------------------------------------------------------------------------------------


@dataclass
class Place:
    """GitHub as far as a run needs it: a clone of HEAD, the release's assets behind a server, `gh`."""

    folder: Path
    server: Server
    gh: Gh
    clone: Path
    runs: int = 0

    def machine(self, known: Mapping[str, str], *, clone: Path | None = None) -> Machine:
        """Return a fresh machine; `known` adds values of expressions."""
        self.runs += 1
        values = {
            "github.server_url": self.server.url,
            "github.repository": REPOSITORY,
            "github.ref": "refs/heads/main",
            "github.token": "a token",
            "matrix.target": TARGET,
            "vars.GMNEW_PUBLIC_KEYS": "",
            "secrets.GMNEW_SIGNING_KEY": "",
            "needs.build.result": "success",
            **known,
        }
        machine = Machine(clone or self.clone, self.folder / f"machine {self.runs}", values, self.folder / "artifacts")
        self.gh.put_on_path(machine.folder / "bin")
        return machine

    def another_clone(self, name: str) -> Path:
        return clone_of(self.clone, self.folder / name)

    def publish(self, known: Mapping[str, str]) -> tuple[Machine, dict[str, Step]]:
        """Run the publish job on a fresh machine, after a build job in which a target failed."""
        known = {"needs.build.result": "failure", **known}
        machine = self.machine(known, clone=self.another_clone(f"publish {self.runs}"))
        workflow = yaml.safe_load((machine.workspace / WORKFLOW).read_text("utf-8"))
        return machine, {step.name: step for step in machine.run_job(workflow, "publish")}

    def asset(self, name: str) -> bytes:
        """Return an asset as a person downloads it."""
        import urllib.request

        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.server.url}/{REPOSITORY}/releases/download/latest/{name}", timeout=30) as answer:
            body: bytes = answer.read()
        return body


def clone_of(origin: Path, folder: Path) -> Path:
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(origin), str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    web = tmp_path / "web"
    assets = web / REPOSITORY / "releases" / "download" / "latest"
    gh = Gh.make(tmp_path / "gh.json", assets, repository=REPOSITORY, exists=False)
    with serve(web) as server:
        yield Place(tmp_path, server, gh, clone_of(ROOT, tmp_path / "build checkout"))


def key_pair() -> dict[str, str]:
    private, public = new_key()
    return {"secrets.GMNEW_SIGNING_KEY": f"2026-a={private}", "vars.GMNEW_PUBLIC_KEYS": f"2026-a={public}"}


def statuses(steps: Mapping[str, Step]) -> dict[str, int | None]:
    return {name: step.status for name, step in steps.items() if not name.startswith("actions/") and name != "Install"}


GREEN = {
    "Look before anything is attested or uploaded": 0,
    "Attest provenance": 0,
    "Publish": 0,
    "Verify what users get": 0,
    "Install what users get": 0,
    "A target did not build": 1,  # five of six were not built
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.name == "nt", reason="the double of gh is a shell script")
def test_a_push_is_built_published_and_installed_by_the_steps_as_they_stand(place: Place) -> None:
    keys = key_pair()
    machine = place.machine(keys)
    workflow = yaml.safe_load((machine.workspace / WORKFLOW).read_text("utf-8"))
    built = {step.name: step for step in machine.run_job(workflow, "build")}
    for name in ("Freeze", "Check the frozen program", "Install the archive as a user does"):
        assert built[name].status == 0, built[name].output

    # what is baked in
    update_url = f"{place.server.url}/{REPOSITORY}/releases/download/latest/manifest.json"
    info = read_build(machine.workspace / "out" / f"gmnew-{TARGET}")
    name, _, public = keys["vars.GMNEW_PUBLIC_KEYS"].partition("=")
    assert info.update_url == update_url and info.public_keys == {name: public} and not info.development
    count = git(machine.workspace, "rev-list", "--count", "HEAD")
    assert (info.serial, info.commit) == (int(count), git(machine.workspace, "rev-parse", "HEAD"))
    assert f"gm {info.version}" in built["Check the frozen program"].output
    assert "ok     an update from a local server" in built["Check the frozen program"].output
    assert "This build works." in built["Install the archive as a user does"].output
    assert not (machine.temp / "gm home ü" / "current").exists()
    assert info.version in machine.summary.read_text()
    archive = next((place.folder / "artifacts" / TARGET).glob("gmnew-*"))
    assert archive.stem.startswith(f"gmnew-{info.version}-{TARGET}")

    publisher, steps = place.publish(keys)
    assert statuses(steps) == GREEN, "\n".join(f"{step.name}: {step.output}" for step in steps.values())
    assert steps["Attest provenance"].output == archive.name

    # what users get
    body = place.asset("manifest.json")
    assert verify(load(body), info.public_keys) is True
    manifest = read(load(body))
    assert set(manifest.targets) == {TARGET} and (manifest.serial, manifest.commit) == (info.serial, info.commit)
    served = place.asset(manifest.targets[TARGET].file)
    assert hashlib.sha256(served).hexdigest() == manifest.targets[TARGET].sha256
    assert served == archive.read_bytes()
    summary = publisher.summary.read_text()
    assert all(f"**{target} has no build at all**" in summary for target in OTHERS) and f"- {TARGET}: " in summary
    assert {name: place.asset(name) for name in ("install.sh", "install.ps1")} == install_scripts(update_url)

    # the published script has installed the published build, which asks the published manifest for the next one
    home = publisher.temp / "gm home"
    assert read_build(home / "current") == info
    entry = json.loads((publisher.temp / "claude.json").read_text())["mcpServers"]["gm"]
    assert entry == {"command": str(home / "current" / "gm"), "args": ["serve"]}
    environment = {**publisher.environment, "GMNEW_HOME": str(home)}
    del environment["CI"]
    asks = len(place.server.seen)
    asked = subprocess.run([entry["command"], "update"], env=environment, capture_output=True, text=True, timeout=60)
    assert (asked.returncode, asked.stdout) == (0, "the newest build is installed\n"), asked
    assert [f"{place.server.url}{seen.path}" for seen in place.server.seen[asks:]] == [update_url]

    # the same commit once more
    log = len(place.gh.read()["log"])
    _, again = place.publish(keys)
    assert again["Look before anything is attested or uploaded"].status == 1
    assert f"serial {info.serial}" in again["Look before anything is attested or uploaded"].output
    assert again["Publish"].status is None and again["Attest provenance"].status is None
    assert place.asset("manifest.json") == body
    assert {words[1] for words in place.gh.read()["log"][log:]} <= {"view", "download"}


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


INSTALLS = 'install) mkdir -p "$GMNEW_HOME/current" && cp "$0" "$GMNEW_HOME/current/gm" ;;'


def hand_over(place: Place, targets: tuple[str, ...] = (TARGET,)) -> None:
    """Leave artifacts as the build job does; a shell script stands in the place of the frozen program."""
    serial = int(git(place.clone, "rev-list", "--count", "HEAD"))
    for target in targets:
        folder = place.folder / f"build-{target}"
        make_build(folder)
        program = folder / "gm"
        program.write_text(program.read_text().replace("selfcheck)", f"{INSTALLS}\nselfcheck)", 1))
        files = list_files(folder)
        info = replace(read_build(folder), files=files, build=identity(files), version=f"0.1.{serial}", serial=serial)
        replace(info, target=target).write(folder)
        artifact = place.folder / "artifacts" / target
        artifact.mkdir(parents=True)
        write_entry(artifact, target, pack(folder, artifact))


slow_steps = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.name == "nt", reason="the double of gh is a shell script"),
]


def slow(test: Any) -> Any:
    for mark in slow_steps:
        test = mark(test)
    return test


@slow
def test_without_keys_the_manifest_is_unsigned_and_the_run_says_so(place: Place) -> None:
    hand_over(place, (TARGET, OTHERS[0]))
    machine, steps = place.publish({})
    assert statuses(steps) == GREEN, "\n".join(f"{step.name}: {step.output}" for step in steps.values())
    assert "::warning::there are no keys" in steps["Publish"].output
    content = load(place.asset("manifest.json"))
    assert "signature" not in content and set(content["targets"]) == {TARGET, OTHERS[0]}
    assert len(steps["Attest provenance"].output.split()) == 2
    assert "not checked for a signature" in steps["Verify what users get"].output
    assert (machine.temp / "gm home" / "current" / "gm").exists()
    assert "keeps the build it had" in steps["A target did not build"].output


@slow
@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("secrets.GMNEW_SIGNING_KEY", "no signing key"),
        ("vars.GMNEW_PUBLIC_KEYS", "no public key"),
        ("both fit", "is wrong"),
    ],
)
def test_keys_that_do_not_fit_publish_nothing(place: Place, missing: str, said: str) -> None:
    hand_over(place)
    keys = key_pair()
    if missing == "both fit":
        keys["vars.GMNEW_PUBLIC_KEYS"] = key_pair()["vars.GMNEW_PUBLIC_KEYS"]
    else:
        del keys[missing]
    _, steps = place.publish(keys)
    assert steps["Publish"].status == 1 and said in steps["Publish"].output
    assert steps["Verify what users get"].status is None and steps["A target did not build"].status == 1
    assert place.gh.contents() == {}
    private = keys.get("secrets.GMNEW_SIGNING_KEY", "").partition("=")[2]
    assert not private or not any(private in step.output for step in steps.values())


@slow
def test_a_run_in_which_nothing_was_built_attests_and_publishes_nothing(place: Place) -> None:
    _, steps = place.publish(key_pair())
    look = steps["Look before anything is attested or uploaded"]
    assert look.status == 1 and "no target was built" in look.output
    assert [name for name, status in statuses(steps).items() if status is None] == list(GREEN)[1:-1]
    assert steps["A target did not build"].status == 1
    assert place.gh.contents() == {}


@slow
def test_another_branch_publishes_nothing_and_a_whole_run_is_green(place: Place) -> None:
    hand_over(place)
    keys = key_pair()
    _, steps = place.publish({**keys, "github.ref": "refs/heads/other"})
    assert steps == {} and place.gh.calls() == []
    _, done = place.publish({**keys, "needs.build.result": "success"})
    assert statuses(done) == {**GREEN, "A target did not build": None}
