"""The system checks of an instance: what `manage.py check` and `doctor` say about its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from protoagent import checks


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROTOAGENT_HOME", str(tmp_path))
    tmp_path.chmod(0o700)
    return tmp_path


def test_a_new_home_has_nothing_to_complain_about(home):
    found = [*checks.config_is_readable(), *checks.secrets_are_private(), *checks.layer_fits()]

    assert found == []


def test_a_configuration_that_cannot_be_read_is_an_error(home):
    (home / "config.yaml").write_text("model: [")

    assert [message.id for message in checks.config_is_readable()] == ["protoagent.E001"]


@pytest.mark.parametrize("name", ["signing.key", "secrets.yaml"])
def test_a_secret_that_others_can_read_is_an_error_with_the_cure(home, name):
    (home / name).write_text("")
    (home / name).chmod(0o640)

    found = checks.secrets_are_private()

    assert [message.id for message in found] == ["protoagent.E002"]
    assert found[0].hint == f"chmod 600 {home / name}"


def test_a_home_that_others_can_write_to_is_an_error(home):
    home.chmod(0o770)

    assert [message.id for message in checks.secrets_are_private()] == ["protoagent.E003"]


def test_redis_beside_sqlite_is_a_warning(home, settings, monkeypatch):
    settings.REDIS_URL = "redis://localhost/0"
    engine = "django.db.backends.sqlite3"
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", engine)

    assert [message.id for message in checks.layer_fits()] == ["protoagent.W001"]
