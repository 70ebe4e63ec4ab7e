from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gm.update.check import PERIOD_S, CheckOptions, check_once, pause_after
from gm.update.source import Source
from installer.control import give_up, pin, roll_back, unpin
from installer.layout import Home
from installer.local import install_local
from installer.state import State, read_state, write_state
from tests.installer.processes import version_of_current
from tests.update.conftest import ASKED
from tests.update.releases import KEYS, PRIVATE, Releases
from tests.update.server import Server

pytestmark = pytest.mark.usefixtures("first")


def test_a_newer_build_is_installed_and_then_nothing_is_asked_for(
    home: Home, releases: Releases, server: Server, source: Source
) -> None:
    info = releases.publish(2)
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "updated", outcome
    assert version_of_current(home) == "0.1.2" and read_state(home).serial == 2
    assert check_once(home, source, ASKED).kind == "unchanged"
    seen = server.requests("/manifest.json")[-1]
    assert (seen.status, seen.body_bytes) == (304, 0)
    assert seen.request_bytes < 1000 and seen.response_bytes < 1000
    assert len(server.requests(f"/gmnew-0.1.2-{info.target}.tar.gz")) == 1
    assert list(home.staging.iterdir()) == []


def test_unchanged_check_through_a_redirect_is_two_hops_without_a_body(
    home: Home, releases: Releases, server: Server, source: Source
) -> None:
    releases.publish(2)
    moved = replace(source, url=f"{server.url}/latest/manifest.json")
    for _ in range(2):
        server.order("/latest/manifest.json", ("redirect", "/manifest.json"))
    # `file` is resolved against the URL that was asked, not the one redirected to
    (releases.root / "latest").mkdir()
    for archive in releases.root.glob("*.tar.gz"):
        archive.rename(releases.root / "latest" / archive.name)
    assert check_once(home, moved, ASKED).kind == "updated"
    server.seen.clear()
    assert check_once(home, moved, ASKED).kind == "unchanged"
    assert [(seen.status, seen.body_bytes) for seen in server.seen] == [(302, 0), (304, 0)]
    assert all(seen.request_bytes < 1000 and seen.response_bytes < 1000 for seen in server.seen)
    assert list(read_state(home).etags) == [moved.url]


def test_a_push_that_changes_no_bundled_file_is_no_download(
    home: Home, releases: Releases, server: Server, source: Source
) -> None:
    folder = releases.build(2)
    releases.announce(releases.entry(folder))
    check_once(home, source, ASKED)
    releases.announce(replace(releases.entry(folder), serial=3), serial=3)
    server.seen.clear()
    assert check_once(home, source, ASKED).kind == "current"
    assert [seen.path for seen in server.seen] == ["/manifest.json"]
    assert read_state(home).serial == 3


def test_first_check_after_installing_the_newest_build_is_no_download(
    home: Home, releases: Releases, server: Server, source: Source
) -> None:
    folder = releases.build(2)
    releases.announce(releases.entry(folder))
    install_local(home, folder)
    assert check_once(home, source, ASKED).kind == "current"
    assert [seen.path for seen in server.seen] == ["/manifest.json"]


def test_tell_only_changes_nothing(home: Home, releases: Releases, server: Server, source: Source) -> None:
    releases.publish(2)
    outcome = check_once(home, source, CheckOptions(asked=True, tell_only=True))
    assert outcome.kind == "available" and "0.1.2" in outcome.message
    assert version_of_current(home) == "0.1.1" and len(server.seen) == 1


@pytest.mark.parametrize(
    "fault",
    [404, 500, 503, 429, 204, ("body", b"<html>sign in</html>"), ("body", b"[]"), ("body", b"{}"), ("cut", 20)],
    ids=str,
)
def test_any_other_answer_is_no_news_and_is_tried_again(
    home: Home, releases: Releases, server: Server, source: Source, fault: object
) -> None:
    releases.publish(2)
    server.order("/manifest.json", fault)
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "no-news", outcome
    state = read_state(home)
    assert state.etags == {} and state.failures == 1 and version_of_current(home) == "0.1.1"
    assert "no-news" in (home.log / "update.log").read_text()
    assert check_once(home, source, ASKED).kind == "updated"
    assert read_state(home).failures == 0


