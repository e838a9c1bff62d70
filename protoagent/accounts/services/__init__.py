"""Accounts, tokens, sign-in links, browser sessions, and the record of who signed in."""

from protoagent.accounts.services.people import ensure_operator

__all__ = ["ensure_operator"]
