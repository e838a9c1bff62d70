"""Attached files as the model gets them.

A text file stands in the content of its message. An image is only named there, under
`images`; it is read and written out while a request is built, so that neither checkpoints
nor the messages of ended turns ever hold one.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from protoagent.core.text import size_text
from protoagent.runtime.leg import Message
from protoagent.uploads import services as uploads
from protoagent.uploads.models import Attachment, AttachmentKind

MAX_TEXT_CHARS = 200_000  # all text files of one message together
MAX_IMAGES = 10
# What providers accept at least: five million characters of base64, and 32 MB in a request.
MAX_IMAGE_BYTES = 3_750_000
MAX_REQUEST_BYTES = 15_000_000
IMAGE_CHARS = 6_000  # about 1,500 tokens, which a large image costs
NAMED_IMAGE_CHARS = 100
MAX_RUN = 24

CANNOT_SEE = "The model in use cannot see images."
TOO_LARGE = "It is too large to be sent to a model."
TOO_MANY = "It is not sent: there are too many images in this message."

File = dict[str, Any]


def attach(message: Message, attachments: Sequence[File]) -> Message:
    """`message` with its text files below its text and its images beside it.

    Reads the texts out of the database; the same files give the same message each time.
    """
    texts = [one for one in attachments if one["kind"] == AttachmentKind.TEXT]
    images = [one for one in attachments if one["kind"] == AttachmentKind.IMAGE]
    parts = [message["content"], *_blocks(texts)]
    whole = {**message, "content": "\n\n".join(part for part in parts if part)}
    return {**whole, "images": images} if images else whole


def _blocks(files: list[File]) -> Iterator[str]:
    rows = uploads.contents_of(one["id"] for one in files) if files else {}
    shares = _shares({row.pk: row.chars for row in rows.values()})
    for one in files:
        row = rows.get(one["id"])
        if row is None:
            yield f"[attached file: {_name(one)}, not there any more]"
        else:
            yield _block(row, _name(one), shares[row.pk])


def _shares(sizes: Mapping[str, int]) -> dict[str, int]:
    """How many characters of each file are shown: small files whole, the rest in equal parts."""
    shares: dict[str, int] = {}
    left = MAX_TEXT_CHARS
    for number, (pk, chars) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        shares[pk] = min(chars, left // (len(sizes) - number))
        left -= shares[pk]
    return shares


def _block(row: Attachment, name: str, share: int) -> str:
    text = uploads.content_of(row).decode()
    head, tail, gap = text, "", ""
    if share < len(text):
        head, tail = text[: share - share // 2], text[len(text) - share // 2 :]
        gap = (
            f"[{_count(len(text) - share)} of {name} are left out here; "
            "its beginning and its end are shown]"
        )
    fence = _fence(head + "\n" + tail)
    pieces = [f"{fence}\n{piece}\n{fence}" for piece in (head, tail) if piece]
    middle = f"\n{gap}\n".join(pieces)
    return f"[attached file: {name}, {_count(len(text))}]\n{middle}\n[end of {name}]"


def _count(chars: int) -> str:
    return f"{chars:,} character" + ("" if chars == 1 else "s")


def _fence(text: str) -> str:
    """A line that does not occur in `text`, so that nothing in it can end the block."""
    for mark in "`~":
        longest = max((len(run) for run in re.findall(f"{mark}+", text)), default=0)
        if longest < MAX_RUN:
            return mark * max(3, longest + 1)
    return f"=== {sha256(text.encode()).hexdigest()[:24]} ==="


def _name(file: File) -> str:
    """The name without brackets: it stands inside of some."""
    return str(file["name"]).replace("[", "(").replace("]", ")")


def wanted(messages: Sequence[Message]) -> list[File]:
    """The images that a request with these messages sends: the newest, as far as they fit."""
    chosen: list[File] = []
    size = 0
    for message in reversed(messages):
        for image in reversed(message.get("images") or ()):
            fits = image["size"] <= MAX_IMAGE_BYTES and size + image["size"] <= MAX_REQUEST_BYTES
            if fits and len(chosen) < MAX_IMAGES:
                chosen.append(image)
                size += image["size"]
    return chosen


def urls_of(images: Sequence[File]) -> dict[str, str]:
    """The images as data addresses, by id; what is gone is left out."""
    rows = uploads.contents_of(image["id"] for image in images)
    return {pk: _url(row) for pk, row in rows.items()}


def _url(row: Attachment) -> str:
    body = base64.b64encode(uploads.content_of(row)).decode()
    return f"data:{row.content_type};base64,{body}"


def project(messages: list[Message], urls: Mapping[str, str], *, sees: bool) -> list[Message]:
    """`messages` in the OpenAI chat format: images written out or put into words."""
    if not any("images" in message for message in messages):
        return messages
    sent = {image["id"] for image in wanted(messages)} if sees else set()
    newest = next(message for message in reversed(messages) if "images" in message)
    return [
        _projected(message, urls, sent, sees=sees, is_newest=message is newest)
        for message in messages
    ]


def _projected(
    message: Message, urls: Mapping[str, str], sent: set[str], *, sees: bool, is_newest: bool
) -> Message:
    if "images" not in message:
        return message
    rest = {key: value for key, value in message.items() if key != "images"}
    lines = [message["content"]] if message["content"] else []
    pictures = []
    for image in message["images"]:
        if image["id"] in sent and image["id"] in urls:
            lines.append(_described(image))
            pictures.append({"type": "image_url", "image_url": {"url": urls[image["id"]]}})
        elif image["id"] in sent:
            lines.append(f"[image {_name(image)}, not there any more]")
        elif not sees:
            lines.append(_described(image, CANNOT_SEE))
        elif image["size"] > MAX_IMAGE_BYTES:
            lines.append(_described(image, TOO_LARGE))
        elif is_newest:
            lines.append(_described(image, TOO_MANY))
        else:
            lines.append(f"[image {_name(image)}, not sent again]")
    text = "\n\n".join(lines)
    if not pictures:
        return {**rest, "content": text}
    return {**rest, "content": [{"type": "text", "text": text}, *pictures]}


def _described(image: File, why: str = "") -> str:
    alt = str(image.get("alt") or "").replace("[", "(").replace("]", ")")
    said = f"alt text: {alt}" if alt else "no alt text"
    line = f"attached image: {_name(image)}, {size_text(image['size'])}, {said}"
    return f"[{line}. {why}]" if why else f"[{line}]"


def chars_of_images(count: int, newer: int) -> int:
    """What `count` images add to a request in which `newer` ones come after them."""
    sent = max(0, min(count, MAX_IMAGES - newer))
    return sent * IMAGE_CHARS + (count - sent) * NAMED_IMAGE_CHARS
