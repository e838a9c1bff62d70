"""Signed-in browsers: whom a session cookie belongs to, and ending sessions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.db.models import QuerySet

from protoagent.accounts import sessions
from protoagent.accounts.models import BrowserSession
from protoagent.accounts.services.people import publish_revoked
from protoagent.core import clock
from protoagent.core.errors import NotFound
from protoagent.security import tokens
from protoagent.security.redaction import one_masked_line

log = logging.getLogger(__name__)

SEEN_EVERY = timedelta(minutes=1)
RENEW_EVERY = timedelta(days=1)
# In this order: Edge and Opera also call themselves Chrome, and all call themselves Safari.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("FxiOS/", "Firefox"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def account_of(session_key: str) -> User | None:
    """The active account that this session belongs to, if its password is still the same."""
    store = sessions.SessionStore(session_key)
    account = get_user(SimpleNamespace(session=store))  # type: ignore[arg-type]
    return account if account.is_authenticated else None  # type: ignore[return-value]


def describe(address: str, user_agent: str, timezone: str) -> dict[str, str]:
    """What a new session's data says about the browser; an unknown zone is left out."""
    data = {
        sessions.ADDRESS: address[:45],
        sessions.USER_AGENT: one_masked_line(user_agent, 200),
        sessions.SIGNED_IN_AT: clock.now().isoformat(),
    }
    return data | ({sessions.TIMEZONE: timezone} if timezone else {})


def zone_of(data: Mapping[str, Any]) -> str:
    """The time zone that the browser named at sign-in, or blank."""
    return str(data.get(sessions.TIMEZONE, ""))


def of_account(account: User) -> QuerySet[BrowserSession]:
    """The account's live sessions, last used first."""
    rows = BrowserSession.objects.filter(account=account, expire_date__gt=clock.now())
    return rows.order_by("-last_seen_at")


def sign_out_others(account: User, *, keep: str) -> int:
    """Every session of the account but `keep` has ended; how many did."""
    count, _ = BrowserSession.objects.filter(account=account).exclude(pk=keep).delete()
    publish_revoked(f"user:{account.pk}")
    return count


def sign_out(account: User, number: str) -> None:
    """The session that `number_of` gave this number has ended. Raises NotFound."""
    for row in of_account(account):
        if number_of(row) == number:
            row.delete()
            publish_revoked(f"user:{account.pk}")
            return
    raise NotFound("this session has ended already")


def prune() -> int:
    """Sessions that have expired are gone; how many went."""
    count, _ = BrowserSession.objects.filter(expire_date__lt=clock.now()).delete()
    return count


def number_of(row: BrowserSession) -> str:
    """A session's public name. Its key is a credential and stays out of pages."""
    return tokens.fingerprint(f"session:{row.session_key}")[:16]


def label(user_agent: str) -> str:
    """A browser as people call it, such as "Firefox on Linux"; what is unknown stays as it is."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    if not browser:
        return user_agent[:60] or "Unknown browser"
    return f"{browser} on {system}" if system else browser


def mark_seen(store: sessions.SessionStore) -> None:
    """The session's `last_seen_at` is at most a minute old, and it lasts while it is used.

    Failing to store it is no failure.
    """
    row = store.row
    now = clock.now()
    if row is None or row.last_seen_at > now - SEEN_EVERY:
        return
    if row.expire_date < now + timedelta(seconds=store.get_session_cookie_age()) - RENEW_EVERY:
        store.modified = True  # the response stores the session and sends the cookie anew
        return
    try:
        with transaction.atomic():
            BrowserSession.objects.filter(pk=store.session_key).update(last_seen_at=now)
    except DatabaseError:
        log.warning("last use of a session not stored", exc_info=True)
