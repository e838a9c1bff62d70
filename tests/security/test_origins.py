"""S01: a web page cannot drive the local socket, and no secret travels in a URL."""

from __future__ import annotations

import itertools

import pytest
from channels.db import database_sync_to_async as in_db

from tests.accounts.factories import browser_of, make_account, make_token
from tests.web.echo import HOST, ORIGIN, connect_as, outcome

pytestmark = pytest.mark.django_db(transaction=True)

FOREIGN = {
    "foreign": "http://attacker.test",
    "null": "null",
    "empty": "",
    "look-alike suffix": f"http://{HOST}.attacker.test",
    "look-alike prefix": "http://localhost.attacker.test:7870",
    "user part": f"http://{HOST}@attacker.test",
    "port changed": "http://localhost:7871",
    "port dropped": "http://localhost",
    "other name of this machine": "http://127.0.0.1:7870",
    "homoglyph": "http://lоcalhost:7870",
    "extension": "chrome-extension://aaaabbbb",
    "file": "file://",
    "with path": f"http://{HOST}/",
}


async def credentials_of(kind: str) -> dict[str, str]:
    if kind == "session":
        account = await in_db(make_account)()
        return {"session": (await in_db(browser_of)(account)).cookies["protoagent_session"].value}
    if kind == "token":
        return {"token": await in_db(make_token)()}
    return {}


@pytest.mark.parametrize(
    ("case", "kind"), list(itertools.product(FOREIGN, ["session", "token", ""]))
)
async def test_a_foreign_origin_is_refused_whatever_the_credential(case, kind):
    socket = connect_as(origin=FOREIGN[case], **await credentials_of(kind))

    assert await outcome(socket) == 4403


@pytest.mark.parametrize("kind", ["session", "token"])
async def test_the_own_origin_with_a_credential_is_let_in(kind):
    assert await outcome(connect_as(origin=ORIGIN, **await credentials_of(kind))) == 0


async def test_the_own_origin_alone_is_nobody():
    assert await outcome(connect_as(origin=ORIGIN)) == 4401


async def test_a_session_cookie_without_an_origin_is_refused():
    assert await outcome(connect_as(**await credentials_of("session"))) == 4403


async def test_a_program_needs_no_origin():
    assert await outcome(connect_as(**await credentials_of("token"))) == 0


async def test_a_program_may_send_its_token_as_an_api_key():
    secret = (await credentials_of("token"))["token"]

    assert await outcome(connect_as(extra=[(b"x-api-key", secret.encode())])) == 0


async def test_without_any_credential_the_answer_is_who_are_you():
    assert await outcome(connect_as()) == 4401


@pytest.mark.parametrize("secret", ["nonsense", "pa_" + "x" * 43])
async def test_a_wrong_token_is_not_saved_by_a_good_cookie(secret):
    session = await credentials_of("session")

    assert await outcome(connect_as(token=secret, origin=ORIGIN, **session)) == 4401


async def test_a_made_up_session_is_nobody():
    assert await outcome(connect_as(session="a" * 32, origin=ORIGIN)) == 4401


@pytest.mark.parametrize("name", [b"origin", b"host", b"authorization", b"x-api-key"])
async def test_a_header_that_stands_twice_is_refused(name):
    secret = (await credentials_of("token"))["token"]
    doubled = [(name, b"one"), (name, b"two")]

    assert await outcome(connect_as(token=secret, extra=doubled)) == 4403


async def test_a_token_in_the_address_is_no_credential():
    secret = (await credentials_of("token"))["token"]
    path = f"/ws/echo/?token={secret}&access_token={secret}&authorization=Bearer%20{secret}"

    assert await outcome(connect_as(path_=path)) == 4401


async def test_a_page_without_encryption_cannot_use_an_encrypted_socket(settings):
    settings.ALLOWED_HOSTS = ["agent.lan"]
    session = await credentials_of("session")
    secure = connect_as(origin="https://agent.lan", host="agent.lan", **session)
    plain = connect_as(origin="http://agent.lan", host="agent.lan", **session)
    secure.scope["scheme"] = plain.scope["scheme"] = "wss"

    assert await outcome(secure) == 0
    assert await outcome(plain) == 4403


@pytest.mark.parametrize(
    "host", ["attacker.test", "attacker.test:7870", "localhost.attacker.test:7870", "", None]
)
@pytest.mark.parametrize("kind", ["session", "token"])
async def test_a_foreign_or_missing_host_name_is_refused_even_with_its_own_origin(host, kind):
    """S21 on sockets: a name that was rebound to loopback matches its own Origin."""
    given = await credentials_of(kind)

    assert await outcome(connect_as(host=host, origin=f"http://{host}", **given)) == 4403
    assert await outcome(connect_as(host=host, **given)) == 4403
