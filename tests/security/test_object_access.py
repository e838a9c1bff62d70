"""S22: what belongs to one account is out of reach of another, and numbers cannot be guessed."""

from __future__ import annotations

import pytest

from protoagent.accounts.models import BrowserSession
from protoagent.accounts.services import browsers, codes
from protoagent.core.context import Scope
from tests.accounts.factories import browser_of, make_account, make_token, post_form, program_with

pytestmark = pytest.mark.django_db

ROLES = (Scope.OPERATOR, Scope.VIEWER)


@pytest.mark.parametrize("role", ROLES)
def test_nobody_ends_another_accounts_session_from_the_account_page(role):
    ada, mallory = make_account("ada"), make_account("mallory", scope=role)
    hers = browser_of(ada)
    number = browsers.number_of(browsers.of_account(ada).get())

    response = post_form(browser_of(mallory), f"/account/sessions/{number}/end/")

    assert response.status_code == 404
    assert hers.get("/account/").status_code == 200


@pytest.mark.parametrize("role", ROLES)
def test_nobody_sees_another_accounts_sessions_or_sign_ins(role):
    ada, mallory = make_account("ada"), make_account("mallory", scope=role)
    hers = browser_of()
    hers.get("/login/", headers={"user-agent": "Adas-Browser/7"})
    post_form(hers, f"/login/{codes.issue(ada)}/", headers={"user-agent": "Adas-Browser/7"})

    assert "Adas-Browser/7" in hers.get("/account/").content.decode()
    assert "Adas-Browser/7" not in browser_of(mallory).get("/account/").content.decode()


def test_a_viewer_changes_no_password_but_its_own():
    ada, vera = make_account("ada"), make_account("vera", scope=Scope.VIEWER)

    post_form(
        browser_of(vera),
        "/account/password/",
        {"password": "another long sentence", "username": "ada", "account": ada.pk, "user": ada.pk},
    )

    ada.refresh_from_db()
    vera.refresh_from_db()
    assert not ada.has_usable_password()
    assert vera.check_password("another long sentence")


def test_session_numbers_say_nothing_about_keys_and_cannot_be_counted_up():
    account = make_account()
    keys = [browser_of(account).cookies["protoagent_session"].value for _ in range(5)]

    numbers = [browsers.number_of(row) for row in BrowserSession.objects.all()]

    assert len(set(numbers)) == 5 and all(len(number) == 16 for number in numbers)
    assert not any(number in key or key in number for number in numbers for key in keys)


@pytest.mark.parametrize(
    "path",
    [
        "/admin/",
        "/admin/auth/user/",
        "/admin/accounts/apitoken/",
        "/admin/accounts/signin/",
        "/admin/accounts/logincode/",
        "/admin/axes/accessattempt/",
    ],
)
def test_the_admin_of_access_is_for_operators(path):
    viewer = browser_of(make_account("vera", scope=Scope.VIEWER))
    token = program_with(make_token())

    assert browser_of(make_account()).get(path).status_code == 200
    assert viewer.get(path, follow=True).status_code == 403
    assert token.get(path).status_code == 403


def test_the_admin_shows_no_fingerprint_and_no_session_key():
    ada = make_account()
    client = browser_of(ada)
    make_token("ci")
    codes.issue(ada)
    from protoagent.accounts.models import ApiToken, LoginCode

    secrets = [
        ApiToken.objects.get().fingerprint,
        LoginCode.objects.get().fingerprint,
        client.cookies["protoagent_session"].value,
    ]
    pages = [
        client.get(path).content.decode()
        for path in (
            "/admin/accounts/apitoken/",
            f"/admin/accounts/apitoken/{ApiToken.objects.get().pk}/change/",
            "/admin/accounts/logincode/",
            f"/admin/accounts/logincode/{LoginCode.objects.get().pk}/change/",
            f"/admin/auth/user/{ada.pk}/change/",
        )
    ]

    assert not any(secret in page for secret in secrets for page in pages)
