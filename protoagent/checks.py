"""System checks of this instance: `manage.py check` and `doctor` run them."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register

from protoagent.config import paths
from protoagent.config import services as config
from protoagent.core.errors import AgentError

TAG = "protoagent"


@register(TAG)
def config_is_readable(**_: Any) -> Sequence[CheckMessage]:
    """The configuration parses and every value in it is legal."""
    try:
        config.reload()
    except AgentError as error:
        return [Error(str(error), id="protoagent.E001")]
    return []


@register(TAG)
def secrets_are_private(**_: Any) -> Sequence[CheckMessage]:
    """Nobody but the owner reads the home's secrets."""
    found: list[CheckMessage] = []
    for path in (paths.home() / "signing.key", paths.secrets_file()):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            hint = f"chmod 600 {path}"
            found.append(Error(f"others can read {path}", hint=hint, id="protoagent.E002"))
    if stat.S_IMODE(paths.home().stat().st_mode) & 0o022:
        hint = f"chmod 700 {paths.home()}"
        found.append(Error(f"others can write to {paths.home()}", hint=hint, id="protoagent.E003"))
    return found


@register(TAG)
def layer_fits(**_: Any) -> Sequence[CheckMessage]:
    """Hints reach other machines only over PostgreSQL or Redis."""
    if settings.REDIS_URL and "sqlite" in settings.DATABASES["default"]["ENGINE"]:
        return [
            Warning(
                "REDIS_URL is set, but the database is SQLite, which one machine only can use",
                hint="set DATABASE_URL to a PostgreSQL server to run on several machines",
                id="protoagent.W001",
            )
        ]
    return []
