"""The record of attempts to sign in."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db.models import QuerySet

from protoagent.accounts import throttle
from protoagent.accounts.models import SignIn, SignInMethod, SignInOutcome
from protoagent.core import clock
from protoagent.security.redaction import one_masked_line

log = logging.getLogger(__name__)

KEPT = timedelta(days=365)

__all__ = ["SignInMethod", "SignInOutcome", "of_account", "prune", "record", "record_locked"]


def record(
    outcome: SignInOutcome,
    method: SignInMethod,
    *,
    name: str = "",
    account: User | None = None,
    address: str = "",
    user_agent: str = "",
) -> SignIn:
    """One attempt is on record. A `name` without an account of that name is not kept."""
    if account is None and name:
        account = get_user_model().objects.filter(username=name).first()
    row = SignIn.objects.create(
        account=account,
        name=account.get_username() if account else "",
        method=method,
        outcome=outcome,
        address=address[:45],
        user_agent=one_masked_line(user_agent, 200),
    )
    log.info("sign-in outcome=%s method=%s account_id=%s", outcome, method, row.account_id)
    return row


def record_locked(method: SignInMethod, *, address: str, user_agent: str) -> None:
    """The lock is on record: once per source and window, so that hammering stores nothing."""
    since = clock.now() - throttle.WINDOW
    known = SignIn.objects.filter(
        outcome=SignInOutcome.LOCKED, method=method, address=address[:45], at__gt=since
    )
    if not known.exists():
        record(SignInOutcome.LOCKED, method, address=address, user_agent=user_agent)


def of_account(account: User, limit: int = 10) -> QuerySet[SignIn]:
    """The account's latest attempts, newest first."""
    return SignIn.objects.filter(account=account)[:limit]


def prune(*, before: datetime | None = None) -> int:
    """Remove attempts older than `before` (a year ago); how many went."""
    count, _ = SignIn.objects.filter(at__lt=before or clock.now() - KEPT).delete()
    return count
