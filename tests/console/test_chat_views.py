"""The chat page and everything that is posted from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from protoagent.console import snapshot
from protoagent.core import clock
from protoagent.core.context import Scope
from protoagent.core.ids import new_id
from protoagent.journal.models import ChatSession, Interruption, QueuedMessage, Turn, TurnEvent
from protoagent.journal.services import agents, events, pending, sessions, turns
from protoagent.journal.services.events import NewEvent
from tests.accounts.factories import browser_of, make_account
from tests.console.asking import Tab, ask_form, ask_question, begin, open_tab
from tools_app.models import ToolCall

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh_cache(clean_env: pytest.MonkeyPatch) -> None:
    snapshot.cache = snapshot._Cache()


@pytest.fixture
def tab() -> Tab:
    return open_tab()


class Composer:
    """The page's script: it posts and reads JSON."""

    def __init__(self, client: Client) -> None:
        self.client = client
        client.get("/account/")

    def post(self, path: str, **fields: Any) -> Any:
        headers = {
            "accept": "application/json",
            "x-csrftoken": self.client.cookies["protoagent_csrf"].value,
        }
        return self.client.post(path, fields, headers=headers)

    def send(self, key: str, text: str, **fields: Any) -> Any:
        values = {"text": text, "mode": "turn", "client_id": new_id("c"), **fields}
        return self.post(f"/chat/{key}/send/" if key else "/chat/", **values)


@pytest.fixture
def composer(tab: Tab) -> Composer:
    return Composer(tab.client)


def finish(hold: turns.Hold, text: str = "done", status: str = "completed") -> None:
    """The turn has ended with this answer."""
    events.append(
        hold.session_id,
        [
            NewEvent("text.delta", {"text": text}, hold.turn_id),
            NewEvent("turn.finished", {"status": status, "text": text}, hold.turn_id),
        ],
    )
    turns.finish(hold, status, answer=text)


def talk(count: int, key: str = "s1") -> ChatSession:
    """A session of `count` turns."""
    session = sessions.ensure(agents.current(), key)
    for number in range(count):
        claim = turns.accept(session, turns.Message(f"question {number}"), holder="h:1:b").claim
        assert claim is not None
        finish(claim.hold, f"answer {number}")
    return session


def texts(page: Any, selector: str = ".msg__body") -> list[str]:
    return [element.text_content() for element in page.all(selector)]


# — the page —


def test_the_page_shows_the_session_and_where_its_events_end(tab: Tab) -> None:
    session = talk(2)
    session.refresh_from_db()

    page = tab.get("/chat/s1/")

    assert page.status == 200
    assert texts(page) == ["question 0", "question 1"]
    assert texts(page, ".prose") == ["answer 0", "answer 1"]
    assert page.one("#stream").get("data-seq") == str(session.last_seq)
    assert page.words("h1") == "question 0"
    assert "Cache-Control" in page.headers


def test_a_session_that_is_not_there_is_404(tab: Tab) -> None:
    assert tab.get("/chat/nowhere/").status == 404


@pytest.mark.parametrize("path", ["/chat/", "/chat/s1/", "/chat/s1/messages/", "/chat/s1/aside/"])
def test_signed_out_pages_lead_to_the_sign_in(path: str, client: Client) -> None:
    talk(1)

    page = client.get(path, headers={"accept": "text/html"})
    fragment = client.get(path, headers={"hx-request": "true"})

    assert page.status_code == 302
    assert page["Location"].startswith("/login/")
    assert fragment.status_code == 401
    assert fragment["HX-Redirect"].startswith("/login/")


@pytest.mark.parametrize(
    "path", ["send/", "stop/", "pending/", "model/", "seen/", "calls/a/cancel/"]
)
def test_viewers_and_strangers_change_nothing(path: str, client: Client) -> None:
    session, _ = begin()
    viewer = Composer(browser_of(make_account("vera", scope=Scope.VIEWER)))
    before = TurnEvent.objects.count()

    refused = viewer.post(f"/chat/{session.key}/{path}", text="hi", client_id="c" * 8)
    unknown = client.post(f"/chat/{session.key}/{path}", {}, headers={"accept": "text/html"})

    assert refused.status_code == 403
    assert unknown.status_code == 401
    assert TurnEvent.objects.count() == before


