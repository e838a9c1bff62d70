import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from protoagent.accounts.models import ApiToken, LoginCode
from protoagent.accounts.services import credentials, people
from protoagent.core.context import Scope
from protoagent.core.errors import BadValue, Conflict, NotFound
from tests.accounts.factories import make_account

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_login_link_prints_one_address_that_signs_the_operator_in(client):
    out, _ = run("login_link")

    match = re.fullmatch(r"http://127\.0\.0\.1:7870(/login/[0-9a-z]{32}/)\n", out)
    assert match
    client.post(match[1])
    assert client.get("/account/", headers={"accept": "text/html"}).status_code == 200


def test_login_link_can_name_an_account_and_a_base():
    vera = make_account("vera", scope=Scope.VIEWER)

    out, _ = run("login_link", "--account", "vera", "--base", "https://agent.lan/")

    assert out.startswith("https://agent.lan/login/")
    assert LoginCode.objects.get().account == vera


@pytest.mark.parametrize("base", ["agent.lan", "ftp://agent.lan", "https://", "https://x/path"])
def test_login_link_refuses_a_base_that_is_no_address(base):
    with pytest.raises(BadValue):
        run("login_link", "--base", base)

    assert not LoginCode.objects.exists()


def test_login_link_for_an_unknown_account_is_refused():
    with pytest.raises(NotFound):
        run("login_link", "--account", "mallory")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_server_on_every_address_is_linked_at_localhost(settings, host):
    settings.HOST, settings.PORT = host, 8000

    out, _ = run("login_link")

    assert out.startswith("http://localhost:8000/login/")


def test_an_ipv6_bind_is_bracketed(settings):
    settings.HOST = "::1"

    out, _ = run("login_link")

    assert out.startswith("http://[::1]:7870/login/")


@pytest.mark.parametrize("scope", list(Scope))
def test_token_create_prints_the_secret_alone_on_standard_output(scope):
    out, err = run("token", "create", "ci", "--scope", scope.value)

    grant = credentials.from_secret(out.strip())
    assert grant is not None and grant.actor.scope is scope
    assert re.fullmatch(r"pa_\S{43}\n", out)
    assert out.strip() not in err


def test_token_create_needs_a_known_scope():
    with pytest.raises(CommandError):
        run("token", "create", "ci")
    with pytest.raises(CommandError):
        run("token", "create", "ci", "--scope", "root")

    assert not ApiToken.objects.exists()


def test_token_create_refuses_a_name_in_use():
    run("token", "create", "ci", "--scope", "viewer")

    with pytest.raises(Conflict):
        run("token", "create", "ci", "--scope", "viewer")


def test_token_list_shows_everything_but_the_secret():
    secret, _ = run("token", "create", "ci", "--scope", "viewer")
    run("token", "create", "old", "--scope", "inbox")
    run("token", "revoke", "old")

    out, _ = run("token", "list")

    assert re.search(r"ci +viewer +made .* never used +live", out)
    assert re.search(r"old +inbox .*revoked", out)
    assert secret.strip() not in out and ApiToken.objects.first().fingerprint not in out


def test_token_list_says_when_there_is_none():
    assert run("token", "list")[0] == "No tokens.\n"


def test_token_revoke_ends_the_token():
    secret, _ = run("token", "create", "ci", "--scope", "viewer")

    run("token", "revoke", "ci")

    assert credentials.from_secret(secret.strip()) is None
    with pytest.raises(NotFound):
        run("token", "revoke", "ci")


def test_an_account_is_made_listed_and_deactivated():
    run("account", "create", "vera")
    run("account", "create", "bob", "--role", "operator")
    run("account", "deactivate", "vera")

    out, _ = run("account", "list")

    assert out.splitlines() == ["vera  viewer  deactivated", "bob  operator  active"]
    assert people.scope_of(people.find("bob")) is Scope.OPERATOR
