"""What `doctor` looks at. Each part answers for itself; none stops the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.core import checks
from django.db import connection

from protoagent.checks import TAG
from protoagent.config import services as config
from protoagent.core import migrations
from protoagent.core.errors import AgentError
from protoagent.core.ids import new_id
from protoagent.core.text import one_line
from protoagent.journal.services import agents, processes
from protoagent.providers import catalog
from protoagent.server import startup

LAYER_TIMEOUT_S = 5.0
MODEL_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class Finding:
    """One part of the instance and whether it works, in one sentence."""

    part: str
    is_ok: bool
    sentence: str

    @property
    def as_json(self) -> dict[str, Any]:
        """`{part, ok, sentence}`."""
        return {"part": self.part, "ok": self.is_ok, "sentence": self.sentence}


Found = Iterator[tuple[bool, str]]


def examine() -> list[Finding]:
    """Every part in the order of dependence; without a database what needs one is left out."""
    findings = _look("database", database)
    if findings[0].is_ok:
        findings += _look("migrations", schema)
        if findings[-1].is_ok:
            findings += _look("agent", agent)
            findings += _look("processes", roles)
    findings += _look("channel layer", channel_layer)
    findings += _look("configuration", configuration)
    findings += _look("files", files)
    findings += _look("model", model)
    return findings


def _look(part: str, examiner: Callable[[], Found]) -> list[Finding]:
    try:
        return [Finding(part, is_ok, sentence) for is_ok, sentence in examiner()]
    except Exception as error:  # noqa: BLE001 — whatever breaks in one part is a finding about it
        return [Finding(part, False, one_line(str(error), 300) or type(error).__name__)]


def database() -> Found:
    """It answers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()
    yield True, f"{startup.database_name()} answers."


def schema() -> Found:
    """It has the schema of this code."""
    missing = migrations.unapplied()
    if missing:
        yield (
            False,
            f"{len(missing)} are not applied, the first is {missing[0]}; serve applies them.",
        )
    else:
        yield True, "All are applied."


def agent() -> Found:
    """The row that PROTOAGENT_AGENT names exists."""
    yield True, f"This instance runs the agent {agents.current().key}."


def roles() -> Found:
    """Somebody runs each role."""
    for role in ("web", "worker", "ticker"):
        if processes.is_alive(role):
            yield True, f"The {role} role is at work."
        else:
            yield False, f"Nobody runs the {role} role; start it with serve."


def channel_layer() -> Found:
    """A message sent into it comes out of it again."""
    kind = "Redis" if settings.REDIS_URL else "memory of one process"
    async_to_sync(_round_trip)()
    yield True, f"A message went through the channel layer ({kind})."


async def _round_trip() -> None:
    layer = get_channel_layer()
    channel = await layer.new_channel()
    token = new_id("d")
    await layer.send(channel, {"type": "doctor", "token": token})
    try:
        async with asyncio.timeout(LAYER_TIMEOUT_S):
            message = await layer.receive(channel)
    except TimeoutError:
        raise AgentError("a message sent into the channel layer did not come out") from None
    if message["token"] != token:
        raise AgentError("the channel layer delivered somebody else's message")


def configuration() -> Found:
    """All of it can be read and is legal."""
    config.reload()
    warnings = config.warnings()
    yield True, "Every layer can be read." if not warnings else f"In force. {'; '.join(warnings)}"


def files() -> Found:
    """Nobody else reads the secrets, and what else the system checks of this project say."""
    messages = [m for m in checks.run_checks(tags=[TAG]) if m.id != "protoagent.E001"]
    for message in messages:
        hint = f" ({message.hint})" if message.hint else ""
        yield not message.is_serious(), f"{message.msg}{hint}"
    if not any(message.is_serious() for message in messages):
        yield True, "Secrets and home are private."


def model() -> Found:
    """The configured gateway answers; having none connected is no failure."""
    health = async_to_sync(_probe)()
    yield health.is_ok, health.sentence


async def _probe() -> catalog.Health:
    try:
        async with asyncio.timeout(MODEL_TIMEOUT_S):
            return await catalog.probe()
    except TimeoutError:
        return catalog.Health(False, f"The model gateway did not answer in {MODEL_TIMEOUT_S:g} s.")
