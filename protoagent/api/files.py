"""Files over HTTP: sent in before the message that they belong to, and read again."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema, Status

from protoagent.journal.services import agents
from protoagent.uploads import services as uploads
from protoagent.web import files
from protoagent.web.auth import actor_of

router = Router(tags=["files"])


class FileOut(Schema):
    """A file that can be sent with a message, by its id."""

    id: str
    name: str
    kind: str
    content_type: str
    size: int
    alt: str


BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            },
        },
    }
}


@router.post("/chat/files", response={201: FileOut}, openapi_extra=BODY)
def upload(request: HttpRequest, name: str = "") -> Status[uploads.Summary]:
    """Keep a file for a message: the body as it is, or the field `file` of a form.

    It is text or a PNG, JPEG, GIF or WebP image. A file that no message takes is gone after
    a day.
    """
    sent = files.received(request, max_bytes=uploads.max_bytes())
    row = uploads.add(actor_of(request).name, sent.name, sent.body)
    return Status(201, uploads.summary(row))


@router.get(
    "/chat/files/{file_id}",
    openapi_extra={"responses": {200: {"description": "The file as it is kept."}}},
)
def download(request: HttpRequest, file_id: str) -> HttpResponse:
    """The bytes of a file of a session, or of one that you have not sent yet."""
    row = uploads.find(file_id, agents.current(), reader=actor_of(request).name)
    return files.served(
        request, row.pk, row.name, row.content_type, lambda: uploads.content_of(row)
    )


@router.delete("/chat/files/{file_id}", response={204: None})
def discard(request: HttpRequest, file_id: str) -> Status[None]:
    """Drop a file that has not been sent; 409 for one that has."""
    uploads.discard(file_id, actor_of(request).name)
    return Status(204, None)
