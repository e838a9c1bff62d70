"""What was said and done: agents, sessions, turns, events, pauses, pending messages.

The constraints are the legal states. Changing a row is the business of
`journal.services`; reading rules are queryset methods.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Q

from protoagent.core import clock
from protoagent.core.context import Origin
from protoagent.core.ids import new_id


def new_turn_id() -> str:
    """The default key of a turn."""
    return new_id("t")


def new_interruption_id() -> str:
    """The default key of an interruption."""
    return new_id("q")


class Agent(models.Model):
    """Whom sessions, schedules, tasks and memories belong to. `main` exists from the start."""

    key = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=120, blank=True)
    model = models.CharField(max_length=200, blank=True)
    allow = models.JSONField(default=list, blank=True, help_text="Tool names; empty allows all.")
    deny = models.JSONField(default=list, blank=True, help_text="Tool names that it never gets.")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    def __str__(self) -> str:
        return self.name or self.key


class TitleSource(models.TextChoices):
    AUTO = "auto", "first words"
    GENERATED = "generated", "generated"
    MANUAL = "manual", "by hand"


class SessionQuerySet(models.QuerySet["ChatSession"]):
    def of_agent(self, agent_key: str) -> SessionQuerySet:
        return self.filter(agent__key=agent_key)

    def present(self) -> SessionQuerySet:
        """Not deleted; a deleted session can be restored until it is purged."""
        return self.filter(deleted_at=None)


class ChatSession(models.Model):
    """A conversation. `last_seq` is the number of its newest event; numbers have no gaps."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="sessions")
    key = models.CharField(max_length=128)
    title = models.CharField(max_length=200, blank=True)
    title_source = models.CharField(
        max_length=10, choices=TitleSource.choices, default=TitleSource.AUTO
    )
    origin = models.CharField(max_length=16, default=Origin.OPERATOR.value)
    model = models.CharField(max_length=200, blank=True, help_text="Overrides the agent's model.")
    incognito = models.BooleanField(default=False)
    last_seq = models.PositiveIntegerField(default=0)
    seen_seq = models.PositiveIntegerField(default=0)
    last_event_at = models.DateTimeField(default=clock.now, db_index=True)
    pinned_at = models.DateTimeField(null=True, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True, db_index=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = SessionQuerySet.as_manager()

    class Meta:
        verbose_name = "session"
        constraints = [
            models.UniqueConstraint(fields=["agent", "key"], name="journal_session_key"),
        ]

    def __str__(self) -> str:
        return self.title or self.key


class TurnStatus(models.TextChoices):
    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    WAITING = "waiting", "waiting"
    COMPLETED = "completed", "completed"
    STOPPED = "stopped", "stopped"
    FAILED = "failed", "failed"
    INTERRUPTED = "interrupted", "interrupted"


ACTIVE = (TurnStatus.RUNNING, TurnStatus.WAITING)
ENDED = (
    TurnStatus.COMPLETED,
    TurnStatus.STOPPED,
    TurnStatus.FAILED,
    TurnStatus.INTERRUPTED,
)


class TurnQuerySet(models.QuerySet["Turn"]):
    def active(self) -> TurnQuerySet:
        """The turn that holds its session: running, or waiting for an answer."""
        return self.filter(status__in=ACTIVE)

    def ended(self) -> TurnQuerySet:
        return self.filter(status__in=ENDED)


class Turn(models.Model):
    """One run of the agent.

    Whoever moves it to `running` by compare-and-set owns it until `lease_until`; `fence`
    grows with each claim, and a write with an older fence is refused. `wake_at` marks a
    waiting turn that has something to continue with. `messages` is, once the turn has
    ended, what the model and the tools said, in the OpenAI chat format; a user message may
    name `images` besides. `attachments` are summaries of the files that came with `text`.
    """

    id = models.CharField(primary_key=True, max_length=24, default=new_turn_id, editable=False)
    session = models.ForeignKey(ChatSession, on_delete=models.CASCADE, related_name="turns")
    number = models.PositiveIntegerField()
    status = models.CharField(max_length=12, choices=TurnStatus.choices, default=TurnStatus.QUEUED)
    origin = models.CharField(max_length=16, default=Origin.OPERATOR.value)
    text = models.TextField(blank=True)
    attachments = models.JSONField(default=list, blank=True)
    client_id = models.CharField(max_length=128, blank=True)
    model = models.CharField(max_length=200, blank=True)
    announced = models.BooleanField(default=False)
    fence = models.PositiveIntegerField(default=0)
    holder = models.CharField(max_length=100, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    wake_at = models.DateTimeField(null=True, blank=True)
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.CharField(max_length=150, blank=True)
    crashes = models.PositiveSmallIntegerField(
        default=0, help_text="How often its lease ran out while it ran."
    )
    auto_answers = models.PositiveSmallIntegerField(default=0)
    answer = models.TextField(blank=True)
    error = models.TextField(blank=True)
    messages = models.JSONField(default=list, blank=True)
    model_calls = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    queued_at = models.DateTimeField(default=clock.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = TurnQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "number"], name="journal_turn_number"),
            models.UniqueConstraint(
                fields=["session"],
                condition=Q(status__in=["running", "waiting"]),
                name="journal_one_active_turn",
            ),
            models.UniqueConstraint(
                fields=["session", "client_id"],
                condition=~Q(client_id=""),
                name="journal_turn_client_id",
            ),
            models.CheckConstraint(
                condition=Q(status__in=TurnStatus.values), name="journal_turn_status"
            ),
            models.CheckConstraint(
                condition=Q(status="running", lease_until__isnull=False)
                | (~Q(status="running") & Q(lease_until__isnull=True)),
                name="journal_turn_lease",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["queued", "running", "waiting"], finished_at__isnull=True)
                | Q(
                    status__in=["completed", "stopped", "failed", "interrupted"],
                    finished_at__isnull=False,
                ),
                name="journal_turn_end",
            ),
        ]
        indexes = [
            models.Index(
                fields=["status", "lease_until"],
                condition=Q(status__in=["queued", "running", "waiting"]),
                name="journal_turn_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id} ({self.status})"

    @property
    def is_ended(self) -> bool:
        return self.status in ENDED


def frame_of(
    seq: int, turn_id: str | None, at: datetime, kind: str, data: dict[str, Any]
) -> dict[str, Any]:
    """An event as every surface sends it (contract §3)."""
    return {
        "seq": seq,
        "turn": turn_id,
        "at": at.isoformat().replace("+00:00", "Z"),
        "type": kind,
        "data": data,
    }


class TurnEvent(models.Model):
    """One line of a session's journal; `seq` counts from 1 without a gap. Never changed."""

    session = models.ForeignKey(ChatSession, on_delete=models.CASCADE, related_name="events")
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, related_name="events", null=True)
    seq = models.PositiveIntegerField()
    type = models.CharField(max_length=32)
    data = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        verbose_name = "event"
        constraints = [
            models.UniqueConstraint(fields=["session", "seq"], name="journal_event_seq"),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.type}"

    @property
    def frame(self) -> dict[str, Any]:
        """The event as every surface sends it."""
        return frame_of(self.seq, self.turn_id, self.at, self.type, self.data)


class InterruptionKind(models.TextChoices):
    QUESTION = "question", "question"
    FORM = "form", "form"
    APPROVAL = "approval", "approval"


class InterruptionState(models.TextChoices):
    OPEN = "open", "open"
    ANSWERED = "answered", "answered"
    DISMISSED = "dismissed", "dismissed"
    AUTO = "auto", "answered itself"
    STOPPED = "stopped", "stopped"


class Interruption(models.Model):
    """A question, form or approval that a tool call waits for.

    `payload` is exactly what is shown, `digest` its SHA-256: the tool compares the digest
    after the pause, so that an answer counts only for what was shown. `step` and `draft`
    are the wizard's place and the answers entered so far. `consumed_at` is when the tool
    call took the answer.
    """

    id = models.CharField(primary_key=True, max_length=24, default=new_interruption_id)
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, related_name="interruptions")
    call_id = models.CharField(max_length=64)
    position = models.PositiveSmallIntegerField(default=0)
    kind = models.CharField(max_length=10, choices=InterruptionKind.choices)
    payload = models.JSONField()
    digest = models.CharField(max_length=64)
    state = models.CharField(
        max_length=10, choices=InterruptionState.choices, default=InterruptionState.OPEN
    )
    step = models.PositiveSmallIntegerField(default=0)
    draft = models.JSONField(default=dict, blank=True)
    value = models.JSONField(null=True, blank=True)
    resolved_by = models.CharField(max_length=150, blank=True)
    asked_at = models.DateTimeField(default=clock.now)
    resolved_at = models.DateTimeField(null=True, blank=True)
    consumed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["turn", "call_id", "position"], name="journal_interruption_place"
            ),
            models.CheckConstraint(
                condition=Q(state="open", resolved_at__isnull=True)
                | (~Q(state="open") & Q(resolved_at__isnull=False)),
                name="journal_interruption_state",
            ),
        ]
        indexes = [
            models.Index(
                fields=["asked_at"], condition=Q(state="open"), name="journal_interruption_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id} ({self.state})"


class QueuedKind(models.TextChoices):
    STEER = "steer", "steer"
    HELD = "held", "held"
    QUEUE = "queue", "queue"


class QueuedState(models.TextChoices):
    PENDING = "pending", "pending"
    DELIVERED = "delivered", "delivered"
    WITHDRAWN = "withdrawn", "withdrawn"
    PROMOTED = "promoted", "became a turn"


class QueuedMessage(models.Model):
    """Operator text that is not delivered yet, with summaries of its files.

    steer: folded in before the next model call of the running turn. held: came while a
    card was open, folded in after the answer. queue: becomes a turn of its own when the
    running one is over, unless `on_hold` (the turn before it was stopped).
    """

    session = models.ForeignKey(ChatSession, on_delete=models.CASCADE, related_name="pending")
    turn = models.ForeignKey(
        Turn, on_delete=models.SET_NULL, related_name="queued_messages", null=True, blank=True
    )
    kind = models.CharField(max_length=8, choices=QueuedKind.choices)
    state = models.CharField(
        max_length=10, choices=QueuedState.choices, default=QueuedState.PENDING
    )
    text = models.TextField(blank=True)
    attachments = models.JSONField(default=list, blank=True)
    client_id = models.CharField(max_length=128)
    position = models.PositiveIntegerField(default=0)
    on_hold = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=clock.now)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "queued message"
        ordering = ["position", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "client_id"], name="journal_queued_client_id"
            ),
            models.CheckConstraint(
                condition=Q(state="pending", settled_at__isnull=True)
                | (~Q(state="pending") & Q(settled_at__isnull=False)),
                name="journal_queued_state",
            ),
        ]
        indexes = [
            models.Index(
                fields=["created_at"],
                condition=Q(state="pending"),
                name="journal_queued_pending",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.state}"


class Checkpoint(models.Model):
    """A saved state of the engine, for continuing a turn after a pause or a crash."""

    thread = models.CharField(max_length=255)
    namespace = models.CharField(max_length=255, blank=True)
    checkpoint = models.CharField(max_length=64)
    parent = models.CharField(max_length=64, blank=True)
    encoding = models.CharField(max_length=40)
    body = models.BinaryField()
    metadata = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "namespace", "checkpoint"], name="journal_checkpoint_id"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread} {self.checkpoint}"


class CheckpointWrite(models.Model):
    """What one engine task had produced when its super-step was not finished yet."""

    thread = models.CharField(max_length=255)
    namespace = models.CharField(max_length=255, blank=True)
    checkpoint = models.CharField(max_length=64)
    task = models.CharField(max_length=64)
    task_path = models.CharField(max_length=255, blank=True)
    position = models.IntegerField()
    channel = models.CharField(max_length=255)
    encoding = models.CharField(max_length=40)
    body = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "namespace", "checkpoint", "task", "position"],
                name="journal_checkpoint_write",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread} {self.task} {self.channel}"


class Heartbeat(models.Model):
    """A process of this instance and when it last said that it works."""

    role = models.CharField(max_length=10)
    host = models.CharField(max_length=120)
    pid = models.PositiveIntegerField()
    boot_id = models.CharField(max_length=40)
    started_at = models.DateTimeField(default=clock.now)
    at = models.DateTimeField(default=clock.now, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["role", "host", "pid", "boot_id"], name="journal_heartbeat_process"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.host}:{self.pid}"
