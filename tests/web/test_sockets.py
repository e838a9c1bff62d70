import asyncio
import json

import pytest
import pytest_asyncio
from channels.db import database_sync_to_async as in_db

from protoagent.accounts.models import ApiToken
from protoagent.core.context import Scope
from protoagent.web import sockets
from tests.accounts.factories import browser_of, make_account, make_token
from tests.web.echo import ORIGIN, Echo, closing_code, connect_as, outcome

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _forget():
    Echo.seen.clear()
    Echo.ends.clear()


@pytest_asyncio.fixture
async def socket():
    opened = connect_as(token=await in_db(make_token)())
    assert await outcome(opened) == 0
    yield opened
    await opened.disconnect()


def session_of(account) -> str:
    return browser_of(account).cookies["protoagent_session"].value


async def ask(socket, frame) -> dict:
    await socket.send_to(text_data=frame if isinstance(frame, str) else json.dumps(frame))
    return json.loads(await socket.receive_from(timeout=5))


async def test_a_frame_reaches_the_consumer_with_its_caller(socket):
    answer = await ask(socket, {"type": "message", "text": "ä"})

    assert answer == {
        "type": "echo",
        "scope": "operator",
        "got": {"type": "message", "text": "ä"},
    }


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "bad_value"),
        ("[]", "bad_value"),
        ("null", "bad_value"),
        ('"\\u0000"', "bad_value"),
        ('{"type": "message", "text": "\\u0000"}', "bad_value"),
        ('{"type": "message", "text": "\\ud800"}', "bad_value"),
        ('{"type": NaN}', "bad_value"),
        ("[" * 60_000, "bad_value"),
        ('"' + "x" * (1024 * 1024) + '"', "too_large"),
        ('{"type": "bad"}', "bad_value"),
    ],
)
async def test_a_frame_that_cannot_be_used_gets_an_error_and_the_socket_stays(socket, frame, code):
    answer = await ask(socket, frame)

    assert (answer["type"], answer["code"]) == ("error", code)
    assert (await ask(socket, {"type": "x"}))["type"] == "echo"


async def test_a_binary_frame_gets_an_error_and_the_socket_stays(socket):
    await socket.send_to(bytes_data=b"\x00\x01")

    assert json.loads(await socket.receive_from())["code"] == "bad_value"
    assert (await ask(socket, {"type": "x"}))["type"] == "echo"


async def test_an_error_names_the_frame_it_belongs_to(socket):
    answer = await ask(socket, {"type": "bad", "client_id": "c1"})
    odd = await ask(socket, {"type": "bad", "client_id": ["c1"]})

    assert answer["client_id"] == "c1"
    assert "client_id" not in odd


async def test_a_frame_that_breaks_the_consumer_shows_an_id_only(socket, caplog):
    answer = await ask(socket, {"type": "boom", "client_id": "c1"})

    assert answer["code"] == "error" and answer["client_id"] == "c1"
    assert "secret detail" not in answer["message"]
    assert any(record.exc_info for record in caplog.records)
    assert (await ask(socket, {"type": "x"}))["type"] == "echo"


@pytest.mark.parametrize("kind", ["message", "stop", "subscribe", None, 7, ["ping"], {}])
async def test_a_viewer_may_only_watch(kind):
    socket = connect_as(token=await in_db(make_token)("v", Scope.VIEWER))
    assert await outcome(socket) == 0

    answer = await ask(socket, {"type": kind, "client_id": "c1"})
    pong = await ask(socket, {"type": "ping"})

    assert (answer["type"], answer["code"], answer["client_id"]) == ("error", "forbidden", "c1")
    assert pong["type"] == "echo"
    assert Echo.seen == [{"type": "ping"}]
    await socket.disconnect()


async def test_a_socket_opens_for_its_scopes_only():
    operator, inbox = await in_db(make_token)("o"), await in_db(make_token)("i", Scope.INBOX)

    assert await outcome(connect_as(token=inbox)) == 4403
    assert await outcome(connect_as(token=operator, path_="/ws/inbox/")) == 4403
    assert await outcome(connect_as(token=inbox, path_="/ws/inbox/")) == 0


async def test_what_the_consumer_cannot_open_is_said_and_closed():
    socket = connect_as(token=await in_db(make_token)(), path_="/ws/missing/")
    await socket.connect()

    error = json.loads(await socket.receive_from())

    assert (error["code"], error["message"]) == ("not_found", "no such session")
    assert await closing_code(socket) == 4403


async def test_closed_is_called_once_however_a_socket_ends():
    token = await in_db(make_token)()
    ordinary = connect_as(token=token)
    await outcome(ordinary)
    await ordinary.disconnect(code=1001)
    refused = connect_as()
    await outcome(refused)
    await refused.disconnect()
    broken = connect_as(token=token, path_="/ws/broken/")
    await broken.connect()
    with pytest.raises(RuntimeError):
        await broken.wait(timeout=2)

    assert Echo.ends == [1001, 1006]


async def test_the_watch_ends_with_the_last_socket(monkeypatch):
    monkeypatch.setattr(sockets, "CHECK_EVERY_S", 0.05)
    socket = connect_as(token=await in_db(make_token)())
    await outcome(socket)
    assert len(sockets._watches) == 1

    await socket.disconnect()
    await asyncio.sleep(0.2)

    assert not sockets._watches


async def test_two_hundred_sockets_cost_two_queries_a_look(monkeypatch):
    from protoagent.accounts.services import credentials

    looks = []
    recheck = credentials.recheck

    def counted(grants):
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as queries:
            found = recheck(grants)
        looks.append((len(grants), len(queries)))
        return found

    token = await in_db(make_token)()
    key = await in_db(lambda: session_of(make_account()))()
    opened = [connect_as(token=token) for _ in range(100)]
    opened += [connect_as(session=key, origin=ORIGIN) for _ in range(100)]
    for socket in opened:
        assert await outcome(socket) == 0
    monkeypatch.setattr(credentials, "recheck", counted)
    monkeypatch.setattr(sockets, "CHECK_EVERY_S", 0.05)

    await asyncio.sleep(1.5)

    assert looks and max(looks) == (2, 2)
    for socket in opened:
        await socket.disconnect()


async def test_a_database_that_fails_for_a_moment_closes_nothing(monkeypatch):
    from django.db import OperationalError

    from protoagent.accounts.services import credentials

    secret = await in_db(make_token)("ci")
    socket = connect_as(token=secret)
    await outcome(socket)
    recheck, failures = credentials.recheck, []

    def failing(grants):
        if len(failures) < 3:
            failures.append(1)
            raise OperationalError("database is locked")
        return recheck(grants)

    monkeypatch.setattr(credentials, "recheck", failing)
    monkeypatch.setattr(sockets, "CHECK_EVERY_S", 0.05)
    await asyncio.sleep(1.3)
    assert len(failures) == 3
    assert (await ask(socket, {"type": "x"}))["type"] == "echo"
    await in_db(ApiToken.objects.all().delete)()

    assert await closing_code(socket) == 4401


async def test_a_role_that_was_taken_away_counts_for_the_next_frame():
    account = await in_db(make_account)()
    socket = connect_as(session=await in_db(session_of)(account), origin=ORIGIN)
    await outcome(socket)
    account.is_superuser = False
    await in_db(account.save)()

    answer = await ask(socket, {"type": "message"})

    assert answer["code"] == "forbidden"
    await socket.disconnect()
