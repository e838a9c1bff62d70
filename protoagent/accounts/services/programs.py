"""Bearer tokens of programs: making, finding by secret, revoking."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Q

from protoagent.accounts.models import ApiToken
from protoagent.accounts.services.people import publish_revoked
from protoagent.core import clock
from protoagent.core.context import Actor, Scope
from protoagent.core.errors import BadValue, Conflict, NotFound
from protoagent.core.text import one_line
from protoagent.security import tokens

log = logging.getLogger(__name__)

SEEN_EVERY = timedelta(minutes=1)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@dataclass(frozen=True)
class NewToken:
    """A token's row and, this once, its secret."""

    row: ApiToken
    secret: str = field(repr=False)


def create(name: str, scope: Scope) -> NewToken:
    """A live token with this name exists; only its fingerprint is kept.

    Raises BadValue for a name that is not 1–64 letters, digits, `.`, `_` or `-`, and
    Conflict while another live token has it.
    """
    if not _NAME.match(name):
        raise BadValue("a token's name has 1 to 64 letters, digits, dots, hyphens, underscores")
    secret = tokens.new_token()
    try:
        with transaction.atomic():
            row = ApiToken.objects.create(
                name=name, scope=scope.value, fingerprint=tokens.fingerprint(secret)
            )
    except IntegrityError:
        raise Conflict(f"there is a live token {name!r}; revoke it first") from None
    return NewToken(row, secret)


def revoke(name: str) -> ApiToken:
    """The live token with this name works nowhere any more, open sockets included.

    Raises NotFound when no live token has this name.
    """
    row = ApiToken.objects.live().filter(name=name).first()
    changed = row and ApiToken.objects.live().filter(pk=row.pk).update(revoked_at=clock.now())
    if row is None or not changed:
        raise NotFound(f"no live token {one_line(name, 60)!r}")
    row.refresh_from_db()
    publish_revoked(f"token:{row.pk}")
    return row


def listing() -> list[ApiToken]:
    """Every token ever made, live ones first, then by name."""
    return sorted(ApiToken.objects.all(), key=lambda row: (not row.is_live, row.name, row.pk))


def find_live(secret: str) -> ApiToken | None:
    """The live token with this secret. Looked up by fingerprint, so timing tells nothing."""
    if not tokens.is_token_shaped(secret):
        return None
    return ApiToken.objects.live().filter(fingerprint=tokens.fingerprint(secret)).first()


def mark_used(row: ApiToken) -> None:
    """`last_used_at` is at most a minute old. A database too busy for it is no failure."""
    now = clock.now()
    limit = now - SEEN_EVERY
    if row.last_used_at is not None and row.last_used_at > limit:
        return
    unmarked = Q(last_used_at=None) | Q(last_used_at__lte=limit)
    try:
        with transaction.atomic():
            ApiToken.objects.filter(unmarked, pk=row.pk).update(last_used_at=now)
    except DatabaseError:
        log.warning("last use not stored token_id=%s", row.pk, exc_info=True)


def actor_for(row: ApiToken) -> Actor:
    """The token's holder as every surface knows it."""
    return Actor(name=f"token:{row.name}", scope=Scope(row.scope), credential=f"token:{row.pk}")