def test_a_post_without_its_token_is_refused(composer: Composer) -> None:
    session, _ = begin()

    answer = composer.client.post(f"/chat/{session.key}/send/", {"text": "hi"})

    assert answer.status_code == 403


def test_a_viewer_sees_no_controls_that_write() -> None:
    begin()
    viewer = open_tab("vera", scope=Scope.VIEWER)

    page = viewer.get("/chat/s1/")

    assert not page.has("#composer")
    assert not page.has("[data-act=stop]")
    assert not page.has("[data-session-menu]")
    assert "You are watching" in page.text


def test_the_page_of_a_new_session_has_a_composer_and_no_transcript(tab: Tab) -> None:
    page = tab.get("/chat/")

    assert page.one("#composer").get("action") == "/chat/"
    assert page.one("#composer").get("data-draft") == "new"
    assert not page.has("#stream[data-session]")


def test_without_a_model_the_page_says_so(tab: Tab) -> None:
    page = tab.get("/chat/")

    assert "No model is connected" in page.words(".chat__offline")
    assert page.words("[data-model]") == "offline"


def test_what_a_message_says_is_never_markup(tab: Tab) -> None:
    _, hold = begin(text="<script>alert(1)</script>")
    finish(hold, "<img src=x onerror=alert(1)> [x](javascript:alert(1))")

    page = tab.get("/chat/s1/")

    assert "<script>alert" not in page.text
    assert "<img" not in page.text
    assert 'href="javascript' not in page.text
    assert texts(page) == ["<script>alert(1)</script>"]


def test_sixty_messages_make_a_page_and_a_button_leads_to_the_older_ones(tab: Tab) -> None:
    talk(45)

    newest = tab.get("/chat/s1/")
    link = newest.one("#older").get("hx-get")
    older = tab.get(link)

    assert len(newest.all("article")) == 60
    assert texts(newest)[0] == "question 15"
    assert texts(older)[0] == "question 0"
    assert texts(older)[-1] == "question 14"
    assert not older.has("#older")


def test_the_number_of_queries_does_not_grow_with_the_transcript(
    tab: Tab, django_assert_max_num_queries: Any
) -> None:
    talk(3, "short")
    talk(30, "long")
    tab.get("/chat/short/")

    with django_assert_max_num_queries(40) as few:
        tab.get("/chat/short/")
    snapshot.cache = snapshot._Cache()
    with django_assert_max_num_queries(40) as many:
        tab.get("/chat/long/")

    assert len(many) <= len(few) + 2


def test_a_link_to_an_old_message_opens_the_page_around_it(tab: Tab) -> None:
    session = talk(80)
    event = TurnEvent.objects.get(session=session, data__text="question 10")

    page = tab.get(f"/chat/s1/?at=m-{event.seq}")

    assert page.has(f"#m-{event.seq}")
    assert page.one("#stream").get("data-target") == f"m-{event.seq}"
    assert page.one("#stream").get("data-partial") is not None
    assert "question 79" not in texts(page)
    later = page.all(".chat__older")[-1]
    assert "later" in later.text_content()
    assert "question 26" in texts(tab.get(later.get("href").replace("&amp;", "&")))


def test_a_link_to_something_recent_opens_the_newest_page(tab: Tab) -> None:
    session = talk(5)
    end = TurnEvent.objects.filter(session=session, type="turn.finished").order_by("seq")[1]

    page = tab.get(f"/chat/s1/?at={end.seq}")

    target = page.one("#stream").get("data-target")
    assert page.one("#stream").get("data-partial") is None
    assert "answer 1" in page.one(f"#{target}").text_content()


def test_links_to_calls_and_cards_find_their_message(tab: Tab) -> None:
    row = ask_question()
    call = ToolCall.objects.create(turn_id=row.turn_id, call_id="c7f3a", name="calculator")

    by_card = tab.get(f"/chat/s1/?at=hitl-{row.pk}")
    by_call = tab.get(f"/chat/s1/?at=call-{call.call_id}")

    assert by_card.one("#stream").get("data-target") == f"hitl-{row.pk}"
    assert by_call.one("#stream").get("data-target") == "call-c7f3a"


