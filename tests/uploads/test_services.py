"""Files of messages: what is taken, under which name, for how long, and for whom."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from protoagent.config import services as config
from protoagent.core import clock
from protoagent.core.errors import AgentError, BadValue, Conflict, NotFound, TooLarge
from protoagent.journal.services import sessions
from protoagent.uploads import services as uploads
from protoagent.uploads.formats import UnsupportedFile
from protoagent.uploads.models import Attachment, AttachmentContent
from tests.factories import make_agent, make_attachment, make_session
from tests.uploads import pictures

pytestmark = pytest.mark.django_db

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
DAY = timedelta(hours=24)


def add(name: str = "notes.txt", body: bytes = b"hello", owner: str = "ada") -> Attachment:
    return uploads.add(owner, name, body)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch):
    def set_them(*, max_files: int = 10, max_mb: int = 20) -> None:
        monkeypatch.setenv("PROTOAGENT__ATTACHMENTS__MAX_FILES", str(max_files))
        monkeypatch.setenv("PROTOAGENT__ATTACHMENTS__MAX_MB", str(max_mb))
        config.reload()

    yield set_them
    monkeypatch.undo()
    config.reload()


@pytest.mark.parametrize(
    "body",
    [
        "grüße\r\n".encode(),
        b"\xef\xbb\xbf" + "grüße\r\n".encode(),
        b"\xff\xfe" + "grüße\r\n".encode("utf-16-le"),
        b"\xfe\xff" + "grüße\r\n".encode("utf-16-be"),
    ],
    ids=["utf-8", "utf-8 with a mark", "utf-16 le", "utf-16 be"],
)
def test_text_is_kept_in_utf_8_whatever_it_came_in(body):
    row = add("a.weird", body)

    assert uploads.content_of(row) == "grüße\r\n".encode()
    assert (row.kind, row.content_type, row.chars, row.size) == ("text", "text/plain", 7, 9)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (pictures.PNG, "image/png"),
        (pictures.JPEG, "image/jpeg"),
        (pictures.GIF, "image/gif"),
        (pictures.WEBP, "image/webp"),
    ],
)
def test_an_image_is_known_by_its_bytes_whatever_its_name(body, content_type):
    row = add("page.html", body)

    assert (row.kind, row.content_type, row.chars) == ("image", content_type, 0)
    assert uploads.content_of(row) == body


def test_an_svg_is_text():
    assert add("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>").kind == "text"


@pytest.mark.parametrize(
    "body",
    [
        b"\x7fELF\x02\x01\x01\x00",
        b"PK\x03\x04\x00\x00",
        b"a\x00b",
        b"\xff\xfea",
        b"\xff\xfe\x00\x00h\x00\x00\x00",
        b"\xff\xfe\x00\xd8",
        "latin-1 grüße".encode("latin-1"),
        b"RIFF\x00\x00\x00\x00WAVEfmt ",
        b"\x89PNG",
    ],
)
def test_everything_else_is_refused_with_what_can_be_attached(body):
    with pytest.raises(UnsupportedFile, match=r"x\.txt is neither text .* PNG, JPEG, GIF or WebP"):
        add("x.txt", body)

    assert UnsupportedFile.status == 415
    assert not Attachment.objects.exists()


def test_an_empty_file_is_refused():
    with pytest.raises(BadValue, match=r"^notes\.txt is empty$"):
        add(body=b"")


def test_a_file_above_the_limit_is_refused_with_both_sizes(limits):
    limits(max_mb=1)

    with pytest.raises(TooLarge, match=r"^big\.txt has 1\.5 MB; a file has at most 1 MB$"):
        add("big.txt", b"x" * (1536 * 1024))

    assert add("fits.txt", b"x" * (1024 * 1024)).size == 1024 * 1024


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        (r"C:\Users\ada\notes.txt", "notes.txt"),
        ("a\x00b\r\nc\td.txt", "a�b c d.txt"),
        ("inv\u202etxt.exe", "invtxt.exe"),
        ("ze\u200bro\ufeff.md", "zero.md"),
        ("", "file"),
        ("/", "file"),
        ("..", "file"),
        ("\u202e", "file"),
        (".env", ".env"),
        ("  a   b  ", "a b"),
        ("half \ud800 pair", "half � pair"),
        ("<script>.html", "<script>.html"),
    ],
)
def test_a_name_is_the_last_part_without_what_cannot_be_seen(sent, kept):
    assert uploads.clean_name(sent) == kept


def test_a_long_name_keeps_its_ending():
    name = uploads.clean_name("x" * 300 + ".tar.gz")

    assert len(name) == 120
    assert name.endswith("x….gz")


def test_secrets_in_content_name_and_alt_text_are_masked_before_they_are_stored():
    row = add(f"{KEY}.txt", f"my key is {KEY}\n".encode())
    image = add("a.png", pictures.PNG)
    uploads.set_alt(image.pk, "ada", f"a card with {KEY}")

    stored = [*Attachment.objects.values_list("name", "alt"), uploads.content_of(row)]
    assert KEY[8:] not in str(stored)
    assert b"[REDACTED]" in uploads.content_of(row)
    assert row.size == len(uploads.content_of(row))


def test_a_file_that_was_not_sent_is_gone_after_a_day_and_a_sent_one_stays():
    draft, sent = add("draft.txt"), make_attachment()
    image = make_attachment(session=None, kind="image", content_type="image/png")

    with time_machine.travel(clock.now() + DAY + timedelta(seconds=5), tick=False):
        with pytest.raises(BadValue, match=r"^draft\.txt is not there any more; attach it again$"):
            uploads.check(None, [draft.pk])
        assert uploads.unsent("ada", [draft.pk]) == []
        count = uploads.purge()

    assert count == 2
    assert list(Attachment.objects.all()) == [sent]
    assert AttachmentContent.objects.count() == 1
    assert image.pk != draft.pk


def test_binding_twice_to_the_same_session_is_once():
    session, row = make_session(), add()

    first = uploads.bind(session, [row.pk])
    second = uploads.bind(session, [row.pk])

    assert first == second == [uploads.summary(row)]
    row.refresh_from_db()
    assert row.session == session


def test_the_summary_says_what_a_file_is_and_nothing_of_its_content():
    row = add()

    assert uploads.summary(row) == {
        "id": row.pk,
        "name": "notes.txt",
        "kind": "text",
        "content_type": "text/plain",
        "size": 5,
        "alt": "",
    }


def test_a_file_of_another_session_cannot_be_sent():
    row = add()
    uploads.bind(make_session(), [row.pk])

    for session in (make_session(), None):
        with pytest.raises(BadValue, match=r"^notes\.txt is not there any more"):
            uploads.check(session, [row.pk])


@pytest.mark.parametrize("name", ["f0000000000000000", "", "a" * 400, "\x00", "é", "../x"])
def test_an_id_that_nothing_has_is_refused_in_words(name):
    agent = make_agent()

    with pytest.raises(BadValue, match="not there any more"):
        uploads.check(make_session(), [name])
    for call in (
        lambda: uploads.find(name, agent, reader="ada"),
        lambda: uploads.discard(name, "ada"),
        lambda: uploads.set_alt(name, "ada", "x"),
    ):
        with pytest.raises(NotFound):
            call()


def test_the_same_file_twice_and_too_many_files_are_refused(limits):
    limits(max_files=2)
    rows = [add().pk for _ in range(3)]

    with pytest.raises(BadValue, match="twice"):
        uploads.check(None, [rows[0], rows[0]])
    with pytest.raises(TooLarge, match=r"^3 files; a message has at most 2$"):
        uploads.check(None, rows)


def test_nothing_is_bound_when_one_of_the_files_cannot_be():
    session, row = make_session(), add()

    with pytest.raises(BadValue):
        uploads.bind(session, [row.pk, "f0000000000000000"])

    row.refresh_from_db()
    assert row.session is None


def test_a_draft_is_its_owners_alone_and_a_sent_file_everybodys():
    draft, agent = add(), make_agent()
    sent = make_attachment()

    assert uploads.find(sent.pk, agent, reader="bob") == sent
    assert uploads.find(draft.pk, agent, reader="ada") == draft
    for call in (
        lambda: uploads.find(draft.pk, agent, reader="bob"),
        lambda: uploads.discard(draft.pk, "bob"),
        lambda: uploads.set_alt(draft.pk, "bob", "mine"),
    ):
        with pytest.raises(NotFound):
            call()
    assert uploads.unsent("bob", [draft.pk]) == []


def test_a_file_of_another_agent_or_of_a_deleted_session_is_not_found():
    agent = make_agent()
    foreign = make_attachment(session=make_session(agent=make_agent("other")))
    gone = make_attachment()
    sessions.delete(gone.session)

    for row in (foreign, gone):
        with pytest.raises(NotFound):
            uploads.find(row.pk, agent, reader="ada")


def test_only_a_file_that_was_not_sent_can_be_dropped_or_described():
    draft, sent = add(), make_attachment()

    uploads.discard(draft.pk, "ada")

    assert not Attachment.objects.filter(pk=draft.pk).exists()
    for call in (
        lambda: uploads.discard(sent.pk, "ada"),
        lambda: uploads.set_alt(sent.pk, "ada", "x"),
    ):
        with pytest.raises(Conflict, match="has been sent"):
            call()


def test_an_alt_text_is_one_line_of_at_most_500_characters():
    row = add("a.png", pictures.PNG)

    assert uploads.set_alt(row.pk, "ada", " a\n cat ").alt == "a cat"
    assert len(uploads.set_alt(row.pk, "ada", "x" * 500).alt) == 500
    with pytest.raises(TooLarge):
        uploads.set_alt(row.pk, "ada", "x" * 501)


def test_files_go_with_their_session():
    row = make_attachment()
    sessions.delete(row.session)

    sessions.purge_deleted(before=clock.now() + DAY)

    assert not Attachment.objects.exists()
    assert not AttachmentContent.objects.exists()


def test_a_secret_with_a_slash_in_it_is_masked_in_a_name():
    name = uploads.clean_name("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMQTEKEY")

    assert "bPxRfi" not in name and "[REDACTED]" in name


def test_no_failure_of_a_file_repeats_a_secret_in_its_name():
    with pytest.raises(AgentError) as failure:
        add(f"{KEY}.bin", b"\x00")

    assert KEY[8:] not in str(failure.value)
