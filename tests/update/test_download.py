"""Bad servers: cut, slow, wrong and short bodies; resume; TLS; many updaters at once; kill -9 at every point."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gm.update.check import check_once
from gm.update.source import Source
from installer.build import current_target
from installer.layout import Home
from installer.state import read_state
from tests.installer.builds import member, tar_of
from tests.installer.processes import run, start, version_of_current
from tests.update.conftest import ASKED
from tests.update.releases import KEYS, PUBLIC, Releases
from tests.update.server import Server, make_authority, serve

pytestmark = pytest.mark.usefixtures("first")
DRIVER = "tests.update.driver"
ARCHIVE = f"/gmnew-0.1.2-{current_target()}.tar.gz"


def test_a_cut_download_goes_on_where_it_ended(home: Home, releases: Releases, server: Server, source: Source) -> None:
    releases.publish(2, size=400_000)
    server.order(ARCHIVE, ("cut", 100_000), ("cut", 100_000), 503, ("cut", 0))
    assert check_once(home, source, ASKED).kind == "updated"
    ranges = [seen.headers.get("Range") or seen.headers.get("range") for seen in server.requests(ARCHIVE)]
    assert ranges[0] is None and ranges[1] == "bytes=100000-" and ranges[2] == "bytes=200000-"
    assert version_of_current(home) == "0.1.2"


def test_a_server_without_ranges_starts_over(home: Home, releases: Releases, server: Server, source: Source) -> None:
    releases.publish(2, size=400_000)
    server.order(ARCHIVE, ("cut", 100_000), "no-range")
    assert check_once(home, source, ASKED).kind == "updated"


def test_a_slow_server_is_waited_for(home: Home, releases: Releases, server: Server, source: Source) -> None:
    releases.publish(2)
    server.order("/manifest.json", ("slow", 0.5))
    server.order(ARCHIVE, ("drip", 20_000, 0.05))
    assert check_once(home, source, ASKED).kind == "updated"


def test_a_wrongly_labelled_archive_is_taken_as_its_bytes(
    home: Home, releases: Releases, server: Server, source: Source
) -> None:
    releases.publish(2)
    server.order(ARCHIVE, "gzip")
    assert check_once(home, source, ASKED).kind == "updated"


def test_progress_ends_at_the_size(home: Home, releases: Releases, server: Server, source: Source) -> None:
    releases.publish(2, size=400_000)
    told: list[tuple[int, int]] = []
    check_once(home, source, replace(ASKED, progress=lambda done, whole: told.append((done, whole))))
    assert told[-1][0] == told[-1][1] and told == sorted(told)


@pytest.mark.parametrize("fault", [404, 403, 500, ("cut", 0)], ids=str)
def test_an_archive_that_cannot_be_had_leaves_the_old_build(
    home: Home, releases: Releases, server: Server, source: Source, fault: object
) -> None:
    releases.publish(2)
    server.order(ARCHIVE, *[fault] * 5)
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "failed" and "0.1.2" in outcome.message, outcome
    assert version_of_current(home) == "0.1.1" and read_state(home).etags == {}
    assert list(home.staging.iterdir()) == []
    assert check_once(home, source, ASKED).kind == "updated"


def test_what_was_downloaded_before_the_server_went_away_is_kept(
    home: Home, releases: Releases, server: Server, source: Source
) -> None:
    releases.publish(2, size=400_000)
    server.order(ARCHIVE, ("cut", 150_000), *[503] * 5)
    assert check_once(home, source, ASKED).kind == "failed"
    server.seen.clear()
    assert check_once(home, source, ASKED).kind == "updated"
    assert server.requests(ARCHIVE)[0].headers.get("range", "bytes=150000-") == "bytes=150000-"
    assert server.requests(ARCHIVE)[0].status == 206
    assert list(home.staging.iterdir()) == []


def test_a_wrong_body_of_the_right_size_is_thrown_away(
    home: Home, releases: Releases, server: Server, source: Source
) -> None:
    releases.publish(2)
    size = (releases.root / ARCHIVE[1:]).stat().st_size
    server.order(ARCHIVE, ("body", b"x" * size))
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "failed" and "sha256" in outcome.message and list(home.staging.iterdir()) == []
    assert check_once(home, source, ASKED).kind == "updated"


def test_a_longer_body_is_given_up_at_the_size(home: Home, releases: Releases, server: Server, source: Source) -> None:
    releases.publish(2)
    server.order(ARCHIVE, ("body", b"x" * 5_000_000))
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "failed" and "longer" in outcome.message and list(home.staging.iterdir()) == []


def test_an_archive_that_breaks_a_rule_is_refused(home: Home, releases: Releases, source: Source) -> None:
    entry = releases.entry(releases.build(2))
    bad = tar_of(releases.root / "bad.tar.gz", [(member("gmnew-x/../../evil"), b"x")])
    from installer.build import hash_file

    releases.announce(replace(entry, file="bad.tar.gz", sha256=hash_file(bad), size=bad.stat().st_size))
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "failed" and "`..`" in outcome.message and version_of_current(home) == "0.1.1"


def test_an_archive_with_another_build_inside_is_refused(home: Home, releases: Releases, source: Source) -> None:
    releases.announce(replace(releases.entry(releases.build(2)), build="0" * 64))
    outcome = check_once(home, source, ASKED)
    assert outcome.kind == "failed" and "another build" in outcome.message and version_of_current(home) == "0.1.1"


def test_disk_full_in_the_middle_leaves_the_old_build(home: Home, releases: Releases, source: Source) -> None:
    releases.publish(2, size=3_000_000)
    done = run(source.url, PUBLIC, module=DRIVER, preexec_fn=_limit_file_size)
    assert done.returncode == 0 and done.stdout.startswith("failed"), done
    assert version_of_current(home) == "0.1.1"
    assert run(source.url, PUBLIC, module=DRIVER).stdout.startswith("updated")


def _limit_file_size() -> None:
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))


def test_tls_is_judged_by_the_trust_store(
    home: Home, releases: Releases, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, pair = make_authority(tmp_path_factory.mktemp("tls"))
    releases.publish(2)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with serve(releases.root, pair) as server:
        source = Source(f"{server.url}/manifest.json", KEYS, current_target())
        outcome = check_once(home, source, ASKED)
        assert outcome.kind == "no-news" and "certificate" in outcome.message.lower()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert check_once(home, source, ASKED).kind == "updated"


def test_a_redirect_from_https_to_http_is_no_news(
    home: Home,
    releases: Releases,
    server: Server,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority, pair = make_authority(tmp_path_factory.mktemp("tls"))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    releases.publish(2)
    with serve(releases.root, pair) as secure:
        secure.order("/manifest.json", ("redirect", f"{server.url}/manifest.json"))
        outcome = check_once(home, Source(f"{secure.url}/manifest.json", KEYS, current_target()), ASKED)
    assert outcome.kind == "no-news" and "https to http" in outcome.message and server.seen == []


def test_a_proxy_of_the_user_is_used_and_no_proxy_respected(
    home: Home, releases: Releases, server: Server, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases.publish(2)
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("NO_PROXY", "")
    away = replace(source, url="http://updates.example.invalid/manifest.json")
    assert check_once(home, away, ASKED).kind == "no-news"  # the proxy saw an absolute URL and answered 404
    assert [seen.path for seen in server.seen] == ["http://updates.example.invalid/manifest.json"]
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert check_once(home, source, ASKED).kind == "updated"


def test_eight_updaters_at_once_are_one_download(
    home: Home, releases: Releases, server: Server, source: Source
) -> None:
    releases.publish(2, size=2_000_000)
    server.order(ARCHIVE, ("drip", 200_000, 0.1))
    processes = [start(source.url, PUBLIC, "automatic", module=DRIVER) for _ in range(8)]
    kinds = []
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        kinds.append(out.split()[0])
    assert kinds.count("updated") == 1 and set(kinds) <= {"updated", "busy", "recent"}
    assert len(server.requests(ARCHIVE)) == 1 and len(server.requests("/manifest.json")) == 1
    assert version_of_current(home) == "0.1.2"


UPDATE_POINTS = [
    "lock.taken",
    "repair.begun",
    "update.answered",
    "update.accepted",
    "stage.made",
    "download.begun",
    "download.ended",
    "extract.begun",
    "stage.copied",
    "stage.verified",
    "stage.checked",
    "place.synced",
    "place.renamed",
    "flip.linked:1",
    "flip.linked:2",
    "flip.previous",
    "flip.current",
    "state.written",
    "collect.moved",
]


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
@pytest.mark.parametrize("point", UPDATE_POINTS)
def test_killed_update_leaves_a_running_build_and_the_next_one_succeeds(
    home: Home, releases: Releases, source: Source, point: str, rounds: int
) -> None:
    releases.publish(2)
    assert check_once(home, source, ASKED).kind == "updated"
    for serial in range(3, 3 + rounds):
        releases.publish(serial)
        killed = run(source.url, PUBLIC, module=DRIVER, fault=point)
        assert killed.returncode == -signal.SIGKILL, killed
        assert version_of_current(home) in (f"0.1.{serial - 1}", f"0.1.{serial}")
        done = run(source.url, PUBLIC, module=DRIVER)
        assert done.stdout.split()[0] in ("updated", "current", "unchanged"), done
        assert version_of_current(home) == f"0.1.{serial}"
        assert len(home.build_folders()) <= 4


def test_a_killed_download_is_taken_over(home: Home, releases: Releases, server: Server, source: Source) -> None:
    releases.publish(2, size=3_000_000)
    assert run(source.url, PUBLIC, module=DRIVER, fault="download.begun").returncode == -signal.SIGKILL
    server.seen.clear()
    assert check_once(home, source, ASKED).kind == "updated"
    assert [seen.status for seen in server.requests(ARCHIVE)] == [206]
    assert list(home.staging.iterdir()) == []


def test_a_reader_never_misses_current_while_updates_run(home: Home, releases: Releases, source: Source) -> None:
    stop, missing = threading.Event(), []

    def watch() -> None:
        while not stop.is_set():
            if not (home.current / "gm").exists():
                missing.append(1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for serial in range(2, 8):
            releases.publish(serial)
            assert check_once(home, source, ASKED).kind == "updated"
    finally:
        stop.set()
        watcher.join()
    assert missing == [] and len(home.build_folders()) == 2


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "nonsense://x", "http://[::1"])
def test_a_proxy_that_cannot_be_used_is_named(home: Home, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    found = check_once(home, Source("http://127.0.0.1:9/manifest.json", KEYS, "linux-x64"))
    assert found.kind == "no-news" and "proxy" in found.message


def test_certificates_that_are_none_are_named(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "certs.pem").write_text("nothing")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certs.pem"))
    found = check_once(home, Source("http://127.0.0.1:9/manifest.json", KEYS, "linux-x64"))
    assert found.kind == "no-news" and "certs.pem" in found.message
