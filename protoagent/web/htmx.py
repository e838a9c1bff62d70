"""Pages and their fragments: one view answers a swap and a full load."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django_htmx.http import trigger_client_event

VARY = ("HX-Request", "HX-Boosted", "HX-History-Restore-Request")


def is_swap(request: HttpRequest) -> bool:
    """Whether the answer goes into a part of a page. Boosted links and Back want the whole page."""
    headers = request.headers
    return (
        headers.get("HX-Request") == "true"
        and headers.get("HX-Boosted") != "true"
        and headers.get("HX-History-Restore-Request") != "true"
    )


def render_panel(
    request: HttpRequest,
    page: str,
    fragment: str,
    context: dict[str, Any] | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    """The fragment for a swap, the page for everything else."""
    template = fragment if is_swap(request) else page
    response = render(request, template, context, status=status)
    patch_vary_headers(response, VARY)
    return response


def toast(response: HttpResponse, text: str, *, kind: str = "ok", undo: str = "") -> HttpResponse:
    """The page shows `text` for six seconds; with `undo`, a button that posts to that address."""
    detail = {"kind": kind, "text": text} | ({"undo": undo} if undo else {})
    return trigger_client_event(response, "toast", detail)


def event(response: HttpResponse, name: str, detail: dict[str, Any] | None = None) -> HttpResponse:
    """The page's body gets the event `name`, as from the live link."""
    return trigger_client_event(response, name, detail or {})


def page_path(request: HttpRequest) -> str:
    """The path and query of the page that an htmx request came from; blank when unknown."""
    parts = urlsplit(request.headers.get("HX-Current-URL", ""))
    if not parts.path.startswith("/"):
        return ""
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
