from __future__ import annotations

import inspect

import pytest

from installer import faults
from tests.installer import test_commands, test_kill, test_register
from tests.update import test_download


def test_every_point_is_killed_at_by_a_test() -> None:
    looped = {name.partition(":")[0] for name in (*test_kill.INSTALL_POINTS, *test_download.UPDATE_POINTS)}
    for module in (test_register, test_commands):
        source = inspect.getsource(module)
        looped |= {name for name in faults.POINTS if f'"{name}"' in source}
    assert looped == set(faults.POINTS)


def test_an_unknown_point_is_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(faults.VARIABLE, "nothing")
    with pytest.raises(KeyError):
        faults.point("no such point")
    faults.point("lock.taken")
