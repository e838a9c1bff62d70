"""What is in force: layers, bounds, and what happens when a file goes bad."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from protoagent.config import services
from protoagent.core import clock, events, extensions
from protoagent.core.errors import BadValue, NotFound
from tests.config.conftest import Write


def test_every_setting_has_its_default_when_nothing_is_written(home: Path) -> None:
    model = services.section("model")

    assert model["provider"] == "" and model["name"] == "" and model["api_base"] == ""
    assert (model["temperature"], model["max_tokens"], model["top_p"]) == (0.2, 32768, None)
    assert (model["max_iterations"], model["turn_stall_timeout_seconds"]) == (2000, 900)
    assert (model["round_nudge_after"], model["round_hard_cap"]) == (25, 0)
    assert (model["request_timeout"], model["max_retries"]) == (120, 2)
    assert services.get("identity.name") == "protoagent"
    assert services.get("tools.disabled") == []


def test_each_layer_wins_over_the_one_before(home: Path, write: Write, clean_env) -> None:
    write("config.yaml", "model:\n  name: from-file\n  temperature: 1\n  api_key: file-key-1\n")
    write("secrets.yaml", "model:\n  api_key: secret-key-1\n")
    clean_env.setenv("PROTOAGENT__MODEL__NAME", "from-environment")

    services.reload()

    assert services.explain("model.name") == ("from-environment", "environment")
    assert services.explain("model.temperature") == (1, "file")
    assert services.explain("model.api_base") == ("", "default")
    assert services.get("model.api_key") == "secret-key-1"


def test_explaining_a_secret_tells_its_layer_and_hides_its_value(home: Path, write: Write) -> None:
    write("secrets.yaml", "model: {api_key: secret-key-1}\n")
    services.reload()

    assert services.explain("model.api_key") == ("********", "secrets")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("MODEL__API_KEY", "0123", "0123"),
        ("MODEL__NAME", '"quoted"', "quoted"),
        ("MODEL__NAME", "4", "4"),
        ("MODEL__TEMPERATURE", "1.5", 1.5),
        ("TOOLS__DISABLED", '["a", "b"]', ["a", "b"]),
        ("TOOLS__DISABLED", "a, b", ["a", "b"]),
        ("MODEL__TEMPERATURE", "null", 0.2),
    ],
)
def test_an_environment_value_is_read_as_it_is_meant(home, clean_env, key, text, value) -> None:
    clean_env.setenv(f"PROTOAGENT__{key}", text)

    services.reload()

    assert services.get(key.lower().replace("__", ".")) == value


@pytest.mark.parametrize(
    ("yaml", "complaint"),
    [
        ("model: {temperature: 3}", "model.temperature must be at most 2, not '3'"),
        ("model: {temperature: -1}", "model.temperature must be at least 0, not '-1'"),
        ("model: {temperature: warm}", "model.temperature must be a number, not 'warm'"),
        ("model: {temperature: true}", "model.temperature must be a number, not 'True'"),
        ("model: {temperature: .nan}", "model.temperature must be a number, not 'nan'"),
        ("model: {max_tokens: 1.5}", "model.max_tokens must be a whole number, not '1.5'"),
        ("model: {max_iterations: 0}", "model.max_iterations must be at least 1, not '0'"),
        ("model: {provider: other}", 'must be "" or openai or anthropic or ollama or offline'),
        ("model: {name: [a]}", "model.name must be text"),
        ('model: {name: "a\\nb"}', "model.name must be one line of text"),
        ("tools: {disabled: shell}", "tools.disabled must be a list of texts"),
        ("tools: {disabled: [1]}", "tools.disabled must be a list of texts"),
        ("model: fast", "model must be a section with keys"),
        ("- a\n- b", "must hold keys and values"),
        ("model: [", "is not valid YAML, line"),
        ("a: 1\na: 2", "the same key stands there twice"),
        ("when: 2024-99-99", "is not valid YAML"),
    ],
)
def test_a_wrong_file_stops_the_start_with_key_and_file(home, write, yaml, complaint) -> None:
    path = write("config.yaml", yaml)

    with pytest.raises(BadValue) as caught:
        services.reload()

    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


def test_all_wrong_keys_are_named_at_once(home: Path, write: Write, clean_env) -> None:
    write("config.yaml", "model: {temperature: 3, max_retries: 99}")
    clean_env.setenv("PROTOAGENT__MODEL__TOP_P", "2")

    with pytest.raises(BadValue) as caught:
        services.reload()

    for name in ("model.temperature", "model.max_retries", "PROTOAGENT__MODEL__TOP_P"):
        assert name in str(caught.value)


def test_a_file_that_is_no_text_or_too_large_is_refused(home: Path, write: Write) -> None:
    path = write("config.yaml", "")

    path.write_bytes(b"model: {name: \xff\xfe}")
    with pytest.raises(BadValue, match="not UTF-8"):
        services.reload()
    path.write_text("# " + "x" * 1024 * 1024)
    with pytest.raises(BadValue, match="larger than 1024 KiB"):
        services.reload()


def test_the_last_good_configuration_stays_while_a_file_is_broken(
    home: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("config.yaml", "model: {name: good}")
    services.reload()
    path = write("config.yaml", "model: {name: bad, temperature: 9}")

    services._live.look_again()

    assert services.get("model.name") == "good"
    assert "model.temperature" in services.problem() and str(path) in services.problem()
    assert "last good one stays" in caplog.text
    write("config.yaml", "model: {name: better}")
    services._live.look_again()
    assert services.get("model.name") == "better"
    assert services.problem() == ""


def test_an_edit_is_seen_after_half_a_second_and_not_before(
    home: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    services.reload()
    before = services.version()

    write("config.yaml", "model: {name: edited}")

    now[0] += 0.4
    assert services.get("model.name") == "" and services.version() == before
    now[0] += 0.2
    assert services.get("model.name") == "edited"
    assert services.version() == before + 1


def test_the_version_stays_when_a_file_changes_without_changing_a_value(
    home: Path, write: Write
) -> None:
    write("config.yaml", "model: {name: same}")
    services.reload()
    before = services.version()

    write("config.yaml", "# a remark\nmodel: {name: same}")
    services._live.look_again()

    assert services.version() == before


def test_a_change_is_announced_once(home: Path, write: Write) -> None:
    heard: list[tuple[str, dict]] = []
    stop = events.listen(lambda name, payload: heard.append((name, payload)))
    registry_version = extensions.version()

    write("secrets.yaml", "model: {api_key: rotated-key-2}")
    services._live.look_again()
    services.get("model.api_key")
    services.get("model.api_key")
    stop()

    assert heard == [("config.changed", {"version": services.version()})]
    assert extensions.version() > registry_version


def test_another_home_is_seen_at_once(home: Path, write: Write, clean_env, tmp_path) -> None:
    write("config.yaml", "model: {name: first}")
    services.reload()
    other = tmp_path / "other"
    clean_env.setenv("PROTOAGENT_HOME", str(other))

    name = services.get("model.name")

    assert name == ""
    assert other.stat().st_mode & 0o777 == 0o700


def test_unknown_keys_are_kept_and_ignored_with_one_warning(
    home: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    path = write("config.yaml", "weather: {city: Bonn}\nmodel: {name: a, colour: red}\n")
    with caplog.at_level(logging.WARNING):
        services.reload()
        services.reload()

    assert services.get("model.name") == "a"
    assert caplog.text.count("weather.city") == 1
    assert any("model.colour" in line for line in services.warnings())
    assert "colour: red" in path.read_text()


def test_an_empty_section_is_no_mistake(home: Path, write: Write) -> None:
    write("config.yaml", "model:\ntools:\n  disabled:\n")

    services.reload()

    assert services.get("tools.disabled") == []


def test_an_unknown_name_suggests_a_near_one(home: Path) -> None:
    with pytest.raises(NotFound, match=r"no setting model\.nmae; did you mean model\.name\?"):
        services.get("model.nmae")
    with pytest.raises(NotFound, match=r"did you mean tools\?"):
        services.section("tool")


def test_changing_a_returned_list_changes_nothing(home: Path) -> None:
    services.get("tools.disabled").append("shell")

    assert services.get("tools.disabled") == []


def test_an_update_keeps_comments_and_splits_off_secrets(home: Path, write: Write) -> None:
    config = write("config.yaml", "# mine\nmodel:\n  name: old  # the name\nodd: 1\n")

    services.update({"model.name": "new", "model.api_key": "key-number-1", "identity.name": "Ida"})

    assert config.read_text() == (
        "# mine\nmodel:\n  name: new  # the name\nodd: 1\nidentity:\n  name: Ida\n"
    )
    assert "key-number-1" in (home / "secrets.yaml").read_text()
    assert (home / "secrets.yaml").stat().st_mode & 0o777 == 0o600
    assert services.get("model.name") == "new"
    assert services.get("model.api_key") == "key-number-1"


def test_an_update_with_one_wrong_value_writes_nothing(home: Path, write: Write) -> None:
    config = write("config.yaml", "model: {name: old}\n")

    with pytest.raises(BadValue, match=r"model\.temperature"):
        services.update({"model.api_key": "key-number-1", "model.temperature": 7})

    assert config.read_text() == "model: {name: old}\n"
    assert not (home / "secrets.yaml").exists()


def test_an_update_that_cannot_be_written_takes_the_secret_back(home: Path, write: Write) -> None:
    write("config.yaml", "model: [")
    kept = write("secrets.yaml", "model: {api_key: key-number-1}\n")

    with pytest.raises(BadValue, match="not valid YAML"):
        services.update({"model.api_key": "key-number-2", "model.name": "new"})

    assert kept.read_text() == "model: {api_key: key-number-1}\n"


def test_none_goes_back_to_the_default_and_a_blank_secret_changes_nothing(
    home: Path, write: Write
) -> None:
    config = write("config.yaml", "model:\n  temperature: 1\nidentity:\n  name: Ida\n")
    write("secrets.yaml", "model: {api_key: key-number-1}\n")

    services.update({"model.temperature": None, "model.api_key": ""})

    assert config.read_text() == "identity:\n  name: Ida\n"
    assert services.get("model.api_key") == "key-number-1"
