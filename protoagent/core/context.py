"""Who asks, and on whose behalf a turn runs. Frozen, and made of primitives only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """What started a turn (contract §3, `turn.started`)."""

    OPERATOR = "operator"
    SCHEDULER = "scheduler"
    WATCH = "watch"
    INBOX = "inbox"
    GOAL = "goal"
    BACKGROUND = "background"
    A2A = "a2a"
    API = "api"

    @property
    def is_autonomous(self) -> bool:
        """Nobody is watching: questions answer themselves instead of waiting."""
        return self in _AUTONOMOUS


_AUTONOMOUS = {
    Origin.SCHEDULER,
    Origin.WATCH,
    Origin.INBOX,
    Origin.GOAL,
    Origin.BACKGROUND,
}


class Scope(StrEnum):
    """What a credential may do (contract §1, `token create`)."""

    OPERATOR = "operator"
    VIEWER = "viewer"
    INBOX = "inbox"
    FEDERATION = "federation"


@dataclass(frozen=True)
class Actor:
    """An authenticated caller.

    `name` is what an audit row shows: a user name, or `token:<name>`.
    `credential` identifies the record to re-check and to revoke by:
    `user:<pk>`, `token:<pk>` or `env`.
    """

    name: str
    scope: Scope
    credential: str

    @property
    def can_write(self) -> bool:
        """Only an operator changes things; narrower scopes have their own doors."""
        return self.scope is Scope.OPERATOR

    @property
    def can_watch(self) -> bool:
        """Operators and viewers may read everything."""
        return self.scope in (Scope.OPERATOR, Scope.VIEWER)
