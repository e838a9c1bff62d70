"""Django's session engine over `BrowserSession`, so that sessions belong to accounts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore

from protoagent.accounts.models import BrowserSession

ADDRESS = "address"
USER_AGENT = "user_agent"
SIGNED_IN_AT = "signed_in_at"
TIMEZONE = "timezone"


class SessionStore(DatabaseStore):
    """`row` is the stored session as it was loaded; None before, and for a new one."""

    row: BrowserSession | None = None

    @classmethod
    def get_model_class(cls) -> type[BrowserSession]:
        return BrowserSession

    def _get_session_from_db(self) -> BrowserSession | None:
        self.row = super()._get_session_from_db()  # type: ignore[misc] # not in the stubs
        return self.row

    def create_model_instance(self, data: dict[str, Any]) -> BrowserSession:
        return _with_columns(super().create_model_instance(data), data)

    async def acreate_model_instance(self, data: dict[str, Any]) -> BrowserSession:
        return _with_columns(await super().acreate_model_instance(data), data)


def _with_columns(row: Any, data: dict[str, Any]) -> BrowserSession:
    row.account_id = int(data[SESSION_KEY]) if SESSION_KEY in data else None
    row.address = data.get(ADDRESS, "")
    row.user_agent = data.get(USER_AGENT, "")
    signed_in_at = data.get(SIGNED_IN_AT)
    row.signed_in_at = datetime.fromisoformat(signed_in_at) if signed_in_at else None
    return row
