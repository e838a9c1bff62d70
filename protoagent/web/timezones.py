"""Times in the zone of the person who reads them."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from functools import lru_cache

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from protoagent.accounts.services import browsers
from protoagent.web.auth import grant_of


@lru_cache(maxsize=1)
def known_zones() -> frozenset[str]:
    """Every zone name; listing them reads the file system, so once."""
    return frozenset(zoneinfo.available_timezones())


def valid_zone(name: str) -> str:
    """`name` when it is a time zone, else blank."""
    return name if name in known_zones() else ""


class TimezoneMiddleware:
    """Runs each request of a browser in the zone that it named at sign-in."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        grant = grant_of(request)
        name = valid_zone(browsers.zone_of(request.session)) if grant and grant.is_browser else ""
        if not name:
            return self.get_response(request)
        with timezone.override(zoneinfo.ZoneInfo(name)):
            return self.get_response(request)
