"""Sessions: made on first use, named, kept, deleted and brought back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from protoagent.core import clock, events
from protoagent.core.errors import BadValue, NotFound
from protoagent.journal.models import ChatSession, Checkpoint, TitleSource, Turn
from protoagent.journal.services import agents, pauses, pending, sessions, turns

pytestmark = pytest.mark.django_db


def make(key: str = "s1", **fields: Any) -> ChatSession:
    session = sessions.ensure(agents.ensure("main"), key)
    ChatSession.objects.filter(pk=session.pk).update(**fields)
    session.refresh_from_db()
    return session


def find(key: str = "s1") -> ChatSession:
    return sessions.find(agents.ensure("main"), key)


def begin(session: ChatSession, text: str = "go") -> turns.Hold:
    claim = turns.accept(session, turns.Message(text), holder="h:1:b").claim
    assert claim is not None
    return claim.hold


def test_a_session_is_made_on_first_use_and_found_afterwards() -> None:
    first, second = make("a.B_c:d-9"), make("a.B_c:d-9")

    assert first.pk == second.pk
    assert find("a.B_c:d-9").pk == first.pk


@pytest.mark.parametrize("key", ["", " ", "a b", "a/b", "..", ".", "é", "x" * 129, "a\x00", "a\n"])
def test_a_key_that_cannot_be_one_is_refused(key: str) -> None:
    with pytest.raises(BadValue, match="128 characters"):
        sessions.ensure(agents.ensure("main"), key)


def test_the_same_key_is_another_session_for_another_agent() -> None:
    mine = make("s1")
    theirs = sessions.ensure(agents.ensure("other"), "s1")

    assert mine.pk != theirs.pk


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("check the disks", "check the disks"),
        ("\n\n## Check *the* disks\nand more", "Check *the* disks"),
        ("> - `df -h`", "df -h"),
        ("x" * 200, "x" * 79 + "…"),
        ("***", ""),
        ("", ""),
    ],
)
def test_a_title_is_the_first_line_without_its_marks(text: str, title: str) -> None:
    assert sessions.title_from(text) == title


def test_a_name_given_by_hand_is_never_replaced() -> None:
    session = make()
    sessions.rename(session, " My   disks\n")

    begin(session, "something else")
    sessions.title_if_untitled(session, "something else")

    session = find()
    assert (session.title, session.title_source) == ("My disks", TitleSource.MANUAL)


@pytest.mark.parametrize("title", ["", "  ", "\n\t"])
def test_a_blank_title_is_refused(title: str) -> None:
    session = make(title="Kept")

    with pytest.raises(BadValue, match="at least one character"):
        sessions.rename(session, title)

    assert find().title == "Kept"


def test_a_long_title_is_cut_and_not_refused() -> None:
    assert len(sessions.rename(make(), "x" * 500).title) == 200


def test_every_change_tells_open_pages(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    session, told = make(), []
    monkeypatch.setattr(events, "publish", lambda name, payload: told.append((name, payload)))

    with django_capture_on_commit_callbacks(execute=True):
        sessions.rename(session, "x")
        sessions.pin(session, pinned=True)
        sessions.archive(session, archived=True)
        sessions.set_incognito(session, incognito=True)
        sessions.delete(session)

    assert told == [("session.changed", {"session": "s1"})] * 5


def test_what_was_read_is_never_unread_by_an_older_mark() -> None:
    session = make(last_seq=10)

    sessions.mark_seen(session, 7)
    sessions.mark_seen(session, 3)
    assert find().seen_seq == 7
    sessions.mark_seen(session, 99)

    assert find().seen_seq == 10


def test_the_question_before_a_deletion_counts_what_goes_with_it() -> None:
    session = make()
    hold = begin(session)
    pauses.open_for_call(hold.turn_id, "c1", 0, {"kind": "question", "question": "why?"})
    turns.steer(session, "hurry", client_id="m1")
    pending.withdraw(session.pk, "m1")
    turns.queue(session, "and then", client_id="m2")

    notice = sessions.notice_before_deletion(session)

    assert notice == sessions.DeletionNotice(turns=1, open_questions=1, pending_messages=1)


def test_a_deleted_session_is_gone_until_it_is_restored_as_it_was() -> None:
    session = make(pinned_at=clock.now(), title="Kept")

    sessions.delete(session)
    with pytest.raises(NotFound):
        find()
    sessions.restore(session.agent, "s1")

    assert (find().title, find().pinned_at is not None) == ("Kept", True)


def test_restoring_what_was_never_deleted_changes_nothing() -> None:
    make()

    assert sessions.restore(agents.ensure("main"), "s1").deleted_at is None
    with pytest.raises(NotFound):
        sessions.restore(agents.ensure("main"), "nobody")


def test_the_key_of_a_deleted_session_starts_a_new_conversation() -> None:
    old = make()
    begin(old, "old words")
    sessions.delete(old)

    new = make()

    assert (new.pk != old.pk, new.turns.count()) == (True, 0)


def test_a_purge_waits_for_the_undo_and_for_a_running_turn() -> None:
    fresh, stale, running = make("fresh"), make("stale"), make("running")
    begin(running)
    with time_machine.travel(clock.now() - timedelta(minutes=5)):
        sessions.delete(stale)
        sessions.delete(running)
    sessions.delete(fresh)

    count = sessions.purge_deleted()

    kept = set(ChatSession.objects.values_list("key", flat=True))
    assert (count, kept) == (1, {"fresh", "running"})


def test_a_purge_takes_a_turn_that_waits_for_ever_with_everything_of_it() -> None:
    session = make()
    hold = begin(session)
    pauses.open_for_call(hold.turn_id, "c1", 0, {"kind": "question", "question": "why?"})
    Turn.objects.update(status="waiting", lease_until=None, holder="")
    Checkpoint.objects.create(
        thread=hold.turn_id, checkpoint="1", encoding="json", body=b"{}", metadata={}
    )
    sessions.delete(session)

    count = sessions.purge_deleted(before=clock.now() + timedelta(seconds=1))

    assert count == 1
    assert (ChatSession.objects.count(), Turn.objects.count(), Checkpoint.objects.count()) == (
        *(0, 0, 0),
    )


def test_the_list_is_newest_activity_first_and_archived_ones_are_apart() -> None:
    now = clock.now()
    make("old", last_event_at=now - timedelta(days=1))
    make("new", last_event_at=now)
    make("archived", archived_at=now)
    make("gone", deleted_at=now)
    agent = agents.ensure("main")

    assert [row.key for row in sessions.listing(agent)] == ["new", "old"]
    assert [row.key for row in sessions.listing(agent, archived=True)] == ["archived"]


def test_the_instances_agent_is_the_one_that_the_environment_names(settings: Any) -> None:
    settings.AGENT_KEY = "lab"

    assert agents.current().key == "lab"
    assert agents.current().pk == agents.get("lab").pk
    with pytest.raises(NotFound, match="nobody"):
        agents.get("nobody")
