"""Attached files as pages show them: in a message, in the pending list, in the composer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from protoagent.config import services as config
from protoagent.core.text import size_text
from protoagent.providers import catalog
from protoagent.runtime.files import MAX_IMAGE_BYTES
from protoagent.uploads import services as uploads


@dataclass(frozen=True)
class File:
    """A file of a message, out of its summary."""

    url: str
    name: str
    size: str
    alt: str
    is_image: bool


def shown(summaries: Iterable[dict[str, Any]]) -> tuple[File, ...]:
    """The files that these summaries are of."""
    return tuple(
        File(
            url=reverse("console:file", args=[one["id"]]),
            name=str(one["name"]),
            size=size_text(int(one["size"])),
            alt=str(one.get("alt") or ""),
            is_image=one["kind"] == "image",
        )
        for one in summaries
    )


@dataclass(frozen=True)
class Limits:
    """What the composer checks before it sends a file, and what it says of images."""

    max_files: int
    max_bytes: int
    sees_images: bool
    max_image_bytes: int


def limits() -> Limits:
    """The limits in force."""
    return Limits(
        max_files=uploads.max_files(),
        max_bytes=uploads.max_bytes(),
        sees_images=bool(config.get("model.vision")) and not catalog.is_offline(),
        max_image_bytes=MAX_IMAGE_BYTES,
    )
