import re

import pytest
from django.test import Client

from protoagent.accounts.models import BrowserSession, LoginCode, SignIn
from protoagent.accounts.services import codes, people
from protoagent.core.context import Scope
from tests.accounts.factories import PASSWORD, browser_of, make_account, make_token, post_form

pytestmark = pytest.mark.django_db


def sign_in(client: Client, name: str = "ada", password: str = PASSWORD, **data: str):
    return post_form(client, "/login/", {"username": name, "password": password, **data})


def test_the_sign_in_page_shows_both_ways_in_and_no_inline_code():
    text = browser_of().get("/login/").content.decode()

    assert "protoagent login-link" in text
    assert 'autocomplete="current-password"' in text
    assert "style=" not in text
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert re.findall(r'<label class="field__label" for="(\w+)"', text) == [
        "id_username",
        "id_password",
    ]


def test_a_password_signs_in_with_a_new_session_key_and_leads_on():
    make_account("ada", password=PASSWORD)
    client = browser_of()
    client.get("/login/")

    response = sign_in(client, next="/page/?tab=2")

    assert (response.status_code, response["Location"]) == (302, "/page/?tab=2")
    cookie = response.cookies["protoagent_session"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"
    assert client.get("/page/").json()["name"] == "ada"


def test_the_session_key_of_before_is_worthless_after_signing_in():
    make_account("ada", password=PASSWORD)
    client = browser_of()
    client.cookies["protoagent_session"] = "chosenbytheattacker0000000000000"

    sign_in(client)

    assert client.cookies["protoagent_session"].value != "chosenbytheattacker0000000000000"
    assert BrowserSession.objects.count() == 1


@pytest.mark.parametrize(
    "target",
    [
        "http://attacker.test/",
        "//attacker.test/",
        "/\\attacker.test",
        "\\\\attacker.test",
        "///attacker.test",
        "javascript:alert(1)",
        "/\t/attacker.test",
        "/page/\nSet-Cookie: a=b",
        "https:attacker.test",
        "/login/?next=/login/",
        "/logout/",
        "page/",
        "/" + "a" * 3000,
    ],
)
def test_a_target_outside_this_server_is_ignored(target):
    make_account("ada", password=PASSWORD)

    posted = sign_in(browser_of(), next=target)
    opened = browser_of(make_account("bob")).get("/login/", {"next": target})

    assert posted["Location"] == opened["Location"] == "/"


def test_whoever_is_signed_in_is_led_on():
    response = browser_of(make_account()).get("/login/?next=/page/")

    assert response["Location"] == "/page/"


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("mallory", PASSWORD)])
def test_a_wrong_name_and_a_wrong_password_are_refused_in_the_same_words(name, password):
    make_account("ada", password=PASSWORD)

    response = sign_in(browser_of(), name, password)

    assert response.status_code == 422
    assert "do not belong together" in response.content.decode()
    assert password not in response.content.decode()


def test_blank_fields_are_named_at_the_field():
    response = sign_in(browser_of(), "", "")

    text = response.content.decode()
    assert response.status_code == 422
    assert 'id="id_username_error"' in text and 'aria-invalid="true"' in text


def test_a_name_with_a_nul_or_a_thousand_letters_is_refused():
    for name in ("a\x00b", "a" * 1000):
        assert sign_in(browser_of(), name).status_code == 422


def test_a_deactivated_account_cannot_sign_in():
    make_account("ada", password=PASSWORD, is_active=False)

    assert sign_in(browser_of()).status_code == 422


def test_an_operator_without_a_password_cannot_be_guessed():
    from protoagent.accounts.services import ensure_operator

    ensure_operator()

    for password in ("", "!", "None", "operator"):
        assert sign_in(browser_of(), "operator", password or " ").status_code == 422


def test_a_sign_in_form_from_another_site_is_refused():
    make_account("ada", password=PASSWORD)
    client = browser_of()
    client.get("/login/")

    response = client.post("/login/", {"username": "ada", "password": PASSWORD})

    assert response.status_code == 403
    assert "out of date" in response.content.decode()
    assert not SignIn.objects.exists()


def test_a_link_shows_a_button_and_only_the_post_signs_in():
    code = codes.issue(make_account("ada"))
    client = browser_of()

    for _ in range(3):
        page = client.get(f"/login/{code}/")
        assert page.status_code == 200 and "Sign in as ada" in page.content.decode()
    client.head(f"/login/{code}/")
    assert LoginCode.objects.get().used_at is None
    response = post_form(client, f"/login/{code}/")

    assert (response.status_code, response["Location"]) == (302, "/")
    assert client.get("/page/").json()["name"] == "ada"
    assert LoginCode.objects.get().used_at is not None


