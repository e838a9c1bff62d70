"""CSRF for everything that a cookie authenticates, without exceptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.middleware.csrf import CsrfViewMiddleware


class StrictCsrfMiddleware(CsrfViewMiddleware):
    """Ignores `csrf_exempt`: a view must not be able to open a door by a decorator.

    The API framework marks all its views so. Requests that a header authenticates
    are let through by `AccessMiddleware`: a foreign page cannot send that header.
    """

    def process_view(
        self,
        request: HttpRequest,
        callback: Callable[..., Any],
        callback_args: tuple[Any, ...],
        callback_kwargs: dict[str, Any],
    ) -> HttpResponseForbidden | None:
        return super().process_view(request, _never_exempt, callback_args, callback_kwargs)


def _never_exempt(request: HttpRequest) -> HttpResponse:
    raise NotImplementedError("stands in for a view that is not csrf_exempt; never called")
