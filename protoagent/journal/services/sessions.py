"""Sessions: making, finding, naming, keeping and deleting conversations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from protoagent.core import clock, events
from protoagent.core.context import Origin
from protoagent.core.errors import BadValue, NotFound
from protoagent.core.ids import is_session_key, new_id
from protoagent.core.text import one_line
from protoagent.journal.models import (
    Agent,
    ChatSession,
    Checkpoint,
    CheckpointWrite,
    Interruption,
    InterruptionState,
    QueuedMessage,
    QueuedState,
    TitleSource,
    Turn,
    TurnStatus,
)
from protoagent.security.redaction import mask_text, one_masked_line

TITLE_CHARS = 80
UNDO_WINDOW = timedelta(seconds=30)  # the button stays 6 s; a slow network gets the rest


@dataclass(frozen=True)
class DeletionNotice:
    """What goes away with a session, for the question before it."""

    turns: int
    open_questions: int
    pending_messages: int


def new_key() -> str:
    """A key for a session that nobody named."""
    return new_id("s")


def find(agent: Agent, key: str) -> ChatSession:
    """The session with this key. Raises NotFound, also for a deleted one."""
    if not is_session_key(key):  # PostgreSQL would fail on some of these
        raise NotFound(f"no session {one_masked_line(key, 60)!r}")
    try:
        return ChatSession.objects.present().get(agent=agent, key=key)
    except ChatSession.DoesNotExist:
        raise NotFound(f"no session {one_masked_line(key, 60)!r}") from None


def known(agent: Agent, key: str) -> ChatSession | None:
    """The session with this key, or None when there is none that `ensure` would give."""
    if not is_session_key(key):
        return None
    return ChatSession.objects.present().filter(agent=agent, key=key).first()


def ensure(agent: Agent, key: str, *, origin: Origin = Origin.OPERATOR) -> ChatSession:
    """The session with this key, made on first use.

    A deleted session's key starts a new conversation: the old one is purged at once.
    Raises BadValue for a key outside `[A-Za-z0-9._:-]{1,128}`.
    """
    if not is_session_key(key):
        raise BadValue("a session key has 1 to 128 characters out of A-Z a-z 0-9 . _ : -")
    session = ChatSession.objects.filter(agent=agent, key=key).first()
    if session is not None and session.deleted_at is not None:
        _purge(session)
        session = None
    if session is not None:
        return session
    try:
        with transaction.atomic():
            return ChatSession.objects.create(agent=agent, key=key, origin=origin.value)
    except IntegrityError:  # another process made it between the look and the insert
        return ChatSession.objects.get(agent=agent, key=key)


def title_from(text: str) -> str:
    """A session title out of its first message: the first line, without Markdown marks."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return one_line(first.lstrip("#*_`> -").rstrip("*_`"), TITLE_CHARS)


def title_if_untitled(session: ChatSession, text: str) -> None:
    """Name the session after the text of its first message, or the name of its first file.

    A name given by hand is never touched.
    """
    title = title_from(text)
    if title:
        ChatSession.objects.filter(pk=session.pk, title="").update(title=title)


def rename(session: ChatSession, title: str) -> ChatSession:
    """The session has this title until it is renamed again; a secret in it is masked.

    Raises BadValue for a blank one.
    """
    title = one_masked_line(title, 200)
    if not title:
        raise BadValue("a title needs at least one character")
    _change(session, title=title, title_source=TitleSource.MANUAL)
    return session


def pin(session: ChatSession, *, pinned: bool) -> None:
    """The session stands above the dated groups, or no longer does."""
    _change(session, pinned_at=clock.now() if pinned else None)


def archive(session: ChatSession, *, archived: bool) -> None:
    """The session is listed under Archived only, or is back in the list."""
    _change(session, archived_at=clock.now() if archived else None)


def set_incognito(session: ChatSession, *, incognito: bool) -> None:
    """Turns of this session neither read nor write memory, and it cannot be exported."""
    _change(session, incognito=incognito)


def set_model(session: ChatSession, model: str) -> None:
    """Turns of this session use `model`; blank means the configured one. Raises BadValue."""
    _change(session, model=check_model(model))


def check_model(name: str) -> str:
    """The name of a model on one line. Raises BadValue when it holds what looks like a secret.

    It is stored, shown and sent to the provider, and masked it would be another model.
    """
    name = one_line(name, 200)
    if mask_text(name) != name:
        raise BadValue("this looks like a key or password; a model is chosen by its name")
    return name


def mark_seen(session: ChatSession, seq: int) -> None:
    """Everything up to `seq` counts as read; an older mark never replaces a newer one."""
    changed = ChatSession.objects.filter(pk=session.pk, seen_seq__lt=seq).update(
        seen_seq=min(seq, session.last_seq)
    )
    if changed:
        publish_changed(session)


def notice_before_deletion(session: ChatSession) -> DeletionNotice:
    """What a deletion of this session takes along."""
    return DeletionNotice(
        turns=session.turns.count(),
        open_questions=Interruption.objects.filter(
            turn__session=session, state=InterruptionState.OPEN
        ).count(),
        pending_messages=QueuedMessage.objects.filter(
            session=session, state=QueuedState.PENDING
        ).count(),
    )


def delete(session: ChatSession) -> None:
    """The session is gone from every list; `restore` brings it back until the purge."""
    _change(session, deleted_at=clock.now())


def restore(agent: Agent, key: str) -> ChatSession:
    """A deleted session is back as it was. Raises NotFound once it has been purged."""
    session = ChatSession.objects.filter(agent=agent, key=key).first()
    if session is None:
        raise NotFound("this session has been deleted for good")
    if session.deleted_at is not None:
        _change(session, deleted_at=None)
    return session


def purge_deleted(*, before: datetime | None = None) -> int:
    """Remove sessions that were deleted before `before` (30 s ago) for good; how many went."""
    limit = before or clock.now() - UNDO_WINDOW
    running = Turn.objects.filter(status=TurnStatus.RUNNING)
    doomed = ChatSession.objects.filter(deleted_at__lt=limit).exclude(turns__in=running)
    count = 0
    for session in doomed:
        _purge(session)
        count += 1
    return count


@transaction.atomic
def _purge(session: ChatSession) -> None:
    """Remove the session and what the engine keeps of a turn that still waits in it."""
    threads = list(session.turns.values_list("pk", flat=True))
    Checkpoint.objects.filter(thread__in=threads).delete()
    CheckpointWrite.objects.filter(thread__in=threads).delete()
    session.delete()


def listing(agent: Agent, *, archived: bool = False) -> QuerySet[ChatSession]:
    """The agent's sessions, newest activity first."""
    rows = ChatSession.objects.present().filter(agent=agent)
    rows = rows.filter(archived_at__isnull=not archived)
    return rows.order_by("-last_event_at", "-pk")


def publish_changed(session: ChatSession) -> None:
    """Tell open pages that the session list looks different, after commit."""
    payload = {"session": session.key}
    transaction.on_commit(lambda: events.publish("session.changed", payload))


def _change(session: ChatSession, **fields: object) -> None:
    for name, value in fields.items():
        setattr(session, name, value)
    session.save(update_fields=list(fields))
    publish_changed(session)
