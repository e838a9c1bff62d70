"""One tool call: what it was given, what it returned, and ending it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_POST, require_safe

from protoagent.console import rendering
from protoagent.console.markdown import code_text, host_of
from protoagent.console.sessions import chat_url
from protoagent.console.views import chat
from protoagent.core.errors import NotFound
from protoagent.journal.models import ChatSession
from protoagent.runtime import service
from protoagent.security.redaction import one_masked_line
from protoagent.web import errors, htmx
from protoagent.web.auth import actor_of, operator_only, watchers
from tools_app.models import OPEN, ToolCall

LONG_CHARS = 20_000
LONG_LINES = 200
# What may overflow the twelve rem that an argument gets, on a phone too.
SCROLLED_CHARS = 200
SCROLLED_LINES = 8
_HIT = re.compile(r"^(\d+)\. (.*?) — (https?://\S+)$")


@dataclass(frozen=True)
class Hit:
    """One result of a web search."""

    title: str
    url: str
    host: str
    snippet: str


@dataclass(frozen=True)
class Argument:
    """One argument; a long one scrolls, so the keyboard has to reach it."""

    name: str
    value: SafeString
    is_long: bool


@dataclass(frozen=True)
class Body:
    """Everything about a call that its row does not show."""

    call: ToolCall
    arguments: tuple[Argument, ...]
    output: SafeString
    hits: tuple[Hit, ...]
    hidden_lines: int
    size: str

    @property
    def is_running(self) -> bool:
        return self.call.status in OPEN

    @property
    def lasted(self) -> str:
        return rendering.duration(self.call.duration_ms) if self.call.finished_at else ""


@require_safe
@watchers
def body(request: HttpRequest, key: str, call_id: str) -> HttpResponse:
    """Input, result and particulars of a call; `full=1` shows a long result to its end."""
    session = chat.find(key)
    call = _find(session, call_id)
    is_full = request.GET.get("full") == "1"
    context = {"body": _body(call, is_full=is_full), "session": session}
    return htmx.render_panel(request, "console/call_page.html", "console/_call_body.html", context)


@require_POST
@operator_only
def cancel(request: HttpRequest, key: str, call_id: str) -> HttpResponse:
    """The call is to end; its turn goes on. `cancelled` is false when it had ended already."""
    session = chat.find(key)
    cancelled = service.cancel_call(call_id, by=actor_of(request).name, session=session)
    if not errors.is_program(request):
        return HttpResponseRedirect(f"{chat_url(key)}#call-{call_id}")
    return JsonResponse({"ok": True, "cancelled": cancelled})


def _find(session: ChatSession, call_id: str) -> ToolCall:
    rows = ToolCall.objects.filter(call_id=call_id, turn__session=session)
    call = rows.order_by("-pk").first()
    if call is None:
        raise NotFound(f"no call {one_masked_line(call_id, 60)!r} in this session")
    return call


def _body(call: ToolCall, *, is_full: bool) -> Body:
    text, hidden = call.output, 0
    if len(text) > LONG_CHARS and not is_full:
        lines = text.split("\n")
        text = "\n".join(lines[:LONG_LINES])[:LONG_CHARS]
        hidden = max(0, len(lines) - LONG_LINES) or 1
    arguments = call.arguments if isinstance(call.arguments, dict) else {"": call.arguments}
    return Body(
        call=call,
        arguments=tuple(_argument(name, value) for name, value in arguments.items()),
        output=_shown(text),
        hits=_hits(call),
        hidden_lines=hidden,
        size=f"{len(call.output):,} characters",
    )


def _argument(name: str, value: Any) -> Argument:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    is_long = len(text) > SCROLLED_CHARS or text.count("\n") >= SCROLLED_LINES
    return Argument(name, _shown(text), is_long)


def _shown(text: str) -> SafeString:
    """Text as it is, with marks where it hides something."""
    return mark_safe(code_text(text))  # noqa: S308 — escaped by code_text


def _hits(call: ToolCall) -> tuple[Hit, ...]:
    """The results of a web search as a list, when the output reads like one."""
    if call.name != "web_search":
        return ()
    hits: list[Hit] = []
    for line in call.output.splitlines():
        if match := _HIT.match(line):
            hits.append(Hit(match[2], match[3], host_of(match[3]), ""))
        elif hits and line.startswith("   "):
            last = hits[-1]
            hits[-1] = Hit(last.title, last.url, last.host, line.strip())
    return tuple(hits)