@pytest.mark.parametrize("anchor", ["m-99999", "call-none", "hitl-none", "x<y", "m-" + "9" * 30])
def test_a_link_to_what_is_gone_shows_the_session_and_says_so(tab: Tab, anchor: str) -> None:
    talk(1)

    page = tab.get("/chat/s1/", at=anchor)

    assert page.status == 200
    assert texts(page) == ["question 0"]
    assert "not here any more" in page.one("[data-notice]").get("data-notice")


def test_a_page_without_a_link_can_ask_for_news(tab: Tab) -> None:
    session = talk(1)
    session.refresh_from_db()

    some = json.loads(tab.get("/chat/s1/news/", after="1").text)
    none = json.loads(tab.get("/chat/s1/news/", after=str(session.last_seq)).text)

    assert some["seq"] == none["seq"] == session.last_seq
    assert "answer 0" in some["html"]
    assert none["html"] is None
    assert none["state"]["turn"] == "idle"


def test_a_message_can_be_had_as_it_was_written(tab: Tab) -> None:
    session, hold = begin(text="  *hi* ".strip())
    finish(hold, "**bold** `code`")
    agent = TurnEvent.objects.get(session=session, type="turn.started")

    mine = tab.get("/chat/s1/messages/1/source/")
    its = tab.get(f"/chat/s1/messages/{agent.seq}/source/")
    gone = tab.get("/chat/s1/messages/999/source/")

    assert (mine.text, its.text, gone.status) == ("*hi*", "**bold** `code`", 404)
    assert its.headers["Content-Type"].startswith("text/plain")


def test_the_details_count_tokens_of_a_turn_that_still_runs(tab: Tab) -> None:
    session, hold = begin()
    usage = {"input_tokens": 31_800, "output_tokens": 2100, "cost_usd": 0.064}
    events.append(session.pk, [NewEvent("usage", usage, hold.turn_id)])
    ToolCall.objects.create(
        turn_id=hold.turn_id, call_id="c1", name="web_search", arguments={"query": "disks"}
    )

    page = tab.get("/chat/s1/aside/")

    words = page.words("#aside")
    assert "31.8k in · 2.1k out" in words
    assert "$0.064" in words
    assert "web_search" in words
    assert "disks" in words
    assert page.has("[data-act=cancel-call]")


# — sending —


def test_the_first_message_makes_a_session_and_twice_is_once(composer: Composer) -> None:
    first = composer.send("", "hello", client_id="first-message")
    again = composer.send("", "hello", client_id="first-message")

    assert first.json()["url"] == again.json()["url"]
    assert (first.json()["duplicate"], again.json()["duplicate"]) == (False, True)
    session = ChatSession.objects.get()
    assert first.json()["url"] == f"/chat/{session.key}/"
    assert [turn.text for turn in session.turns.all()] == ["hello"]


def test_what_was_chosen_before_the_first_message_counts_for_the_session(
    composer: Composer,
) -> None:
    composer.send("", "hello", model="fake-small", incognito="1")

    session = ChatSession.objects.get()
    assert (session.model, session.incognito) == ("fake-small", True)


def test_a_message_is_one_turn_however_often_it_is_posted(composer: Composer) -> None:
    talk(1)

    answers = [composer.send("s1", "again", client_id="one-and-the-same") for _ in range(3)]

    assert [answer.json()["duplicate"] for answer in answers] == [False, True, True]
    assert Turn.objects.filter(text="again").count() == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"text": "   "}, 400),
        ({"mode": "shout"}, 400),
        ({"client_id": ""}, 400),
        ({"client_id": "x" * 129}, 400),
        ({"text": "x" * 300_000}, 413),
        ({"text": "x" * 2_000_000}, 413),
    ],
)
def test_a_message_that_cannot_be_used_says_why(
    composer: Composer, fields: dict[str, Any], status: int
) -> None:
    talk(1)

    answer = composer.send("s1", **{"text": "hi", **fields})

    assert answer.status_code == status
    assert len(answer.json()["detail"]) > 10
    assert Turn.objects.count() == 1


