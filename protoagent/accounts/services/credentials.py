"""From a secret to an actor, and whether that still holds.

Scopes come out of the records, here and nowhere else, and are read again for every
request and every message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User

from protoagent.accounts.models import ApiToken, BrowserSession
from protoagent.accounts.services import browsers, people, programs
from protoagent.core import clock, env
from protoagent.core.context import Actor, Scope
from protoagent.security import tokens

ENVIRONMENT = "env"
ENVIRONMENT_VARIABLE = "PROTOAGENT_TOKEN"
BATCH = 500  # keeps a query below SQLite's limit of parameters


@dataclass(frozen=True)
class Grant:
    """An actor, and what it was recognised by, so that it can be recognised again.

    A browser has a `session_key`. `proof` changes with the password or with the
    environment's token; a stored token needs none, because its secret never changes.
    """

    actor: Actor
    session_key: str = field(default="", repr=False)
    proof: str = field(default="", repr=False)

    @property
    def is_browser(self) -> bool:
        return bool(self.session_key)

    @property
    def token_id(self) -> int | None:
        """The row of a stored token; None for a browser and for the environment's token."""
        kind, _, number = self.actor.credential.partition(":")
        return int(number) if kind == "token" else None


def from_secret(secret: str) -> Grant | None:
    """The grant of a bearer token or of the environment's token; None for any other text."""
    row = programs.find_live(secret)
    if row is not None:
        programs.mark_used(row)
        return Grant(programs.actor_for(row))
    expected = env.text(ENVIRONMENT_VARIABLE)
    if expected and tokens.are_same(secret, expected):
        return Grant(_environment_actor(), proof=tokens.fingerprint(expected))
    return None


def from_session(session_key: str) -> Grant | None:
    """The grant of a signed-in browser; None when the session has ended."""
    account = browsers.account_of(session_key)
    return None if account is None else for_account(account, session_key)


def for_account(account: User, session_key: str) -> Grant:
    """The grant of an account whose session has just been checked."""
    return Grant(people.actor_for(account), session_key, account.get_session_auth_hash())


def recheck(grants: Collection[Grant]) -> dict[Grant, Actor | None]:
    """Each grant's actor as the records know it now, or None when the grant is over.

    One query for all tokens and one for all sessions per five hundred of them.
    """
    accounts = _accounts([grant.session_key for grant in grants if grant.is_browser])
    rows = _tokens([grant.token_id for grant in grants if grant.token_id is not None])
    return {grant: _actor_now(grant, accounts, rows) for grant in grants}


def _accounts(session_keys: list[str]) -> dict[str, User]:
    found: dict[str, User] = {}
    for keys in _batches(session_keys):
        rows = BrowserSession.objects.filter(
            session_key__in=keys, expire_date__gt=clock.now(), account__is_active=True
        ).select_related("account")
        for row in rows.defer("session_data"):
            if row.account is not None:
                found[row.session_key] = row.account
    return found


def _tokens(ids: list[int]) -> dict[int, ApiToken]:
    found: dict[int, ApiToken] = {}
    for batch in _batches(ids):
        found.update(ApiToken.objects.live().in_bulk(batch))
    return found


def _actor_now(grant: Grant, accounts: dict[str, User], rows: dict[int, ApiToken]) -> Actor | None:
    if grant.is_browser:
        account = accounts.get(grant.session_key)
        is_same = account is not None and account.get_session_auth_hash() == grant.proof
        return people.actor_for(account) if is_same else None
    if grant.token_id is not None:
        row = rows.get(grant.token_id)
        return programs.actor_for(row) if row else None
    expected = env.text(ENVIRONMENT_VARIABLE)
    is_same = bool(expected) and tokens.fingerprint(expected) == grant.proof
    return grant.actor if is_same else None


def _environment_actor() -> Actor:
    return Actor(name="token:(environment)", scope=Scope.OPERATOR, credential=ENVIRONMENT)


def _batches(values: list[Any]) -> Iterator[list[Any]]:
    unique = list(dict.fromkeys(values))
    for start in range(0, len(unique), BATCH):
        yield unique[start : start + BATCH]
