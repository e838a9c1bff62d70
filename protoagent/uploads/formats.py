"""What a file is, told by its bytes alone: names and claimed types are somebody's word."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from protoagent.core.errors import AgentError
from protoagent.uploads.models import AttachmentKind

ACCEPTED = "text files and PNG, JPEG, GIF or WebP images can be attached"
TEXT_TYPE = "text/plain"

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class UnsupportedFile(AgentError):
    """The file is neither text nor an image of a known format."""

    code = "unsupported_type"
    status = 415


@dataclass(frozen=True)
class Content:
    """A file whose format is known; `text` is that of a text."""

    kind: AttachmentKind
    content_type: str
    text: str = ""


def tell(name: str, body: bytes) -> Content:
    """The format of a file. Raises UnsupportedFile for every other one."""
    if image := _image_type(body):
        return Content(AttachmentKind.IMAGE, image)
    text = _text_of(body)
    if text is None:
        raise UnsupportedFile(f"{name} is neither text nor a known image; {ACCEPTED}")
    return Content(AttachmentKind.TEXT, TEXT_TYPE, text)


def _image_type(body: bytes) -> str:
    for magic, content_type in _IMAGES:
        if body.startswith(magic):
            return content_type
    return "image/webp" if body[:4] == b"RIFF" and body[8:12] == b"WEBP" else ""


def _text_of(body: bytes) -> str | None:
    """The text in UTF-8, or in UTF-16 with a byte order mark; None when it is none."""
    is_utf16 = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = body.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text
