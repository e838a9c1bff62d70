"""Attachments: taking a file in, tying it to a session, giving it back, dropping it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from django.db import transaction
from django.db.models import Q

from protoagent.config import services as config
from protoagent.core.errors import BadValue, Conflict, NotFound, TooLarge
from protoagent.core.text import is_hidden_character, size_text, storable
from protoagent.journal.models import Agent, ChatSession
from protoagent.security.redaction import mask_text, one_masked_line
from protoagent.uploads import formats
from protoagent.uploads.models import (
    MAX_ALT_CHARS,
    MAX_NAME_CHARS,
    Attachment,
    AttachmentContent,
    AttachmentKind,
)

MIB = 1024 * 1024
NAMELESS = "file"

Summary = dict[str, Any]


def max_files() -> int:
    """How many files one message may have."""
    return int(config.get("attachments.max_files"))


def max_bytes() -> int:
    """How large one file may be."""
    return int(config.get("attachments.max_mb")) * MIB


def add(owner: str, name: str, body: bytes) -> Attachment:
    """The file is kept for a message of `owner`, for a day unless it is sent.

    A text is kept in UTF-8 with key-shaped strings and configured secrets masked, like
    the name. Raises BadValue for an empty file, TooLarge, and UnsupportedFile for what is
    neither text nor a known image.
    """
    name = clean_name(name)
    check_size(name, len(body))
    content = formats.tell(name, body)
    text = mask_text(content.text)
    if content.kind == AttachmentKind.TEXT:
        body = text.encode()
    with transaction.atomic():
        row = Attachment.objects.create(
            owner=owner,
            name=name,
            content_type=content.content_type,
            kind=content.kind,
            size=len(body),
            chars=len(text),
        )
        AttachmentContent.objects.create(attachment=row, body=body)
    return row


def clean_name(name: str) -> str:
    """The last part of a path, without characters that draw nothing, at most 120 characters.

    The ending stays when the rest is cut. `file` when nothing is left.
    """
    # Masked before it is cut: a key may have a slash in it, and half of one is no longer known.
    base = mask_text(storable(name)).replace("\\", "/").rpartition("/")[2]
    visible = "".join(" " if char in "\n\t" else char for char in base)
    visible = "".join(char for char in visible if not is_hidden_character(char))
    shown = " ".join(mask_text(visible).split())
    if not shown.strip("."):
        return NAMELESS
    if len(shown) <= MAX_NAME_CHARS:
        return shown
    ending = PurePosixPath(shown).suffix[-20:]
    return f"{shown[: MAX_NAME_CHARS - len(ending) - 1]}…{ending}"


def check_size(name: str, size: int) -> None:
    """Raises BadValue for an empty file and TooLarge above `attachments.max_mb`."""
    if not size:
        raise BadValue(f"{name} is empty")
    if size > max_bytes():
        limit = size_text(max_bytes())
        raise TooLarge(f"{name} has {size_text(size)}; a file has at most {limit}")


def check_count(number: int) -> None:
    """Raises TooLarge for more than `attachments.max_files`."""
    if number > max_files():
        raise TooLarge(f"{number} files; a message has at most {max_files()}")


def check(session: ChatSession | None, ids: Sequence[str]) -> list[Attachment]:
    """The files with these ids in their order, all free to be sent to the session.

    Free is what was not sent yet, or was sent to this same session: sending again changes
    nothing. None stands for a session that does not exist yet. Raises TooLarge for too many
    files, BadValue for one that stands twice, is gone, or belongs to another session.
    """
    check_count(len(ids))
    if len(set(ids)) < len(ids):
        raise BadValue("the same file stands twice in this message")
    found = Attachment.objects.in_bulk([one for one in ids if is_id(one)])
    rows = []
    gone = set(Attachment.objects.expired().filter(pk__in=found).values_list("pk", flat=True))
    for attachment_id in ids:
        row = found.get(attachment_id)
        if row is None:
            raise BadValue("a file of this message is not there any more; attach it again")
        is_elsewhere = row.session_id is not None and row.session_id != getattr(session, "pk", None)
        if is_elsewhere or row.pk in gone:
            raise BadValue(f"{row.name} is not there any more; attach it again")
        rows.append(row)
    return rows


@transaction.atomic
def bind(session: ChatSession, ids: Sequence[str]) -> list[Summary]:
    """The files belong to the session, for as long as it lives; their summaries, in order.

    Binding twice is once. Raises as `check` does, also when another session is faster.
    """
    if not ids:
        return []
    rows = check(session, ids)
    free = Attachment.objects.filter(Q(session=None) | Q(session=session))
    if free.filter(pk__in=ids).update(session=session) < len(rows):
        raise BadValue("a file of this message is not there any more; attach it again")
    return [summary(row) for row in rows]


def is_id(text: str) -> bool:
    """Whether `text` may be the id of a file: PostgreSQL would fail on some texts."""
    return text.isascii() and text.isalnum() and len(text) <= 24


def unsent(owner: str, ids: Collection[str]) -> list[Attachment]:
    """Those of these files that `owner` uploaded and that can still be sent, oldest first."""
    known = [one for one in ids if is_id(one)]
    rows = Attachment.objects.usable().filter(pk__in=known, owner=owner, session=None)
    return list(rows.order_by("created_at", "pk"))


def find(attachment_id: str, agent: Agent, *, reader: str) -> Attachment:
    """A file of one of the agent's sessions, or one that `reader` has not sent yet.

    Raises NotFound, also for a file of a deleted session.
    """
    mine = Q(session=None, owner=reader)
    sent = Q(session__agent=agent, session__deleted_at=None)
    rows = Attachment.objects.usable().filter(mine | sent)
    row = rows.filter(pk=attachment_id).first() if is_id(attachment_id) else None
    if row is None:
        raise NotFound("this file is not there any more")
    return row


def content_of(row: Attachment) -> bytes:
    """The bytes that are kept."""
    body = AttachmentContent.objects.filter(pk=row.pk).values_list("body", flat=True).first()
    if body is None:
        raise NotFound("this file is not there any more")
    return bytes(body)


def contents_of(ids: Iterable[str]) -> dict[str, Attachment]:
    """The files with these ids by id, without their bytes; what is gone is left out."""
    return Attachment.objects.filter(content__isnull=False).in_bulk(list(ids))


def set_alt(attachment_id: str, owner: str, alt: str) -> Attachment:
    """The image is described by `alt`; a secret in it is masked.

    Raises NotFound, Conflict once it has been sent, and TooLarge above 500 characters.
    """
    row = _own(attachment_id, owner)
    if row.session_id is not None:
        raise Conflict(f"{row.name} has been sent already")
    if len(alt.strip()) > MAX_ALT_CHARS:
        raise TooLarge(f"an alt text has at most {MAX_ALT_CHARS} characters")
    row.alt = one_masked_line(storable(alt), MAX_ALT_CHARS)
    row.save(update_fields=["alt"])
    return row


def discard(attachment_id: str, owner: str) -> None:
    """The file that was not sent is gone. Raises NotFound, and Conflict once it has been sent."""
    row = _own(attachment_id, owner)
    if not _drop(Attachment.objects.filter(pk=row.pk, session=None)):
        raise Conflict(f"{row.name} has been sent; it goes with its session")


def purge() -> int:
    """Files that were never sent are gone after a day; how many those are."""
    return _drop(Attachment.objects.expired())


def summary(row: Attachment) -> Summary:
    """What events, messages and answers say about a file."""
    return {
        "id": row.pk,
        "name": row.name,
        "kind": row.kind,
        "content_type": row.content_type,
        "size": row.size,
        "alt": row.alt,
    }


def _own(attachment_id: str, owner: str) -> Attachment:
    rows = Attachment.objects.usable().filter(owner=owner)
    row = rows.filter(pk=attachment_id).first() if is_id(attachment_id) else None
    if row is None:
        raise NotFound("this file is not there any more")
    return row


def _drop(rows: Any) -> int:
    return int(rows.delete()[1].get("uploads.Attachment", 0))
