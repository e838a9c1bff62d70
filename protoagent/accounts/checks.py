"""What `manage.py check` says about access."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register

from protoagent.core import env

MIN_TOKEN_CHARS = 20


@register(Tags.security)
def check_environment_token(**kwargs: Any) -> list[CheckMessage]:
    """PROTOAGENT_TOKEN is too long to be guessed: nothing slows down who tries tokens."""
    token = env.text("PROTOAGENT_TOKEN")
    if not token or len(token) >= MIN_TOKEN_CHARS:
        return []
    return [
        Warning(
            f"PROTOAGENT_TOKEN has fewer than {MIN_TOKEN_CHARS} characters and can be guessed",
            hint="Take the output of `openssl rand -base64 24`, or use `protoagent token create`.",
            id="accounts.W001",
        )
    ]
