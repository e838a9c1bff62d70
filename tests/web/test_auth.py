import pytest
from django.test import Client

from protoagent.accounts.models import ApiToken, BrowserSession
from protoagent.accounts.services import programs
from protoagent.core import clock
from protoagent.core.context import Scope
from protoagent.core.errors import Unauthenticated
from protoagent.web import auth
from tests.accounts.factories import browser_of, make_account, make_token, post_form, program_with

pytestmark = pytest.mark.django_db


def test_a_bearer_token_is_an_actor_and_no_account():
    response = program_with(make_token("ci")).get("/api/thing")

    assert response.json() == {"name": "token:ci", "scope": "operator", "user": ""}


def test_an_api_key_header_is_as_good_as_a_bearer():
    client = Client(headers={"x-api-key": make_token("ci")})

    assert client.get("/api/thing").json()["name"] == "token:ci"


def test_the_token_of_the_environment_opens_the_api(clean_env):
    clean_env.setenv("PROTOAGENT_TOKEN", "from-the-environment")

    assert program_with("from-the-environment").get("/api/thing").status_code == 200
    assert program_with("from-the-environmenT").get("/api/thing").status_code == 401


def test_a_session_is_an_actor_with_the_role_of_its_account():
    response = browser_of(make_account("vera", scope=Scope.VIEWER)).get("/page/")

    assert response.json() == {"name": "vera", "scope": "viewer", "user": "vera"}


@pytest.mark.parametrize("path", ["/page/", "/api/thing", "/", "/nothing/", "/static", "/healthz/"])
def test_programs_without_a_credential_get_401_with_a_detail(path):
    response = Client().get(path)

    assert response.status_code == 401
    assert set(response.json()) == {"detail"}
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_a_page_load_is_sent_to_the_sign_in_page_and_back():
    response = browser_of().get("/page/?tab=2&x=%C3%A4")

    assert response.status_code == 302
    assert response["Location"] == "/login/?next=%2Fpage%2F%3Ftab%3D2%26x%3D%25C3%25A4"


def test_an_htmx_request_is_told_where_to_sign_in():
    headers = {"hx-request": "true", "hx-current-url": "http://testserver/chat/s1/?q=a"}

    response = browser_of().get("/page/", headers=headers)

    assert response.status_code == 401
    assert response["HX-Redirect"] == "/login/?next=%2Fchat%2Fs1%2F%3Fq%3Da"
    assert response.content == b""


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize("path", ["/page/", "/api/thing", "/logout/", "/account/password/"])
def test_a_signed_out_write_is_401_and_never_a_csrf_page(method, path):
    response = getattr(browser_of(), method)(path)

    assert response.status_code == 401
    assert set(response.json()) == {"detail"}


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer pa_" + "x" * 43},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "bearer nonsense"},
        {"x-api-key": "nonsense"},
        {"authorization": "Bearer é\udcff".encode("utf-8", "replace").decode("latin-1")},
    ],
)
def test_a_wrong_header_credential_is_refused_although_the_cookie_would_do(headers):
    client = browser_of(make_account())
    assert client.get("/page/").status_code == 200

    assert client.get("/page/", headers=headers).status_code == 401


def test_two_headers_that_disagree_are_refused():
    one, other = make_token("one"), make_token("other")

    both = Client(headers={"authorization": f"Bearer {one}", "x-api-key": other})
    same = Client(headers={"authorization": f"Bearer {one}", "x-api-key": one})

    assert both.get("/api/thing").status_code == 401
    assert same.get("/api/thing").status_code == 200


def test_a_header_of_another_scheme_belongs_to_a_proxy_and_is_ignored():
    client = browser_of(make_account())

    assert client.get("/page/", headers={"authorization": "Basic YTpi"}).status_code == 200
    assert Client().get("/page/", headers={"authorization": "Basic YTpi"}).status_code == 401


def test_a_token_is_not_widened_by_the_cookie_beside_it():
    client = browser_of(make_account("ada"))
    viewer = make_token("v", Scope.VIEWER)

    response = client.get("/page/", headers={"authorization": f"Bearer {viewer}"})
    write = client.post("/page/", headers={"authorization": f"Bearer {viewer}"})

    assert response.json() == {"name": "token:v", "scope": "viewer", "user": ""}
    assert write.status_code == 403


def test_a_token_in_the_address_or_body_is_no_credential():
    secret = make_token("ci")

    for client_call in (
        Client().get(f"/api/thing?token={secret}&access_token={secret}&api_key={secret}"),
        Client().post("/api/thing", {"token": secret, "authorization": f"Bearer {secret}"}),
        Client(headers={"cookie": f"protoagent_session={secret}"}).get("/api/thing"),
    ):
        assert client_call.status_code == 401


def test_csrf_counts_for_cookies_also_where_a_view_is_marked_exempt():
    client = browser_of(make_account())

    without = client.post("/api/thing")
    within = post_form(client, "/api/thing")

    assert without.status_code == 403
    assert without.json()["detail"].startswith("this form is out of date")
    assert within.status_code == 200


def test_csrf_does_not_count_for_header_credentials():
    assert program_with(make_token()).post("/api/thing").status_code == 200


def test_a_viewer_may_read_everything_and_change_nothing():
    vera = browser_of(make_account("vera", scope=Scope.VIEWER))
    token = program_with(make_token("v", Scope.VIEWER))

    assert vera.get("/page/").status_code == token.get("/api/thing").status_code == 200
    for response in (
        post_form(vera, "/page/"),
        token.post("/api/thing"),
        token.put("/api/thing"),
        token.delete("/api/thing"),
        token.generic("TRACE", "/api/thing"),
        token.generic("BREW", "/api/thing"),
    ):
        assert response.status_code == 403


