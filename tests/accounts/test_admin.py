import pytest
from django.core.checks import run_checks

from protoagent.accounts.models import ApiToken, BrowserSession, SignIn
from protoagent.accounts.services import browsers, credentials, programs, sign_ins
from protoagent.accounts.services.sign_ins import SignInMethod, SignInOutcome
from protoagent.core import clock
from protoagent.core.context import Scope
from tests.accounts.factories import browser_of, make_account, make_token, post_form

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("model", ["apitoken", "signin", "logincode"])
def test_history_is_read_only_also_for_operators(model):
    ada = make_account()
    client = browser_of(ada)
    make_token("ci")
    sign_ins.record(SignInOutcome.OK, SignInMethod.LINK, account=ada)

    from protoagent.accounts.services import codes

    codes.issue(ada)
    listing = client.get(f"/admin/accounts/{model}/")
    pk = listing.context["cl"].queryset.first().pk

    assert listing.status_code == 200
    assert client.get(f"/admin/accounts/{model}/{pk}/change/").status_code == 200
    for path in ("add/", f"{pk}/delete/", f"{pk}/change/"):
        assert post_form(client, f"/admin/accounts/{model}/{path}").status_code == 403


def test_selected_tokens_are_revoked():
    client = browser_of(make_account())
    secrets = [make_token(f"t{n}") for n in range(3)]
    programs.revoke("t2")
    chosen = ApiToken.objects.filter(name__in=["t0", "t2"]).values_list("pk", flat=True)

    response = post_form(
        client,
        "/admin/accounts/apitoken/",
        {"action": "revoke_selected", "_selected_action": list(chosen)},
        follow=True,
    )

    assert "Tokens revoked: 1." in response.content.decode()
    assert [credentials.from_secret(secret) is not None for secret in secrets] == [
        False,
        True,
        False,
    ]


def test_selected_accounts_are_signed_out_everywhere():
    client = browser_of(make_account())
    bob = make_account("bob")
    his = browser_of(bob)

    post_form(
        client,
        "/admin/auth/user/",
        {"action": "sign_out_everywhere", "_selected_action": [bob.pk]},
    )

    assert his.get("/account/").status_code == 302
    assert client.get("/account/").status_code == 200


def test_a_lock_is_lifted_by_deleting_its_row():
    from axes.models import AccessAttempt

    from protoagent.accounts import throttle

    client = browser_of(make_account())
    for _ in range(12):
        throttle.reserve("ada", "10.0.0.1")
    pk = AccessAttempt.objects.get().pk

    post_form(client, f"/admin/axes/accessattempt/{pk}/delete/", {"post": "yes"})

    assert throttle.reserve("ada", "10.0.0.1")


def test_the_admins_own_doors_lead_to_ours():
    client = browser_of(make_account())

    assert client.get("/admin/password_change/")["Location"] == "/account/"
    assert post_form(client, "/admin/logout/")["Location"] == "/login/"
    assert not BrowserSession.objects.exists()


@pytest.mark.parametrize("count", [3, 30])
def test_the_list_of_sign_ins_takes_the_same_queries_for_few_and_many(
    django_assert_max_num_queries, count
):
    ada = make_account()
    client = browser_of(ada)
    for _ in range(count):
        sign_ins.record(SignInOutcome.OK, SignInMethod.LINK, account=ada)

    with django_assert_max_num_queries(8):
        client.get("/admin/accounts/signin/")


def test_old_sign_ins_and_expired_sessions_can_be_removed():
    from datetime import timedelta

    ada = make_account()
    browser_of(ada)
    kept = sign_ins.record(SignInOutcome.OK, SignInMethod.LINK, account=ada)
    old = sign_ins.record(SignInOutcome.OK, SignInMethod.LINK, account=ada)
    SignIn.objects.filter(pk=old.pk).update(at=clock.now() - timedelta(days=400))
    browser_of(ada)
    BrowserSession.objects.filter(pk=BrowserSession.objects.first().pk).update(
        expire_date=clock.now() - timedelta(days=1)
    )

    assert (sign_ins.prune(), browsers.prune()) == (1, 1)
    assert SignIn.objects.get() == kept
    assert BrowserSession.objects.count() == 1


def test_a_sign_in_outlives_its_account():
    ada = make_account()
    sign_ins.record(SignInOutcome.OK, SignInMethod.LINK, account=ada)

    ada.delete()

    assert str(SignIn.objects.get()) == "ada: signed in"


@pytest.mark.parametrize(("token", "ids"), [("short", ["accounts.W001"]), ("x" * 20, []), ("", [])])
def test_a_token_that_can_be_guessed_is_warned_about(clean_env, token, ids):
    clean_env.setenv("PROTOAGENT_TOKEN", token)

    found = run_checks(tags=["security"])

    assert [message.id for message in found if message.id.startswith("accounts")] == ids
    assert token == "" or all(token not in str(message) for message in found)


def test_scopes_of_rows_are_known_ones():
    from django.db import IntegrityError

    with pytest.raises(IntegrityError):
        ApiToken.objects.create(name="x", scope="root", fingerprint="f")


def test_viewers_are_not_staff_by_default():
    from protoagent.accounts.services import people

    assert not people.create("vera", scope=Scope.VIEWER).is_staff
