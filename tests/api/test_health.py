"""The probes: public, honest, and without anything a stranger should not read."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test import Client

from protoagent.core import clock, migrations
from protoagent.journal.models import Heartbeat
from protoagent.journal.services import processes
from tests.factories import make_heartbeat

pytestmark = pytest.mark.django_db


@pytest.fixture
def roles() -> None:
    for role in ("worker", "ticker"):
        make_heartbeat(role=role)


def test_healthz_asks_nobody_and_says_ok(django_assert_num_queries):
    with django_assert_num_queries(0):
        response = Client().get("/healthz")

    assert (response.status_code, response.json()) == (200, {"ok": True})


def test_readyz_is_ok_when_everything_is_there(roles):
    response = Client().get("/readyz")

    assert (response.status_code, response.json()) == (200, {"ok": True})


@pytest.mark.parametrize("missing", ["worker", "ticker"])
def test_readyz_names_a_role_that_nobody_does(roles, missing):
    Heartbeat.objects.filter(role=missing).delete()

    response = Client().get("/readyz")

    assert response.status_code == 503
    assert response.json() == {"ok": False, "failing": {missing: "no sign of life for 15 s"}}


def test_readyz_does_not_believe_an_old_heartbeat(roles):
    old = clock.now() - timedelta(seconds=processes.STALE_AFTER_S + 1)
    Heartbeat.objects.filter(role="worker").update(at=old)

    assert set(Client().get("/readyz").json()["failing"]) == {"worker"}


def test_one_living_process_of_several_is_enough(roles):
    make_heartbeat(role="worker", at=clock.now() - timedelta(minutes=5))

    assert Client().get("/readyz").status_code == 200


def test_readyz_names_migrations_that_are_missing(roles, monkeypatch):
    monkeypatch.setattr(migrations, "unapplied", lambda: ["journal.0002_more", "journal.0003_x"])

    response = Client().get("/readyz")

    assert response.status_code == 503
    sentence = response.json()["failing"]["migrations"]
    assert sentence == "2 not applied, the first is journal.0002_more"


def test_readyz_says_that_the_database_is_gone_and_not_where_it_was(roles, monkeypatch):
    def refuse(*_: object) -> None:
        raise OperationalError("connection to db.internal as ada refused")

    monkeypatch.setattr(connection, "cursor", refuse)

    response = Client().get("/readyz")

    assert response.status_code == 503
    assert response.json()["failing"] == {"database": "does not answer"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_are_never_cached_and_take_no_unsafe_method(path):
    assert "no-store" in Client().get(path)["Cache-Control"]
    assert Client().post(path).status_code in (401, 405)


def test_no_migration_is_missing_in_the_test_database():
    assert migrations.unapplied() == []
