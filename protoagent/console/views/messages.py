"""Writing to a session: messages, steers, the queue, stop. Everything may be sent twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils.crypto import salted_hmac
from django.views.decorators.http import require_http_methods, require_POST

from protoagent.console import commands
from protoagent.console.sessions import chat_url
from protoagent.console.views import chat
from protoagent.core.errors import AgentError, BadValue, Conflict, NotFound
from protoagent.core.text import one_line
from protoagent.journal.models import ChatSession, InterruptionState, Turn
from protoagent.journal.services import agents, pauses, pending, sessions, turns
from protoagent.journal.services.turns import Message
from protoagent.runtime import service
from protoagent.security.redaction import mask_text
from protoagent.uploads import services as uploads
from protoagent.web import errors
from protoagent.web.auth import actor_of, operator_only, watchers
from tools_app import inflight

MODES = ("turn", "steer", "queue")
STOP_WAIT_S = 5.0
STOP_LOOK_S = 0.05


@dataclass(frozen=True)
class Sent:
    """What a page posts from its composer.

    `answers` is the question that the page showed as answered by writing, `retry` the turn
    whose message is to be sent again, `attachments` the ids of its files.
    """

    text: str
    mode: str
    client_id: str
    answers: str
    retry: str
    attachments: tuple[str, ...]

    @classmethod
    def of(cls, request: HttpRequest) -> Sent:
        """Raises BadValue for what no page sends."""
        sent = cls(
            text=request.POST.get("text", ""),
            mode=request.POST.get("mode", "turn"),
            client_id=request.POST.get("client_id", "").strip(),
            answers=request.POST.get("answers", ""),
            retry=request.POST.get("retry", ""),
            attachments=tuple(filter(None, request.POST.get("attachments", "").split(","))),
        )
        if sent.mode not in MODES:
            raise BadValue(f"mode is {', '.join(MODES[:-1])} or {MODES[-1]}")
        if not 8 <= len(sent.client_id) <= 128:
            raise BadValue("client_id must have 8 to 128 characters")
        return sent


@require_http_methods(["GET", "HEAD", "POST"])
@watchers
def new(request: HttpRequest) -> HttpResponse:
    """The page of a new session, and its first message, which makes it."""
    if request.method != "POST":
        return chat.new_page(request)
    return _first_message(request)


@operator_only
def _first_message(request: HttpRequest) -> HttpResponse:
    sent = Sent.of(request)
    if command := _command(sent.text):
        return JsonResponse(_run(command, None, request))
    sessions.check_model(request.POST.get("model", ""))
    # The same message posted twice makes one session.
    key = "s" + salted_hmac("console.new-session", sent.client_id).hexdigest()[:20]
    agent = agents.current()
    uploads.check(sessions.known(agent, key), sent.attachments)
    session = sessions.ensure(agent, key)
    if session.last_seq == 0:
        _choose(session, request)
    message = Message(sent.text, client_id=sent.client_id)
    accepted = service.send(session, message, attachments=sent.attachments)
    return _accepted(request, session, accepted.mode, is_duplicate=accepted.duplicate)


@require_POST
@operator_only
def send(request: HttpRequest, key: str) -> HttpResponse:
    """A message, a steer, a queued message, an answer or a command."""
    session, sent = chat.find(key), Sent.of(request)
    if command := _command(sent.text):
        return JsonResponse(_run(command, session, request))
    if sent.retry:
        return _retry(request, session, sent)
    if sent.text.strip() and (question := _question(session, sent)):
        return _answer(request, session, question, sent)
    mode, is_duplicate = _deliver(session, sent)
    return _accepted(request, session, mode, is_duplicate=is_duplicate)


@require_POST
@operator_only
def stop(request: HttpRequest, key: str) -> HttpResponse:
    """The running turn is to stop; with `force`, its running calls are ended one by one, too."""
    session, by = chat.find(key), actor_of(request).name
    stopped = service.stop(session, by=by)
    if request.POST.get("force") == "1":
        for call in inflight.open_calls(session.agent.key).filter(turn__session=session):
            service.cancel_call(call.call_id, by=by, session=session)
    if not errors.is_program(request):
        return HttpResponseRedirect(chat_url(key))
    return JsonResponse({"ok": True, "stopped": stopped})


@require_POST
@operator_only
def queued(request: HttpRequest, key: str) -> HttpResponse:
    """One message on its way (`do` and `client_id`), or all that a stop left behind."""
    session, client_id = chat.find(key), request.POST.get("client_id", "")
    do = request.POST.get("do", "")
    if do == "release":
        return JsonResponse({"ok": True, "sent": service.send_held_back(session)})
    actions: dict[str, Callable[[], Any]] = {
        "withdraw": lambda: pending.withdraw(session.pk, client_id),
        "edit": lambda: _edit(session, client_id, request.POST.get("text", "")),
        "up": lambda: pending.move(session.pk, client_id, up=True),
        "down": lambda: pending.move(session.pk, client_id, up=False),
        "steer": lambda: _into_steer(session, client_id),
        "stop-and-send": lambda: _stop_and_send(session, client_id, actor_of(request).name),
    }
    if do not in actions:
        raise BadValue(f"do must be release, {', '.join(actions)}")
    actions[do]()
    return JsonResponse({"ok": True})


@require_POST
@operator_only
def choose_model(request: HttpRequest, key: str) -> HttpResponse:
    """The session's next turns use this model."""
    session = chat.find(key)
    chosen = commands.choose_model(session, request.POST.get("model", ""))
    return JsonResponse({"ok": True, **chosen})