def test_the_form_of_a_page_can_be_sent_as_it_stands(tab: Tab) -> None:
    """Without script nobody but the page can give a message its id."""
    tab.htmx = False
    form = tab.get("/chat/").one("#composer")
    hidden = {i.get("name"): i.get("value") for i in form.all("input[type=hidden]")}

    first = tab.post(form.get("action"), {**hidden, "text": "hello"})
    again = tab.post(form.get("action"), {**hidden, "text": "hello"})

    assert (first.status, again.status) == (302, 302)
    assert first.headers["Location"] == again.headers["Location"]
    assert Turn.objects.get().text == "hello"
    assert tab.get("/chat/").one("[name=client_id]").get("value") != hidden["client_id"]


def test_a_form_that_is_posted_without_script_leads_back_to_the_session(tab: Tab) -> None:
    talk(1)
    tab.htmx = False

    page = tab.post("/chat/s1/send/", {"text": "plain", "client_id": "without-script"})

    assert (page.status, page.headers["Location"]) == (302, "/chat/s1/")
    assert Turn.objects.filter(text="plain").exists()


def test_a_steer_waits_for_the_next_step_and_a_late_one_is_a_turn(composer: Composer) -> None:
    session, hold = begin()

    steered = composer.send("s1", "shorter", mode="steer", client_id="steer-001")
    again = composer.send("s1", "shorter", mode="steer", client_id="steer-001")
    pending.withdraw(session.pk, "steer-001")
    finish(hold)
    late = composer.send("s1", "longer", mode="steer")

    assert (steered.json()["mode"], again.json()["duplicate"]) == ("steer", True)
    assert late.json()["mode"] == "turn"
    assert Turn.objects.filter(text="longer").exists()


def test_a_queued_message_is_kept_for_after_the_turn(composer: Composer) -> None:
    session, _ = begin()

    answer = composer.send("s1", "afterwards", mode="queue")

    assert answer.json()["mode"] == "queue"
    (row,) = pending.waiting_in(session.pk)
    assert row.text == "afterwards"


def test_text_answers_the_one_question_that_is_open(composer: Composer) -> None:
    row = ask_question()

    answer = composer.send("s1", " blue ", mode="steer")

    assert answer.json()["mode"] == "answer"
    row.refresh_from_db()
    assert (row.state, row.value, row.resolved_by) == ("answered", "blue", "ada")


def test_an_answer_that_is_posted_twice_is_one_answer(composer: Composer) -> None:
    row = ask_question()
    fields = {"mode": "steer", "client_id": "an-answer", "answers": row.pk}

    first = composer.send("s1", "blue", **fields)
    again = composer.send("s1", "blue", **fields)
    other = composer.send("s1", "red", **{**fields, "client_id": "another-one"})

    assert (first.status_code, again.json()["duplicate"]) == (200, True)
    assert other.status_code == 409
    assert "not sent" in other.json()["detail"]
    assert not QueuedMessage.objects.exists()


def test_with_a_form_or_two_questions_open_text_is_held_for_later(composer: Composer) -> None:
    ask_form()

    answer = composer.send("s1", "by the way", mode="steer")

    assert answer.json()["mode"] == "held"
    assert Interruption.objects.get().state == "open"


def test_a_failed_turn_can_be_tried_again(composer: Composer) -> None:
    session, hold = begin(text="do it")
    finish(hold, "", "failed")

    answer = composer.send("s1", "", retry=hold.turn_id, client_id="try-again-1")
    unknown = composer.send("s1", "", retry="nothing", client_id="try-again-2")

    assert answer.status_code == 200
    assert [turn.text for turn in session.turns.order_by("number")] == ["do it", "do it"]
    assert unknown.status_code == 404


# — commands —


def test_an_unknown_command_names_the_nearest_and_sends_nothing(composer: Composer) -> None:
    talk(1)

    answer = composer.send("s1", "/modle fake")

    assert answer.status_code == 422
    assert "/model" in answer.json()["detail"]
    assert Turn.objects.count() == 1


