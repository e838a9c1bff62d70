"""Secrets: who may read the file, and which values must never be shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from protoagent.config import services
from protoagent.core.errors import BadValue
from tests.config.conftest import Write


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o666])
def test_a_file_that_others_may_read_is_made_private(home, write, caplog, mode) -> None:
    path = write("secrets.yaml", "model: {api_key: key-number-1}")
    path.chmod(mode)

    services.reload()

    assert path.stat().st_mode & 0o777 == 0o600
    assert "readable by others" in caplog.text
    assert services.get("model.api_key") == "key-number-1"


def test_a_file_that_cannot_be_made_private_is_refused(
    home: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("secrets.yaml", "model: {api_key: key-number-1}")
    path.chmod(0o644)

    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)

    with pytest.raises(BadValue, match="readable by others") as caught:
        services.reload()
    assert "key-number-1" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "model:\n  api_key: key-number-1\n  api_key: key-number-2\n",
        "model:\n  api_key: *key-number-1\n",
        "model: {api_key: 'key-number-1\n",
        "model: {api_key: [key-number-1]}\n",
        'model: {api_key: "key-number-1\\nx"}\n',
    ],
)
def test_an_error_about_secrets_never_quotes_one(home, write, text) -> None:
    path = write("secrets.yaml", text)

    with pytest.raises(BadValue) as caught:
        services.reload()

    assert str(path) in str(caught.value)
    assert "key-number" not in str(caught.value)


def test_a_key_of_digits_is_text(home: Path, write: Write) -> None:
    write("secrets.yaml", "model: {api_key: 1234567890}")

    services.reload()

    assert services.get("model.api_key") == "1234567890"


def test_a_plain_setting_in_the_secrets_file_is_ignored(home: Path, write: Write) -> None:
    write("secrets.yaml", "model: {name: hidden-model}")

    services.reload()

    assert services.get("model.name") == ""
    assert any("model.name is not a secret" in line for line in services.warnings())


def test_an_inline_secret_works_and_is_pointed_out(home: Path, write: Write) -> None:
    write("config.yaml", "model: {api_key: inline-key-1}")

    services.reload()

    assert services.get("model.api_key") == "inline-key-1"
    assert any("belongs into secrets.yaml" in line for line in services.warnings())


def test_every_secret_of_files_and_environment_is_known(home, write, clean_env) -> None:
    write("config.yaml", "model: {api_key: inline-key-1}")
    write("secrets.yaml", "model: {api_key: file-key-1}\nplugin: {tokens: [plugin-token-1]}")
    clean_env.setenv("PROTOAGENT__MODEL__API_KEY", "override-key-1")
    clean_env.setenv("OPENAI_API_KEY", "openai-key-1")
    clean_env.setenv("PROTOAGENT_TOKEN", "operator-token-1")
    clean_env.setenv("DATABASE_URL", "postgres://ada:p%40ss-w0rd-1@db/agent")

    services.reload()

    assert services.known_secrets() >= {
        "inline-key-1",
        "file-key-1",
        "plugin-token-1",
        "override-key-1",
        "openai-key-1",
        "operator-token-1",
        "p@ss-w0rd-1",
    }


@pytest.mark.parametrize("value", ["x", "EMPTY", "ollama", "postgres", "lm-studio", "sk-1"])
def test_values_that_occur_in_ordinary_text_are_not_masked(home, clean_env, value) -> None:
    clean_env.setenv("OPENAI_API_KEY", value)

    assert value not in services.known_secrets()