@require_POST
@operator_only
def seen(request: HttpRequest, key: str) -> HttpResponse:
    """The operator has read the session up to the event `seq`."""
    seq = request.POST.get("seq", "")
    if not (seq.isascii() and seq.isdecimal() and len(seq) < 10):
        raise BadValue("seq must be the number of an event")
    sessions.mark_seen(chat.find(key), int(seq))
    return HttpResponse(status=204)


def _command(text: str) -> tuple[str, str] | None:
    command = commands.parse(text)
    if command is None or (commands.passes_through(command[0]) and command[1]):
        return None
    return command


def _run(
    command: tuple[str, str], session: ChatSession | None, request: HttpRequest
) -> commands.Effect:
    name, argument = command
    return commands.run(name, commands.Call(session, argument, actor_of(request)))


def _choose(session: ChatSession, request: HttpRequest) -> None:
    """What was chosen on the page before the session existed."""
    if model := one_line(request.POST.get("model", ""), 200):
        sessions.set_model(session, model)
    if request.POST.get("incognito") == "1":
        sessions.set_incognito(session, incognito=True)


def _question(session: ChatSession, sent: Sent) -> str:
    """The question that this text answers, or blank."""
    if sent.answers or sent.mode == "queue":
        return sent.answers
    known = Turn.objects.filter(session=session, client_id=sent.client_id).exists()
    cards = pauses.open_in_session(session.pk)
    is_one_question = len(cards) == 1 and cards[0].kind == "question"
    return cards[0].pk if is_one_question and not known else ""


def _answer(request: HttpRequest, session: ChatSession, question: str, sent: Sent) -> HttpResponse:
    row = pauses.find(question, session_id=session.pk)
    # Held, and so read together with the answer: an answer itself has no files.
    is_held = bool(sent.attachments) and row.state == InterruptionState.OPEN
    if is_held:
        files = Message("", client_id=sent.client_id)
        service.send(session, files, attachments=sent.attachments)
    try:
        service.answer(session, question, sent.text, by=actor_of(request).name)
    except AgentError as error:
        if is_held:
            _take_back(session, sent.client_id)
        if not isinstance(error, Conflict):
            raise
        if row.state == InterruptionState.OPEN:
            row.refresh_from_db()
        is_same = row.state == InterruptionState.ANSWERED and row.value == sent.text.strip()
        if not is_same:
            raise Conflict("the question was answered meanwhile; your text was not sent") from None
        return _accepted(request, session, "answer", is_duplicate=True)
    return _accepted(request, session, "answer", is_duplicate=False)


def _take_back(session: ChatSession, client_id: str) -> None:
    with suppress(Conflict, NotFound):
        pending.withdraw(session.pk, client_id)


def _deliver(session: ChatSession, sent: Sent) -> tuple[str, bool]:
    """Hand the message over; what became of it, and whether it was known already."""
    if sent.mode == "queue":
        row = service.queue(
            session, sent.text, client_id=sent.client_id, attachments=sent.attachments
        )
        return row.kind, False
    if sent.mode == "steer":
        try:
            row, is_new = service.steer(
                session, sent.text, client_id=sent.client_id, attachments=sent.attachments
            )
        except NotFound:  # the turn ended while this was on its way: it starts the next one
            pass
        else:
            return row.kind, not is_new
    message = Message(sent.text, client_id=sent.client_id)
    accepted = service.send(session, message, attachments=sent.attachments)
    return accepted.mode, accepted.duplicate


def _retry(request: HttpRequest, session: ChatSession, sent: Sent) -> HttpResponse:
    turn = Turn.objects.filter(session=session, pk=sent.retry).first()
    if turn is None:
        raise NotFound("the turn to try again is not here any more")
    message = Message(turn.text, client_id=sent.client_id)
    ids = [one["id"] for one in turn.attachments]
    accepted = service.send(session, message, attachments=ids)
    return _accepted(request, session, accepted.mode, is_duplicate=accepted.duplicate)


def _edit(session: ChatSession, client_id: str, text: str) -> None:
    pending.edit(session.pk, client_id, mask_text(turns.check_text(text, may_be_blank=True)))


def _into_steer(session: ChatSession, client_id: str) -> None:
    _no_open_card(session)
    pending.turn_into_steer(session.pk, client_id)


def _stop_and_send(session: ChatSession, client_id: str, by: str) -> None:
    """Stop the turn, wait for its end, and send the message first of all that was left."""
    _no_open_card(session)
    row = pending.find(session.pk, client_id)
    service.stop(session, by=by)
    deadline = time.monotonic() + STOP_WAIT_S
    while Turn.objects.active().filter(session=session).exists():
        if time.monotonic() > deadline:
            raise Conflict("the turn has not stopped yet; the message is kept and not sent")
        time.sleep(STOP_LOOK_S)
    pending.release(session.pk, client_id=row.client_id)
    service.start_next(session)


def _no_open_card(session: ChatSession) -> None:
    if pauses.open_in_session(session.pk):
        raise Conflict("answer the open card first")


def _accepted(
    request: HttpRequest, session: ChatSession, mode: str, *, is_duplicate: bool
) -> HttpResponse:
    url = chat_url(session.key)
    if not errors.is_program(request):
        return HttpResponseRedirect(url)
    answer = {"ok": True, "mode": mode, "session": session.key, "url": url}
    return JsonResponse({**answer, "duplicate": is_duplicate})
