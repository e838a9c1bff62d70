"""Who asks, over HTTP and WebSocket, and what they may do. Everything is denied by default."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from asgiref.sync import iscoroutinefunction
from channels.db import database_sync_to_async as in_db
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.http.cookie import parse_cookie
from django.http.request import split_domain_port, validate_host

from protoagent.accounts.services import browsers, credentials
from protoagent.accounts.services.credentials import Grant
from protoagent.core.context import Actor, Scope
from protoagent.core.errors import Forbidden, Unauthenticated
from protoagent.security import hosts
from protoagent.web import errors

View = TypeVar("View", bound=Callable[..., Any])

PUBLIC = frozenset(
    {
        "/healthz",
        "/readyz",
        "/login",
        "/admin/login/",  # only leads to /login/
        "/.well-known/agent-card.json",
        "/favicon.ico",
    }
)
PUBLIC_FOLDERS = ("/login/", "/static/")
PEOPLE_FOLDERS = ("/admin/", "/account/", "/logout/")
FEDERATION_FOLDERS = ("/a2a", "/v1")
INBOX = "/api/inbox"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
REFUSALS = {
    Scope.VIEWER: "a viewer may look at everything and change nothing",
    Scope.INBOX: f"an inbox token may only POST to {INBOX}",
    Scope.FEDERATION: "a federation token may only use /a2a and /v1",
}


def is_public(path: str) -> bool:
    """Whether anybody may ask for this path (contract §2)."""
    return path in PUBLIC or path.startswith(PUBLIC_FOLDERS)


def permits(scope: Scope, method: str, path: str) -> bool:
    """Whether the scope may use the path where its view declares nothing else."""
    if scope is Scope.OPERATOR:
        return True
    if scope is Scope.VIEWER:
        return method in SAFE_METHODS
    if scope is Scope.INBOX:
        return method == "POST" and path == INBOX
    return any(path == folder or path.startswith(f"{folder}/") for folder in FEDERATION_FOLDERS)


def grant_of(request: HttpRequest) -> Grant | None:
    """What the caller was recognised by; None on a public path."""
    return getattr(request, "grant", None)


def actor_of(request: HttpRequest) -> Actor:
    """The caller. Raises Unauthenticated where a public path has none."""
    grant = grant_of(request)
    if grant is None:
        raise Unauthenticated(errors.HOW_TO_AUTHENTICATE)
    return grant.actor


def require(request: HttpRequest, *scopes: Scope) -> Actor:
    """The caller, who has one of `scopes`. Raises Forbidden for another one."""
    actor = actor_of(request)
    if actor.scope not in scopes:
        wanted = " or ".join(scope.value for scope in scopes)
        raise Forbidden(f"this needs the scope {wanted}; yours is {actor.scope.value}")
    return actor


def needs(*scopes: Scope) -> Callable[[View], View]:
    """Let exactly these scopes use a view, with any method it takes."""

    def decorate(view: View) -> View:
        if iscoroutinefunction(view):

            @functools.wraps(view)
            async def guarded_async(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                require(request, *scopes)
                return await view(request, *args, **kwargs)

            wrapper: Any = guarded_async
        else:

            @functools.wraps(view)
            def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                require(request, *scopes)
                return view(request, *args, **kwargs)

            wrapper = guarded
        wrapper.allowed_scopes = frozenset(scopes)
        return wrapper

    return decorate


operator_only = needs(Scope.OPERATOR)
watchers = needs(Scope.OPERATOR, Scope.VIEWER)


def judges_scope(view: View) -> View:
    """Let every authenticated caller through to a view that answers a wrong scope in its own way.

    For JSON-RPC, where that answer is an error object with HTTP 200.
    """
    view.judges_scope = True  # type: ignore[attr-defined]
    return view


def presented_secret(authorization: str, api_key: str) -> str:
    """The secret in the credential headers, or blank when there is none.

    Other schemes than Bearer belong to a proxy in front. Raises Unauthenticated when a
    Bearer is empty and when the two headers disagree: there is no second chance.
    """
    scheme, _, bearer = authorization.strip().partition(" ")
    bearer, api_key = bearer.strip(), api_key.strip()
    if scheme.lower() != "bearer":
        return api_key
    if not bearer or (api_key and api_key != bearer):
        raise Unauthenticated("two credentials that differ, or an empty one")
    return bearer


class AccessMiddleware:
    """Recognises the caller and refuses what nobody allowed. Stands behind Django's own user.

    A header credential is the only credential of its request: a wrong one is refused
    although a cookie would have done, and a right one is never widened by a cookie.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        grant: Grant | None = None
        if not is_public(request.path_info):
            try:
                grant = self._recognise(request)
            except Unauthenticated as error:
                return _private(errors.signed_out(request, str(error)))
        request.grant = grant  # type: ignore[attr-defined]
        return _private(self.get_response(request))

    def _recognise(self, request: HttpRequest) -> Grant:
        headers = request.headers
        secret = presented_secret(headers.get("Authorization", ""), headers.get("X-API-Key", ""))
        if secret:
            return _recognise_program(request, secret)
        if not request.user.is_authenticated:
            raise Unauthenticated(errors.HOW_TO_AUTHENTICATE)
        browsers.mark_seen(request.session)  # type: ignore[arg-type] # SESSION_ENGINE's
        return credentials.for_account(request.user, request.session.session_key or "")

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """Refuse a known caller whose scope neither the view nor the path allows."""
        grant = grant_of(request)
        if grant is None or getattr(view, "judges_scope", False):
            return None
        refusal = _refusal(grant, request.method or "", request.path_info, view)
        return errors.respond(request, Forbidden(refusal)) if refusal else None