@pytest.mark.parametrize("text", [" /foo", "/etc/hosts is broken", "a /foo", "//x"])
def test_text_that_only_looks_like_a_command_is_sent(composer: Composer, text: str) -> None:
    talk(1)

    assert composer.send("s1", text).json()["mode"] == "turn"


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("/new", {"effect": "goto", "url": "/chat/"}),
        ("/clear", {"effect": "goto", "url": "/chat/"}),
        ("/theme dark", {"effect": "theme", "value": "dark"}),
        ("/help", {"effect": "help"}),
        ("/export md", {"effect": "download", "url": "/chat/s1/export/?format=md"}),
        ("/export", {"effect": "dialog", "url": "/chat/s1/export/"}),
        ("/model", {"effect": "model"}),
        ("/stop", {"effect": "say", "say": "Nothing is running"}),
    ],
)
def test_commands_act_on_the_page_and_are_no_messages(
    composer: Composer, text: str, effect: dict[str, Any]
) -> None:
    talk(1)

    answer = composer.send("s1", text)

    assert answer.json() == {"ok": True, "mode": "command", **effect}
    assert Turn.objects.count() == 1


def test_commands_change_the_session(composer: Composer) -> None:
    session = talk(1)

    model = composer.send("s1", "/model fake-small").json()
    composer.send("s1", "/incognito on")
    composer.send("s1", "/rename Disks of nuc-01")

    session.refresh_from_db()
    assert model["label"] == "fake-small"
    assert (session.model, session.incognito) == ("fake-small", True)
    assert session.title == "Disks of nuc-01"
    assert composer.send("s1", "/export").status_code == 400
    assert composer.send("s1", "/incognito maybe").status_code == 400


def test_the_tool_command_is_for_the_offline_model(composer: Composer) -> None:
    talk(1)

    sent = composer.send("s1", '/tool calculator {"expression": "1+1"}')
    bare = composer.send("s1", "/tool")

    assert sent.json()["mode"] == "turn"
    assert bare.status_code == 400


# — stopping, the queue, calls —


def test_stop_asks_the_turn_to_end_and_says_whether_one_ran(composer: Composer) -> None:
    session, hold = begin()

    first = composer.post("/chat/s1/stop/")
    finish(hold, status="stopped")
    second = composer.post("/chat/s1/stop/")

    assert (first.json()["stopped"], second.json()["stopped"]) == (True, False)
    assert Turn.objects.get(session=session).stopped_by == "ada"


def test_force_stop_ends_the_running_calls_too(composer: Composer) -> None:
    _, hold = begin()
    ToolCall.objects.create(turn_id=hold.turn_id, call_id="c1", name="web_search")

    composer.post("/chat/s1/stop/", force="1")

    call = ToolCall.objects.get()
    assert call.cancel_requested_at is not None
    assert call.cancelled_by == "ada"


def test_pending_messages_can_be_changed_moved_and_withdrawn(composer: Composer) -> None:
    session, _ = begin()
    for name in ("one", "two", "three"):
        composer.send("s1", name, mode="queue", client_id=f"client-{name}")

    def do(action: str, name: str, **fields: Any) -> int:
        values = {"do": action, "client_id": f"client-{name}", **fields}
        return composer.post("/chat/s1/pending/", **values).status_code

    assert do("up", "three") == 200
    assert do("edit", "one", text=" uno ") == 200
    assert do("edit", "one", text="  ") == 400
    assert do("withdraw", "two") == 200
    assert do("withdraw", "two") == 409
    assert do("withdraw", "nobody") == 404
    assert do("explode", "one") == 400
    assert [row.text for row in pending.waiting_in(session.pk)] == ["uno", "three"]


def test_a_queued_message_can_become_a_steer_unless_a_card_waits(composer: Composer) -> None:
    session, _ = begin()
    composer.send("s1", "now please", mode="queue", client_id="client-now")

    done = composer.post("/chat/s1/pending/", do="steer", client_id="client-now")

    assert done.status_code == 200
    assert QueuedMessage.objects.get().kind == "steer"
    received = TurnEvent.objects.filter(session=session, type="message.received").last()
    assert received.data["mode"] == "steer"


def test_with_an_open_card_nothing_is_pushed_ahead(composer: Composer) -> None:
    ask_form()
    composer.send("s1", "later", mode="queue", client_id="client-later")

    for action in ("steer", "stop-and-send"):
        answer = composer.post("/chat/s1/pending/", do=action, client_id="client-later")
        assert answer.status_code == 409
        assert "card" in answer.json()["detail"]


