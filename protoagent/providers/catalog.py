"""Which model answers: from the configuration and the environment to a ChatModel."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from protoagent.config import services as config
from protoagent.config.schema.model import PROVIDERS
from protoagent.core import clock, env
from protoagent.core.errors import BadValue, ModelFailed
from protoagent.providers.anthropic import AnthropicModel
from protoagent.providers.base import ChatModel
from protoagent.providers.faults import Faults
from protoagent.providers.gateway import GatewayModel
from protoagent.providers.scripted import OfflineModel
from protoagent.providers.served import ServedModel
from protoagent.providers.wire import Wire
from protoagent.security import urls

log = logging.getLogger(__name__)

OPENAI_BASE = "https://api.openai.com/v1"
OPENAI_DEFAULT = "gpt-4o-mini"  # the cheap one: nobody has chosen yet
ANTHROPIC_BASE = "https://api.anthropic.com/v1"
OLLAMA_HOST = "http://127.0.0.1:11434"
OLLAMA_LOOK_S = 0.3
PROBE_S = 10.0
OFFER_KEPT_S = 30.0

_KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_WATCHED = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_HOST")

_OFFLINE = OfflineModel()
_models: dict[str, ChatModel] = {}
_models_of: object = None
_lock = threading.RLock()  # a changed configuration may ask for a model while one is made
_ollama: tuple[str, float, list[str] | None] = ("", 0.0, None)


@dataclass(frozen=True)
class Offer:
    """A provider that could be used. `key_from` says where its key was found, if it needs one."""

    provider: str
    base: str
    models: tuple[str, ...]
    key_from: str = ""


@dataclass(frozen=True)
class Health:
    """Whether the model can be asked, in one sentence."""

    is_ok: bool
    sentence: str


def resolve(name: str | None = None) -> ChatModel:
    """The configured model, or the one called `name` at the configured provider.

    `provider:name` asks another provider, and `offline` the built-in model. The same
    configuration gives the same instance. No network is used.

    Raises BadValue naming the key when the configuration does not make a model.
    """
    global _models_of
    state = (config.version(), *(os.environ.get(variable) for variable in _WATCHED))
    wanted = (name or "").strip()
    with _lock:
        if state != _models_of:
            _models.clear()
            _models_of = state
        model = _models.get(wanted)
        if model is None:
            model = _models[wanted] = _make(wanted)
    return model


def default_name() -> str:
    """The name of the configured model; blank when the configuration makes none."""
    try:
        return resolve().name
    except BadValue:
        return ""


def is_offline() -> bool:
    """Whether the built-in model answers, because no other one is connected."""
    try:
        return resolve().provider == "offline"
    except BadValue:
        return False


def fallbacks() -> list[ChatModel]:
    """The models to ask when the first one fails, in order; never the first one again.

    One that cannot be made is left out: it must not hide why the first one failed.
    """
    first = resolve()
    found: list[ChatModel] = []
    for name in config.get("routing.fallback_models"):
        try:
            model = resolve(name)
        except BadValue as error:
            log.warning("fallback model left out: %s", error)
            continue
        if model not in found and (model.provider, model.name) != (first.provider, first.name):
            found.append(model)
    return found


def options() -> dict[str, Any]:
    """The sampling parameters of a request: the temperature, and what the operator has set."""
    found: dict[str, Any] = {"temperature": config.get("model.temperature")}
    for name in ("max_tokens", "top_p", "reasoning_effort"):
        value, layer = config.explain(f"model.{name}")
        if layer != "default" and value not in (None, ""):
            found[name] = value
    return found


async def detect() -> list[Offer]:
    """What the environment and this machine offer, for the setup page; nothing is used by that."""
    offers: list[Offer] = []
    if env.text("OPENAI_API_KEY"):
        offers.append(Offer("openai", OPENAI_BASE, (OPENAI_DEFAULT,), "OPENAI_API_KEY"))
    if env.text("ANTHROPIC_API_KEY"):
        offers.append(Offer("anthropic", ANTHROPIC_BASE, (), "ANTHROPIC_API_KEY"))
    models = await _running_ollama()
    if models is not None:
        offers.append(Offer("ollama", f"{_ollama_root()}/v1", tuple(models)))
    return offers


async def list_models(name: str | None = None) -> list[str]:
    """The models that can be chosen: favourites first, then what the provider lists.

    Raises ModelFailed or BadValue when the provider cannot be asked.
    """
    model = resolve(name)
    listed = [model.name]
    if isinstance(model, ServedModel):
        listed = await model.list_models(PROBE_S)
    return list(dict.fromkeys([*config.get("model.favorites"), *listed]))


async def probe() -> Health:
    """Whether the configured model can be asked, for `doctor`; lists the models, asks nothing."""
    try:
        model = resolve()
        if not isinstance(model, ServedModel):
            return Health(True, "No model is connected; the built-in offline model answers.")
        return await _probe(model)
    except (ModelFailed, BadValue) as error:
        return Health(False, f"The model cannot be asked: {error}.")


async def _probe(model: ServedModel) -> Health:
    listed = await model.list_models(PROBE_S)
    where = model.faults.where
    if not model.name:
        chosen = model.choose(listed)
        if not chosen:
            return Health(False, f"{where} answers but lists no model; set model.name.")
        return Health(True, f"{where} answers; {chosen} is used, because model.name is not set.")
    if model.name in listed:
        return Health(True, f"{where} answers and has {model.name}.")
    # Gateways with wildcard routes serve models that they do not list.
    return Health(True, f"{where} answers but does not list {model.name} among {len(listed)}.")


def _make(wanted: str) -> ChatModel:
    provider, name = _split(wanted)
    if not provider:
        provider = _provider()
        name = name or config.get("model.name")
    if provider == "offline":
        return _OFFLINE
    timeout_s = float(config.get("model.request_timeout"))
    key, hint = _key(provider)
    base = _base(provider)
    if provider == "anthropic":
        if not key:
            raise BadValue(f"the provider anthropic needs {hint}")
        kind: type[ServedModel] = AnthropicModel
    else:
        kind = GatewayModel
    if provider == "openai" and base == OPENAI_BASE:
        name = name or OPENAI_DEFAULT
        if not key:
            raise BadValue(f"the provider openai needs {hint}, or model.api_base for a gateway")
    return kind(
        base=base, provider=provider, name=name, key=key, key_hint=hint, timeout_s=timeout_s
    )


def _split(wanted: str) -> tuple[str, str]:
    """Provider and name in `provider:name`. Names of Ollama hold colons too: llama3.2:3b."""
    if wanted == "offline":
        return "offline", ""
    prefix, found, rest = wanted.partition(":")
    return (prefix, rest) if found and prefix in PROVIDERS else ("", wanted)


def _provider() -> str:
    """The configured provider, else the first that something points to."""
    decider = decided_by()
    if decider == "model.provider":
        return str(config.get(decider))
    if decider == "model.api_key":
        return "anthropic" if config.get(decider).startswith("sk-ant-") else "openai"
    if decider == "model.api_base":
        return "openai"
    return next((provider for provider, name in _KEYS.items() if name == decider), "offline")


def decided_by() -> str:
    """The setting or environment variable that chose the provider; blank when nothing did."""
    for key in ("model.provider", "model.api_base", "model.api_key"):
        if config.get(key):
            return key
    return next((name for name in _KEYS.values() if env.text(name)), "")


def _key(provider: str) -> tuple[str, str]:
    """The key for `provider`, and where an operator puts it.

    model.api_key belongs to the configured provider and is never sent to another one.
    """
    configured = config.get("model.api_key") if provider == _provider() else ""
    variable = _KEYS.get(provider, "")
    hint = f"model.api_key or {variable}" if variable else "model.api_key"
    return configured or (env.text(variable) if variable else ""), hint


def _base(provider: str) -> str:
    configured = config.get("model.api_base") if provider == _provider() else ""
    if configured:
        return normalise_base(configured)
    if provider == "anthropic":
        return ANTHROPIC_BASE
    return f"{_ollama_root()}/v1" if provider == "ollama" else OPENAI_BASE


def normalise_base(address: str) -> str:
    """The address of an API as requests need it: with /v1 when it has no path.

    A pasted address of the chat route is cut to its base. Raises BadValue when it is no
    http or https address.
    """
    try:
        parsed = urls.parse(address if "://" in address else f"http://{address}")
    except BadValue as error:
        raise BadValue(f"model.api_base: {error}") from None
    if "?" in parsed.path:
        raise BadValue("model.api_base must not have a query")
    path = re.sub(r"/(chat/completions|completions|messages|models)/?\Z", "", parsed.path)
    return f"{parsed.origin}{path.rstrip('/') or '/v1'}"


def _ollama_root() -> str:
    """Where Ollama listens: OLLAMA_HOST may be a bind address, a port or a whole URL."""
    text = env.text("OLLAMA_HOST", OLLAMA_HOST)
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "127.0.0.1", parts.port or _ollama_port(parts.scheme)
    except ValueError:
        return OLLAMA_HOST
    if host in ("0.0.0.0", "::"):  # noqa: S104 — what Ollama binds to is not where to call it
        host = "127.0.0.1"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _ollama_port(scheme: str) -> int:
    return 443 if scheme == "https" else 11434


async def _running_ollama() -> list[str] | None:
    """Names of the models of a running Ollama, or None; looked at every half minute."""
    global _ollama
    root, now = _ollama_root(), clock.monotonic()
    if _ollama[0] != root or now >= _ollama[1]:
        _ollama = (root, now + OFFER_KEPT_S, await _look_for_ollama(root))
    return _ollama[2]


async def _look_for_ollama(root: str) -> list[str] | None:
    wire = Wire(root, Faults(root, ""), timeout_s=OLLAMA_LOOK_S)
    try:
        async with asyncio.timeout(OLLAMA_LOOK_S):
            body = await wire.get_json("/api/tags")
    except (ModelFailed, TimeoutError):
        return None
    rows = body.get("models") if isinstance(body, dict) else None
    if not isinstance(rows, list):
        return None
    return [str(row["name"]) for row in rows if isinstance(row, dict) and row.get("name")]
