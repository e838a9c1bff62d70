"""Where the instance keeps its files."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from protoagent.core import env


def home() -> Path:
    """The instance directory, made with mode 0700 when it is missing."""
    path = env.home()
    if not path.is_dir():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def run_dir() -> Path:
    """Sockets and pid files; emptied by nobody but their owners."""
    path = home() / "run"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def config_file() -> Path:
    """What the operator wrote down, as YAML."""
    return home() / "config.yaml"


def secrets_file() -> Path:
    """Secret values only, mode 0600."""
    return home() / "secrets.yaml"


def soul_file() -> Path:
    """Who the agent is, in Markdown."""
    return home() / "SOUL.md"


def signing_key() -> str:
    """The key that signs cookies, made once per instance and readable by its owner only."""
    path = home() / "signing.key"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text("ascii").strip()
    key = secrets.token_urlsafe(48)
    with os.fdopen(descriptor, "w") as file:
        file.write(key)
    return key
