"""Guards against a turn that runs without getting anywhere (spec/behaviour-platform §7.5)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from protoagent.runtime.leg import Message

NOTE_AFTER_REPEATS = 3
END_AFTER_REPEATS = 6


@dataclass(frozen=True)
class Verdict:
    """`note` is told to the model with the next request; `end` ends the turn with a reason."""

    note: str = ""
    end: str = ""


def judge(messages: list[Message], *, nudge_after: int, hard_cap: int) -> Verdict:
    """What the rounds of this turn so far call for. Zero switches a round guard off."""
    rounds = sum(1 for message in messages if message.get("tool_calls"))
    if hard_cap and rounds >= hard_cap:
        return Verdict(end=f"the turn reached its limit of {hard_cap} rounds")
    repeats = _repeats(messages)
    if repeats >= END_AFTER_REPEATS:
        return Verdict(end=f"the same call gave the same result {repeats} times in a row")
    if repeats == NOTE_AFTER_REPEATS:
        return Verdict(
            note=f"[notice] The last {repeats} calls were the same and gave the same result. "
            "Try another way or tell the operator what blocks you."
        )
    if nudge_after and rounds == nudge_after:
        return Verdict(
            note=f"[notice] This turn has used {rounds} rounds of tools. Sum up what you have and "
            "finish, unless the next step is clear."
        )
    return Verdict()


def _repeats(messages: list[Message]) -> int:
    """How often in a row the newest single call was made with the same result."""
    results = {m["tool_call_id"]: m.get("content") for m in messages if m.get("role") == "tool"}
    rounds: list[tuple[str, str, str] | None] = []
    for message in messages:
        if message.get("role") == "user":
            rounds.append(None)  # anything the operator says breaks the run
        for call in message.get("tool_calls") or ():
            function = call["function"]
            rounds.append((function["name"], function["arguments"], str(results.get(call["id"]))))
    count = 1
    for earlier, later in pairwise(reversed(rounds)):
        if earlier is None or earlier != later:
            break
        count += 1
    return count if rounds and rounds[-1] is not None else 0
