"""From configuration and environment to a model, and what else is on offer."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from protoagent.config import services
from protoagent.core.errors import BadValue, ModelFailed
from protoagent.providers import catalog
from protoagent.providers.anthropic import AnthropicModel
from protoagent.providers.gateway import GatewayModel
from protoagent.providers.served import ServedModel
from tests.fakes.gateway import Gateway
from tests.providers.conftest import ReplayMaker, whole


@pytest.fixture(autouse=True)
def home(tmp_path: Path, clean_env: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch) -> Path:
    clean_env.setenv("PROTOAGENT_HOME", str(tmp_path))
    services.reload()
    monkeypatch.setattr(catalog, "_ollama", ("", 0.0, None))
    return tmp_path


def configure(env: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        env.setenv(name if name.isupper() and "__" not in name else f"PROTOAGENT__{name}", value)
    services.reload()


def shape(model: Any) -> tuple[str, str, str]:
    base = model.base if isinstance(model, ServedModel) else ""
    return (model.provider, base, model.name)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ("offline", "", "offline")),
        (
            {"OPENAI_API_KEY": "sk-1"},
            ("openai", "https://api.openai.com/v1", "gpt-4o-mini"),
        ),
        (
            {"ANTHROPIC_API_KEY": "sk-ant-1"},
            ("anthropic", "https://api.anthropic.com/v1", ""),
        ),
        (
            {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-ant-1"},
            ("openai", "https://api.openai.com/v1", "gpt-4o-mini"),
        ),
        (
            {"MODEL__API_BASE": "http://127.0.0.1:4000/v1", "MODEL__NAME": "big"},
            ("openai", "http://127.0.0.1:4000/v1", "big"),
        ),
        (
            {"MODEL__API_BASE": "http://127.0.0.1:4000", "ANTHROPIC_API_KEY": "sk-ant-1"},
            ("openai", "http://127.0.0.1:4000/v1", ""),
        ),
        (
            {"MODEL__PROVIDER": "offline", "MODEL__API_BASE": "http://127.0.0.1:4000"},
            ("offline", "", "offline"),
        ),
        (
            {"MODEL__PROVIDER": "anthropic", "OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "k"},
            ("anthropic", "https://api.anthropic.com/v1", ""),
        ),
        (
            {"MODEL__PROVIDER": "ollama", "MODEL__NAME": "llama3.2"},
            ("ollama", "http://127.0.0.1:11434/v1", "llama3.2"),
        ),
        (
            {"MODEL__PROVIDER": "ollama", "OLLAMA_HOST": "0.0.0.0:9999"},
            ("ollama", "http://127.0.0.1:9999/v1", ""),
        ),
        ({"OLLAMA_HOST": "127.0.0.1"}, ("offline", "", "offline")),
        (
            {"MODEL__API_KEY": "sk-ant-1"},
            ("anthropic", "https://api.anthropic.com/v1", ""),
        ),
        (
            {"MODEL__API_KEY": "sk-1", "MODEL__NAME": "gpt-4o"},
            ("openai", "https://api.openai.com/v1", "gpt-4o"),
        ),
    ],
)
def test_the_first_that_points_to_a_model_decides(clean_env, values, expected) -> None:
    configure(clean_env, **values)

    assert shape(catalog.resolve()) == expected


def test_the_same_configuration_gives_the_same_model_and_a_new_one_another(clean_env) -> None:
    configure(clean_env, MODEL__API_BASE="http://127.0.0.1:4000/v1", MODEL__API_KEY="key-one")
    first = catalog.resolve()
    assert catalog.resolve() is first
    assert catalog.resolve("other") is catalog.resolve("other") is not first

    configure(clean_env, MODEL__API_KEY="key-two")
    assert catalog.resolve() is not first

    second = catalog.resolve()
    configure(clean_env, OPENAI_API_KEY="sk-later")
    assert catalog.resolve() is not second


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("other", ("openai", "http://127.0.0.1:4000/v1", "other")),
        ("vendor/other", ("openai", "http://127.0.0.1:4000/v1", "vendor/other")),
        ("llama3.2:3b", ("openai", "http://127.0.0.1:4000/v1", "llama3.2:3b")),
        ("openai:gpt", ("openai", "http://127.0.0.1:4000/v1", "gpt")),
        ("ollama:llama3.2:3b", ("ollama", "http://127.0.0.1:11434/v1", "llama3.2:3b")),
        ("anthropic:claude", ("anthropic", "https://api.anthropic.com/v1", "claude")),
        ("offline", ("offline", "", "offline")),
        ("  ", ("openai", "http://127.0.0.1:4000/v1", "big")),
    ],
)
def test_a_name_may_point_to_another_provider(clean_env, name, expected) -> None:
    configure(
        clean_env,
        MODEL__API_BASE="http://127.0.0.1:4000/v1",
        MODEL__NAME="big",
        MODEL__API_KEY="key-one",
        ANTHROPIC_API_KEY="sk-ant-1",
    )

    assert shape(catalog.resolve(name)) == expected


def test_a_configured_key_is_never_sent_to_another_provider(clean_env) -> None:
    configure(
        clean_env,
        MODEL__PROVIDER="anthropic",
        MODEL__API_KEY="sk-ant-mine",
        OPENAI_API_KEY="sk-openai",
    )

    keys = {
        name: catalog.resolve(name).faults.key  # type: ignore[attr-defined]
        for name in ("anthropic:a", "openai:b", "ollama:c")
    }

    assert keys == {"anthropic:a": "sk-ant-mine", "openai:b": "sk-openai", "ollama:c": ""}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_provider_without_its_key_says_which_one(clean_env, provider: str) -> None:
    configure(clean_env, MODEL__PROVIDER=provider)

    with pytest.raises(BadValue, match=f"{provider} needs model.api_key or {provider.upper()}_API"):
        catalog.resolve()


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("http://127.0.0.1:4000", "http://127.0.0.1:4000/v1"),
        ("http://127.0.0.1:4000/", "http://127.0.0.1:4000/v1"),
        ("http://127.0.0.1:4000/v1/", "http://127.0.0.1:4000/v1"),
        ("https://api.example.org/v1/chat/completions", "https://api.example.org/v1"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"),
        ("gateway:4000", "http://gateway:4000/v1"),
        ("http://[::1]:4000/v1", "http://[::1]:4000/v1"),
    ],
)
def test_an_address_is_put_into_form(address: str, base: str) -> None:
    assert catalog.normalise_base(address) == base


@pytest.mark.parametrize(
    "address",
    [
        "ftp://host/v1",
        "http://",
        "http://a b/v1",
        "http://host:99999/v1",
        "http://u:p@host/v1",
        "http://host/v1?key=1",
        "javascript:alert(1)",
    ],
)
def test_an_address_that_is_none_names_the_setting(clean_env, address: str) -> None:
    configure(clean_env, MODEL__API_BASE=address)

    with pytest.raises(BadValue, match=r"model\.api_base"):
        catalog.resolve()


def test_fallbacks_come_in_order_and_never_repeat_the_first(clean_env, caplog) -> None:
    configure(
        clean_env,
        MODEL__API_BASE="http://127.0.0.1:4000/v1",
        MODEL__NAME="big",
        ROUTING__FALLBACK_MODELS='["small", "big", "anthropic:claude", "offline", "small"]',
    )

    found = [shape(model)[2] for model in catalog.fallbacks()]

    assert found == ["small", "offline"]
    assert "anthropic needs" in caplog.text


def test_options_are_the_temperature_and_what_was_set(clean_env) -> None:
    assert catalog.options() == {"temperature": 0.2}

    configure(
        clean_env,
        MODEL__TEMPERATURE="0",
        MODEL__MAX_TOKENS="500",
        MODEL__TOP_P="0.9",
        MODEL__REASONING_EFFORT="high",
    )
    assert catalog.options() == {
        "temperature": 0,
        "max_tokens": 500,
        "top_p": 0.9,
        "reasoning_effort": "high",
    }


def test_the_timeout_of_the_configuration_is_used(clean_env) -> None:
    configure(clean_env, MODEL__API_BASE="http://127.0.0.1:4000", MODEL__REQUEST_TIMEOUT="7")

    model = catalog.resolve()

    assert isinstance(model, GatewayModel) and model._wire.timeout_s == 7


async def test_keys_and_a_running_ollama_are_offered_and_not_used(clean_env, gateway) -> None:
    configure(
        clean_env, OPENAI_API_KEY="sk-1", ANTHROPIC_API_KEY="sk-ant-1", OLLAMA_HOST=gateway.url
    )

    offers = {offer.provider: offer for offer in await catalog.detect()}

    assert list(offers) == ["openai", "anthropic", "ollama"]
    assert offers["openai"].key_from == "OPENAI_API_KEY"
    assert offers["ollama"].base == f"{gateway.url}/v1"
    assert offers["ollama"].models == ("fake-model", "fake-small", "fake-embed")
    assert catalog.resolve().provider == "openai"


async def test_without_anything_nothing_is_offered(clean_env) -> None:
    configure(clean_env, OLLAMA_HOST="127.0.0.1:9")

    assert await catalog.detect() == []


async def test_a_silent_ollama_is_given_up_soon_and_not_asked_again_at_once(clean_env) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        configure(clean_env, OLLAMA_HOST=f"127.0.0.1:{server.getsockname()[1]}")
        started = time.monotonic()
        for _ in range(3):
            assert await catalog.detect() == []
        elapsed = time.monotonic() - started

    assert 0.2 < elapsed < 1


@pytest.mark.parametrize("body", [[], {"models": "x"}, {"models": [1, {}]}])
async def test_something_else_at_the_port_of_ollama_breaks_nothing(clean_env, replay, body) -> None:
    server = replay(whole(body))
    configure(clean_env, OLLAMA_HOST=server.base.removesuffix("/v1"))

    assert [offer.models for offer in await catalog.detect()] in ([], [()])


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        (":9999", "http://127.0.0.1:9999"),
        ("box:80", "http://box:80"),
        ("https://box", "https://box:443"),
        ("[::]:11434", "http://127.0.0.1:11434"),
        ("[fd00::1]:11434", "http://[fd00::1]:11434"),
        ("http://box:nonsense", "http://127.0.0.1:11434"),
    ],
)
def test_the_address_of_ollama_may_be_a_bind_address(clean_env, text: str, root: str) -> None:
    clean_env.setenv("OLLAMA_HOST", text)

    assert catalog._ollama_root() == root


async def test_models_are_listed_with_the_favourites_first(clean_env, gateway: Gateway) -> None:
    configure(
        clean_env, MODEL__API_BASE=gateway.base, MODEL__FAVORITES='["fake-small", "elsewhere"]'
    )

    listed = await catalog.list_models()

    assert listed == ["fake-small", "elsewhere", "fake-model", "fake-embed"]


async def test_the_offline_model_lists_itself(clean_env) -> None:
    assert await catalog.list_models() == ["offline"]


async def test_listing_at_a_server_that_is_not_there_fails(clean_env) -> None:
    configure(clean_env, MODEL__API_BASE="http://127.0.0.1:9")

    with pytest.raises(ModelFailed, match="cannot be reached"):
        await catalog.list_models()


async def test_the_health_is_told_in_a_sentence(clean_env, gateway: Gateway) -> None:
    health = await catalog.probe()
    assert health.is_ok and "built-in offline model answers" in health.sentence

    configure(clean_env, MODEL__API_BASE=gateway.base)
    health = await catalog.probe()
    assert health.is_ok and "fake-model is used, because model.name is not set" in health.sentence

    configure(clean_env, MODEL__NAME="fake-small")
    health = await catalog.probe()
    assert health.is_ok and health.sentence == f"{gateway.base} answers and has fake-small."

    configure(clean_env, MODEL__NAME="unlisted")
    health = await catalog.probe()
    assert health.is_ok and "does not list unlisted among 3" in health.sentence

    assert not gateway.requests


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"MODEL__API_BASE": "http://127.0.0.1:9"}, "cannot be reached"),
        ({"MODEL__PROVIDER": "openai"}, "needs model.api_key"),
        ({"MODEL__API_BASE": "nonsense://"}, "model.api_base"),
    ],
)
async def test_a_model_that_cannot_be_asked_is_unhealthy(clean_env, values, words) -> None:
    configure(clean_env, **values)

    health = await catalog.probe()

    assert not health.is_ok and words in health.sentence


async def test_a_refused_key_is_unhealthy(clean_env, replay: ReplayMaker) -> None:
    server = replay(whole({"error": {"message": "bad key"}}, 401))
    configure(clean_env, MODEL__API_BASE=server.base, MODEL__API_KEY="key-number-1")

    health = await catalog.probe()

    assert not health.is_ok and "was refused (401)" in health.sentence
    assert "key-number-1" not in health.sentence


def test_resolving_from_many_threads_makes_one_model(clean_env) -> None:
    configure(clean_env, MODEL__API_BASE="http://127.0.0.1:4000")

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(catalog.resolve, "x") for _ in range(20)))

    assert len(set(map(id, asyncio.run(all_of_them())))) == 1


def test_anthropic_is_spoken_to_in_its_own_format(clean_env) -> None:
    configure(clean_env, ANTHROPIC_API_KEY="sk-ant-1")

    assert isinstance(catalog.resolve(), AnthropicModel)
