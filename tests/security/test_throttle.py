"""S03: guesses are counted by account and source, whatever else the request carries."""

from __future__ import annotations

import itertools

import pytest

from protoagent.accounts.models import SignIn
from protoagent.accounts.services import codes, ensure_operator
from tests.accounts.factories import PASSWORD, browser_of, make_account, make_token, post_form

pytestmark = pytest.mark.django_db

FIELDS = {
    "token": "x",
    "code": "y",
    "api_key": "z",
    "remember": "1",
    "next": "/page/",
    "timezone": "UTC",
    "username_": "bob",
    "email": "a@b.c",
    "ip_address": "10.1.1.1",
}
HEADERS = (
    {},
    {"authorization": "Bearer wrong"},
    {"x-api-key": "wrong"},
    {"x-forwarded-for": "10.{n}.{n}.1"},
    {"x-real-ip": "10.{n}.{n}.2"},
    {"forwarded": "for=10.{n}.{n}.3"},
    {"client-ip": "10.{n}.{n}.4"},
    {"user-agent": "Browser {n}"},
    {"accept": "application/json"},
    {"hx-request": "true"},
    {"x-requested-with": "XMLHttpRequest"},
    {"cookie": "other={n}"},
)


def extra_fields() -> list[dict[str, str]]:
    """Every combination of up to three extra fields, and all of them."""
    names = list(FIELDS)
    chosen = itertools.chain.from_iterable(itertools.combinations(names, n) for n in range(4))
    return [{name: FIELDS[name] for name in some} for some in [*chosen, tuple(names)]]


def test_a_thousand_guesses_with_every_extra_field_are_ten():
    make_account("ada", password=PASSWORD)
    client = browser_of(None)
    client.get("/login/")
    combinations = itertools.cycle(itertools.product(extra_fields(), HEADERS))

    statuses = []
    for number, (fields, headers) in zip(range(1000), combinations, strict=False):
        filled = {
            name: value.format(n=number % 250)
            for name, value in headers.items()
            if name != "cookie"
        }
        data = {"username": "ada", "password": f"guess {number}", **fields}
        statuses.append(post_form(client, "/login/", data, headers=filled).status_code)

    assert statuses[:10] == [422] * 10
    assert set(statuses[10:]) == {429}
    assert SignIn.objects.count() == 11  # ten refusals, and the lock once


def test_the_right_password_does_not_open_a_lock_and_a_link_does():
    make_account("ada", password=PASSWORD)
    client = browser_of()
    for number in range(12):
        post_form(client, "/login/", {"username": "ada", "password": f"guess {number}"})

    locked = post_form(client, "/login/", {"username": "ada", "password": PASSWORD})
    by_link = post_form(client, f"/login/{codes.issue(ensure_operator())}/")

    assert locked.status_code == 429
    assert locked["Retry-After"] == "900"
    assert "sign-in link" in locked.content.decode()
    assert by_link.status_code == 302


@pytest.mark.parametrize("spelling", [" ada", "ada ", "ada\t", "\uff41da", "a\u200bda", "ADA"])
def test_another_spelling_of_a_name_is_no_new_chance(spelling):
    make_account("ada", password=PASSWORD)
    client = browser_of()
    for number in range(10):
        post_form(client, "/login/", {"username": "ada", "password": f"guess {number}"})

    response = post_form(client, "/login/", {"username": spelling, "password": PASSWORD})

    assert response.status_code in (422, 429)
    assert client.get("/account/").status_code == 302


def test_many_names_from_one_source_are_fifty_guesses():
    client = browser_of()

    statuses = [
        post_form(client, "/login/", {"username": f"name{n}", "password": "guess"}).status_code
        for n in range(70)
    ]

    assert statuses == [422] * 50 + [429] * 20


def test_another_source_and_another_account_are_not_locked_by_it():
    make_account("ada", password=PASSWORD)
    make_account("bob", password=PASSWORD)
    client, elsewhere = browser_of(), browser_of(REMOTE_ADDR="10.0.0.7")
    for number in range(12):
        post_form(client, "/login/", {"username": "ada", "password": f"guess {number}"})

    same_account = post_form(elsewhere, "/login/", {"username": "ada", "password": PASSWORD})
    same_source = post_form(client, "/login/", {"username": "bob", "password": PASSWORD})

    assert same_account.status_code == same_source.status_code == 302


def test_a_forged_forwarding_header_is_no_new_source(settings):
    settings.TRUSTED_PROXIES = ()
    client = browser_of()

    statuses = [
        post_form(
            client,
            "/login/",
            {"username": "ada", "password": "guess"},
            headers={"x-forwarded-for": f"10.0.0.{n}"},
        ).status_code
        for n in range(12)
    ]

    assert statuses == [422] * 10 + [429] * 2


def test_behind_a_trusted_proxy_each_client_is_its_own_source(settings):
    from protoagent.security import hosts

    settings.TRUSTED_PROXIES = hosts.parse_proxies("127.0.0.1")
    client = browser_of()
    make_account("ada", password=PASSWORD)
    for _ in range(12):
        post_form(
            client,
            "/login/",
            {"username": "ada", "password": "guess"},
            headers={"x-forwarded-for": "6.6.6.6, 10.0.0.1"},
        )

    response = post_form(
        client,
        "/login/",
        {"username": "ada", "password": PASSWORD},
        headers={"x-forwarded-for": "10.0.0.1, 10.0.0.2"},
    )

    assert response.status_code == 302


def test_wrong_links_are_throttled_with_every_extra_field_too():
    client = browser_of()

    statuses = [
        post_form(
            client,
            f"/login/{'0' * 28}{number:04}/",
            FIELDS,
            headers={"user-agent": f"Browser {number}", "x-api-key": "x"},
        ).status_code
        for number in range(100)
    ]

    assert statuses == [404] * 30 + [429] * 70


def test_a_guess_with_a_valid_token_beside_it_counts_as_well():
    make_account("ada", password=PASSWORD)
    secret = make_token()
    client = browser_of()

    statuses = [
        post_form(
            client,
            "/login/",
            {"username": "ada", "password": f"guess {n}"},
            headers={"authorization": f"Bearer {secret}"},
        ).status_code
        for n in range(12)
    ]

    assert statuses == [422] * 10 + [429] * 2


def test_what_was_typed_is_stored_nowhere():
    from axes.models import AccessAttempt
    from django.core import serializers

    make_account("ada")
    client = browser_of()
    post_form(
        client,
        "/login/?q=typed-secret-1",
        {"username": "typed-secret-2", "password": "typed-secret-3", "token": "typed-secret-4"},
    )
    post_form(client, "/login/", {"username": "ada", "password": "typed-secret-5"})

    stored = serializers.serialize("json", [*AccessAttempt.objects.all(), *SignIn.objects.all()])

    assert AccessAttempt.objects.count() == 2
    assert "typed-secret" not in stored
