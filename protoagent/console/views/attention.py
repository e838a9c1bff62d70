"""What waits on the operator, over all sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from protoagent.console import hitl
from protoagent.console.sessions import chat_url, wait_line
from protoagent.core import clock
from protoagent.core.context import Actor
from protoagent.core.text import reveal_hidden
from protoagent.journal.models import Interruption, InterruptionKind
from protoagent.journal.services import agents, attention
from protoagent.web.auth import actor_of
from protoagent.web.htmx import render_panel

MAX_INLINE = 20


@dataclass(frozen=True)
class Item:
    """One thing that waits. An approval carries its card, to be decided on the spot."""

    url: str
    icon: str
    kind: str
    text: str
    session: str
    asked_at: datetime
    age: str
    card: SafeString | None


@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Everything that waits, longest first: a page, or the body of the dialog."""
    context = {"items": items(request)}
    page, fragment = "console/attention.html", "console/_attention.html"
    return render_panel(request, page, fragment, context)


def items(request: HttpRequest) -> list[Item]:
    """What waits, longest first."""
    actor, token = actor_of(request), get_token(request)
    rows = attention.waiting(agents.current())
    return [
        _item(row, _card(row, actor, token) if number < MAX_INLINE else None)
        for number, row in enumerate(rows)
    ]


def count() -> int:
    """The number at the bell and in front of the title."""
    return attention.count(agents.current())


def age(since: timedelta) -> str:
    """`now`, `5 min`, `3 h`, `2 d`."""
    minutes = max(0, int(since.total_seconds()) // 60)
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"


def _item(row: Interruption, card: SafeString | None) -> Item:
    session = row.turn.session
    return Item(
        url=f"{chat_url(session.key)}#hitl-{row.pk}",
        icon=ICONS[InterruptionKind(row.kind)],
        kind=row.kind,
        text=reveal_hidden(wait_line(row)),
        session=reveal_hidden(session.title or "New session"),
        asked_at=row.asked_at,
        age=age(clock.now() - row.asked_at),
        card=card,
    )


def _card(row: Interruption, actor: Actor, token: str) -> SafeString | None:
    if row.kind != InterruptionKind.APPROVAL:
        return None
    options: dict[str, Any] = {"user_timezone": timezone.get_current_timezone_name()}
    view = hitl.View(place="attention")
    return hitl.render_card(row, actor=actor, csrf_token=token, view=view, **options)


ICONS = {
    InterruptionKind.QUESTION: "message-square",
    InterruptionKind.FORM: "list-plus",
    InterruptionKind.APPROVAL: "shield-alert",
}