def test_a_view_can_let_viewers_write():
    vera = browser_of(make_account("vera", scope=Scope.VIEWER))

    assert post_form(vera, "/seen/").status_code == 200


@pytest.mark.parametrize("path", ["/operators/", "/operators/async/"])
def test_a_view_can_be_for_operators_only(path):
    vera = make_account("vera", scope=Scope.VIEWER)

    assert browser_of(make_account()).get(path).status_code == 200
    refused = browser_of(vera).get(path)

    assert refused.status_code == 403
    assert "this needs the scope operator" in refused.content.decode().lower()


def test_a_guarded_view_refuses_also_when_no_middleware_stands_before_it(rf):
    from tests.web.urls import operators

    with pytest.raises(Unauthenticated):
        operators(rf.get("/operators/"))


def test_an_inbox_token_reaches_the_inbox_only():
    client = program_with(make_token("i", Scope.INBOX))

    assert client.post("/api/inbox").status_code == 200
    for response in (
        client.get("/api/inbox"),
        client.post("/api/thing"),
        client.get("/page/"),
        client.post("/a2a"),
        client.get("/operators/"),
        client.post("/seen/"),
    ):
        assert response.status_code == 403
        assert "inbox" in response.json()["detail"]


def test_a_federation_token_reaches_a2a_and_v1_only():
    client = program_with(make_token("f", Scope.FEDERATION))

    assert client.post("/a2a").status_code == client.get("/v1/models").status_code == 200
    for path in ("/api/thing", "/v1x", "/page/", "/operators/", "/api/inbox"):
        assert client.post(path).status_code == 403


def test_a_view_that_judges_scopes_itself_is_reached_by_every_caller():
    for scope in Scope:
        response = program_with(make_token(scope.value, scope)).post("/api/rpc")

        assert response.json() == {"scope": scope.value}
    assert Client().post("/api/rpc").status_code == 401


@pytest.mark.parametrize("path", ["/account/", "/admin/", "/logout/"])
def test_a_token_is_no_account(path):
    response = program_with(make_token()).post(path)

    assert response.status_code == 403
    assert "a token has no account" in response.json()["detail"]


def test_public_paths_need_no_query(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert Client().get("/healthz").status_code == 200
        assert program_with("wrong").get("/healthz").status_code == 200


def test_a_session_request_takes_two_queries_and_a_token_request_one(django_assert_num_queries):
    client = browser_of(make_account())
    token = program_with(make_token())
    token.get("/api/thing")

    with django_assert_num_queries(2):
        client.get("/page/")
    with django_assert_num_queries(1):
        token.get("/api/thing")


def test_answers_are_not_kept_by_caches():
    assert browser_of(make_account()).get("/page/")["Cache-Control"] == "no-store"
    assert browser_of().get("/page/")["Cache-Control"] == "no-store"


def test_the_last_use_of_a_session_is_written_once_a_minute():
    from datetime import timedelta

    client = browser_of(make_account())
    old = clock.now() - timedelta(minutes=5)
    BrowserSession.objects.update(last_seen_at=old)

    client.get("/page/")
    seen = BrowserSession.objects.get().last_seen_at
    client.get("/page/")

    assert seen > old
    assert BrowserSession.objects.get().last_seen_at == seen


def test_a_session_lasts_as_long_as_it_is_used():
    from datetime import timedelta

    client = browser_of(make_account())
    soon = clock.now() + timedelta(days=3)
    BrowserSession.objects.update(expire_date=soon, last_seen_at=clock.now() - timedelta(minutes=5))

    response = client.get("/page/")

    assert BrowserSession.objects.get().expire_date > soon + timedelta(days=20)
    assert response.cookies["protoagent_session"]["max-age"] == 30 * 24 * 3600
    assert BrowserSession.objects.get().account is not None


def test_an_expired_session_is_nobody():
    from datetime import timedelta

    client = browser_of(make_account())
    BrowserSession.objects.update(expire_date=clock.now() - timedelta(seconds=1))

    assert client.get("/page/").status_code == 302


def test_a_database_that_cannot_store_the_last_use_fails_nothing(monkeypatch):
    from django.db import OperationalError

    secret = make_token()

    def refuse(*args, **kwargs):
        raise OperationalError("database is locked")

    monkeypatch.setattr("django.db.models.query.QuerySet.update", refuse)

    assert program_with(secret).get("/api/thing").status_code == 200
    assert ApiToken.objects.get().last_used_at is None


def test_a_role_taken_away_counts_from_the_next_request():
    account = make_account()
    client = browser_of(account)
    assert client.get("/operators/").status_code == 200

    account.is_superuser = False
    account.save()

    assert client.get("/operators/").status_code == 403


def test_a_revoked_token_is_refused_by_the_next_request():
    client = program_with(make_token("ci"))
    assert client.get("/api/thing").status_code == 200

    programs.revoke("ci")

    assert client.get("/api/thing").status_code == 401


@pytest.mark.parametrize(
    ("authorization", "api_key", "secret"),
    [
        ("", "", ""),
        ("Bearer a", "", "a"),
        ("bearer  a ", "", "a"),
        ("", " a ", "a"),
        ("Basic a", "b", "b"),
        ("Bearer a", "a", "a"),
    ],
)
def test_the_presented_secret(authorization, api_key, secret):
    assert auth.presented_secret(authorization, api_key) == secret
