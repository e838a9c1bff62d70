"""The record of access, to read; and what of it can be ended from here."""

from __future__ import annotations

from typing import Any

from axes.models import AccessAttempt
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import QuerySet

from protoagent.accounts.models import ApiToken, LoginCode, SignIn
from protoagent.accounts.services import browsers, programs
from protoagent.core.errors import NotFound


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """History: nothing is added, changed or deleted here."""

    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False


@admin.register(SignIn)
class SignInAdmin(ReadOnlyAdmin):
    list_display = ("at", "name", "method", "outcome", "address", "user_agent")
    list_filter = ("outcome", "method", "at")
    search_fields = ("name", "address")
    list_select_related = ("account",)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ("name", "scope", "created_at", "last_used_at", "revoked_at")
    list_filter = ("scope", ("revoked_at", admin.EmptyFieldListFilter))
    search_fields = ("name",)
    actions = ("revoke_selected",)
    exclude = ("fingerprint",)

    @admin.action(description="Revoke selected tokens", permissions=["revoke"])
    def revoke_selected(self, request: Any, queryset: QuerySet[ApiToken]) -> None:
        """The selected tokens work nowhere any more; revoked ones stay as they are."""
        count = 0
        for row in queryset:
            if not row.is_live:
                continue
            try:
                programs.revoke(row.name)
            except NotFound:  # somebody else was faster
                continue
            count += 1
        self.message_user(request, f"Tokens revoked: {count}.")

    def has_revoke_permission(self, request: Any) -> bool:
        return bool(request.user.is_superuser)


@admin.register(LoginCode)
class LoginCodeAdmin(ReadOnlyAdmin):
    list_display = ("account", "created_at", "expires_at", "used_at")
    list_select_related = ("account",)
    exclude = ("fingerprint",)


@admin.register(AccessAttempt)
class AccessAttemptAdmin(ReadOnlyAdmin):
    """What the throttle counts; deleting a row lifts that lock."""

    list_display = ("username", "ip_address", "failures_since_start", "attempt_time")
    fields = ("username", "ip_address", "failures_since_start", "attempt_time")

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)


admin.site.unregister(User)


@admin.register(User)
class AccountAdmin(UserAdmin):
    """Browser sessions have no pages of their own: an address would be the session's key."""

    actions = ("sign_out_everywhere",)

    @admin.action(description="Sign selected accounts out everywhere", permissions=["change"])
    def sign_out_everywhere(self, request: Any, queryset: QuerySet[User]) -> None:
        """Every browser session of the selected accounts has ended."""
        count = sum(browsers.sign_out_others(account, keep="") for account in queryset)
        self.message_user(request, f"Sessions ended: {count}.")
