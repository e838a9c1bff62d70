"""Secrets that programs and sign-in links carry: how they look and how they are remembered.

Only fingerprints are stored. The secrets have 160 bits and more, so a plain SHA-256 is
enough: slow hashing protects what people can remember, and nobody remembers these.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from protoagent.core.ids import new_id

PREFIX = "pa_"
CODE_CHARS = 32
_TOKEN = re.compile(r"pa_[A-Za-z0-9_-]{43}\Z")
_CODE = re.compile(r"[0-9a-z]{32}\Z")


def new_token() -> str:
    """A bearer token: `pa_` and 43 URL-safe characters, 256 bits."""
    return PREFIX + secrets.token_urlsafe(32)


def new_code() -> str:
    """A sign-in code: 32 base-32 characters, 160 bits, safe in a path."""
    return new_id(length=CODE_CHARS)


def fingerprint(secret: str) -> str:
    """What is stored of a secret: SHA-256 in hexadecimal."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_token_shaped(text: str) -> bool:
    """Whether `text` may be one of our tokens, so that anything else needs no look-up."""
    return bool(_TOKEN.match(text))


def is_code_shaped(text: str) -> bool:
    """Whether `text` may be one of our sign-in codes."""
    return bool(_CODE.match(text))


def are_same(one: str, other: str) -> bool:
    """Compare two secrets in a time that does not depend on where they differ."""
    return hmac.compare_digest(fingerprint(one), fingerprint(other))
