from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import time_machine
from axes.models import AccessAttempt
from django.db import connection

from protoagent.accounts import throttle
from protoagent.core import clock
from tests.accounts.factories import make_account


@pytest.mark.django_db
def test_ten_attempts_of_one_account_from_one_source_and_no_more():
    results = [throttle.reserve("ada", "10.0.0.1") for _ in range(25)]

    assert results == [True] * 10 + [False] * 15
    assert AccessAttempt.objects.get().failures_since_start == 10


@pytest.mark.django_db
def test_fifty_attempts_from_one_source_whatever_the_names():
    results = [throttle.reserve(f"name{n}", "10.0.0.1") for n in range(80)]

    assert results == [True] * 50 + [False] * 30
    assert AccessAttempt.objects.count() == 50


@pytest.mark.django_db
def test_a_hundred_attempts_on_one_account_from_however_many_sources():
    results = [throttle.reserve("ada", f"10.0.{n}.1") for n in range(130)]

    assert results == [True] * 100 + [False] * 30


@pytest.mark.django_db
def test_guessing_links_does_not_lock_passwords_nor_the_other_way_round():
    for _ in range(40):
        throttle.reserve(throttle.LINK_ACCOUNT, "10.0.0.1")
    assert throttle.reserve("ada", "10.0.0.1")
    for number in range(80):
        throttle.reserve(f"name{number}", "10.0.0.2")

    assert throttle.reserve(throttle.LINK_ACCOUNT, "10.0.0.2")


@pytest.mark.django_db
def test_a_lock_ends_a_quarter_of_an_hour_after_the_last_counted_attempt():
    for _ in range(30):
        throttle.reserve("ada", "10.0.0.1")

    with time_machine.travel(clock.now() + timedelta(minutes=14), tick=False):
        assert not throttle.reserve("ada", "10.0.0.1")
    with time_machine.travel(clock.now() + timedelta(minutes=16), tick=False):
        assert throttle.reserve("ada", "10.0.0.1")


@pytest.mark.django_db
def test_a_right_password_gives_the_attempts_back():
    for _ in range(9):
        throttle.reserve("ada", "10.0.0.1")

    throttle.give_back("ada", "10.0.0.1")

    assert all(throttle.reserve("ada", "10.0.0.1") for _ in range(10))


@pytest.mark.django_db(transaction=True)
def test_parallel_attempts_cannot_slip_through():
    def attempt(_: int) -> bool:
        try:
            return throttle.reserve("ada", "10.0.0.1")
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        allowed = list(pool.map(attempt, range(60))).count(True)

    assert allowed <= 10
    assert AccessAttempt.objects.get().failures_since_start == 10 or allowed < 10


@pytest.mark.django_db
def test_an_unknown_name_is_not_stored_since_it_may_be_a_password():
    make_account("ada")

    assert throttle.account_key("ada") == "ada"
    assert "hunter2" not in throttle.account_key("hunter2")
    assert throttle.account_key("hunter2") == throttle.account_key("hunter2")


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", "0.0.0.0"),
        (None, "0.0.0.0"),
        ("unknown", "0.0.0.0"),
    ],
)
def test_a_source_is_what_one_guesser_has(address, source):
    assert throttle.source_of(address) == source
