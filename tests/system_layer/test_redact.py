"""No secret reaches the disk, however it is written."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.run.log import Log
from gm.run.verify import verify
from gm.system.redact import Passing, Redactor, excerpts

TOKEN = "ghp_0123456789abcdef"
ODD = 'pa"ss\\wörd\nsecond line'


def everything_on_disk(folder: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_secrets_are_replaced_wherever_they_stand_in_an_event(tmp_path: Path) -> None:
    with Log.open(tmp_path, secrets={"GH_TOKEN": TOKEN, "DB_PASSWORD": ODD, "PIN_KEY": "123456789012"}) as log:
        log.append(
            "action",
            row=f"row {TOKEN}",
            tool="run_code",
            arguments={TOKEN: [f"a {TOKEN} b {TOKEN}"], "bytes": TOKEN.encode(), "binary": b"\xff" + TOKEN.encode()},
            nested=json.dumps({"inner": json.dumps({"password": ODD})}),
            unicode=json.dumps(ODD, ensure_ascii=False),
            windows=ODD.replace("\n", "\r\n"),
            url=f"https://user:{quote(ODD, safe='')}@host/",
            number=123456789012,
            list=[123456789012.0, 5],
            path=Path("x") / TOKEN,
            error=ValueError(TOKEN),
            set={TOKEN},
        )
        event = log.event(1)
        assert event["arguments"]["‹redacted GH_TOKEN›"] == ["a ‹redacted GH_TOKEN› b ‹redacted GH_TOKEN›"]
        assert event["row"] == "row ‹redacted GH_TOKEN›"
        assert event["number"] == "‹redacted PIN_KEY›"
        assert event["path"] == "x/‹redacted GH_TOKEN›"
        assert event["url"] == "https://user:‹redacted DB_PASSWORD›@host/"
        assert event["windows"] == "‹redacted DB_PASSWORD›"
        assert json.loads(json.loads(event["nested"])["inner"]) == {"password": "‹redacted DB_PASSWORD›"}
        assert log.events(row="row ‹redacted GH_TOKEN›").total == 1
    stored = everything_on_disk(tmp_path)
    for word in (TOKEN, "wörd", "w\\u00f6rd", "second line", "123456789012"):
        assert word.encode() not in stored, word
    assert verify(tmp_path).ok


def test_secrets_are_replaced_in_blobs_and_at_their_edges(tmp_path: Path) -> None:
    with Log.open(tmp_path, secrets={"GH_TOKEN": TOKEN}) as log:
        log.append("shell", stdout="x" * 1020 + TOKEN + "y" * 20_000 + TOKEN + "z" * 1015, stderr="")
        sha = log.blobs.put(b"\xff\0" + TOKEN.encode() * 2 + b"\xfe")
        assert log.blobs.get(sha) == b"\xff\0" + "‹redacted GH_TOKEN›".encode() * 2 + b"\xfe"
        spilled = log.event(1)["stdout"]
        assert log.blobs.get(spilled["blob"]).decode().count("‹redacted GH_TOKEN›") == 2
    stored = everything_on_disk(tmp_path)
    assert TOKEN.encode() not in stored and TOKEN[:12].encode() not in stored
    assert verify(tmp_path).ok


def test_overlapping_secrets_leave_no_part_of_either() -> None:
    redactor = Redactor({"A_KEY": "AAAABBBBCCCC", "B_KEY": "BBBBCCCCDDDDEEEE", "SHORT_KEY": "BBBBCCCCDDDD"})
    assert redactor.text("x AAAABBBBCCCCDDDDEEEE y") == "x ‹redacted B_KEY› y"
    assert redactor.text("x BBBBCCCCDDDD y") == "x ‹redacted SHORT_KEY› y"
    assert redactor.text("AAAABBBBCCCCAAAABBBBCCCC") == "‹redacted A_KEY›‹redacted A_KEY›"
    assert redactor.data(b"x AAAABBBBCCCCDDDDEEEE y") == "x ‹redacted B_KEY› y".encode()


def test_of_two_names_with_one_value_the_first_is_shown() -> None:
    assert Redactor({"Z_TOKEN": TOKEN, "A_TOKEN": TOKEN}).text(TOKEN) == "‹redacted A_TOKEN›"


def test_text_without_secrets_is_returned_as_it_is() -> None:
    text = "nothing here"
    assert Redactor({"GH_TOKEN": TOKEN}).text(text) is text


secrets = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=12, max_size=30).filter(
    lambda text: len(text.strip()) >= 12 and "redacted" not in text
)


@settings(max_examples=100, deadline=None)
@given(secrets, st.text(max_size=20), st.text(max_size=20))
def test_no_secret_is_left_in_any_form(secret: str, before: str, after: str) -> None:
    redactor = Redactor({"MY_TOKEN": secret})
    for form in (secret, json.dumps(secret), json.dumps(json.dumps(secret)), quote(secret, safe="")):
        text = before + form + after
        assert redactor.touches(json.dumps(text)) or secret.isdigit()
        shown = redactor.text(text)
        assert secret not in shown and "‹redacted MY_TOKEN›" in shown
        data = redactor.data(text.encode("utf-8", "surrogatepass"))
        assert secret.encode() not in data


def test_bytes_that_come_in_pieces_lose_secrets_that_are_divided_between_two() -> None:
    text = f"a {TOKEN} b {TOKEN[:10]} c {json.dumps(ODD)} d".encode()
    redactor = Redactor({"GH_TOKEN": TOKEN, "DB_PASSWORD": ODD})
    for size in (1, 2, 7, 19, 64):
        passing = Passing(redactor)
        shown = b"".join(passing.take(text[at : at + size]) for at in range(0, len(text), size)) + passing.rest()
        assert shown == redactor.data(text) != text
    assert Passing(redactor).take(b"no secret begins here\n") == b"no secret begins here\n"
    assert Passing(None).take(TOKEN.encode()) == TOKEN.encode()


def test_a_cut_moves_off_the_secret_that_it_would_divide() -> None:
    redactor = Redactor({"A_KEY": "abcdefghijka", "B_KEY": "ijkaXXXXXXXXYYYY"})
    assert redactor.whole_until(b"x abcdefghijk") == 2
    assert redactor.whole_until(b"x abcdefghijka") == 2, "the last letter may begin another one"
    assert redactor.whole_until(b"x abcdefghijka.") == 15
    assert redactor.whole_from(b"bcdefghijka x") == 11
    assert redactor.whole_from(b"nothing x") == 0


@settings(max_examples=100, deadline=None)
@given(secrets, st.text(max_size=20), st.text(max_size=20), st.integers(min_value=1, max_value=60))
def test_no_part_of_a_secret_is_left_beside_a_cut(secret: str, before: str, after: str, cut: int) -> None:
    redactor = Redactor({"MY_TOKEN": secret})
    data = f"{before}{secret}{after}".encode()
    passing = Passing(redactor)
    assert passing.take(data[:cut]) + passing.take(data[cut:]) + passing.rest() == redactor.data(data)


def test_excerpts_are_cut_after_secrets_were_taken_out() -> None:
    text = "x" * 1000 + f"{TOKEN * 3}" + "y" * 1000
    head, tail = excerpts(Redactor({"GH_TOKEN": TOKEN}), text, text, 1024)
    assert TOKEN[:6] not in head and "‹redacted" in head
    assert TOKEN[-6:] not in tail and len(head) == len(tail) == 1024
    assert excerpts(None, text, text, 1024) == (text[:1024], text[-1024:])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x ghp_012345", "x ‹redacted GH_TOKEN›"),
        ("456789abcdef x", "‹redacted GH_TOKEN› x"),
        ("x ghp_012345…\n3456789abcdef x", "x ‹redacted GH_TOKEN›…\n‹redacted GH_TOKEN› x"),
        ("ghp_0123456789abcde\nx", "‹redacted GH_TOKEN›\nx"),
        (f"ghp_0123 {TOKEN} ghp_01234", "ghp_0123 ‹redacted GH_TOKEN› ‹redacted GH_TOKEN›"),
        (r"pa\"ss\\w", "‹redacted DB_PASSWORD›"),
    ],
)
def test_parts_of_secrets_beside_a_cut_are_replaced_in_an_event(tmp_path: Path, text: str, shown: str) -> None:
    redactor = Redactor({"GH_TOKEN": TOKEN, "DB_PASSWORD": ODD})
    assert redactor.shortened(text) == shown
    assert redactor.touches(json.dumps(text))
    with Log.open(tmp_path, secrets={"GH_TOKEN": TOKEN, "DB_PASSWORD": ODD}) as log:
        log.append("action", arguments={"deep": [text]})
        assert log.event(1)["arguments"]["deep"] == [shown]


@pytest.mark.parametrize("text", ["x ghp_012", "9abcdef x", "ghp_0123456 more", "ghp_01234.", "before 456789abcdef"])
def test_a_short_part_and_one_within_a_line_stay(text: str) -> None:
    assert Redactor({"GH_TOKEN": TOKEN}).shortened(text) is text


@settings(max_examples=200, deadline=None)
@given(secrets, st.text(max_size=20), st.text(max_size=20), st.integers(min_value=0, max_value=60))
def test_whatever_cuts_a_text_leaves_no_eight_characters_of_a_secret(
    secret: str, before: str, after: str, cut: int
) -> None:
    redactor = Redactor({"T": secret})
    text = before + secret + after
    pieces = [secret[at : at + 8] for at in range(len(secret) - 7)]
    pieces = [piece for piece in pieces if piece not in before and piece not in after]
    head = redactor.head(text, cut)
    assert text[:cut].startswith(head) and redactor.head(text, 10_000) == text
    for shown in (redactor.shortened(text[:cut]), redactor.shortened(text[cut:]), redactor.text(head)):
        assert [piece for piece in pieces if piece in shown] == []
