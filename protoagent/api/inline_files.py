"""Files in a frame: ids of uploaded ones, or small ones written out in the frame itself."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from protoagent.core.errors import AgentError, BadValue
from protoagent.journal.models import ChatSession
from protoagent.uploads import services as uploads

WRITTEN = "an attachment is an id, or an object with a name and either text or data in base64"


@dataclass(frozen=True)
class Inline:
    """A file that came within a frame."""

    name: str
    body: bytes


Files = list[str | Inline]


def read(value: Any) -> Files:
    """The frame's `attachments`. Raises BadValue for anything that no client means."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadValue("attachments must be a list")
    return [_one(item) for item in value]


def _one(item: Any) -> str | Inline:
    if isinstance(item, str):
        return item
    if not isinstance(item, dict) or set(item) not in ({"name", "text"}, {"name", "data"}):
        raise BadValue(WRITTEN)
    name, content = item["name"], item.get("text", item.get("data"))
    if not isinstance(name, str) or not isinstance(content, str):
        raise BadValue(WRITTEN)
    if "text" in item:
        return Inline(name, content.encode())
    try:
        return Inline(name, base64.b64decode(content, validate=True))
    except (binascii.Error, ValueError):
        raise BadValue("the data of an attachment is not base64") from None


@contextmanager
def kept(owner: str, session: ChatSession, files: Files) -> Iterator[list[str]]:
    """The ids of the files, inline ones stored; these are gone again when the block fails.

    Raises as `uploads.check` and `uploads.add` do; then nothing is stored.
    """
    uploads.check_count(len(files))
    uploads.check(session, [one for one in files if isinstance(one, str)])
    stored: list[str] = []
    try:
        ids = []
        for one in files:
            if isinstance(one, str):
                ids.append(one)
            else:
                stored.append(uploads.add(owner, one.name, one.body).pk)
                ids.append(stored[-1])
        yield ids
    except BaseException:
        for attachment_id in stored:
            with suppress(AgentError):
                uploads.discard(attachment_id, owner)
        raise
