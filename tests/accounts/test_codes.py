from datetime import timedelta

import pytest
import time_machine

from protoagent.accounts.models import LoginCode
from protoagent.accounts.services import codes
from protoagent.core import clock
from protoagent.core.errors import NotFound, TooMany
from protoagent.security import tokens
from tests.accounts.factories import make_account

HERE = "127.0.0.1"


@pytest.mark.django_db
def test_a_code_signs_its_account_in_once():
    code = codes.issue(make_account("ada"))

    assert codes.redeem(code, source=HERE).username == "ada"

    with pytest.raises(NotFound):
        codes.redeem(code, source=HERE)


@pytest.mark.django_db
def test_looking_at_a_code_does_not_use_it_up():
    code = codes.issue(make_account())

    for _ in range(5):
        codes.peek(code, source=HERE)

    assert codes.redeem(code, source=HERE).username == "ada"


@pytest.mark.django_db
def test_a_code_lives_for_ten_minutes():
    account = make_account()
    with time_machine.travel(clock.now() - timedelta(minutes=10, seconds=1), tick=False):
        old = codes.issue(account)
    with time_machine.travel(clock.now() - timedelta(minutes=9, seconds=50), tick=False):
        young = codes.issue(account)

    with pytest.raises(NotFound):
        codes.redeem(old, source=HERE)
    assert codes.redeem(young, source=HERE) == account


@pytest.mark.django_db
def test_only_the_fingerprint_of_a_code_is_stored():
    code = codes.issue(make_account())

    row = LoginCode.objects.get()

    assert row.fingerprint == tokens.fingerprint(code)
    assert code not in str(vars(row))


@pytest.mark.django_db
def test_a_code_of_a_deactivated_account_is_worthless():
    account = make_account()
    code = codes.issue(account)
    account.is_active = False
    account.save()

    with pytest.raises(NotFound):
        codes.redeem(code, source=HERE)


@pytest.mark.django_db
@pytest.mark.parametrize("code", ["", "x", "../../etc", "0" * 33, "O" * 32, "\x00" * 32, "é" * 32])
def test_what_cannot_be_a_code_is_refused(code):
    with pytest.raises(NotFound):
        codes.redeem(code, source=HERE)


@pytest.mark.django_db
def test_wrong_codes_are_throttled_and_a_right_one_still_works():
    code = codes.issue(make_account())

    refusals = []
    for _ in range(60):
        with pytest.raises((NotFound, TooMany)) as caught:
            codes.redeem(tokens.new_code(), source=HERE)
        refusals.append(type(caught.value))

    assert refusals == [NotFound] * 30 + [TooMany] * 30
    assert codes.redeem(code, source=HERE).username == "ada"


@pytest.mark.django_db
def test_codes_that_expired_a_day_ago_are_removed_by_the_next_one():
    account = make_account()
    with time_machine.travel(clock.now() - timedelta(days=2)):
        codes.issue(account)

    codes.issue(account)

    assert LoginCode.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_twenty_parallel_uses_of_one_code_one_gets_it():
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    code = codes.issue(make_account())

    def use(number: int) -> bool:
        try:
            codes.redeem(code, source=f"10.0.0.{number}")
        except NotFound:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(use, range(20)))

    assert results.count(True) == 1
