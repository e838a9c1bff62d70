"""The test run itself: no network, a home of its own, and the database it says it uses."""

from __future__ import annotations

import os
import socket
import urllib.request

import pytest
from django.conf import settings

from tests import run_dir
from tests.netguard import NetworkIsOff


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7", "8.8.8.8"])
def test_connecting_to_another_machine_raises(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    with socket.socket(family) as client, pytest.raises(NetworkIsOff):
        client.connect((address, 443))


def test_sending_a_datagram_to_another_machine_raises():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, pytest.raises(NetworkIsOff):
        client.sendto(b"x", ("192.0.2.7", 53))


def test_looking_up_a_name_raises():
    with pytest.raises(NetworkIsOff):
        socket.getaddrinfo("example.org", 443)


def test_a_high_level_client_cannot_leave_either():
    with pytest.raises(NetworkIsOff):
        urllib.request.urlopen("http://192.0.2.7/", timeout=1)


async def test_the_event_loop_cannot_leave_either():
    import asyncio

    with pytest.raises(NetworkIsOff):
        await asyncio.open_connection("192.0.2.7", 443)


def test_loopback_stays_open():
    listener = socket.create_server(("127.0.0.1", 0))

    with listener, socket.create_connection(listener.getsockname(), 2):
        accepted, peer = listener.accept()
        accepted.close()

    assert peer[0] == "127.0.0.1"


def test_the_home_is_a_scratch_directory_of_this_worker():
    assert os.environ["PROTOAGENT_HOME"] == str(run_dir.root() / run_dir.worker())


@pytest.mark.django_db
def test_the_database_is_the_one_that_was_asked_for():
    from django.db import connection

    asked = (
        os.environ.get("DATABASE_URL", "sqlite").partition(":")[0].replace("postgres", "postgresql")
    )

    assert connection.vendor in asked
    assert settings.DATABASES["default"]["ENGINE"].endswith(
        connection.vendor if connection.vendor != "sqlite" else "sqlite3"
    )


@pytest.mark.django_db
def test_sqlite_runs_with_the_options_of_production():
    from django.db import connection

    if connection.vendor != "sqlite":
        pytest.skip("this run is on PostgreSQL")
    with connection.cursor() as cursor:
        mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]

    assert mode == "wal"


def test_postgres_gives_each_test_an_empty_database(postgres_url):
    import psycopg

    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchone()

    assert tables == (0,)


def test_redis_answers(redis_url):
    import redis

    with redis.Redis.from_url(redis_url) as client:
        assert client.ping() is True
