"""Secrets of every kind, as people and programs write them. None of them opens anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

PIECE = 12
MASK = "[REDACTED]"


@dataclass(frozen=True)
class Planted:
    """One secret. `text` is what is typed; `body` is what must be seen nowhere."""

    kind: str
    text: str
    body: tuple[str, ...]

    @property
    def pieces(self) -> tuple[str, ...]:
        """Begin and end of each body: half a secret is a leak as well."""
        return tuple(
            piece for body in self.body for piece in dict.fromkeys((body[:PIECE], body[-PIECE:]))
        )

    @property
    def marked(self) -> str:
        """The secret behind a mark that shows that the text around it has arrived."""
        return f"mark-{self.kind} {self.text}"


def _of(kind: str, before: str, *body: str, between: str = " ", after: str = "") -> Planted:
    return Planted(kind, before + between.join(body) + after, body)


# Not shaped like anything: only the configuration says that these are secret.
CONFIGURED_KEY = "plumvelvetotter4417quietmarble"
OWN_TOKEN = "Zq3mVt8LxYb1RkWc7NdPhA5sJfUe9GoT"

_PEM_LINES = (
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu",
)

ALL = (
    _of("openai", "sk-proj-", "Xk29fJq7LmZ0vB4nTc81RyWsHd63GpUaEo5iKlNb7VxQz"),
    _of("anthropic", "sk-ant-api03-", "r7TqLw2Zx9VbKd40mNcYhJ8sGfPeUa1oQi6RtEyW3uHkB-9wAA"),
    _of("github", "ghp_", "8Kd0wQz3LrXv71MbTy5NcJhGf2SpUaEo94iB"),
    _of("gitlab", "glpat-", "Wm4ZtR8qXc2LvN7bKyH3"),
    _of("slack", "xoxb-", "417283920156-839201564417-Hq8ZtLw3RkXv0BnMcYdJ5sGf"),
    _of(
        "aws",
        "AKIA",
        "Q7ZLWX4MTR2VKD8B",
        "wJ8rXUtnF3MI/K7MDENGbPxRfiCYz4Qw9LkVt2Hd",
        between=" ",
    ),
    _of("google", "AIza", "SyD4kTqLw9Zx2VbKm40NcYhJ8sGfPeUa1oQ"),
    _of(
        "jwt",
        "eyJ",
        "hbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "eyJzdWIiOiI4ODE3NDIwMCIsIm5hbWUiOiJhZGEifQ",
        "kLw9Zx2VbTq40NmYhJ8sGfPeUa1oQi6RtEyW3uHkB9w",
        between=".",
    ),
    _of(
        "pem",
        "-----BEGIN PRIVATE KEY-----\n",
        *_PEM_LINES,
        between="\n",
        after="\n-----END PRIVATE KEY-----",
    ),
    _of("url", "postgres://ada:", "Tr4velling-L1ght-88", after="@db.internal:5432/app"),
    _of("bearer", "Authorization: Bearer ", "f81kq0zw7xv2nd93mt5b"),
    _of("assigned", "password: ", "Gr33n-Kettle!29x"),
    _of("telegram", "7123456789:", "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"),
    _of("own", "pa_", "x3Tq8ZtLw3RkXv0BnMcYdJ5sGfPeUa1oQi6RtEyW3uH"),
    _of("configured", "", CONFIGURED_KEY),
    _of("environment", "", OWN_TOKEN),
)
EVERYTHING = "\n".join(planted.marked for planted in ALL)


@dataclass(frozen=True)
class Group:
    """Several secrets that are said together, which is four times as quick."""

    name: str
    members: tuple[Planted, ...]

    @property
    def text(self) -> str:
        return "\n".join(planted.marked for planted in self.members)


GROUPS = tuple(Group(f"group{n}", ALL[at : at + 4]) for n, at in enumerate(range(0, len(ALL), 4)))
TEXTS = {
    **{planted.kind: planted.marked for planted in ALL},
    **{group.name: group.text for group in GROUPS},
}


def escaped(value: Any) -> str:
    """JSON in which every character of a string is a \\u escape."""
    if isinstance(value, dict):
        pairs = (f"{escaped(str(key))}:{escaped(part)}" for key, part in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(escaped, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(char):04x}" for char in value) + '"'
    return json.dumps(value)
