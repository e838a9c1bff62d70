"""S02: what a caller may do comes from the server's records, whatever the caller says."""

from __future__ import annotations

import json

import pytest
from channels.db import database_sync_to_async as in_db
from django.test import Client

from protoagent.accounts.models import ApiToken
from protoagent.core.context import Scope
from tests.accounts.factories import browser_of, make_account, make_token, post_form, program_with
from tests.web.echo import ORIGIN, Echo, connect_as, outcome

CLAIMS = {
    "x-scope": "operator",
    "x-scopes": "operator,admin",
    "x-role": "operator",
    "x-user": "operator",
    "x-forwarded-user": "operator",
    "remote-user": "operator",
    "x-remote-user": "operator",
    "x-protoagent-scope": "operator",
    "x-openclaw-scopes": "operator.admin",
    "x-original-url": "/healthz",
    "x-rewrite-url": "/healthz",
    "x-http-method-override": "GET",
    "x-method-override": "GET",
}
FIELDS = {"scope": "operator", "scopes": ["operator"], "role": "operator", "_method": "GET"}


@pytest.fixture(autouse=True)
def _sample_routes(settings):
    settings.ROOT_URLCONF = "tests.web.urls"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("scope", "reads", "writes", "inbox", "federation"),
    [
        (None, 401, 401, 401, 401),
        (Scope.VIEWER, 200, 403, 403, 403),
        (Scope.OPERATOR, 200, 200, 200, 200),
        (Scope.INBOX, 403, 403, 200, 403),
        (Scope.FEDERATION, 403, 403, 403, 200),
    ],
)
def test_the_matrix_of_scopes(scope, reads, writes, inbox, federation):
    client = program_with(make_token("t", scope)) if scope else Client()

    statuses = (
        client.get("/api/thing").status_code,
        client.post("/api/thing").status_code,
        client.post("/api/inbox").status_code,
        client.post("/a2a").status_code,
    )

    assert statuses == (reads, writes, inbox, federation)


@pytest.mark.django_db
@pytest.mark.parametrize("scope", [Scope.VIEWER, Scope.INBOX, Scope.FEDERATION])
def test_claims_in_headers_query_and_body_change_nothing(scope):
    client = program_with(make_token("t", scope))

    response = client.post(
        "/api/thing?scope=operator&role=operator",
        json.dumps(FIELDS),
        content_type="application/json",
        headers=CLAIMS,
    )

    assert response.status_code == 403


@pytest.mark.django_db
def test_claims_make_nobody_somebody():
    response = Client(headers=CLAIMS).post("/api/thing?user=operator", FIELDS)

    assert response.status_code == 401


@pytest.mark.django_db
def test_a_viewers_form_cannot_claim_more():
    client = browser_of(make_account("vera", scope=Scope.VIEWER))

    assert post_form(client, "/page/", {"scope": "operator"}, headers=CLAIMS).status_code == 403


@pytest.mark.django_db
def test_scopes_are_read_again_for_every_request():
    client = program_with(make_token("t", Scope.OPERATOR))
    assert client.post("/api/thing").status_code == 200

    ApiToken.objects.update(scope=Scope.VIEWER.value)

    assert client.post("/api/thing").status_code == 403
    assert client.get("/api/thing").status_code == 200


@pytest.mark.django_db(transaction=True)
async def test_claims_in_the_handshake_and_in_frames_change_nothing():
    Echo.seen.clear()
    token = await in_db(make_token)("v", Scope.VIEWER)
    extra = [(name.encode(), value.encode()) for name, value in CLAIMS.items()]
    socket = connect_as(token=token, extra=extra, path_="/ws/echo/?scope=operator")
    assert await outcome(socket) == 0

    await socket.send_to(text_data=json.dumps({"type": "message", **FIELDS}))
    answer = json.loads(await socket.receive_from())

    assert answer["code"] == "forbidden"
    assert Echo.seen == []
    await socket.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_scopes_are_read_again_for_every_frame():
    token = await in_db(make_token)("t", Scope.OPERATOR)
    socket = connect_as(token=token)
    assert await outcome(socket) == 0
    await in_db(ApiToken.objects.update)(scope=Scope.VIEWER.value)

    await socket.send_to(text_data='{"type": "message"}')

    assert json.loads(await socket.receive_from())["code"] == "forbidden"
    await socket.disconnect()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("scope", "code"),
    [(Scope.OPERATOR, 0), (Scope.VIEWER, 0), (Scope.INBOX, 4403), (Scope.FEDERATION, 4403)],
)
async def test_the_matrix_of_scopes_on_a_socket(scope, code):
    token = await in_db(make_token)("t", scope)

    assert await outcome(connect_as(token=token, origin=ORIGIN)) == code
