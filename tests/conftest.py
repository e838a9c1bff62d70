"""What every test may rely on: no network, a scratch home, and the services of `tests/services`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests import netguard, run_dir

netguard.install()

pytest_plugins = [
    "tests.services.postgres",
    "tests.services.servers",
    "tests.services.redis",
    "tests.services.chromium",
]


DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup", "django_db_reset_sequences"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a second run on another database can leave out."""
    parser.addoption(
        "--only-database", action="store_true", help="run the tests that use the test database"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not touch the test database, when that is asked for.

    Files that take long come first: a worker that got one at the end would be alone with it.
    """
    items.sort(key=lambda item: (*_slowness(item), str(item.path)))
    if not config.getoption("--only-database"):
        return
    kept = [item for item in items if _uses_the_database(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def _slowness(item: pytest.Item) -> tuple[bool, bool]:
    is_browser = item.get_closest_marker("browser") is not None
    is_process = item.get_closest_marker("process") is not None
    return not is_process, not is_browser


def _uses_the_database(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    return bool(fixtures & DATABASE_FIXTURES) or item.get_closest_marker("django_db") is not None


def pytest_unconfigure() -> None:
    """The last process of the run ends the services that the run started."""
    if run_dir.worker() == "main" and run_dir.is_owner():
        from tests.services import shared

        shared.stop_all()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Each xdist worker has a database of its own."""


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The test database; connections that threads left open do not keep it from being dropped."""
    yield
    from django.db import connection

    if connection.vendor == "postgresql":
        with django_db_blocker.unblock(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )


@pytest.fixture
def clean_env(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment without any variable that the product reads, except its home."""
    ours = ("PROTOAGENT__", "PROTOAGENT_TOKEN", "OPENAI_", "ANTHROPIC_", "OLLAMA_")
    for name in [name for name in os.environ if name.startswith(ours)]:
        monkeypatch.delenv(name)
    return monkeypatch
