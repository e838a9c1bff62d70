"""Every HTTP and WebSocket route that exists, each with a path that leads to it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.admindocs.views import simplify_regex
from django.urls import Resolver404, URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

SAMPLES = ("1", "x", "auth", "main", "a" * 32, "00000000-0000-4000-8000-000000000000")
_PARAMETER = re.compile(r"<[^>]+>")


@dataclass(frozen=True)
class Route:
    path: str
    view: Any

    @property
    def allowed_scopes(self) -> frozenset[Any] | None:
        return getattr(self.view, "allowed_scopes", None)

    @property
    def judges_scope(self) -> bool:
        return getattr(self.view, "judges_scope", False)


def http_routes() -> list[Route]:
    """Every view in the URL configuration. Raises AssertionError for one it finds no path to."""
    return list(_walk(get_resolver(), ""))


def _walk(resolver: URLResolver, prefix: str) -> Iterator[Route]:
    for entry in resolver.url_patterns:
        route = prefix + _text(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _walk(entry, route)
        elif path := _path_to(entry, route):
            yield Route(path, entry.callback)


def _text(pattern: Any) -> str:
    if isinstance(pattern, RoutePattern):
        return str(pattern)
    return simplify_regex(str(pattern)).lstrip("/")


def _path_to(entry: URLPattern, route: str) -> str:
    """A path that leads to the entry; blank when an earlier route takes all of them."""
    is_shadowed = False
    for values in itertools.product(SAMPLES, repeat=len(_PARAMETER.findall(route))):
        path = "/" + _filled(route, values)
        try:
            if get_resolver().resolve(path).func is entry.callback:
                return path
        except Resolver404:
            continue
        is_shadowed = True
    if is_shadowed:
        return ""
    raise AssertionError(f"no sample leads to the route {route!r}; add one to SAMPLES")


def _filled(route: str, values: tuple[str, ...]) -> str:
    filling = iter(values)
    return _PARAMETER.sub(lambda _: next(filling), route)


def socket_paths(patterns: list[Any]) -> list[str]:
    """A path for each WebSocket route."""
    return ["/" + _PARAMETER.sub("x", _text(entry.pattern)) for entry in patterns]


def sockets_of(patterns: list[Any]) -> list[Any]:
    """The routes that lead to a socket: all but the last, which says that there is none."""
    assert simplify_regex(str(patterns[-1].pattern)) == "/", "the catch-all stands last"
    return patterns[:-1]
