"""Every list declares its relations: as many queries with thirty rows as with three."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.urls import reverse

from tests import factories
from tests.accounts.factories import browser_of, make_account
from tests.architecture.sources import PACKAGES
from tests.queries import assert_constant_queries

pytestmark = pytest.mark.django_db

MAKERS = {
    "Agent": lambda: factories.make_agent(f"a{next(factories._numbers)}"),
    "ChatSession": factories.make_session,
    "Turn": factories.make_turn,
    "TurnEvent": factories.make_event,
    "Interruption": factories.make_interruption,
    "QueuedMessage": factories.make_queued,
    "Heartbeat": factories.make_heartbeat,
    "ToolCall": factories.make_call,
    "Attachment": factories.make_attachment,
}
LISTS = [model for model in admin.site._registry if model.__name__ in MAKERS]


@pytest.mark.parametrize("model", LISTS, ids=lambda model: model.__name__)
def test_admin_list_takes_the_same_queries_for_any_number_of_rows(model):
    browser = browser_of(make_account())
    path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")

    def show() -> None:
        assert browser.get(path).status_code == 200

    assert_constant_queries(MAKERS[model.__name__], show)


def test_every_table_with_conversations_has_a_list_in_this_test():
    rooms = {"journal", "tools_app", "uploads"}
    registered = {
        model.__name__
        for model in admin.site._registry
        if model.__module__.split(".")[0] in PACKAGES and model._meta.app_label in rooms
    }

    assert registered <= set(MAKERS)


def make_busy_session() -> None:
    """A session with an ended turn, and one that waits for an answer."""
    session = factories.make_session()
    factories.make_event(factories.make_turn(session=session))
    factories.make_interruption(turn=factories.make_turn(session=session, status="waiting"))


@pytest.mark.parametrize("path", ["/api/chat/sessions?limit=50", "/"])
def test_session_list_takes_the_same_queries_for_any_number_of_sessions(path):
    browser = browser_of(make_account())

    def show() -> None:
        assert browser.get(path, follow=True).status_code == 200

    assert_constant_queries(make_busy_session, show)


def test_a_session_takes_the_same_queries_for_any_number_of_turns():
    browser = browser_of(make_account())
    session = factories.make_session(key="long")

    def make_row() -> None:
        turn = factories.make_turn(session=session)
        factories.make_call(turn=turn)
        factories.make_event(turn)

    def show() -> None:
        assert browser.get("/chat/long/").status_code == 200
        assert browser.get("/api/chat/sessions/long/events").status_code == 200

    assert_constant_queries(make_row, show)