def test_a_server_that_is_gone_is_no_news_with_a_growing_pause(home: Home) -> None:
    gone = Source("http://127.0.0.1:9/manifest.json", KEYS, "x")
    pauses = []
    for _ in range(6):
        assert check_once(home, gone, ASKED).kind == "no-news"
        pauses.append(pause_after(read_state(home)))
    assert pauses == [1800.0, 3600.0, 7200.0, 7200.0, 7200.0, 7200.0]


def tamper(releases: Releases, change: dict[str, object]) -> None:
    content = json.loads((releases.root / "manifest.json").read_text())
    content.update(change)
    (releases.root / "manifest.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    "change",
    [
        {"serial": 99},
        {"signature": None},
        {"signature": {"algorithm": "ed25519", "key": "2026-a", "value": "AAAA"}},
        {"signature": {"algorithm": "ed25519", "key": "2026-a", "value": "%%%"}},
        {"signature": {"algorithm": "ed25519", "key": "stranger", "value": "AAAA"}},
        {"signature": {"algorithm": "none", "key": "2026-a", "value": "AAAA"}},
        {"extra": 1},
        {"schema": 2},
    ],
    ids=str,
)
def test_a_manifest_that_was_tampered_with_is_no_news(
    home: Home, releases: Releases, source: Source, change: dict[str, object]
) -> None:
    releases.publish(2)
    tamper(releases, change)
    assert check_once(home, source, ASKED).kind == "no-news"
    assert version_of_current(home) == "0.1.1" and read_state(home).etags == {}


def test_a_second_trusted_key_may_sign(home: Home, releases: Releases, source: Source) -> None:
    from gm.update.signature import new_key, sign

    private, public = new_key()
    releases.publish(2)
    content = json.loads((releases.root / "manifest.json").read_text())
    (releases.root / "manifest.json").write_text(json.dumps(sign(content, "2027-a", private)))
    assert check_once(home, source, ASKED).kind == "no-news"
    both = replace(source, keys={**KEYS, "2027-a": public})
    assert check_once(home, both, ASKED).kind == "updated"
    assert private != PRIVATE


def test_a_build_without_keys_takes_unsigned_manifests_and_remembers_that(
    home: Home, releases: Releases, source: Source
) -> None:
    releases.publish(2, signed=False)
    assert check_once(home, source, ASKED).kind == "no-news"
    assert check_once(home, replace(source, keys={}), ASKED).kind == "updated"
    assert read_state(home).unsigned


@pytest.mark.parametrize("name", ["../evil.tar.gz", "/evil.tar.gz", "http://evil/x", "a/b.tar.gz", "..", ""])
def test_an_archive_name_that_leads_elsewhere_is_refused(
    home: Home, releases: Releases, source: Source, name: str
) -> None:
    releases.announce(replace(releases.entry(releases.build(2)), file=name))
    assert check_once(home, source, ASKED).kind == "no-news"


def test_a_lower_serial_is_refused_unless_allowed(home: Home, releases: Releases, source: Source) -> None:
    old = releases.entry(releases.build(2))
    releases.publish(3)
    check_once(home, source, ASKED)
    releases.announce(old)
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "refused" and "lower" in outcome.message and version_of_current(home) == "0.1.3"
    assert check_once(home, source, CheckOptions(asked=True, allow_downgrade=True)).kind == "updated"
    assert version_of_current(home) == "0.1.2"


def test_a_local_install_of_something_newer_is_not_taken_back(home: Home, releases: Releases, source: Source) -> None:
    releases.publish(2)
    install_local(home, releases.build(5))
    assert check_once(home, source, ASKED).kind == "refused" and version_of_current(home) == "0.1.5"


def test_a_build_that_fails_its_selfcheck_is_tried_once_and_not_again(
    home: Home, releases: Releases, server: Server, source: Source
) -> None:
    info = releases.publish(2, selfcheck="exit 9")
    archive = f"/gmnew-0.1.2-{info.target}.tar.gz"
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "failed" and "exit status 9" in outcome.message
    assert version_of_current(home) == "0.1.1" and list(home.staging.iterdir()) == []
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "refused" and "bad" in outcome.message
    assert len(server.requests(archive)) == 1
    releases.publish(3)
    assert check_once(home, source, ASKED).kind == "updated"


