"""Interruptions as rows, and a browser that looks at them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.test import Client
from selectolax.lexbor import LexborHTMLParser, LexborNode

from protoagent.core import clock
from protoagent.core.ids import new_id
from protoagent.journal.models import ChatSession, Interruption, Turn
from protoagent.journal.services import agents, events, pauses, sessions, turns
from tests.accounts.factories import browser_of, make_account
from tests.console.steps import EVERY_KIND
from tools_app import forms


class Element:
    """An element of a page."""

    def __init__(self, node: LexborNode) -> None:
        self._node = node
        self.tag = node.tag

    def get(self, name: str, default: str | None = None) -> Any:
        """The attribute; the empty string for one without a value."""
        if name not in self._node.attributes:
            return default
        return self._node.attributes[name] or ""

    def text_content(self) -> str:
        return self._node.text()

    @property
    def words(self) -> str:
        """The text with single spaces, also between elements."""
        return " ".join(self._node.text(separator=" ").split())

    def all(self, selector: str) -> list[Element]:
        return [Element(node) for node in self._node.css(selector)]


@dataclass
class Page:
    """An answer of the server, to be looked into."""

    status: int
    text: str
    headers: dict[str, str]

    def one(self, selector: str) -> Element:
        found = self.all(selector)
        assert len(found) == 1, (selector, len(found), self.text)
        return found[0]

    def all(self, selector: str) -> list[Element]:
        return [Element(node) for node in LexborHTMLParser(self.text).css(selector)]

    def words(self, selector: str) -> str:
        return " ".join(self.one(selector).text_content().split())

    def has(self, selector: str) -> bool:
        return bool(self.all(selector))


@dataclass
class Tab:
    """A browser tab with htmx. `fields` are what the form on screen would send."""

    client: Client
    page: Page | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    htmx: bool = True

    def get(self, path: str, **query: Any) -> Page:
        response = self.client.get(path, query_params=query, headers=self._headers())
        return self._took(response)

    def post(self, path: str, data: dict[str, Any] | None = None) -> Page:
        token = self._token()
        values = {"csrfmiddlewaretoken": token, **(data or {})}
        return self._took(self.client.post(path, values, headers=self._headers()))

    def fill(self, **values: Any) -> dict[str, Any]:
        """What the form on screen posts, with some fields filled in."""
        assert self.page is not None
        sent: dict[str, Any] = {}
        for element in self.page.one(".hitl form").all("input, textarea, select"):
            _collect(element, sent)
        sent.update({f"f.{name}": value for name, value in values.items() if value is not None})
        for name, value in values.items():
            if value is None:
                sent.pop(f"f.{name}", None)
        return sent

    def press(self, move: str, **values: Any) -> Page:
        """Press a button of the wizard."""
        assert self.page is not None
        path = self.page.one(".hitl form").get("action")
        return self.post(path, {**self.fill(**values), "move": move})

    def sign_out(self) -> None:
        """The session has ended elsewhere; the page stays on screen."""
        self._token()
        del self.client.cookies["protoagent_session"]

    def _took(self, response: Any) -> Page:
        text = response.content.decode()
        page = Page(response.status_code, text, dict(response.headers))
        if text.strip():
            self.page = page
        return page

    def _headers(self) -> dict[str, str]:
        return {"HX-Request": "true"} if self.htmx else {}

    def _token(self) -> str:
        if "protoagent_csrf" not in self.client.cookies:
            self.client.get("/account/")
        return self.client.cookies["protoagent_csrf"].value


def _collect(element: Element, sent: dict[str, Any]) -> None:
    name = element.get("name")
    if not name or name == "csrfmiddlewaretoken":
        return
    if element.tag == "textarea":
        sent[name] = element.text_content().removeprefix("\n")
    elif element.tag == "select":
        options = element.all("option")
        chosen = [one for one in options if one.get("selected") is not None] or options
        sent[name] = chosen[0].get("value")
    elif element.get("type") in ("checkbox", "radio"):
        if element.get("checked") is not None:
            sent.setdefault(name, []).append(element.get("value"))
    else:
        sent[name] = element.get("value", "")


def open_tab(name: str = "ada", **fields: Any) -> Tab:
    """A signed-in browser tab."""
    return Tab(browser_of(make_account(name, **fields)))


def begin(key: str = "s1", text: str = "set it up") -> tuple[ChatSession, turns.Hold]:
    """A session whose turn has just been claimed by a process that is not here."""
    session = sessions.ensure(agents.current(), key)
    claim = turns.accept(session, turns.Message(text), holder="h:1:b").claim
    assert claim is not None
    return session, claim.hold


def ask(payload: dict[str, Any], key: str = "s1") -> Interruption:
    """An open interruption of a turn that waits for it."""
    session = ChatSession.objects.filter(key=key).first()
    turn = Turn.objects.filter(session=session).active().first() if session else None
    turn_id = turn.pk if turn else begin(key)[1].turn_id
    row, _ = pauses.open_for_call(turn_id, new_id("c"), 0, payload)
    Turn.objects.filter(pk=turn_id).update(status="waiting", lease_until=None, holder="")
    session = ChatSession.objects.get(key=key)
    events.append(session.pk, [pauses.required_event(row)])
    return Interruption.objects.select_related("turn__session").get(pk=row.pk)


def ask_form(steps: list[dict[str, Any]] | None = None, **more: Any) -> Interruption:
    """An open form."""
    payload = {"kind": "form", "title": "Choose storage", "description": "", **more}
    return ask({**payload, "steps": forms.check_steps(steps or EVERY_KIND)})


def ask_question(question: str = "Which colour?", key: str = "s1") -> Interruption:
    """An open question."""
    return ask({"kind": "question", "question": question}, key)


def ask_approval(key: str = "s1", **more: Any) -> Interruption:
    """An open approval of a command."""
    payload = {"kind": "approval", "title": "Run this command?", "detail": "rm -rf build"}
    return ask({**payload, **more}, key)


def path_of(row: Interruption, *more: str) -> str:
    """An address of the card."""
    return "/".join(["/chat", row.turn.session.key, "hitl", row.pk, *more, ""])


def resolve(row: Interruption, outcome: str, value: Any = None) -> Interruption:
    """The interruption is over."""
    Interruption.objects.filter(pk=row.pk).update(
        state=outcome, value=value, resolved_by="bob", resolved_at=clock.now()
    )
    row.refresh_from_db()
    return row
