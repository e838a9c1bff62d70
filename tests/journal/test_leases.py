"""Leases of dead processes end at once; those of living or unknown ones run their time."""

from __future__ import annotations

import os
import socket
import subprocess
from datetime import timedelta

import pytest

from protoagent.core import clock
from protoagent.journal.services import leases, processes
from tests.factories import make_turn

pytestmark = pytest.mark.django_db
HERE = socket.gethostname()[:60]


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def running(holder: str):
    return make_turn(
        status="running", holder=holder, lease_until=clock.now() + timedelta(minutes=1)
    )


def has_lease(turn) -> bool:
    turn.refresh_from_db()
    return turn.lease_until > clock.now()


def test_a_dead_relative_loses_its_lease(dead_pid):
    turn = running(f"{HERE}:{dead_pid}:{processes.BOOT_ID}")

    assert leases.end_of_dead_relatives() == 1
    assert not has_lease(turn)


def test_a_living_relative_keeps_its_lease():
    turn = running(f"{HERE}:{os.getpid()}:{processes.BOOT_ID}")

    assert leases.end_of_dead_relatives() == 0
    assert has_lease(turn)


@pytest.mark.parametrize("holder", ["elsewhere:{pid}:{own}", f"{HERE}:{{pid}}:bother"])
def test_a_process_of_another_machine_or_family_is_not_judged(dead_pid, holder):
    turn = running(holder.format(pid=dead_pid, own=processes.BOOT_ID))

    assert leases.end_of_dead_relatives() == 0
    assert has_lease(turn)


def test_a_family_that_is_gone_loses_all_its_leases():
    gone, other = running("a:1:bgone"), running("a:2:bother")

    assert leases.end_of_boot("bgone") == 1
    assert (has_lease(gone), has_lease(other)) == (False, True)


def test_without_an_earlier_family_nothing_ends():
    turn = running("a:1:b")

    assert leases.end_of_boot("") == 0
    assert has_lease(turn)


def test_ended_and_waiting_turns_are_left_alone():
    make_turn(status="waiting", holder="a:1:bgone")
    make_turn(status="completed", holder="a:1:bgone")

    assert leases.end_of_boot("bgone") == 0
