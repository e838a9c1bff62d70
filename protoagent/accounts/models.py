"""Who may come in: bearer tokens, sign-in codes, browser sessions, and who tried.

People are Django users: a superuser is an operator, any other active account a viewer.
Secrets are stored as fingerprints only (`security.tokens`).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models import Q

from protoagent.core import clock
from protoagent.core.context import Scope

if TYPE_CHECKING:
    from protoagent.accounts.sessions import SessionStore


class TokenScope(models.TextChoices):
    OPERATOR = Scope.OPERATOR.value, "operator"
    VIEWER = Scope.VIEWER.value, "viewer"
    INBOX = Scope.INBOX.value, "inbox"
    FEDERATION = Scope.FEDERATION.value, "federation"


class TokenQuerySet(models.QuerySet["ApiToken"]):
    def live(self) -> TokenQuerySet:
        """Not revoked."""
        return self.filter(revoked_at=None)


class ApiToken(models.Model):
    """A program's credential. Its scope never changes; a revoked one never comes back."""

    name = models.CharField(max_length=64)
    scope = models.CharField(max_length=12, choices=TokenScope.choices)
    fingerprint = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = TokenQuerySet.as_manager()

    class Meta:
        verbose_name = "token"
        ordering = ("name", "pk")
        constraints = (
            models.UniqueConstraint(
                fields=["name"], condition=Q(revoked_at=None), name="token_name_once_among_live"
            ),
            models.CheckConstraint(
                condition=Q(scope__in=TokenScope.values), name="token_scope_known"
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_live(self) -> bool:
        return self.revoked_at is None


class LoginCodeQuerySet(models.QuerySet["LoginCode"]):
    def usable(self, at: datetime) -> LoginCodeQuerySet:
        """Unused, in time, and of an account that may sign in."""
        return self.filter(used_at=None, expires_at__gt=at, account__is_active=True)


class LoginCode(models.Model):
    """A one-time sign-in link. `used_at` is set by compare-and-set, so it works once."""

    account = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="login_codes"
    )
    fingerprint = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = LoginCodeQuerySet.as_manager()

    class Meta:
        verbose_name = "sign-in link"
        constraints = (
            models.CheckConstraint(
                condition=Q(expires_at__gt=models.F("created_at")), name="code_expires_later"
            ),
        )

    def __str__(self) -> str:
        return f"link for {self.account} until {self.expires_at:%Y-%m-%d %H:%M}"


class BrowserSession(AbstractBaseSession):
    """A browser that is signed in. Deleting the row signs it out.

    The columns beside Django's own are copied out of the session's data when it is
    saved, so that sessions can be listed and ended by account without decoding each.
    """

    account = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="browser_sessions",
        null=True,
        blank=True,
    )
    address = models.CharField(max_length=45, blank=True)
    user_agent = models.CharField(max_length=200, blank=True)
    signed_in_at = models.DateTimeField(null=True, blank=True)
    last_seen_at = models.DateTimeField(default=clock.now)

    class Meta:
        verbose_name = "browser session"

    def __str__(self) -> str:
        # The key is the credential; a name in the admin must not show it.
        return f"session of {self.account or 'nobody'}"

    @classmethod
    def get_session_store_class(cls) -> type[SessionStore]:
        from protoagent.accounts.sessions import SessionStore  # noqa: PLC0415 — it imports this module

        return SessionStore


class SignInMethod(models.TextChoices):
    PASSWORD = "password", "password"
    LINK = "link", "sign-in link"


class SignInOutcome(models.TextChoices):
    OK = "ok", "signed in"
    WRONG = "wrong", "refused"
    LOCKED = "locked", "too many attempts"


class SignIn(models.Model):
    """One attempt to sign in: who, from where, how, and how it ended. Never changed.

    `name` is filled for known accounts only: people type passwords into the name field.
    """

    at = models.DateTimeField(default=clock.now, db_index=True, editable=False)
    account = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        related_name="sign_ins",
        null=True,
        blank=True,
    )
    name = models.CharField(max_length=150, blank=True)
    method = models.CharField(max_length=10, choices=SignInMethod.choices)
    outcome = models.CharField(max_length=10, choices=SignInOutcome.choices)
    address = models.CharField(max_length=45, blank=True)
    user_agent = models.CharField(max_length=200, blank=True)

    class Meta:
        verbose_name = "sign-in"
        ordering = ("-at", "-pk")
        constraints = (
            models.CheckConstraint(
                condition=Q(method__in=SignInMethod.values), name="sign_in_method_known"
            ),
            models.CheckConstraint(
                condition=Q(outcome__in=SignInOutcome.values), name="sign_in_outcome_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name or 'unknown'}: {self.get_outcome_display()}"