def test_a_bad_build_is_tried_again_after_seven_days(home: Home, releases: Releases, source: Source) -> None:
    info = releases.publish(2)
    write_state(home, State().with_bad(info.build, "crashed", now=time.time() - 7.1 * 86_400))
    assert check_once(home, source, ASKED).kind == "updated"


def test_rollback_holds_until_a_newer_serial_appears(home: Home, releases: Releases, source: Source) -> None:
    releases.publish(2)
    check_once(home, source, ASKED)
    left, now = roll_back(home)
    assert (left.version, now.version) == ("0.1.2", "0.1.1") and version_of_current(home) == "0.1.1"
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "refused" and "rollback" in outcome.message
    releases.publish(3)
    assert check_once(home, source, ASKED).kind == "updated"
    assert version_of_current(home) == "0.1.3" and read_state(home).hold is None


def test_pin_holds_until_unpinned(home: Home, releases: Releases, source: Source) -> None:
    releases.publish(2)
    check_once(home, source, ASKED)
    assert pin(home, "0.1.1").version == "0.1.1"
    releases.publish(3)
    assert check_once(home, source, ASKED).kind == "refused" and version_of_current(home) == "0.1.1"
    assert unpin(home) and not unpin(home)
    assert check_once(home, source, ASKED).kind == "updated"


def test_a_relay_gives_a_build_up(home: Home, releases: Releases, source: Source, first: str) -> None:
    releases.publish(2)
    check_once(home, source, ASKED)
    name = os.readlink(home.current).rpartition("/")[2]
    back = give_up(home, name, "its worker died twice")
    assert back is not None and back.name == first and version_of_current(home) == "0.1.1"
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "refused" and "died twice" in outcome.message


def test_checks_that_nobody_asked_for_keep_their_pause(
    home: Home, releases: Releases, server: Server, source: Source
) -> None:
    releases.publish(2)
    assert check_once(home, source).kind == "updated"
    assert check_once(home, source).kind == "recent"
    write_state(home, replace(read_state(home), checked_at=time.time() - PERIOD_S))
    assert check_once(home, source).kind == "unchanged"
    assert len(server.requests("/manifest.json")) == 2


def test_a_manifest_without_this_target_is_told(home: Home, releases: Releases, source: Source) -> None:
    releases.publish(2)
    assert "amiga-68k" in check_once(home, replace(source, target="amiga-68k"), ASKED).message


def test_too_little_space_is_told_before_the_download(
    home: Home, releases: Releases, server: Server, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases.publish(2)
    monkeypatch.setattr("shutil.disk_usage", lambda path: os.terminal_size((0, 0)) and _Usage())
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "failed" and "free space" in outcome.message and len(server.seen) == 1


class _Usage:
    free = 1000


def test_a_home_without_a_current_build_gets_one(home: Home, releases: Releases, source: Source) -> None:
    releases.publish(2)
    home.current.unlink()
    for folder in home.build_folders():
        import shutil

        shutil.rmtree(folder)
    assert check_once(home, source, ASKED).kind == "updated" and version_of_current(home) == "0.1.2"


def test_path_of_the_part_is_gone_after_an_update(home: Home, releases: Releases, source: Source) -> None:
    releases.publish(2)
    check_once(home, source, ASKED)
    assert list(Path(home.root).rglob("*.part")) == []


def test_status_tells_of_holds_bad_builds_and_missing_signatures(
    home: Home, releases: Releases, source: Source
) -> None:
    from gm.cli.status import installation_lines
    from installer.standing import standing

    releases.publish(2, signed=False)
    check_once(home, replace(source, keys={}), ASKED)
    roll_back(home)
    releases.publish(3, selfcheck="exit 9", signed=False)
    check_once(home, replace(source, keys={}), ASKED)
    text = "\n".join(installation_lines(standing(home)))
    assert "build      0.1.1-" in text and "held by a rollback" in text and "not signed" in text and "bad build" in text
