"""How often a sign-in may be tried: the handler behind django-axes.

Three limits hold at once, for every address including loopback: ten failures of one
account from one source, fifty of one source, a hundred of one account. An attempt is
counted before the password is looked at and given back when it was right, so parallel
guesses cannot slip through between a look and a count. Nothing but the account and the
source address is read, so no extra field, header or browser name makes a guess free.
"""

from __future__ import annotations

import ipaddress
import logging
from datetime import timedelta
from typing import Any

from axes.handlers.base import AbstractAxesHandler, AxesBaseHandler
from axes.models import AccessAttempt
from django.contrib.auth import get_user_model
from django.db.models import F, Q, Sum

from protoagent.core import clock
from protoagent.security import tokens

log = logging.getLogger(__name__)

WINDOW = timedelta(minutes=15)
LIMIT_PAIR = 10
LIMIT_SOURCE = 50
LIMIT_ACCOUNT = 100
LIMIT_CODES = 30
LINK_ACCOUNT = "(sign-in link)"  # parentheses: no user name may contain them
UNKNOWN_SOURCE = "0.0.0.0"  # noqa: S104 — what a peer without an address is counted under


def source_of(address: str | None) -> str:
    """The address that attempts are counted under.

    An IPv6 host usually owns a whole /64, so that is one source; an IPv4 address in
    IPv6 clothes is itself; a peer without an address shares one source with its like.
    """
    try:
        ip = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return UNKNOWN_SOURCE
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((ip, 64), strict=False).network_address)
    return str(ip)


def account_key(username: str | None) -> str:
    """The name that attempts are counted under.

    An unknown name is replaced by its fingerprint: it may be a password in the wrong field.
    """
    name = get_user_model().normalize_username(username or "")
    if name and get_user_model().objects.filter(username=name).exists():
        return str(name)
    return "?" + tokens.fingerprint(str(name))[:40]


def reserve(account: str, source: str) -> bool:
    """Count one attempt; whether it is within every limit.

    An attempt over a limit is not counted, so hammering on a lock does not prolong it.
    """
    _forget_old()
    if not _has_room(account, source, 1):
        return _refuse(source)
    attempt, _ = AccessAttempt.objects.get_or_create(
        username=account,
        ip_address=source,
        user_agent="",
        defaults={"failures_since_start": 0, "http_accept": "", "path_info": ""},
    )
    row = AccessAttempt.objects.filter(pk=attempt.pk)
    row.update(failures_since_start=F("failures_since_start") + 1, attempt_time=clock.now())
    if _has_room(account, source, 0):
        return True
    row.filter(failures_since_start__gt=0).update(
        failures_since_start=F("failures_since_start") - 1
    )
    return _refuse(source)


def give_back(account: str, source: str) -> None:
    """The attempt was right: the pair's failures are forgotten."""
    AccessAttempt.objects.filter(username=account, ip_address=source).delete()


def _has_room(account: str, source: str, more: int) -> bool:
    """Whether `more` attempts on top of the counted ones stay within every limit."""
    if account == LINK_ACCOUNT:
        return _total(Q(username=account, ip_address=source)) + more <= LIMIT_CODES
    passwords = ~Q(username=LINK_ACCOUNT)
    return (
        _total(Q(username=account, ip_address=source)) + more <= LIMIT_PAIR
        and _total(Q(ip_address=source) & passwords) + more <= LIMIT_SOURCE
        and _total(Q(username=account)) + more <= LIMIT_ACCOUNT
    )


def _refuse(source: str) -> bool:
    log.warning("sign-in throttled source=%s", source)
    return False


def _total(which: Q) -> int:
    rows = AccessAttempt.objects.filter(which)
    return rows.aggregate(total=Sum("failures_since_start"))["total"] or 0


def _forget_old() -> None:
    AccessAttempt.objects.filter(attempt_time__lt=clock.now() - WINDOW).delete()


class SignInThrottle(AbstractAxesHandler, AxesBaseHandler):
    """What django-axes asks before, and tells after, each password check."""

    def is_allowed(self, request: Any, credentials: dict[str, Any] | None = None) -> bool:
        """Reserve this request's attempt, once; whether it may go on to the password."""
        known = getattr(request, "sign_in_reservation", None)
        if known is None:
            account = account_key((credentials or {}).get("username"))
            source = source_of(request.META.get("REMOTE_ADDR"))
            allowed = reserve(account, source)
            request.sign_in_reservation = known = (account, source, allowed)
            request.axes_locked_out = not allowed
        return bool(known[2])

    def user_login_failed(
        self, sender: Any, credentials: dict[str, Any], request: Any = None, **kwargs: Any
    ) -> None:
        """Nothing to do: the failure was counted before the password was looked at."""

    def user_logged_in(self, sender: Any, request: Any, user: Any, **kwargs: Any) -> None:
        """Give the reserved attempt back. A sign-in by link reserved none."""
        known = getattr(request, "sign_in_reservation", None)
        if known is not None:
            give_back(known[0], known[1])

    def user_logged_out(self, sender: Any, request: Any, user: Any, **kwargs: Any) -> None:
        """Signing out is not counted."""

    def post_save_access_attempt(self, instance: AccessAttempt, **kwargs: Any) -> None:
        """Nothing follows from a stored attempt."""

    def post_delete_access_attempt(self, instance: AccessAttempt, **kwargs: Any) -> None:
        """Nothing follows from a forgotten attempt."""

    def get_failures(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """The failures of this account from this source, for django-axes' own messages."""
        account = account_key((credentials or {}).get("username"))
        source = source_of(request.META.get("REMOTE_ADDR"))
        return _total(Q(username=account, ip_address=source))
