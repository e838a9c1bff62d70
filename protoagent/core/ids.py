"""Identifiers: unguessable, short enough to read aloud, safe in URLs and attributes."""

from __future__ import annotations

import re
import secrets

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u
SESSION_KEY = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")


def new_id(prefix: str = "", length: int = 16) -> str:
    """A random id of `length` base-32 characters (5 bits each) behind `prefix`."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(length))


def is_session_key(text: str) -> bool:
    """Whether `text` may name a session: 1–128 of `A–Z a–z 0–9 . _ : -` (contract §3)."""
    return bool(SESSION_KEY.match(text)) and text.strip(".") != ""


def slug(text: str, fallback: str = "item") -> str:
    """Lower-case words joined by hyphens; `fallback` when nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or fallback
