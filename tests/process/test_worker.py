"""The worker role's guard: which dead queue process is replaced, and which ends the role."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from protoagent.server.worker import BROKEN, Guard


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A guard without processes, which counts what it would start."""
    guard = Guard.__new__(Guard)
    guard.reincarnations = 0
    guard.pool = []
    guard.started = []
    for name in ("worker", "pusher", "monitor"):
        setattr(guard, name, None)
        monkeypatch.setattr(guard, f"spawn_{name}", lambda name=name: guard.started.append(name))
    monkeypatch.setattr("django_q.cluster.db.connections.close_all", lambda: None)
    return guard


def process(exitcode: int | None, timer: float | None = None) -> Any:
    return SimpleNamespace(
        name="p",
        pid=1,
        exitcode=exitcode,
        timer=SimpleNamespace(value=timer),
        terminate=lambda: None,
    )


def test_a_pusher_that_gave_up_on_the_database_is_replaced_alone(guard):
    guard.pusher = process(exitcode=0)

    guard.reincarnate(guard.pusher)

    assert guard.started == ["pusher"]


@pytest.mark.parametrize("timer", [-2, 0])
def test_a_worker_that_is_recycled_or_out_of_time_is_replaced_alone(guard, timer):
    guard.pool = [process(exitcode=None, timer=timer)]

    guard.reincarnate(guard.pool[0])

    assert guard.started == ["worker"]


@pytest.mark.parametrize("role", ["pusher", "monitor"])
def test_a_killed_process_ends_the_whole_role(guard, role):
    setattr(guard, role, process(exitcode=-9))

    with pytest.raises(SystemExit) as ended:
        guard.reincarnate(getattr(guard, role))

    assert ended.value.code == BROKEN
    assert guard.started == []


def test_a_killed_worker_ends_the_whole_role(guard):
    guard.pool = [process(exitcode=-9, timer=-1)]

    with pytest.raises(SystemExit) as ended:
        guard.reincarnate(guard.pool[0])

    assert ended.value.code == BROKEN
