"""Which model answers and why, how to connect another one, and whether it can be asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods

from protoagent.config import paths
from protoagent.config import services as config
from protoagent.core.errors import BadValue
from protoagent.providers import catalog
from protoagent.providers.catalog import Offer
from protoagent.web import htmx
from protoagent.web.auth import operator_only, watchers

MAX_OFFERED_MODELS = 8
KEYS = ("model.provider", "model.name", "model.api_base", "model.api_key")
LAYERS = {
    "file": "config.yaml",
    "secrets": "secrets.yaml",
    "environment": "the environment",
    "default": "",
}
LABELS = {"openai": "OpenAI", "anthropic": "Anthropic", "ollama": "Ollama"}
# A word that YAML reads as the text it is; everything else is quoted.
_PLAIN = re.compile(r"(?!(?i:true|false|yes|no|on|off|null|y|n)\Z)[A-Za-z][\w./@-]*(:[\w./@-]+)*\Z")


@dataclass(frozen=True)
class Row:
    """A setting, its value, and where that comes from; blank when it is not set."""

    key: str
    value: str
    source: str


@dataclass(frozen=True)
class Use:
    """The model that answers now. `problem` says why the configuration makes none."""

    provider: str = ""
    name: str = ""
    why: str = ""
    problem: str = ""

    @property
    def is_offline(self) -> bool:
        return self.provider == "offline"


@dataclass(frozen=True)
class Lines:
    """Text to copy, and the file or place where it belongs."""

    where: str
    text: str


@dataclass(frozen=True)
class Offered:
    """Something that this machine or its environment has, with the lines that choose it."""

    title: str
    text: str
    is_used: bool
    choices: tuple[Lines, ...]
    more: int = 0


@dataclass(frozen=True)
class Verdict:
    """The outcome of a test: its tone (ok, warn or err) and one sentence."""

    tone: str
    sentence: str


@require_http_methods(["GET", "HEAD", "POST"])
@watchers
def setup(request: HttpRequest) -> HttpResponse:
    """The page; a POST tests the connection and shows the outcome."""
    return _tested(request) if request.method == "POST" else _page(request, None)


@operator_only
def _tested(request: HttpRequest) -> HttpResponse:
    health = async_to_sync(catalog.probe)()
    tone = "warn" if _use().is_offline else "ok" if health.is_ok else "err"
    verdict = Verdict(tone, health.sentence)
    if not htmx.is_swap(request):
        return _page(request, verdict)
    response = render(request, "console/_setup_test.html", {"verdict": verdict})
    patch_vary_headers(response, htmx.VARY)
    return response


def _page(request: HttpRequest, verdict: Verdict | None) -> HttpResponse:
    use = _use()
    context = {
        "use": use,
        "rows": _rows(),
        "config_problem": config.problem(),
        "offers": [_offered(offer, use) for offer in async_to_sync(catalog.detect)()],
        "gateway": _GATEWAY,
        "services": _SERVICES,
        "ollama": _OLLAMA,
        "config_file": paths.config_file(),
        "secrets_file": paths.secrets_file(),
        "verdict": verdict,
    }
    response = render(request, "console/setup.html", context)
    patch_vary_headers(response, htmx.VARY)
    return response


def _use() -> Use:
    try:
        model = catalog.resolve(None)
    except BadValue as error:
        return Use(problem=str(error))
    return Use(model.provider, "" if model.provider == "offline" else model.name, _why())


def _why() -> str:
    decider = catalog.decided_by()
    if not decider:
        return "Nothing else is configured, and no key was found in the environment."
    if decider not in KEYS:
        return f"{decider} is set in the environment."
    return f"{decider} is set in {_source(decider)}."


def _source(key: str) -> str:
    """Where a setting comes from, as an operator would look for it."""
    layer = config.explain(key).layer
    if layer == "environment":
        return "PROTOAGENT__" + key.upper().replace(".", "__")
    return LAYERS.get(layer, layer)


def _rows() -> list[Row]:
    return [Row(key, str(config.explain(key).value or ""), _source(key)) for key in KEYS]


def _offered(offer: Offer, use: Use) -> Offered:
    name = LABELS.get(offer.provider, offer.provider)
    is_used = use.provider == offer.provider
    if offer.key_from:
        text = f"{offer.key_from} is set in the environment."
        model = offer.models[0] if offer.models else ""
        return Offered(name, text, is_used, (Lines("config.yaml", _yaml(offer.provider, model)),))
    shown = offer.models[:MAX_OFFERED_MODELS]
    choices = tuple(Lines("config.yaml", _yaml(offer.provider, model)) for model in shown)
    text = f"It runs at {offer.base.removesuffix('/v1')}"
    text += f" and has {len(offer.models)} models." if len(offer.models) > 1 else "."
    if not offer.models:
        text += " It has no model yet; get one with the command below."
        choices = (Lines("a shell", "ollama pull llama3.2"),)
    return Offered(name, text, is_used, choices, len(offer.models) - len(shown))


def _yaml(provider: str, name: str) -> str:
    return f"model:\n  provider: {provider}" + (f"\n  name: {quoted(name)}" if name else "")


def quoted(text: str) -> str:
    """`text` as a YAML value that is read as this text and nothing else."""
    return text if _PLAIN.match(text) else json.dumps(text)


def _environment(**values: str) -> Iterator[str]:
    for key, value in values.items():
        yield f"export PROTOAGENT__MODEL__{key.upper()}={value}"


_GATEWAY: tuple[Lines, ...] = (
    Lines("config.yaml", "model:\n  api_base: http://127.0.0.1:4000/v1\n  name: name-of-the-model"),
    Lines("secrets.yaml", "model:\n  api_key: the-key-of-the-gateway"),
    Lines(
        "the environment, instead of the files",
        "\n".join(
            _environment(
                api_base="http://127.0.0.1:4000/v1",
                name="name-of-the-model",
                api_key="the-key-of-the-gateway",
            )
        ),
    ),
)
_SERVICES: tuple[Lines, ...] = (
    Lines("the environment, for OpenAI", "export OPENAI_API_KEY=your-key"),
    Lines("the environment, for Anthropic", "export ANTHROPIC_API_KEY=your-key"),
)
_OLLAMA: tuple[Lines, ...] = (
    Lines("a shell", "ollama pull llama3.2"),
    Lines("config.yaml", _yaml("ollama", "llama3.2")),
)
