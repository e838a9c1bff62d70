"""The outermost door: which name was called, who really calls, and headers for every answer."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse

from protoagent.core.errors import BadValue
from protoagent.core.text import one_line
from protoagent.security import hosts
from protoagent.web import errors

log = logging.getLogger(__name__)

FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST")
HEADERS = {
    # Other pages of this machine are other origins of the same site; they get nothing.
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), browsing-topics=()",
}


class FrontMiddleware:
    """Stands first. Refuses foreign host names, and believes trusted proxies only."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        _believe_proxies(request)
        try:
            request.get_host()
        except DisallowedHost:
            log.warning(
                "unknown host refused host=%r; PROTOAGENT_ALLOWED_HOSTS can allow it",
                one_line(request.META.get("HTTP_HOST", ""), 80),
            )
            response = errors.respond(request, BadValue("this server has another name"))
        else:
            response = self.get_response(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if request.is_secure():
            for morsel in response.cookies.values():
                morsel["secure"] = True
        return response


def _believe_proxies(request: HttpRequest) -> None:
    """REMOTE_ADDR is the client. Forwarding headers of anybody but a trusted proxy are gone."""
    peer = request.META.get("REMOTE_ADDR", "")
    if not hosts.is_trusted(peer, settings.TRUSTED_PROXIES):
        for name in FORWARDED:
            request.META.pop(name, None)
        return
    forwarded_for = request.META.get("HTTP_X_FORWARDED_FOR", "")
    request.META["REMOTE_ADDR"] = hosts.client_address(
        peer, forwarded_for, settings.TRUSTED_PROXIES
    )
