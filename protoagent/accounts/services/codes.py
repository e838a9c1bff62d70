"""One-time sign-in links."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User

from protoagent.accounts import throttle
from protoagent.accounts.models import LoginCode
from protoagent.core import clock
from protoagent.core.errors import NotFound, TooMany
from protoagent.security import tokens

LIFETIME = timedelta(minutes=10)
KEPT = timedelta(days=1)


def issue(account: User) -> str:
    """A new code that signs `account` in once within ten minutes. Only its fingerprint is kept."""
    now = clock.now()
    LoginCode.objects.filter(expires_at__lt=now - KEPT).delete()
    code = tokens.new_code()
    LoginCode.objects.create(
        account=account,
        fingerprint=tokens.fingerprint(code),
        created_at=now,
        expires_at=now + LIFETIME,
    )
    return code


def peek(code: str, *, source: str) -> User:
    """The account that the code would sign in; the code stays usable.

    Raises NotFound for an unknown, used or expired code, and TooMany for such a code
    after thirty of them from one source in a quarter of an hour.
    """
    row = _usable(code)
    if row is None:
        raise _refusal(source)
    return row.account


def redeem(code: str, *, source: str) -> User:
    """The account of the code, which is used up from now on: of two callers one gets it.

    Raises as `peek` does. A right code is never throttled: it cannot be guessed, and it
    is the way in when somebody else's guesses have locked the password.
    """
    row = _usable(code)
    now = clock.now()
    if row is None or not LoginCode.objects.usable(now).filter(pk=row.pk).update(used_at=now):
        raise _refusal(source)
    return row.account


def _usable(code: str) -> LoginCode | None:
    if not tokens.is_code_shaped(code):
        return None
    usable = LoginCode.objects.usable(clock.now()).select_related("account")
    return usable.filter(fingerprint=tokens.fingerprint(code)).first()


def _refusal(source: str) -> NotFound | TooMany:
    if throttle.reserve(throttle.LINK_ACCOUNT, throttle.source_of(source)):
        return NotFound("this sign-in link has been used or has expired")
    return TooMany("too many wrong sign-in links from this address; wait a quarter of an hour")
