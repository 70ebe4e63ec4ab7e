from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gm.errors import GmError
from gm.verbs.call import os_error
from gm.verbs.context import VerbContext
from gm.verbs.registry import verb


@verb(family="test")
async def break_down(ctx: VerbContext) -> dict[str, Any]:
    """Fail in a way that nobody foresaw."""
    raise ZeroDivisionError("a fault")


@verb(family="test")
async def fill(ctx: VerbContext, path: Path) -> dict[str, Any]:
    """Fail as a full disk does."""
    raise OSError(errno.ENOSPC, "No space left on device", str(path))


def test_an_unforeseen_exception_names_the_event_with_its_traceback(call: Any) -> None:
    call.registry.add(break_down)
    with pytest.raises(GmError) as caught:
        call("break_down")
    assert caught.value.code == "internal"
    seq = caught.value.data["seq"]
    assert f"event {seq}" in caught.value.message
    event = call.run.log.event(seq)
    assert event["kind"] == "warning"
    assert "ZeroDivisionError: a fault" in event["traceback"]
    assert "Traceback" not in caught.value.as_text()


def test_an_error_of_the_system_has_a_stable_code_and_names_the_path(call: Any) -> None:
    call.registry.add(fill)
    with pytest.raises(GmError) as caught:
        call("fill", path="a.txt")
    assert caught.value.code == "no_space"
    assert "a.txt" in caught.value.message


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOENT, "not_found"),
        (errno.EACCES, "permission_denied"),
        (errno.EISDIR, "is_a_directory"),
        (errno.ENOTDIR, "not_a_directory"),
        (errno.EROFS, "read_only"),
        (errno.ELOOP, "symlink_loop"),
        (errno.ENAMETOOLONG, "name_too_long"),
        (errno.EIO, "os_error"),
    ],
)
def test_codes_of_system_errors(number: int, code: str) -> None:
    error = os_error(OSError(number, "reason", b"caf\xe9"))
    assert error.code == code
    assert "bytes:caf%E9" in error.message


def test_unknown_verbs_and_wrong_arguments_are_named(call: Any) -> None:
    for arguments, code in (
        ({"path": 3}, "wrong_type"),
        ({}, "missing_parameter"),
        ({"path": "a", "ofset": 1}, "unknown_parameter"),
    ):
        with pytest.raises(GmError) as caught:
            call("read_file", **arguments)
        assert caught.value.code == code
    with pytest.raises(GmError) as caught:
        call("red_file", path="a")
    assert caught.value.code == "unknown_verb"
    assert "read_file" in caught.value.hint


def test_optional_fields_of_records_are_optional_on_the_wire(call: Any) -> None:
    schema = call.registry.get("edit_file").input_schema["properties"]["edits"]
    assert schema["items"]["required"] == ["old", "new"]
    assert "all?: bool" in call.registry.get("edit_file").signature


@pytest.mark.parametrize("verb", ["read_file", "stat_file", "list_dir"])
def test_paths_that_no_system_takes_are_wrong_input(call: Any, verb: str) -> None:
    for path in ("a\ud800b", "~nobody-of-that-name/x", "a\0b", ""):
        with pytest.raises(GmError) as caught:
            call(verb, path=path)
        assert caught.value.code in ("bad_path", "wrong_type")
        caught.value.as_text().encode()


def test_what_may_be_null_in_a_result_is_so_in_its_schema(call: Any) -> None:
    def takes(schema: Any, value: object) -> bool:
        return bool(jsonschema.Draft202012Validator(schema).is_valid(value))

    properties = call.registry.get("write_file").output_schema["properties"]
    assert takes(properties["before"], None)
    assert takes(properties["before"], "sha")
    assert not takes(properties["before"], 3)
    assert not takes(properties["after"], None)
    properties = call.registry.get("run_shell").input_schema["properties"]
    assert takes(properties["env"], {"A": None, "B": "1"})
    assert not takes(properties["env"], {"A": 1})
    assert properties["cwd"]["type"] == "string"
