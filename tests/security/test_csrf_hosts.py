"""S21: no other site writes through the operator's browser, under whatever name it calls us."""

from __future__ import annotations

import pytest

from protoagent.accounts.models import BrowserSession, SignIn
from protoagent.accounts.services import codes
from protoagent.journal.services import agents
from tests.accounts.factories import PASSWORD, browser_of, make_account, post_form
from tests.security import walk

pytestmark = pytest.mark.django_db

FOREIGN = (
    "http://attacker.test",
    "null",
    "http://testserver:8000",
    "http://testserver.attacker.test",
)


@pytest.fixture(autouse=True)
def _sample_routes(settings):
    settings.ROOT_URLCONF = "tests.web.urls"


@pytest.mark.parametrize("host", ["attacker.test", "attacker.test:7870", "127.0.0.1.nip.io"])
def test_a_name_that_was_rebound_to_loopback_reaches_nothing(host):
    client = browser_of(make_account())

    for path in ("/", "/page/", "/login/", "/healthz", "/api/thing", "/static/css/tokens.css"):
        response = client.get(path, headers={"host": host, "origin": f"http://{host}"})
        assert response.status_code == 400, path


def test_a_rebound_name_is_refused_whatever_forwarding_headers_say():
    client = browser_of(make_account())

    response = client.get(
        "/page/",
        headers={"host": "attacker.test", "x-forwarded-host": "localhost"},
    )

    assert response.status_code == 400
    good_host = client.get("/page/", headers={"x-forwarded-host": "attacker.test"})
    assert good_host.status_code == 200


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_write_with_cookie_and_token_from_a_foreign_origin_is_refused(origin):
    client = browser_of(make_account())

    response = post_form(client, "/page/", headers={"origin": origin})

    assert response.status_code == 403


def test_a_write_with_the_own_origin_is_accepted():
    client = browser_of(make_account())

    assert post_form(client, "/page/", headers={"origin": "http://testserver"}).status_code == 200


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "multipart/form-data"])
def test_a_cross_site_form_without_the_token_is_refused_for_every_content_type(content_type):
    client = browser_of(make_account())

    response = client.generic("POST", "/api/thing", b"{}", content_type=content_type)

    assert response.status_code == 403


def test_an_htmx_write_needs_the_token_too():
    client = browser_of(make_account())
    client.get("/account/")

    without = client.post("/page/", headers={"hx-request": "true"})
    token = client.cookies["protoagent_csrf"].value
    within = client.post("/page/", headers={"hx-request": "true", "x-csrftoken": token})

    assert (without.status_code, within.status_code) == (403, 200)
    assert "<html" not in without.content.decode()


def test_a_foreign_site_cannot_sign_the_operator_in_as_somebody_else():
    mallory = make_account("mallory", password=PASSWORD)
    code = codes.issue(mallory)
    victim = browser_of()

    by_password = victim.post(
        "/login/",
        {"username": "mallory", "password": PASSWORD},
        headers={"origin": "http://attacker.test"},
    )
    by_link = victim.post(f"/login/{code}/", headers={"origin": "http://attacker.test"})

    assert (by_password.status_code, by_link.status_code) == (403, 403)
    assert not BrowserSession.objects.exists() and not SignIn.objects.exists()


def test_cookies_are_kept_from_scripts_and_foreign_sites():
    make_account("ada", password=PASSWORD)
    response = post_form(browser_of(), "/login/", {"username": "ada", "password": PASSWORD})

    session = response.cookies["protoagent_session"]
    assert session["httponly"] and session["samesite"] == "Lax" and session["path"] == "/"
    assert not session["domain"]
    assert response.cookies["protoagent_csrf"]["samesite"] == "Lax"


def test_a_get_changes_nothing_on_any_route(settings):
    settings.ROOT_URLCONF = "protoagent.urls"
    from django.core import serializers
    from django.db import connection

    agents.current()  # there from the start of every instance
    make_account("ada", password=PASSWORD)
    client = browser_of()
    post_form(client, "/login/", {"username": "ada", "password": PASSWORD})
    client.raise_request_exception = False
    writes = []

    def watch(execute, sql, params, many, context):
        if not sql.lstrip().upper().startswith(("SELECT", "SAVEPOINT", "RELEASE", "ROLLBACK")):
            writes.append((path, sql))
        return execute(sql, params, many, context)

    for route in walk.http_routes():
        path = route.path
        with connection.execute_wrapper(watch):
            client.get(path)

    # A wrong sign-in link is counted against guessing, and nothing else is written.
    assert {p for p, sql in writes if "axes_accessattempt" not in sql} == set(), writes
    assert serializers.serialize("json", BrowserSession.objects.all()).count("session_data") == 1
