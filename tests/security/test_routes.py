"""S23: nothing that exists answers a stranger, except the few paths of the contract."""

from __future__ import annotations

import pytest
from channels.testing import WebsocketCommunicator
from django.test import Client

from protoagent.core.context import Scope
from protoagent.web import auth, errors
from protoagent.web.sockets import GuardedConsumer
from tests.accounts.factories import browser_of, make_account, make_token, program_with
from tests.security import walk
from tests.web.echo import HOST, ORIGIN

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
# Contract §2, and the admin's sign-in, which only leads to /login/.
OPEN_ROUTES = {
    "/healthz",
    "/readyz",
    "/login/",
    "/login/1/",
    "/admin/login/",
    "/.well-known/agent-card.json",
}


@pytest.fixture(scope="module")
def routes() -> list[walk.Route]:
    return walk.http_routes()


def test_the_walk_finds_the_routes_it_must_find(routes):
    paths = {route.path for route in routes}

    assert {"/login/", "/logout/", "/account/", "/admin/", "/admin/accounts/signin/"} <= paths
    assert len(paths) > 30


def test_the_public_paths_are_those_of_the_contract(routes):
    public = {route.path for route in routes if auth.is_public(route.path)}

    assert public <= OPEN_ROUTES


@pytest.mark.django_db
@pytest.mark.parametrize("method", METHODS)
def test_a_stranger_gets_401_from_every_route(routes, method):
    answers = {
        route.path: getattr(Client(), method)(route.path).status_code
        for route in routes
        if not auth.is_public(route.path)
    }

    assert set(answers.values()) == {401}, answers


@pytest.mark.django_db
def test_a_stranger_with_a_browser_is_sent_to_the_sign_in_page_by_every_page(routes):
    for route in routes:
        if not auth.is_public(route.path) and not route.path.startswith(errors.PROGRAM_PATHS):
            response = browser_of().get(route.path)

            assert response.status_code == 302, route.path
            assert response["Location"].startswith("/login/"), route.path


@pytest.mark.django_db
@pytest.mark.parametrize("method", METHODS)
def test_an_inbox_token_gets_403_from_every_route_but_the_inbox(routes, method):
    client = program_with(make_token("i", Scope.INBOX))

    for route in routes:
        if auth.is_public(route.path) or route.judges_scope:
            continue
        if (route.path, method) == (auth.INBOX, "post"):
            continue
        assert getattr(client, method)(route.path).status_code == 403, route.path


@pytest.mark.django_db
@pytest.mark.parametrize("method", METHODS)
def test_a_federation_token_gets_403_from_every_route_but_its_own(routes, method):
    client = program_with(make_token("f", Scope.FEDERATION))

    for route in routes:
        own = route.path.startswith(("/a2a", "/v1/"))
        if auth.is_public(route.path) or route.judges_scope or own:
            continue
        assert getattr(client, method)(route.path).status_code == 403, route.path


@pytest.mark.django_db
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_a_viewer_gets_403_from_every_route_that_does_not_say_otherwise(routes, method):
    client = program_with(make_token("v", Scope.VIEWER))

    for route in routes:
        lets_viewers = Scope.VIEWER in (route.allowed_scopes or ())
        if auth.is_public(route.path) or route.judges_scope or lets_viewers:
            continue
        assert getattr(client, method)(route.path).status_code == 403, route.path


@pytest.mark.django_db
def test_a_viewer_without_csrf_token_changes_nothing_anywhere(routes):
    client = browser_of(make_account("vera", scope=Scope.VIEWER))

    for route in routes:
        if not auth.is_public(route.path):
            assert client.post(route.path).status_code == 403, route.path


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path",
    [
        "//healthz",
        "/healthz/../api/thing",
        "/static/../account/",
        "/static/%2e%2e/account/",
        "/login/../account/",
        "/LOGIN/",
        "/healthz/x",
        "/.well-known/",
        "/.well-known/agent-card.json/x",
        "/account/;/login/",
        "/account/?/login/",
        "/%6cogout/",
    ],
)
def test_a_public_path_in_other_clothes_opens_no_private_one(path):
    response = Client().get(path)

    assert response.status_code in (401, 404)
    assert response.json().keys() == {"detail"}


def socket_routes() -> list[str]:
    from protoagent.routing import websocket_urlpatterns

    return walk.socket_paths(walk.sockets_of(websocket_urlpatterns))


def test_every_socket_is_a_guarded_one():
    from protoagent.routing import websocket_urlpatterns

    for entry in walk.sockets_of(websocket_urlpatterns):
        assert issubclass(entry.callback.consumer_class, GuardedConsumer), entry.pattern


@pytest.mark.django_db(transaction=True)
async def test_a_stranger_is_closed_with_4401_by_every_socket():
    from protoagent.asgi import application

    for path in socket_routes():
        for headers in ([], [(b"origin", ORIGIN.encode())]):
            socket = WebsocketCommunicator(
                application, path, headers=[(b"host", HOST.encode()), *headers]
            )
            assert (await socket.connect())[0], path
            message = await socket.receive_output()
            assert (message["type"], message.get("code")) == ("websocket.close", 4401), path


@pytest.mark.django_db(transaction=True)
async def test_a_foreign_page_is_closed_with_4403_by_every_socket():
    from channels.db import database_sync_to_async as in_db

    from protoagent.asgi import application

    secret = await in_db(make_token)()
    for path in socket_routes():
        headers = [
            (b"host", HOST.encode()),
            (b"origin", b"http://attacker.test"),
            (b"authorization", f"Bearer {secret}".encode()),
        ]
        socket = WebsocketCommunicator(application, path, headers=headers)
        assert (await socket.connect())[0], path
        message = await socket.receive_output()
        assert (message["type"], message.get("code")) == ("websocket.close", 4403), path


async def test_an_unknown_socket_path_is_closed_without_a_look_at_anything():
    from protoagent.asgi import application

    socket = WebsocketCommunicator(application, "/ws/nothing/", headers=[(b"host", HOST.encode())])

    assert (await socket.connect())[0]
    message = await socket.receive_output()
    assert (message["type"], message.get("code")) == ("websocket.close", 4404)
