import pytest

from protoagent.accounts.models import BrowserSession
from protoagent.accounts.services import browsers
from protoagent.core.context import Scope
from tests.accounts.factories import PASSWORD, browser_of, make_account, post_form

pytestmark = pytest.mark.django_db
NEW = "another long sentence"


def change(client, **data):
    return post_form(client, "/account/password/", data)


def test_the_first_password_needs_no_old_one():
    account = make_account()
    client = browser_of(account)
    assert "Current password" not in client.get("/account/").content.decode()

    response = change(client, password=NEW)

    account.refresh_from_db()
    assert response["Location"] == "/account/"
    assert account.check_password(NEW)
    assert "Password changed" in client.get("/account/").content.decode()


def test_a_password_is_changed_only_with_the_old_one():
    account = make_account(password=PASSWORD)
    client = browser_of(account)

    refused = change(client, current="wrong", password=NEW)
    missing = change(client, password=NEW)
    accepted = change(client, current=PASSWORD, password=NEW)

    assert (refused.status_code, missing.status_code, accepted.status_code) == (422, 422, 302)
    assert "not the current password" in refused.content.decode()


def test_guessing_the_old_password_is_throttled():
    client = browser_of(make_account(password=PASSWORD))

    statuses = [change(client, current=f"guess {n}", password=NEW).status_code for n in range(15)]

    assert statuses == [422] * 10 + [429] * 5
    assert change(client, current=PASSWORD, password=NEW).status_code == 429


def test_right_old_passwords_are_not_counted():
    account = make_account(password=PASSWORD)
    client = browser_of(account)

    statuses = [change(client, current=PASSWORD, password=PASSWORD).status_code for _ in range(15)]

    assert statuses == [302] * 15


def test_a_weak_new_password_is_named_at_the_field():
    response = change(browser_of(make_account()), password="short")

    assert response.status_code == 422
    assert 'id="id_password_error"' in response.content.decode()


def test_a_changed_password_signs_other_browsers_out_and_keeps_this_one():
    account = make_account()
    here, there = browser_of(account), browser_of(account)

    change(here, password=NEW)

    assert here.get("/page/").status_code == 200
    assert there.get("/page/").status_code == 302
    assert BrowserSession.objects.count() == 1


def test_own_sessions_are_listed_without_their_keys():
    account = make_account()
    here, there = browser_of(account), browser_of(account)
    browser_of(make_account("bob"))

    text = here.get("/account/").content.decode()

    assert text.count("this browser") == 1
    assert text.count("/account/sessions/") == 2  # the other one, and everywhere
    for client in (here, there):
        assert client.cookies["protoagent_session"].value not in text


def test_one_session_can_be_ended():
    account = make_account()
    here, there = browser_of(account), browser_of(account)
    other = browsers.of_account(account).exclude(
        session_key=here.cookies["protoagent_session"].value
    )

    response = post_form(here, f"/account/sessions/{browsers.number_of(other.get())}/end/")

    assert response["Location"] == "/account/"
    assert there.get("/page/").status_code == 302
    assert here.get("/page/").status_code == 200


def test_signing_out_everywhere_includes_here():
    account = make_account()
    here, there, bob = browser_of(account), browser_of(account), browser_of(make_account("bob"))

    response = post_form(here, "/account/sessions/end/")

    assert response["Location"] == "/login/"
    assert here.get("/page/").status_code == there.get("/page/").status_code == 302
    assert bob.get("/page/").status_code == 200


def test_a_viewer_looks_after_its_own_account():
    vera = make_account("vera", scope=Scope.VIEWER)
    client = browser_of(vera)

    assert client.get("/account/").status_code == 200
    assert change(client, password=NEW).status_code == 302
    assert post_form(client, "/logout/").status_code == 302


@pytest.mark.parametrize("count", [3, 30])
def test_the_page_takes_the_same_queries_for_few_and_many_sessions(
    django_assert_max_num_queries, count
):
    account = make_account()
    client = browser_of(account)
    for _ in range(count):
        browser_of(account)

    with django_assert_max_num_queries(4):
        client.get("/account/")


@pytest.mark.parametrize(
    "path", ["/account/password/", "/account/sessions/end/", "/account/sessions/x/end/"]
)
def test_nothing_changes_on_a_get(path):
    client = browser_of(make_account())

    assert client.get(path).status_code == 405
    assert client.get("/page/").status_code == 200


CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/150.0.0.0 Safari/537.36"


@pytest.mark.parametrize(
    ("user_agent", "label"),
    [
        (CHROME, "Chrome on Linux"),
        (f"{CHROME} Edg/150.0", "Edge on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko Firefox/140.0", "Firefox on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Safari/604.1", "Safari on iPhone"),
        ("curl/8.9", "curl/8.9"),
        ("", "Unknown browser"),
    ],
)
def test_a_browser_is_named_as_people_call_it(user_agent, label):
    assert browsers.label(user_agent) == label
