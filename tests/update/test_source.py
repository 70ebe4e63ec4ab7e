from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from gm.update import poller
from gm.update.source import NoSource, Source, find_source, source_of
from installer.build import BuildInfo
from installer.layout import Home
from installer.state import Outcome
from tests.installer.processes import version_of_current
from tests.update.releases import KEYS, Releases

URL = "https://example.org/latest/manifest.json"


def build(*, url: str | None = URL, development: bool = False) -> BuildInfo:
    return BuildInfo("0" * 64, "0.1.1", "linux-x64", "3.13", 1, {}, url, KEYS, development)


def test_a_release_asks_the_url_that_was_baked_in(home: Home) -> None:
    assert source_of(home, build(), {}, automatic=True) == Source(URL, KEYS, "linux-x64")


@pytest.mark.parametrize(
    ("info", "environment", "said"),
    [
        (build(development=True), {}, "development"),
        (build(url=None), {}, "no update URL"),
        (build(url="ftp://x/y"), {}, "no http or https URL: ftp://x/y"),
        (build(), {"GMNEW_UPDATE_URL": "mirror/m.json"}, "GMNEW_UPDATE_URL is no http"),
        (build(), {"GMNEW_AUTO_UPDATE": "0"}, "GMNEW_AUTO_UPDATE"),
        (build(), {"CI": "1"}, "CI"),
        (build(), {"CI": "true"}, "CI"),
    ],
)
def test_who_does_not_update_says_why(home: Home, info: BuildInfo, environment: dict[str, str], said: str) -> None:
    found = source_of(home, info, environment, automatic=True)
    assert isinstance(found, NoSource) and said in found.reason


@pytest.mark.parametrize("environment", [{"GMNEW_AUTO_UPDATE": "0"}, {"CI": "1"}])
def test_a_person_may_ask_all_the_same(home: Home, environment: dict[str, str]) -> None:
    assert isinstance(source_of(home, build(), environment, automatic=False), Source)


def test_a_mirror_goes_before_the_build_and_the_environment_before_both(home: Home) -> None:
    home.config.write_text(json.dumps({"updateUrl": "https://mirror/m.json", "publicKeys": {"k": "AAAA"}}))
    assert source_of(home, build(), {}, automatic=True) == Source("https://mirror/m.json", {"k": "AAAA"}, "linux-x64")
    found = source_of(home, build(), {"GMNEW_UPDATE_URL": "https://other/m.json"}, automatic=True)
    assert found == Source("https://other/m.json", {"k": "AAAA"}, "linux-x64")


@pytest.mark.parametrize(
    "content",
    ["", "{broken", "[]", "[" * 100_000, '{"updateUrl": 5}', '{"publicKeys": []}', '{"publicKeys": {"k": 1}}'],
)
def test_a_mirror_that_cannot_be_read_is_no_wish_for_the_public_release(home: Home, content: str) -> None:
    home.config.write_text(content)
    found = source_of(home, build(), {}, automatic=True)
    assert isinstance(found, NoSource) and str(home.config) in found.reason


def test_a_checkout_never_updates(home: Home) -> None:
    found = find_source(home, automatic=False)
    assert isinstance(found, NoSource) and "never updates" in found.reason


@pytest.mark.usefixtures("first")
def test_the_poller_installs_what_is_new_and_goes_on_until_cancelled(
    home: Home, releases: Releases, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases.publish(2)
    monkeypatch.setattr(poller, "find_source", lambda home, automatic: source)
    monkeypatch.setattr(poller, "pause_after", lambda state: 0.01)
    told: list[str] = []

    async def play() -> None:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:

                def note(outcome: Outcome) -> None:
                    told.append(outcome.kind)
                    if len(told) == 3:
                        tasks.cancel_scope.cancel()

                tasks.start_soon(lambda: poller.poll(note, first=0.0))

    anyio.run(play)
    assert told == ["updated", "recent", "recent"] and version_of_current(home) == "0.1.2"


@pytest.mark.usefixtures("first")
def test_a_fault_of_the_updater_is_an_outcome_and_no_crash(
    home: Home, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(home: Home, source: Source) -> Outcome:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(poller, "check_once", broken)
    outcome = poller._check(home, source)
    assert outcome.kind == "failed" and "unforeseen" in outcome.message
    assert "unforeseen" in Path(home.log / "update.log").read_text()
