"""Errors that people and models may read.

Each carries one plain sentence. Adapters translate them once: the tool boundary
into "Error: …", `web/errors.py` into a status, commands into exit code 1.
"""

from __future__ import annotations

from typing import ClassVar


class AgentError(Exception):
    """A failure that has a plain sentence and a stable code."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500


class BadValue(AgentError):
    """An argument, field or body that cannot be used as it is."""

    code = "bad_value"
    status = 400


class Unauthenticated(AgentError):
    """Nobody known is asking."""

    code = "unauthenticated"
    status = 401


class Forbidden(AgentError):
    """Known, but not allowed to do this."""

    code = "forbidden"
    status = 403


class NotFound(AgentError):
    """No row with this key, or none that the caller may see."""

    code = "not_found"
    status = 404


class Conflict(AgentError):
    """The row changed meanwhile, or its state does not allow this."""

    code = "conflict"
    status = 409


class TooLarge(AgentError):
    """Larger than the stated limit."""

    code = "too_large"
    status = 413


class InvalidForm(AgentError):
    """Fields that need another value. `errors` maps a field to its sentence."""

    code = "invalid_form"
    status = 422

    def __init__(self, message: str, errors: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.errors = errors or {}


class TooMany(AgentError):
    """More often than the stated rate."""

    code = "too_many"
    status = 429


class NotLoaded(AgentError):
    """The backend that this needs is off."""

    code = "not_loaded"
    status = 409


class Blocked(AgentError):
    """An outbound address that the egress rules refuse. The sentence contains "blocked"."""

    code = "blocked"
    status = 403


class ModelFailed(AgentError):
    """The model or its gateway did not answer usefully.

    `retryable` tells whether the same request may succeed a moment later, `refused` that
    something in the request was not to the model's liking.
    """

    code = "model_failed"
    status = 502

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        overflow: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.refused = refused
        self.retryable = retryable
        self.overflow = overflow


class LeaseLost(AgentError):
    """Another process holds this turn now; what this one knows about it is stale."""

    code = "lease_lost"
    status = 409