def test_a_used_link_says_so_to_the_next_one():
    code = codes.issue(make_account("ada"))
    post_form(browser_of(), f"/login/{code}/")

    again = post_form(browser_of(), f"/login/{code}/")
    look = browser_of().get(f"/login/{code}/")

    for response in (again, look):
        assert response.status_code == 404
        assert "This link does not work" in response.content.decode()
        assert "ada" not in response.content.decode().lower().replace("readable", "")


def test_a_link_from_another_site_cannot_sign_a_browser_in():
    code = codes.issue(make_account("mallory"))

    response = browser_of().post(f"/login/{code}/")

    assert response.status_code == 403
    assert LoginCode.objects.get().used_at is None


@pytest.mark.parametrize("code", ["x", "..", "%2e%2e", "a" * 300, "%00", "ö"])
def test_a_nonsense_link_is_404(code):
    assert browser_of().get(f"/login/{code}/").status_code == 404


def test_the_time_zone_of_the_browser_is_kept_and_used():
    make_account("ada", password=PASSWORD)
    client = browser_of()

    sign_in(client, timezone="Europe/Berlin")

    assert client.get("/zone/").content == b"Europe/Berlin"


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../../etc/passwd", "\x00", "a" * 5000])
def test_what_is_no_time_zone_is_ignored(zone):
    make_account("ada", password=PASSWORD)
    client = browser_of()

    assert sign_in(client, timezone=zone).status_code == 302
    assert client.get("/zone/").content == b"UTC"


def test_one_browsers_zone_is_not_the_next_ones():
    make_account("ada", password=PASSWORD)
    berlin, other = browser_of(), browser_of(make_account("bob"))
    sign_in(berlin, timezone="Europe/Berlin")
    berlin.get("/zone/")

    assert other.get("/zone/").content == b"UTC"


def test_signing_out_is_a_post_and_ends_the_session():
    client = browser_of(make_account())

    assert client.get("/logout/").status_code == 405
    response = post_form(client, "/logout/")

    assert response["Location"] == "/login/"
    assert not BrowserSession.objects.exists()
    assert client.get("/page/").status_code == 302


def test_signing_out_needs_the_csrf_token():
    client = browser_of(make_account())

    assert client.post("/logout/").status_code == 403
    assert BrowserSession.objects.count() == 1


def test_attempts_are_on_record_with_who_where_how_and_how_it_ended():
    make_account("ada", password=PASSWORD)
    client = browser_of()
    sign_in(client, "ada", "wrong")
    sign_in(client, "hunter2", "ada")
    client.get("/login/", headers={"user-agent": "Test Browser"})
    post_form(
        client,
        "/login/",
        {"username": "ada", "password": PASSWORD},
        headers={"user-agent": "Test Browser"},
    )
    post_form(browser_of(), f"/login/{codes.issue(people.find('ada'))}/")

    rows = list(SignIn.objects.order_by("pk").values_list("name", "method", "outcome", "address"))
    assert rows == [
        ("ada", "password", "wrong", "127.0.0.1"),
        ("", "password", "wrong", "127.0.0.1"),
        ("ada", "password", "ok", "127.0.0.1"),
        ("ada", "link", "ok", "127.0.0.1"),
    ]
    assert SignIn.objects.filter(user_agent="Test Browser").count() == 1


def test_the_admins_own_sign_in_leads_to_ours():
    client = browser_of()

    response = client.get("/admin/login/?next=/admin/auth/user/")
    index = client.get("/admin/", follow=True)

    assert response["Location"] == "/login/?next=%2Fadmin%2Fauth%2Fuser%2F"
    assert index.redirect_chain[-1][0].startswith("/login/?next=%2Fadmin%2F")
    assert b"Without a password" in index.content


def test_the_admin_is_open_to_the_account_behind_the_link():
    client = browser_of()
    from protoagent.accounts.services import ensure_operator

    post_form(client, f"/login/{codes.issue(ensure_operator())}/")

    assert client.get("/admin/").status_code == 200


def test_a_viewer_is_refused_by_the_admin_and_not_sent_in_circles():
    client = browser_of(make_account("vera", scope=Scope.VIEWER))

    response = client.get("/admin/", follow=True)

    assert response.status_code == 403
    assert len(response.redirect_chain) <= 1


def test_a_token_does_not_reach_the_sign_in_form_as_an_account():
    secret = make_token()
    client = Client(headers={"accept": "text/html", "authorization": f"Bearer {secret}"})

    response = client.get("/login/?next=/page/")

    assert response.status_code == 200
