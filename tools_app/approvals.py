"""What counts as a yes, and how a tool says that the operator said no."""

from __future__ import annotations

from typing import Any

APPROVE_WORDS = frozenset({"approve", "approved", "yes", "y", "true", "ok"})


class Declined(str):
    """A tool's answer that means: the operator said no. A decision, not an error."""

    __slots__ = ()


def is_approval(value: Any) -> bool:
    """Whether an answer says yes; everything unclear is a no (spec/behaviour-tools §2.6)."""
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        if isinstance(value.get("approved"), bool):
            return bool(value["approved"])
        return is_approval(value.get("decision", value.get("answer", "")))
    return isinstance(value, str) and value.strip().lower() in APPROVE_WORDS