def test_what_a_stop_left_behind_is_sent_on_request(composer: Composer, tab: Tab) -> None:
    session, hold = begin()
    composer.send("s1", "after", mode="queue", client_id="client-after")
    finish(hold, status="stopped")

    bar = tab.get("/chat/s1/").words(".pending__hold")
    answer = composer.post("/chat/s1/pending/", do="release")

    assert "One message is kept, not sent." in bar
    assert answer.json()["sent"] == 1
    assert Turn.objects.filter(session=session, text="after").exists()


def test_a_call_shows_its_input_and_its_result(tab: Tab) -> None:
    _, hold = begin()
    ToolCall.objects.create(
        turn_id=hold.turn_id,
        call_id="c1",
        name="fetch_url",
        arguments={"url": "https://a.example/\u202egpj", "max_chars": 5},
        status="ok",
        output="<b>line</b>\n" * 3000,
        duration_ms=1200,
        finished_at=clock.now(),
    )

    short = tab.get("/chat/s1/calls/c1/")
    full = tab.get("/chat/s1/calls/c1/", full="1")

    assert short.all(".tool__args dt")[0].text_content() == "url"
    assert 'data-mark="U+202E"' in short.text
    assert "<b>line" not in short.text
    assert short.has(".tool__all")
    assert not full.has(".tool__all")
    assert full.text.count("&lt;b&gt;line") == 3000
    assert "1.2 s" in short.words(".tool__meta")


def test_search_results_are_a_list_of_links(tab: Tab) -> None:
    _, hold = begin()
    output = (
        "2 result(s) for 'x':\n\n1. First <one> — https://a.example/1\n   Snippet one.\n"
        "2. Second — https://b.example/2\n"
    )
    ToolCall.objects.create(
        turn_id=hold.turn_id,
        call_id="c1",
        name="web_search",
        status="ok",
        output=output,
        finished_at=clock.now(),
    )

    page = tab.get("/chat/s1/calls/c1/")

    links = page.all(".tool__hits a")
    assert [link.get("href") for link in links] == ["https://a.example/1", "https://b.example/2"]
    assert links[0].text_content() == "First <one>"
    assert "Snippet one." in page.text


def test_a_call_of_another_session_is_not_shown(tab: Tab) -> None:
    _, hold = begin("other")
    ToolCall.objects.create(turn_id=hold.turn_id, call_id="c1", name="calculator")
    talk(1)

    assert tab.get("/chat/s1/calls/c1/").status == 404


def test_cancelling_says_whether_the_call_still_ran(composer: Composer) -> None:
    _, hold = begin()
    ToolCall.objects.create(turn_id=hold.turn_id, call_id="c1", name="web_search")

    first = composer.post("/chat/s1/calls/c1/cancel/")
    ToolCall.objects.update(status="cancelled", finished_at=clock.now())
    second = composer.post("/chat/s1/calls/c1/cancel/")
    unknown = composer.post("/chat/s1/calls/nope/cancel/")

    assert (first.json()["cancelled"], second.json()["cancelled"]) == (True, False)
    assert unknown.status_code == 404


def test_read_marks_only_move_forward(composer: Composer) -> None:
    session = talk(2)

    composer.post("/chat/s1/seen/", seq="5")
    composer.post("/chat/s1/seen/", seq="3")
    wrong = composer.post("/chat/s1/seen/", seq="-1")

    session.refresh_from_db()
    assert session.seen_seq == 5
    assert wrong.status_code == 400


def test_models_can_be_looked_up_and_chosen(composer: Composer, tab: Tab) -> None:
    session = talk(1)

    menu = tab.get("/models/", session="s1")
    chosen = composer.post("/chat/s1/model/", model="fake-small")
    back = composer.post("/chat/s1/model/", model="default")

    assert menu.one('[data-choose-model="default"]').get("aria-pressed") == "true"
    assert chosen.json()["label"] == "fake-small"
    assert json.loads(back.content)["model"] == ""
    session.refresh_from_db()
    assert session.model == ""
