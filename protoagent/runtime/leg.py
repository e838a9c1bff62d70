"""One leg of a turn: what the runtime keeps in memory between a claim and its end.

Nothing in here would be missed after a crash; everything a user could miss is a row.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from protoagent.journal.services.pending import Said
from protoagent.journal.services.turns import Claim, Hold
from tools_app.registry import ToolSet

Message = dict[str, Any]


@dataclass
class Leg:
    """A claimed turn while this process runs it.

    `images` are the ones that its requests send, `is_blind` once a model has refused them.
    """

    claim: Claim
    holder: str
    tools: ToolSet
    system_prompt: str
    history: list[Message]
    opening: Message
    options: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    segments: list[str] = field(default_factory=list)
    partial: str = ""
    may_have_steers: bool = False
    unread: list[Said] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)
    is_blind: bool = False
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    lost: bool = False
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    last_step: str = "starting"
    persist: bool = False
    has_checkpoint: bool = False
    auto_answers: int = 0
    announced: set[str] = field(default_factory=set)
    asked: dict[str, int] = field(default_factory=dict)

    @property
    def hold(self) -> Hold:
        return self.claim.hold

    @property
    def answer(self) -> str:
        """The lead's whole answer so far, its parts joined by a blank line."""
        return "\n\n".join(part for part in (*self.segments, self.partial) if part)


current: ContextVar[Leg] = ContextVar("protoagent_leg")
