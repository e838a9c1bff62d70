"""What a model call costs, by the published price of its family."""

from __future__ import annotations

from protoagent.providers.base import Usage

# US dollars per million tokens: input, output.
PRICES: dict[str, tuple[float, float]] = {
    "claude-opus": (15.0, 75.0),
    "claude-sonnet": (3.0, 15.0),
    "claude-haiku": (0.25, 1.25),
    "gpt-4o": (2.5, 10.0),
    "gpt-4o-mini": (0.15, 0.60),
    "protolabs": (0.10, 0.40),
    "protolabs/reasoning": (0.10, 0.40),
    "protolabs/smart": (0.10, 0.40),
    "protolabs/fast": (0.05, 0.20),
    "protolabs/nano": (0.03, 0.10),
}
DEFAULT_PRICE = (3.0, 15.0)
CACHED_DISCOUNT = 0.9
_FREE = ("ollama", "offline")


def price(model: str) -> tuple[float, float]:
    """Dollars per million input and output tokens.

    An exact name wins over the longest known name inside it; an unknown one costs the default.
    """
    name = model.strip().lower()
    if name in PRICES:
        return PRICES[name]
    inside = [known for known in PRICES if known in name]
    return PRICES[max(inside, key=len)] if inside else DEFAULT_PRICE


def saving_usd(model: str, cached_tokens: int, *, provider: str = "") -> float:
    """What reading `cached_tokens` from the provider's cache saved."""
    if provider in _FREE:
        return 0.0
    return round(CACHED_DISCOUNT * price(model)[0] * cached_tokens / 1_000_000, 6)


def cost_usd(model: str, usage: Usage, *, provider: str = "") -> float:
    """What the call cost after the saving; nothing on this machine's own models."""
    if provider in _FREE:
        return 0.0
    input_price, output_price = price(model)
    cached = min(usage.cached_tokens, usage.input_tokens)
    full = usage.input_tokens * input_price + usage.output_tokens * output_price
    return round((full - CACHED_DISCOUNT * input_price * cached) / 1_000_000, 6)
