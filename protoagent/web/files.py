"""Files over HTTP: taken in with a bound, and given back so that a browser runs nothing of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response
from django.utils.http import content_disposition_header

from protoagent.core.errors import BadValue, TooLarge
from protoagent.core.text import size_text

FIELD = "file"
UPLOAD_PATHS = ("/files/", "/api/chat/files")
# No script, no form, no frame, no request: whatever the bytes are, they are only looked at.
POLICY = "sandbox; default-src 'none'"


@dataclass(frozen=True)
class Upload:
    """A file as it was sent. The name is whatever the sender says."""

    name: str
    body: bytes


def is_upload(method: str, path: str) -> bool:
    """Whether such a request brings a file, so that its body may be large."""
    return method == "POST" and path in UPLOAD_PATHS


def received(request: HttpRequest, *, max_bytes: int) -> Upload:
    """The file of the request: the field `file` of a form, or the whole body.

    The name of a whole body is the query's `name`. Raises BadValue unless it is one file,
    and TooLarge above `max_bytes`; then the rest of the body is not read.
    """
    name = request.GET.get("name", "")
    if request.content_type == "multipart/form-data":
        return _of_form(request, name, max_bytes)
    body = request.read(max_bytes + 1)
    _check(len(body), max_bytes)
    return Upload(name, body)


def _of_form(request: HttpRequest, name: str, max_bytes: int) -> Upload:
    files = request.FILES.getlist(FIELD)
    if len(files) != 1 or len(request.FILES) != 1:
        raise BadValue(f"send one file, in the field {FIELD!r}")
    (file,) = files
    _check(file.size or 0, max_bytes)
    return Upload(name or file.name or "", file.read())


def _check(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise TooLarge(f"a file has at most {size_text(max_bytes)}")


def served(
    request: HttpRequest, key: str, name: str, content_type: str, read: Callable[[], bytes]
) -> HttpResponse:
    """The file as it is, shown rather than saved, in a page of its own that can do nothing.

    `key` names bytes that never change. A browser may keep them, but asks each time whether
    it still may show them; `read` is called unless it has them.
    """
    etag = f'"{key}"'
    known = get_conditional_response(request, etag=etag)
    response = known or HttpResponse(read())
    if content_type.startswith("text/"):
        content_type = "text/plain; charset=utf-8"
    response["Content-Type"] = content_type
    response["Content-Disposition"] = content_disposition_header(False, name) or "inline"
    response["Content-Security-Policy"] = POLICY
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-cache"
    response["ETag"] = etag
    return response
