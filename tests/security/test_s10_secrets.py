"""S10: no configured secret and no key-shaped string is stored, streamed, logged or shown.

Secrets of sixteen kinds are said by the operator, by tools, by the model and by its gateway,
in every field there is. Then everything is searched.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator

import pytest

from tests.security.leaks import crawl
from tests.security.leaks.planted import ALL, MASK, Planted
from tests.security.leaks.story import Story, told
from tests.services.servers import servers

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    with servers() as make, told(make) as story:
        yield story


def leaks(texts: dict[str, bytes]) -> dict[str, list[str]]:
    """Which secrets stand in which of these texts, plain or behind an escape."""
    found: dict[str, list[str]] = {}
    for place, text in texts.items():
        readings = (text, html.unescape(text.decode("utf-8", "replace")).encode(), _unescaped(text))
        for planted in ALL:
            pieces = [piece.encode() for piece in planted.pieces]
            if any(piece in reading for piece in pieces for reading in readings):
                found.setdefault(place, []).append(planted.kind)
    return found


def _unescaped(text: bytes) -> bytes:
    """`text` with the \\u escapes of JSON read, also of JSON within JSON."""
    for _ in range(2):
        if b"\\u00" not in text:
            break
        for code in range(0x20, 0x7F):
            text = text.replace(b"\\u%04x" % code, bytes([code]))
        text = text.replace(b"\\\\u", b"\\u")
    return text


def assert_arrived(text: bytes, planted: Planted) -> None:
    """The text around the secret is there, and a mask in its place."""
    assert f"mark-{planted.kind} ".encode() in text
    assert MASK.encode() in text


def test_no_table_of_the_database_holds_a_secret(story):
    tables = crawl.database(story)

    assert leaks(tables) == {}
    for planted in ALL:
        assert_arrived(tables["journal_turnevent"], planted)
        assert_arrived(tables["journal_turn"], planted)
        assert_arrived(tables["journal_interruption"], planted)
        assert_arrived(tables["journal_queuedmessage"], planted)
        assert_arrived(tables["journal_chatsession"], planted)
        assert_arrived(tables["tools_app_toolcall"], planted)
        assert_arrived(tables["uploads_attachmentcontent"], planted)


def test_no_file_of_the_home_holds_a_secret_not_even_of_rows_that_are_gone(story):
    assert leaks(crawl.home(story)) == {}


def test_no_secret_is_sent_to_the_model(story):
    bodies = b"\n".join(story.gateway.bodies)

    assert leaks({"requests": bodies}) == {}
    for planted in ALL:
        assert_arrived(bodies, planted)


def test_no_secret_comes_through_a_socket(story):
    program, browser = story.heard.of("socket"), story.heard.of("link")

    assert leaks({"chat": program, "link": browser}) == {}
    for planted in ALL:
        assert_arrived(program, planted)
        assert_arrived(browser, planted)


def test_no_page_api_answer_export_or_refusal_shows_a_secret(story):
    crawl.console(story)

    texts = story.heard.whole()

    assert leaks(texts) == {}
    for planted in ALL:
        assert_arrived(story.heard.of("console GET /chat/s-"), planted)
        assert_arrived(b"\n".join(texts[place] for place in texts if "/export" in place), planted)
        assert_arrived(story.heard.of("api GET /api/chat/sessions/s-"), planted)


def test_no_page_of_the_admin_shows_a_secret(story):
    pages = crawl.admin(story)

    texts = {place: text for place, text in story.heard.whole().items() if "/admin/" in place}

    assert leaks(texts) == {}
    assert pages > 100
    for planted in ALL:
        assert_arrived(b"\n".join(texts.values()), planted)


def test_no_line_of_the_log_holds_a_secret(story):
    log = story.server.log.encode()

    assert leaks({"log": log}) == {}
    for planted in ALL:
        assert_arrived(log, planted)
    assert b"DEBUG" in log


def test_a_masked_answer_is_the_same_streamed_and_whole(story):
    frames = [json.loads(piece) for piece in story.heard.places["socket"]]
    events = [frame for frame in frames if "seq" in frame]

    by_turn: dict[str, str] = {}
    for event in events:
        if event["type"] == "text.delta":
            by_turn[event["turn"]] = by_turn.get(event["turn"], "") + event["data"]["text"]
    ends = [
        e for e in events if e["type"] == "turn.finished" and e["data"]["status"] == "completed"
    ]

    assert len(ends) > 40
    assert all(by_turn.get(e["turn"], "") == e["data"]["text"] for e in ends)
