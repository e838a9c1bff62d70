"""Failures as HTTP: `{"detail": …}` for programs, a page or a fragment for people."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.core.signals import got_request_exception
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    JsonResponse,
    UnreadablePostError,
)
from django.http.multipartparser import MultiPartParserError
from django.template.loader import get_template, select_template
from django.utils.log import log_response

from protoagent.core.errors import (
    AgentError,
    BadValue,
    Forbidden,
    InvalidForm,
    NotFound,
    TooLarge,
)
from protoagent.core.ids import new_id
from protoagent.security.redaction import mask_text, mask_value, one_masked_line
from protoagent.web import addresses, htmx

log = logging.getLogger(__name__)

PROGRAM_PATHS = ("/api/", "/v1/", "/a2a", "/.well-known/", "/metrics", "/healthz", "/readyz")
JSON = "application/json"
HOW_TO_AUTHENTICATE = "sign in, or send 'Authorization: Bearer <token>' or 'X-API-Key: <token>'"
TITLES = {
    400: "This request cannot be used",
    401: "Who are you?",
    403: "This is not for you",
    404: "Nothing here",
    405: "Not in this way",
    409: "That does not fit any more",
    413: "Too large",
    422: "Some values need a change",
    429: "Too often",
    500: "Something broke here",
}


def is_program(request: HttpRequest) -> bool:
    """Whether the caller reads JSON rather than pages."""
    if request.path_info.startswith(PROGRAM_PATHS):
        return True
    if "Authorization" in request.headers or "X-API-Key" in request.headers:
        return True
    if request.headers.get("HX-Request") == "true":
        return False
    return "text/html" not in request.headers.get("Accept", "")


def respond(request: HttpRequest, error: AgentError) -> HttpResponse:
    """The answer to a failure that has a plain sentence."""
    extra = {"errors": mask_value(error.errors)} if isinstance(error, InvalidForm) else {}
    return _answer(request, error.status, mask_text(str(error)), extra)


def signed_out(request: HttpRequest, detail: str = HOW_TO_AUTHENTICATE) -> HttpResponse:
    """401 for programs, for htmx with the way to sign in, and a redirect for a page load.

    A signed-out POST is 401 as well: what it carried cannot be sent again by a redirect.
    """
    if request.headers.get("HX-Request") == "true":
        response = HttpResponse(status=401)
        response["HX-Redirect"] = addresses.login_path(htmx.page_path(request))
        return response
    if request.method in ("GET", "HEAD") and not is_program(request):
        return HttpResponseRedirect(addresses.login_path(request.get_full_path()))
    response = JsonResponse({"detail": detail}, status=401)
    response["WWW-Authenticate"] = 'Bearer realm="protoagent"'
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that another site sent, or one that outlived its cookie."""
    return respond(request, Forbidden("this form is out of date; load its page again"))


def locked_out(
    request: HttpRequest, response: HttpResponse, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """What django-axes answers a locked sign-in with: the page that the view made."""
    return response


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """`handler400`: also for what the middlewares refuse."""
    return _translate(request, exception) or respond(request, BadValue("this request is not valid"))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """`handler403`."""
    return respond(request, _forbidden(exception))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """`handler404`."""
    return respond(request, NotFound("there is nothing at this address"))


def server_error(request: HttpRequest) -> HttpResponse:
    """`handler500`, for what breaks outside a view. Django logs the traceback itself."""
    number = new_id("e", 10)
    log.error("request failed error_id=%s method=%s", number, request.method)
    return _broken(request, number)


class ErrorMiddleware:
    """Gives every view's failure its answer. Stands innermost.

    Sync on purpose: one sync middleware at the inner end makes Django run the whole
    chain in one thread hop instead of two for each middleware.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 405 and not response.headers["Content-Type"].startswith(JSON):
            allow = response.headers.get("Allow", "")
            replacement = _answer(request, 405, f"this address takes {allow or 'another method'}")
            replacement["Allow"] = allow
            return replacement
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse:
        """The answer to `exception`; what has no sentence is logged once, with its id."""
        response = _translate(request, exception)
        if response is not None:
            return response
        got_request_exception.send(sender=type(self), request=request)
        number = new_id("e", 10)
        response = _broken(request, number)
        log_response(
            "request failed error_id=%s method=%s",
            number,
            request.method,
            response=response,
            request=request,
            exception=exception,
            logger=log,
        )
        return response


def _translate(request: HttpRequest, exception: Exception) -> HttpResponse | None:
    if isinstance(exception, AgentError):
        return respond(request, exception)
    if isinstance(exception, Http404):
        return not_found(request, exception)
    if isinstance(exception, PermissionDenied):
        return permission_denied(request, exception)
    if isinstance(exception, RequestDataTooBig):
        return respond(request, TooLarge("the body is larger than this server takes"))
    refused = (SuspiciousOperation, BadRequest, MultiPartParserError, UnreadablePostError)
    if isinstance(exception, refused):
        return respond(request, BadValue("this request is not valid"))
    return None


def _forbidden(exception: Exception) -> Forbidden:
    return Forbidden(one_masked_line(str(exception), 200) or "this account may not do this")


def _broken(request: HttpRequest, number: str) -> HttpResponse:
    detail = f"something broke here; the log has it under {number}"
    return _answer(request, 500, detail, {"id": number})


def _theme(request: HttpRequest) -> str:
    theme = request.COOKIES.get("theme", "")
    return theme if theme in ("light", "dark") else ""


def _answer(
    request: HttpRequest, status: int, detail: str, extra: dict[str, Any] | None = None
) -> HttpResponse:
    if is_program(request):
        return JsonResponse({"detail": detail, **(extra or {})}, status=status)
    context = {
        "status": status,
        "title": TITLES.get(status, TITLES[500 if status >= 500 else 400]),
        "detail": detail,
        "theme": _theme(request),
        **(extra or {}),
    }
    # Rendered without the request: an error page must not need the database or a session.
    if htmx.is_swap(request):
        fragment = get_template("_error.html").render(context)
        return htmx.toast(HttpResponse(fragment, status=status), detail, kind="err")
    return HttpResponse(
        select_template([f"{status}.html", "error.html"]).render(context), status=status
    )
