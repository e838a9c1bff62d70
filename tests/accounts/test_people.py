import pytest
from django.contrib.auth import get_user_model

from protoagent.accounts.models import BrowserSession
from protoagent.accounts.services import browsers, credentials, ensure_operator, people
from protoagent.core.context import Scope
from protoagent.core.errors import BadValue, Conflict, InvalidForm, NotFound
from tests.accounts.factories import PASSWORD, browser_of, make_account

pytestmark = pytest.mark.django_db


def test_the_operator_exists_after_the_first_call_and_is_the_same_at_the_second():
    first, second = ensure_operator(), ensure_operator()

    assert first == second
    assert first.username == "operator"
    assert first.is_superuser and first.is_staff and first.is_active
    assert not first.has_usable_password()


def test_ensuring_the_operator_keeps_the_password():
    account = ensure_operator()
    people.set_password(account, PASSWORD)

    assert ensure_operator().check_password(PASSWORD)


def test_the_oldest_active_superuser_is_the_operator():
    make_account("old", is_active=False)
    ada = make_account("ada")
    make_account("bob")

    assert ensure_operator() == ada


def test_a_locked_out_operator_is_let_in_again():
    account = ensure_operator()
    get_user_model().objects.update(is_superuser=False, is_active=False, is_staff=False)

    again = ensure_operator()

    assert again.pk == account.pk
    assert again.is_superuser and again.is_active and again.is_staff


def test_a_new_account_is_a_viewer_without_a_password():
    account = people.create("vera", scope=Scope.VIEWER)

    assert people.actor_for(account).scope is Scope.VIEWER
    assert not account.has_usable_password() and not account.is_staff


@pytest.mark.parametrize("name", ["", "a b", "x" * 151, "a\x00b"])
def test_an_unusable_account_name_is_refused(name):
    with pytest.raises(BadValue):
        people.create(name, scope=Scope.VIEWER)


def test_an_account_name_is_taken_once():
    people.create("vera", scope=Scope.VIEWER)

    with pytest.raises(Conflict):
        people.create("vera", scope=Scope.OPERATOR)


def test_program_scopes_are_no_roles_of_people():
    with pytest.raises(BadValue):
        people.create("vera", scope=Scope.INBOX)


def test_a_deactivated_account_is_signed_out_and_not_found():
    account = make_account()
    client = browser_of(account)

    people.deactivate(account)

    assert not BrowserSession.objects.filter(account=account).exists()
    assert client.get("/account/").status_code == 302
    with pytest.raises(NotFound):
        people.find("ada")


@pytest.mark.parametrize("password", ["", "short", "password", "ada-ada-ada"])
def test_a_weak_password_is_refused_with_the_field(password):
    account = make_account("ada-ada-ada")

    with pytest.raises(InvalidForm) as caught:
        people.set_password(account, password)

    assert set(caught.value.errors) == {"password"}
    account.refresh_from_db()
    assert not account.has_usable_password()


def test_a_session_ends_when_the_password_changes_anywhere():
    account = make_account()
    client = browser_of(account)
    key = client.cookies["protoagent_session"].value
    grant = credentials.from_session(key)
    assert credentials.recheck([grant])[grant] is not None

    people.set_password(account, PASSWORD)

    assert credentials.recheck([grant])[grant] is None
    assert credentials.from_session(key) is None


def test_a_session_belongs_to_its_account_and_shows_no_key():
    account = make_account()
    client = browser_of(account)

    row = browsers.of_account(account).get()

    assert row.session_key == client.cookies["protoagent_session"].value
    assert row.session_key not in f"{row} {browsers.number_of(row)}"


def test_of_two_grants_of_one_session_both_are_judged():
    account = make_account()
    key = browser_of(account).cookies["protoagent_session"].value
    before = credentials.from_session(key)
    get_user_model().objects.update(is_superuser=False)
    after = credentials.from_session(key)

    found = credentials.recheck([before, after])

    assert {actor.scope for actor in found.values()} == {Scope.VIEWER}
    assert len(found) == 2


def test_rechecking_many_sessions_takes_one_query(django_assert_num_queries):
    keys = [
        browser_of(make_account(f"user{number}")).cookies["protoagent_session"].value
        for number in range(12)
    ]
    grants = [credentials.from_session(key) for key in keys]

    with django_assert_num_queries(1):
        found = credentials.recheck(grants)

    assert None not in found.values()
