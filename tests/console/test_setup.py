"""The page about the model: what answers and why, what could be connected, and a test of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from protoagent.config import paths
from protoagent.config import services as config
from protoagent.console.views import setup
from protoagent.core.context import Scope
from protoagent.providers import catalog
from tests.console.asking import Page, Tab, begin, open_tab
from tests.fakes import gateway as fake_gateway
from tests.fakes.gateway import Gateway

pytestmark = pytest.mark.django_db(transaction=True)
PAGES = ("/chat/", "/chat/s1/", "/chat/s1/aside/", "/models/", "/palette/", "/sessions/", "/setup/")


@pytest.fixture(autouse=True)
def nothing_is_configured(clean_env: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    clean_env.setenv("PROTOAGENT_HOME", str(tmp_path))
    clean_env.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    clean_env.setattr(catalog, "_ollama", ("", 0.0, None))
    config.reload()
    yield
    clean_env.undo()
    config.reload()


@pytest.fixture
def tab() -> Tab:
    return open_tab()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with fake_gateway.running() as gateway:
        yield gateway


def settings(page: Page) -> dict[str, list[str]]:
    rows = page.all(".setup__table tbody tr")
    cells = [[cell.words for cell in row.all("th, td")] for row in rows]
    return {cell[0]: cell[1:] for cell in cells}


def lines(page: Page) -> list[str]:
    return [code.text_content() for code in page.all(".setup__lines code")]


def test_without_a_model_it_says_that_a_stand_in_answers_and_how_to_connect_one(tab: Tab) -> None:
    page = tab.get("/setup/")

    text = page.words("#main")
    assert "No model is connected. What answers is a stand-in that is built in" in text
    assert "It is no language model" in text
    assert "Nothing else is configured, and no key was found in the environment." in text
    assert settings(page)["model.provider"] == ["not set", ""]
    assert "export OPENAI_API_KEY=your-key" in lines(page)
    assert str(paths.config_file()) in text
    assert "Found on this machine" not in text


def test_every_block_for_a_file_is_yaml_that_the_configuration_takes(tab: Tab) -> None:
    blocks = tab.get("/setup/").all(".setup__lines")
    texts = [
        block.all("code")[0].text_content()
        for block in blocks
        if block.all(".code__lang")[0].words in ("config.yaml", "secrets.yaml")
    ]

    assert len(texts) == 3
    for text in texts:
        paths.config_file().write_text(text)
        config.reload()
        assert not config.problem()
        assert not [warning for warning in config.warnings() if "unknown" in warning]


def test_a_running_ollama_is_offered_with_the_lines_that_choose_each_model(
    tab: Tab, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", gateway.url)

    page = tab.get("/setup/")

    offer = page.one(".setup__offer")
    assert f"It runs at {gateway.url} and has 3 models." in offer.words
    assert offer.all(".setup__lines code")[0].text_content() == (
        "model:\n  provider: ollama\n  name: fake-model"
    )
    assert len(offer.all(".setup__lines")) == 3
    assert not offer.all(".badge")


def test_the_offered_lines_make_the_offered_model_answer(
    tab: Tab, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", gateway.url)
    text = tab.get("/setup/").all(".setup__offer .setup__lines code")[1].text_content()

    paths.config_file().write_text(text)
    config.reload()
    page = tab.get("/setup/")

    assert "fake-small, provider ollama. model.provider is set in config.yaml." in page.words(
        "#main"
    )
    assert settings(page)["model.name"] == ["fake-small", "config.yaml"]
    assert page.one(".setup__offer .badge").words == "in use"


def test_a_key_in_the_environment_is_named_and_never_shown(
    tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 2
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{key}x")

    page = tab.get("/setup/")

    assert "gpt-4o-mini, provider openai. OPENAI_API_KEY is set in the environment." in page.words(
        "#main"
    )
    assert [offer.all("h3")[0].words for offer in page.all(".setup__offer")] == [
        "OpenAI in use",
        "Anthropic",
    ]
    assert "model:\n  provider: anthropic" in lines(page)
    assert key not in page.text


def test_a_value_of_the_environment_is_told_by_the_name_of_its_variable(
    tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROTOAGENT__MODEL__API_BASE", "http://127.0.0.1:4000/v1")
    monkeypatch.setenv("PROTOAGENT__MODEL__API_KEY", "plumvelvetotter4417")
    config.reload()

    page = tab.get("/setup/")

    assert "model.api_base is set in PROTOAGENT__MODEL__API_BASE." in page.words("#main")
    assert settings(page)["model.api_key"] == ["********", "PROTOAGENT__MODEL__API_KEY"]
    assert "plumvelvetotter4417" not in page.text


def test_a_configuration_that_makes_no_model_says_why(
    tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROTOAGENT__MODEL__PROVIDER", "anthropic")
    config.reload()

    page = tab.get("/setup/")

    assert page.status == 200
    assert "the provider anthropic needs" in page.words(".setup [role=alert]")
    assert "the provider anthropic needs" in tab.post("/setup/").words(".banner--err")


def test_a_configuration_that_makes_no_model_leaves_every_page_usable(
    tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROTOAGENT__MODEL__PROVIDER", "anthropic")
    config.reload()
    begin("s1")
    tab.htmx = False

    statuses = {path: tab.get(path).status for path in PAGES}
    sent = tab.post("/chat/", {"text": "hello", "mode": "turn", "client_id": "a" * 12})

    assert set(statuses.values()) == {200}, statuses
    assert sent.status == 302


def test_an_edit_that_is_not_in_force_is_told(tab: Tab) -> None:
    paths.config_file().write_text("model: [")
    config._live.look_again()

    page = tab.get("/setup/")

    assert "is not in force" in page.words(".setup [role=alert]")


@pytest.mark.parametrize("htmx", [True, False])
def test_the_test_says_in_one_sentence_whether_the_model_can_be_asked(
    tab: Tab, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, htmx: bool
) -> None:
    monkeypatch.setenv("PROTOAGENT__MODEL__API_BASE", gateway.base)
    monkeypatch.setenv("PROTOAGENT__MODEL__NAME", "fake-model")
    config.reload()
    tab.htmx = htmx

    page = tab.post("/setup/")

    assert page.words("#setup-test [role=status]") == f"{gateway.base} answers and has fake-model."
    assert page.has("#main") is not htmx
    assert not page.has(".banner--err")


def test_a_gateway_that_is_away_is_an_error_and_not_a_broken_page(
    tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROTOAGENT__MODEL__API_BASE", "http://127.0.0.1:9/v1")
    config.reload()

    page = tab.post("/setup/")

    assert page.status == 200
    assert "cannot be reached" in page.words(".banner--err")


def test_testing_the_built_in_model_is_no_success_in_green(tab: Tab) -> None:
    page = tab.post("/setup/")

    assert "No model is connected" in page.words(".banner--warn")


def test_a_viewer_may_look_and_not_test() -> None:
    tab = open_tab("vera", scope=Scope.VIEWER)

    page = tab.get("/setup/")
    refused = tab.post("/setup/")

    assert page.status == 200
    assert not page.has("#setup-test form")
    assert str(paths.config_file()) not in page.text
    assert refused.status == 403


def test_the_page_is_reached_from_the_palette_and_from_an_empty_chat(tab: Tab) -> None:
    tab.htmx = False
    palette = tab.get("/palette/", q="model")
    empty = tab.get("/chat/")

    assert palette.has('a[href="/setup/"]')
    assert empty.one('.chat__welcome a[href="/setup/"]').words == "Set up a model"


def test_an_empty_chat_with_a_model_has_nothing_to_set_up(
    tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROTOAGENT__MODEL__API_BASE", "http://127.0.0.1:9/v1")
    config.reload()
    tab.htmx = False

    assert not tab.get("/chat/").has('.chat__welcome a[href="/setup/"]')


@pytest.mark.parametrize(
    "name",
    [
        *("llama3.2:3b", "hf.co/org/Model-7B:Q4_K_M", "gpt-4o", "a b", "true", "no", "1e3", "12"),
        *("x: y", "a #b", '"quoted"', "- x", "{a}", "ü", "a\nb: c", "", "*x", "null", "a:", "@x"),
    ],
)
def test_a_name_in_the_lines_is_read_as_that_name(name: str) -> None:
    read = YAML(typ="safe").load(f"model:\n  name: {setup.quoted(name)}")

    assert read == {"model": {"name": name}}
