"""Sessions over HTTP (contract §4): the list, one, its events, a download, deletion."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from protoagent.api.chat import find, queued_of
from protoagent.api.waiting import pending_of
from protoagent.core.errors import BadValue
from protoagent.journal import live
from protoagent.journal.models import (
    ChatSession,
    Interruption,
    InterruptionState,
    Turn,
    TurnStatus,
)
from protoagent.journal.services import agents, export, pauses, pending, search, sessions
from protoagent.runtime import service
from protoagent.web.auth import actor_of

router = Router(tags=["sessions"])

Limit = Annotated[int, Field(ge=1, le=200)]
EventLimit = Annotated[int, Field(ge=1, le=1000)]
Seq = Annotated[int, Field(ge=0, le=2**31 - 1)]


class SessionOut(Schema):
    """A session. `status` is idle, queued, running or waiting; `key` is what `session_id` takes."""

    session_id: str
    key: str
    title: str
    origin: str
    model: str
    status: str
    incognito: bool
    pinned: bool
    archived: bool
    last_seq: int
    open_questions: int
    created_at: datetime
    last_event_at: datetime


class SessionsOut(Schema):
    """A page of sessions, newest activity first."""

    sessions: list[SessionOut]
    next: str | None


class SessionDetail(SessionOut):
    """A session with what waits in it."""

    turns: int
    pending: list[dict[str, Any]]
    queued: list[dict[str, Any]]


class EventsOut(Schema):
    """A stretch of the journal; `next` is the `after` of the following one."""

    events: list[dict[str, Any]]
    last_seq: int
    next: str | None


class DeletedOut(Schema):
    """What a deletion did."""

    deleted: bool
    harvested: bool


@router.get("/chat/sessions", response=SessionsOut)
def listing(
    request: HttpRequest,
    limit: Limit = 50,
    cursor: str = "",
    archived: bool = False,
    q: str = "",
) -> SessionsOut:
    """The agent's sessions, newest activity first; `q` searches titles and messages."""
    agent = agents.current()
    rows = sessions.listing(agent, archived=archived)
    if search.terms_of(q):
        found = search.find(agent, q)
        wanted = {row.pk for row in found.titles} | {hit.session_id for hit in found.hits}
        present = ChatSession.objects.present().filter(agent=agent, pk__in=wanted)
        rows = present.order_by("-last_event_at", "-pk")
    if cursor:
        rows = rows.filter(_after(cursor))
    page = list(_with_state(rows)[: limit + 1])
    last = page[limit - 1] if len(page) > limit else None
    return SessionsOut(
        sessions=[SessionOut(**_shown(row)) for row in page[:limit]],
        next=_cursor(last) if last else None,
    )


@router.get("/chat/sessions/{key}", response=SessionDetail)
def one(request: HttpRequest, key: str) -> SessionDetail:
    """A session, with its open questions and what is on its way to the agent."""
    session = _with_state(ChatSession.objects.filter(pk=find(key).pk)).get()
    return SessionDetail(
        **_shown(session),
        turns=session.turns.count(),
        pending=pending_of(pauses.open_in_session(session.pk)),
        queued=[queued_of(row) for row in pending.waiting_in(session.pk)],
    )


@router.get("/chat/sessions/{key}/events", response=EventsOut)
def events(request: HttpRequest, key: str, after: Seq = 0, limit: EventLimit = 500) -> EventsOut:
    """The journal from the event after `after`, as the socket sends it."""
    session = find(key)
    rows = live.rows_after(session.pk, after, limit)
    is_full = len(rows) == limit and rows[-1]["seq"] < session.last_seq
    following = str(rows[-1]["seq"]) if is_full else None
    return EventsOut(events=rows, last_seq=session.last_seq, next=following)


@router.get(
    "/chat/sessions/{key}/export", openapi_extra={"responses": {200: {"description": "The file."}}}
)
def download(
    request: HttpRequest, key: str, format: str = "md", tools: bool = False
) -> HttpResponse:
    """The session as a file, with secrets masked; `tools` adds input and results of calls."""
    document = export.export(find(key), fmt=format, tool_bodies=tools)
    headers = {"Content-Disposition": f'attachment; filename="{document.name}"'}
    return HttpResponse(document.body, content_type=document.content_type, headers=headers)


@router.delete("/chat/sessions/{key}", response=DeletedOut)
def delete(request: HttpRequest, key: str, harvest: bool = False) -> DeletedOut:
    """Delete a session with everything in it; a turn that runs is stopped first.

    `harvested` is false as long as there is no memory to harvest into.
    """
    session = find(key)
    service.stop(session, by=actor_of(request).name)
    sessions.delete(session)
    return DeletedOut(deleted=True, harvested=False)


def _with_state(rows: QuerySet[ChatSession]) -> QuerySet[ChatSession]:
    turns = Turn.objects.filter(session=OuterRef("pk"))
    return rows.annotate(
        turn_status=Subquery(turns.active().values("status")[:1]),
        is_queued=Exists(turns.filter(status=TurnStatus.QUEUED)),
        open_count=Subquery(_open_count()),
    )


def _open_count() -> QuerySet[Any, Any]:
    rows = Interruption.objects.filter(
        turn__session=OuterRef("pk"), state=InterruptionState.OPEN
    ).order_by()
    return rows.values("turn__session").annotate(number=Count("pk")).values("number")


def _shown(session: ChatSession) -> dict[str, Any]:
    active = getattr(session, "turn_status", None)
    queued = getattr(session, "is_queued", False)
    return {
        "session_id": session.key,
        "key": session.key,
        "title": session.title,
        "origin": session.origin,
        "model": session.model,
        "status": active or ("queued" if queued else "idle"),
        "incognito": session.incognito,
        "pinned": session.pinned_at is not None,
        "archived": session.archived_at is not None,
        "last_seq": session.last_seq,
        "open_questions": getattr(session, "open_count", None) or 0,
        "created_at": session.created_at,
        "last_event_at": session.last_event_at,
    }


def _cursor(last: ChatSession) -> str:
    text = f"{last.last_event_at.isoformat()}~{last.pk}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _after(cursor: str) -> Q:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        at, _, number = base64.urlsafe_b64decode(padded.encode()).decode().partition("~")
        moment, pk = datetime.fromisoformat(at), int(number)
        if moment.tzinfo is None:
            raise ValueError("no zone")
    except (ValueError, binascii.Error, OverflowError):
        raise BadValue("this cursor is not one of ours") from None
    return Q(last_event_at__lt=moment) | Q(last_event_at=moment, pk__lt=pk)
