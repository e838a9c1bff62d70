"""The details pane of a session: the run, what is in flight, what was used."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Sum
from django.utils.safestring import SafeString

from protoagent.console import rendering
from protoagent.console.calls import target_of
from protoagent.console.messages import Usage
from protoagent.console.rendering import Look
from protoagent.core.context import Origin
from protoagent.journal.models import ChatSession, Interruption, InterruptionState, Turn, TurnEvent
from protoagent.providers import catalog
from tools_app import inflight
from tools_app.models import CallStatus, ToolCall

# Label and tone of a turn's badge.
STATES = {
    "queued": ("queued", "line"),
    "running": ("working", "accent"),
    "stopping": ("stopping", "warn"),
    "waiting": ("input required", "warn"),
    "completed": ("done", "ok"),
    "stopped": ("stopped", "line"),
    "failed": ("failed", "err"),
    "interrupted": ("interrupted", "warn"),
}


@dataclass(frozen=True)
class Flight:
    """A call that has begun and not ended."""

    call: ToolCall
    can_cancel: bool

    @property
    def target(self) -> str:
        return target_of(self.call.name, self.call.arguments)

    @property
    def is_waiting(self) -> bool:
        return self.call.status == CallStatus.WAITING

    @property
    def clock(self) -> SafeString:
        return rendering.running_since(self.call.started_at)


@dataclass(frozen=True)
class Run:
    """The newest turn."""

    turn: Turn
    usage: Usage
    state: str
    look: Look

    @property
    def label(self) -> str:
        return STATES[self.state][0]

    @property
    def tone(self) -> str:
        return STATES[self.state][1]

    @property
    def started_by(self) -> str:
        if self.turn.origin == Origin.OPERATOR:
            return self.look.you.lower() if self.look.can_write else "the operator"
        return rendering.ORIGINS.get(self.turn.origin, (self.turn.origin, ""))[0]

    @property
    def clock(self) -> SafeString | str:
        """The running time of a turn that has not ended."""
        if self.turn.finished_at or self.turn.started_at is None:
            return ""
        return rendering.running_since(self.turn.started_at)

    @property
    def lasted(self) -> str:
        if self.turn.started_at is None or self.turn.finished_at is None:
            return ""
        elapsed = self.turn.finished_at - self.turn.started_at
        return rendering.duration(elapsed.total_seconds() * 1000)

    @property
    def model(self) -> str:
        return self.turn.model or self.turn.session.model or catalog.default_name()


@dataclass(frozen=True)
class Details:
    """Everything that the pane shows."""

    run: Run | None
    flights: tuple[Flight, ...]
    turns: int
    usage: Usage


def of(session: ChatSession, look: Look) -> Details:
    """The details of a session as of now."""
    rows = Turn.objects.filter(session=session)
    turn = rows.defer("messages", "text", "answer").select_related("session")
    newest = turn.order_by("-number").first()
    run = _run(newest, look) if newest else None
    calls = inflight.open_calls(session.agent.key).filter(turn__session=session)
    totals = rows.aggregate(
        turns=Count("pk"), sent=Sum("input_tokens"), got=Sum("output_tokens"), usd=Sum("cost_usd")
    )
    usage = Usage(int(totals["sent"] or 0), int(totals["got"] or 0), float(totals["usd"] or 0))
    if run and not run.turn.is_ended:  # its row gets its sums at the end
        usage = Usage(
            usage.input_tokens + run.usage.input_tokens,
            usage.output_tokens + run.usage.output_tokens,
            usage.cost_usd + run.usage.cost_usd,
        )
    return Details(
        run=run,
        flights=tuple(Flight(call, look.can_write) for call in calls),
        turns=totals["turns"],
        usage=usage,
    )


def _run(turn: Turn, look: Look) -> Run:
    state = str(turn.status)
    if not turn.is_ended and turn.stop_requested_at:
        state = "stopping"
    elif not turn.is_ended and _asks(turn):
        state = "waiting"
    if turn.is_ended:
        usage = Usage(turn.input_tokens, turn.output_tokens, float(turn.cost_usd))
        return Run(turn, usage, state, look)
    usage = Usage()
    for data in TurnEvent.objects.filter(turn=turn, type="usage").values_list("data", flat=True):
        usage.add(data)
    return Run(turn, usage, state, look)


def _asks(turn: Turn) -> bool:
    return Interruption.objects.filter(turn=turn, state=InterruptionState.OPEN).exists()
