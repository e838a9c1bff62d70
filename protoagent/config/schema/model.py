"""The model that answers, how it samples, and how long it may take."""

from __future__ import annotations

from protoagent.config.schema.entry import Entry, Kind, Scope, Section

PROVIDERS = ("openai", "anthropic", "ollama", "offline")

_CONNECTION = (
    Entry(
        key="model.provider",
        kind=Kind.SELECT,
        default="",
        options=("", *PROVIDERS),
        scope=Scope.HOST,
        label="Provider",
        help="openai speaks to every OpenAI-compatible gateway. Empty: found by the other "
        "settings and the keys in the environment, else the offline model.",
    ),
    Entry(
        key="model.name",
        kind=Kind.STRING,
        default="",
        scope=Scope.HOST,
        label="Model",
        help="As the gateway lists it. Empty: the first suitable one it lists.",
    ),
    Entry(
        key="model.api_base",
        kind=Kind.STRING,
        default="",
        scope=Scope.HOST,
        label="Address of the gateway",
        help="For example http://127.0.0.1:4000/v1. An address without a path gets /v1.",
    ),
    Entry(
        key="model.api_key",
        kind=Kind.SECRET,
        default="",
        label="Key",
        help="Empty: OPENAI_API_KEY or ANTHROPIC_API_KEY of the environment.",
    ),
    Entry(
        key="model.vision",
        kind=Kind.BOOL,
        default=False,
        scope=Scope.HOST,
        label="Sees images",
        help="On: attached images are sent to the model. Off: it gets their names and alt texts.",
    ),
    Entry(
        key="model.favorites",
        kind=Kind.LIST,
        default=[],
        label="Favourite models",
        help="Shown first wherever a model can be chosen.",
    ),
)

_SAMPLING = (
    Entry(
        key="model.temperature",
        kind=Kind.NUMBER,
        default=0.2,
        minimum=0,
        maximum=2,
        label="Temperature",
        help="0 is the most predictable.",
    ),
    Entry(
        key="model.max_tokens",
        kind=Kind.NUMBER,
        default=32768,
        minimum=1,
        whole=True,
        label="Longest answer in tokens",
        help="Sent to the model only when it is set; Anthropic always needs it.",
    ),
    Entry(
        key="model.top_p",
        kind=Kind.NUMBER,
        default=None,
        minimum=0,
        maximum=1,
        label="Top p",
        help="Unset: the model's own value.",
    ),
    Entry(
        key="model.reasoning_effort",
        kind=Kind.SELECT,
        default="",
        options=("", "low", "medium", "high", "max"),
        label="Reasoning effort",
        help="Empty: the model's own value.",
    ),
)

_LIMITS = (
    Entry(
        key="model.max_iterations",
        kind=Kind.NUMBER,
        default=2000,
        minimum=1,
        whole=True,
        label="Steps of a turn",
        help="A turn that needs more ends with an error.",
    ),
    Entry(
        key="model.turn_stall_timeout_seconds",
        kind=Kind.NUMBER,
        default=900,
        minimum=0,
        label="Silence that ends a turn",
        help="Seconds between two signs of life. 0 waits for ever.",
    ),
    Entry(
        key="model.round_nudge_after",
        kind=Kind.NUMBER,
        default=25,
        minimum=0,
        whole=True,
        label="Rounds before a reminder",
        help="Model calls of one turn after which the model is asked to come to an end. 0 is off.",
    ),
    Entry(
        key="model.round_hard_cap",
        kind=Kind.NUMBER,
        default=0,
        minimum=0,
        whole=True,
        label="Rounds at most",
        help="Model calls after which a turn ends. 0 is off.",
    ),
    Entry(
        key="model.request_timeout",
        kind=Kind.NUMBER,
        default=120,
        minimum=1,
        maximum=3600,
        label="Silence of the gateway",
        help="Seconds without a byte after which a model call fails.",
    ),
    Entry(
        key="model.max_retries",
        kind=Kind.NUMBER,
        default=2,
        minimum=0,
        maximum=10,
        whole=True,
        label="Retries",
        help="Only while nothing of the answer has arrived.",
    ),
)

SECTION = Section(
    name="model",
    label="Model",
    category="Model",
    entries=(*_CONNECTION, *_SAMPLING, *_LIMITS),
)
