"""Costs by the price table."""

from __future__ import annotations

import pytest

from protoagent.providers import pricing
from protoagent.providers.base import Usage

MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("gpt-4o", 12.5),
        ("gpt-4o-mini", 0.75),
        ("openai/GPT-4o-mini-2024-07-18", 0.75),
        ("gpt-4o-2024-08-06", 12.5),
        ("claude-opus-4-1", 90.0),
        ("claude-sonnet-4-5", 18.0),
        ("anthropic/claude-haiku-4-5", 1.5),
        ("protolabs/reasoning", 0.5),
        ("protolabs/nano", 0.13),
        ("protolabs/other", 0.5),
        ("somebody-else", 18.0),
        ("", 18.0),
    ],
)
def test_the_longest_known_name_decides(model: str, cost: float) -> None:
    assert pricing.cost_usd(model, MILLION) == pytest.approx(cost)


def test_cached_tokens_cost_a_tenth() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=0, cached_tokens=500_000)

    assert pricing.saving_usd("gpt-4o", 500_000) == pytest.approx(1.125)
    assert pricing.cost_usd("gpt-4o", usage) == pytest.approx(2.5 - 1.125)


def test_costs_have_six_decimals() -> None:
    assert pricing.cost_usd("gpt-4o-mini", Usage(input_tokens=1, output_tokens=1)) == 0.000001


@pytest.mark.parametrize("provider", ["ollama", "offline"])
def test_models_of_this_machine_cost_nothing(provider: str) -> None:
    assert pricing.cost_usd("gpt-4o", MILLION, provider=provider) == 0
    assert pricing.saving_usd("gpt-4o", 1000, provider=provider) == 0


def test_a_wrong_count_of_cached_tokens_never_makes_a_call_cheaper_than_its_output() -> None:
    usage = Usage(input_tokens=10, output_tokens=0, cached_tokens=10_000_000)

    assert pricing.cost_usd("gpt-4o", usage) >= 0
