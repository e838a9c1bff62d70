"""Addresses of this server: where it is reached, and which paths a stranger may name."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.utils.http import url_has_allowed_host_and_scheme

from protoagent.core.errors import BadValue
from protoagent.security import hosts
from protoagent.security.redaction import mask_text

LOGIN = "/login/"
MAX_CHARS = 2000


def local_path(text: str, default: str = "/") -> str:
    """`text` when it is a path on this server that is worth going to, else `default`.

    Anything that names a host, in whatever spelling, is not; nor are the sign-in pages,
    which would lead in a circle, nor what holds a secret, which would be shown on the way.
    """
    is_path = text.startswith("/") and len(text) <= MAX_CHARS and text.isprintable()
    if not is_path or not url_has_allowed_host_and_scheme(text, allowed_hosts=None):
        return default
    if text.startswith((LOGIN, "/logout/", "/admin/login", "/admin/logout")):
        return default
    return text if mask_text(text) == text else default


def login_path(next_path: str) -> str:
    """The sign-in page that leads back to `next_path`."""
    target = local_path(next_path)
    return LOGIN if target == "/" else f"{LOGIN}?{urlencode({'next': target})}"


def base_url(given: str = "") -> str:
    """Where people reach the console, without a slash at the end.

    `given`, when it is not blank, must be an http(s) address without a path: anything else
    raises BadValue. Otherwise it is the bind; a server on every address is at localhost.
    """
    if given:
        parts = urlsplit(given)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
            raise BadValue("a base address looks like https://agent.lan, without a path")
        return f"{parts.scheme}://{parts.netloc}"
    host = "localhost" if settings.HOST in hosts.WILDCARDS else settings.HOST
    return f"http://{hosts.bracketed(host)}:{settings.PORT}"


def sign_in_link(code: str, base: str = "") -> str:
    """The one-time link with this code."""
    return f"{base or base_url()}{LOGIN}{code}/"
