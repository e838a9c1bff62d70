"""Files of the composer: sent in, described and dropped; and every file that a page shows."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from protoagent.journal.services import agents
from protoagent.uploads import services as uploads
from protoagent.web import files
from protoagent.web.auth import actor_of, operator_only, watchers

MAX_ASKED = 100


@require_http_methods(["GET", "HEAD", "POST"])
@watchers
def collection(request: HttpRequest) -> HttpResponse:
    """A new file, or those of `ids` that the caller can still send."""
    if request.method == "POST":
        return _upload(request)
    asked = request.GET.get("ids", "").split(",")[:MAX_ASKED]
    rows = uploads.unsent(actor_of(request).name, asked)
    return JsonResponse({"files": [uploads.summary(row) for row in rows]})


@operator_only
def _upload(request: HttpRequest) -> HttpResponse:
    sent = files.received(request, max_bytes=uploads.max_bytes())
    row = uploads.add(actor_of(request).name, sent.name, sent.body)
    return JsonResponse(uploads.summary(row), status=201)


@require_safe
@watchers
def show(request: HttpRequest, file_id: str) -> HttpResponse:
    """The file itself, as an image or as plain text."""
    row = uploads.find(file_id, agents.current(), reader=actor_of(request).name)
    return files.served(
        request, row.pk, row.name, row.content_type, lambda: uploads.content_of(row)
    )


@require_POST
@operator_only
def alt(request: HttpRequest, file_id: str) -> HttpResponse:
    """What the image shows, in the operator's words."""
    row = uploads.set_alt(file_id, actor_of(request).name, request.POST.get("alt", ""))
    return JsonResponse(uploads.summary(row))


@require_POST
@operator_only
def remove(request: HttpRequest, file_id: str) -> HttpResponse:
    """The file was attached by mistake."""
    uploads.discard(file_id, actor_of(request).name)
    return HttpResponse(status=204)
