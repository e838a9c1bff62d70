"""S11: a credential that was taken away works nowhere any more, open sockets included."""

from __future__ import annotations

import time

import pytest
from channels.db import database_sync_to_async as in_db
from django.contrib.auth import get_user_model

from protoagent.accounts.models import ApiToken, BrowserSession
from protoagent.accounts.services import browsers, people, programs
from protoagent.core import clock
from tests.accounts.factories import (
    PASSWORD,
    browser_of,
    make_account,
    make_token,
    post_form,
    program_with,
)
from tests.web.echo import ORIGIN, Echo, closing_code, connect_as, outcome

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _sample_routes(settings):
    settings.ROOT_URLCONF = "tests.web.urls"
    Echo.seen.clear()


def end_silently(model, **fields) -> None:
    """As another process would do it: the rows change, and no hint reaches this one."""
    model.objects.update(**fields)


async def open_with_token():
    secret = await in_db(make_token)("ci")
    socket = connect_as(token=secret)
    assert await outcome(socket) == 0
    return socket, secret


async def open_with_session():
    account = await in_db(make_account)(password=PASSWORD)
    browser = await in_db(browser_of)(account)
    key = browser.cookies["protoagent_session"].value
    socket = connect_as(session=key, origin=ORIGIN)
    assert await outcome(socket) == 0
    return socket, account, browser


async def closes_within(socket, seconds: float) -> int:
    started = time.monotonic()
    code = await closing_code(socket, timeout=seconds)
    assert time.monotonic() - started < seconds
    return code


async def test_revoking_a_token_closes_its_sockets_at_once_in_this_process():
    socket, secret = await open_with_token()

    await in_db(programs.revoke)("ci")

    assert await closes_within(socket, 0.5) == 4401
    assert await outcome(connect_as(token=secret)) == 4401


async def test_revoking_a_token_in_another_process_closes_its_sockets_within_two_seconds():
    socket, _ = await open_with_token()

    await in_db(end_silently)(ApiToken, revoked_at=clock.now())

    assert await closes_within(socket, 2.0) == 4401


async def test_a_frame_after_the_revocation_does_nothing():
    socket, _ = await open_with_token()
    await in_db(end_silently)(ApiToken, revoked_at=clock.now())

    await socket.send_to(text_data='{"type": "message", "text": "too late"}')

    assert await closes_within(socket, 2.0) == 4401
    assert Echo.seen == []


async def test_another_tokens_socket_stays_open():
    socket, _ = await open_with_token()
    other = connect_as(token=await in_db(make_token)("other"))
    assert await outcome(other) == 0

    await in_db(programs.revoke)("ci")

    assert await closes_within(socket, 0.5) == 4401
    assert await other.receive_nothing(timeout=1.3)
    await other.disconnect()


async def test_signing_out_closes_the_sockets_of_that_browser_only():
    socket, account, browser = await open_with_session()
    second = await in_db(browser_of)(account)
    key = second.cookies["protoagent_session"].value
    kept = connect_as(session=key, origin=ORIGIN)
    assert await outcome(kept) == 0

    response = await in_db(post_form)(browser, "/logout/")

    assert response.status_code == 302
    assert await closes_within(socket, 0.5) == 4401
    assert await kept.receive_nothing(timeout=1.3)
    await kept.disconnect()


async def test_signing_out_in_another_process_closes_its_sockets_within_two_seconds():
    socket, _, _ = await open_with_session()

    await in_db(lambda: BrowserSession.objects.all().delete())()

    assert await closes_within(socket, 2.0) == 4401


async def test_signing_out_everywhere_closes_every_socket():
    socket, account, _ = await open_with_session()

    await in_db(browsers.sign_out_others)(account, keep="")

    assert await closes_within(socket, 0.5) == 4401


async def test_changing_the_password_closes_the_sockets():
    socket, account, _ = await open_with_session()

    await in_db(people.set_password)(account, "another long sentence")

    assert await closes_within(socket, 0.5) == 4401


async def test_a_password_changed_by_other_means_closes_the_sockets_within_two_seconds():
    socket, _, browser = await open_with_session()

    await in_db(end_silently)(get_user_model(), password="md5$x$y")

    assert await closes_within(socket, 2.0) == 4401
    assert (await in_db(browser.get)("/page/")).status_code == 302


async def test_deactivating_an_account_closes_its_sockets():
    socket, account, _ = await open_with_session()

    await in_db(people.deactivate)(account)

    assert await closes_within(socket, 0.5) == 4401


async def test_deactivating_in_the_admin_closes_the_sockets_within_two_seconds():
    socket, _, browser = await open_with_session()

    await in_db(end_silently)(get_user_model(), is_active=False)

    assert await closes_within(socket, 2.0) == 4401
    assert (await in_db(browser.get)("/page/")).status_code == 302


async def test_a_session_that_expires_closes_its_sockets():
    socket, _, _ = await open_with_session()

    await in_db(end_silently)(BrowserSession, expire_date=clock.now())

    assert await closes_within(socket, 2.0) == 4401


async def test_a_changed_environment_token_closes_its_sockets(clean_env):
    clean_env.setenv("PROTOAGENT_TOKEN", "first")
    socket = connect_as(token="first")
    assert await outcome(socket) == 0

    clean_env.setenv("PROTOAGENT_TOKEN", "second")

    assert await closes_within(socket, 2.0) == 4401
    assert await outcome(connect_as(token="first")) == 4401
    assert await outcome(connect_as(token="second")) == 0


def test_a_rotated_token_is_refused_by_the_next_request():
    old = make_token("ci")
    client = program_with(old)
    assert client.get("/api/thing").status_code == 200

    programs.revoke("ci")
    new = make_token("ci")

    assert client.get("/api/thing").status_code == 401
    assert program_with(new).get("/api/thing").status_code == 200


def test_a_stolen_cookie_is_worthless_after_signing_out():
    client = browser_of(make_account())
    stolen = client.cookies["protoagent_session"].value
    post_form(client, "/logout/")

    thief = browser_of()
    thief.cookies["protoagent_session"] = stolen

    assert thief.get("/page/").status_code == 302