def _recognise_program(request: HttpRequest, secret: str) -> Grant:
    grant = credentials.from_secret(secret)
    if grant is None:
        raise Unauthenticated("this token is unknown or has been revoked")
    # A page of another site cannot send the header, so there is nothing to forge. The
    # cookie that may have come along gives nothing: whoever has a token is no account.
    request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
    request.user = AnonymousUser()
    return grant


def _refusal(grant: Grant, method: str, path: str, view: Callable[..., Any]) -> str:
    scope = grant.actor.scope
    if path.startswith(PEOPLE_FOLDERS) and not grant.is_browser:
        return "a token has no account; sign in with a browser for this page"
    allowed = getattr(view, "allowed_scopes", None)
    if scope in allowed if allowed is not None else permits(scope, method, path):
        return ""
    if allowed is not None:
        wanted = " or ".join(sorted(allowed))
        return f"this needs the scope {wanted}; yours is {scope.value}"
    return REFUSALS[scope]


def _private(response: HttpResponse) -> HttpResponse:
    """What one caller sees is not kept for the next one, nor for Back after signing out."""
    response.headers.setdefault("Cache-Control", "no-store")
    return response


async def socket_grant(scope: dict[str, Any]) -> Grant:
    """What the opener of a WebSocket is recognised by, from the headers of its handshake.

    Raises Forbidden for a foreign host name or origin, and for a session cookie without
    an origin; Unauthenticated for no credential or one that does not hold.
    """
    headers = _Headers(scope)
    host = headers.one("host")
    if not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        raise Forbidden("this server has another name")
    origin = headers.one("origin")
    if headers.has("origin"):
        hosts.check_origin(origin, host, is_secure=_is_secure(scope, headers))
    secret = presented_secret(headers.one("authorization"), headers.one("x-api-key"))
    if secret:
        grant = await in_db(credentials.from_secret)(secret)
    else:
        key = parse_cookie(headers.all("cookie", "; ")).get(settings.SESSION_COOKIE_NAME, "")
        if key and not origin:
            raise Forbidden("a browser names its origin; this one did not")
        grant = await in_db(credentials.from_session)(key) if key else None
    if grant is None:
        raise Unauthenticated(errors.HOW_TO_AUTHENTICATE)
    return grant


async def check_sender(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a large body before it arrives, by the head of its request alone.

    Everything else is checked when the request is whole. Raises Unauthenticated and
    Forbidden.
    """
    found = _Headers({"headers": list(headers)})
    secret = presented_secret(found.one("authorization"), found.one("x-api-key"))
    if secret:
        grant = await in_db(credentials.from_secret)(secret)
    else:
        key = parse_cookie(found.all("cookie", "; ")).get(settings.SESSION_COOKIE_NAME, "")
        grant = await in_db(credentials.from_session)(key) if key else None
    if grant is None:
        raise Unauthenticated(errors.HOW_TO_AUTHENTICATE)
    if not grant.actor.can_write:
        raise Forbidden(REFUSALS[grant.actor.scope])


class _Headers:
    """A handshake's headers. What may stand once only is refused when it stands twice."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self._pairs = [
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in scope.get("headers", [])
        ]

    def has(self, name: str) -> bool:
        return any(key == name for key, _ in self._pairs)

    def one(self, name: str) -> str:
        values = [value for key, value in self._pairs if key == name]
        if len(values) > 1:
            raise Forbidden(f"more than one {name} header")
        return values[0] if values else ""

    def all(self, name: str, joined_by: str) -> str:
        return joined_by.join(value for key, value in self._pairs if key == name)


def _is_secure(scope: dict[str, Any], headers: _Headers) -> bool:
    if scope.get("scheme") in ("wss", "https"):
        return True
    peer = (scope.get("client") or ("",))[0]
    proto = headers.all("x-forwarded-proto", ",").partition(",")[0].strip()
    return proto == "https" and hosts.is_trusted(peer, settings.TRUSTED_PROXIES)
