"""S10 at the edges of a tool call and of a model's name: masked, and still what it was."""

from __future__ import annotations

import json

import pytest
from channels.db import database_sync_to_async as in_db

from protoagent.core import extensions
from protoagent.core.errors import BadValue
from protoagent.journal.models import ChatSession, Turn
from protoagent.journal.services import agents, sessions
from protoagent.security.redaction import one_masked_line
from tests.console.asking import open_tab
from tests.fakes.model import call, say
from tests.runtime.conftest import chat, model  # noqa: F401 — fixtures
from tools_app import registry
from tools_app.models import ToolCall
from tools_app.spec import tool

KEY = "ghp_8Kd0wQz3LrXv71MbTy5NcJhGf2SpUaEo94iB"


@tool(group="test", name="pa_findFilesOfThisWorkspace")
async def named_like_a_key(password: int = 0, note: str = "") -> str:
    """Say what came."""
    return f"{password} {note}"


async def asked(chat, name: str, arguments: str) -> list[ToolCall]:  # noqa: F811
    extensions.register("tool_sources", "plugins", lambda: (named_like_a_key,))
    registry._cache.clear()
    chat.model.steps = [call((name, arguments)), say("done")]
    await chat.ask()
    return await in_db(lambda: list(ToolCall.objects.all()))()


async def test_a_tool_whose_name_looks_like_a_key_keeps_its_name(chat):  # noqa: F811
    (row,) = await asked(chat, named_like_a_key.name, "{}")

    assert (row.name, row.status) == (named_like_a_key.name, "ok")
    said = chat.model.requests[-1].messages[-2]["tool_calls"][0]["function"]["name"]
    assert said == named_like_a_key.name


async def test_a_number_under_a_telling_name_leaves_the_arguments_json(chat):  # noqa: F811
    (row,) = await asked(chat, named_like_a_key.name, '{"password": 123456789}')

    assert (row.output, row.status) == ("123456789 ", "ok")


async def test_a_secret_behind_escapes_is_masked_before_it_is_kept(chat):  # noqa: F811
    hidden = "".join(f"\\u{ord(char):04x}" for char in KEY)

    (row,) = await asked(chat, named_like_a_key.name, f'{{"note": "{hidden}", "password": 1}}')

    kept = json.dumps(await in_db(lambda: Turn.objects.get().messages)())
    assert row.arguments == {"note": "ghp_[REDACTED]", "password": 1}
    assert "ghp_[REDACTED]" in kept
    assert hidden not in json.loads(kept)[1]["tool_calls"][0]["function"]["arguments"]


def test_a_masked_line_is_masked_before_it_is_cut():
    assert one_masked_line(f"no  session\n{KEY}", 24) == "no session ghp_[REDACTE…"


@pytest.mark.django_db
def test_a_key_pasted_as_the_name_of_a_model_is_refused_and_leaves_nothing():
    tab = open_tab()
    sent = {"text": "hello", "mode": "turn", "client_id": "a" * 12, "model": KEY}

    page = tab.post("/chat/", sent)

    assert page.status == 400
    assert KEY[4:] not in page.text
    assert not ChatSession.objects.exists()
    with pytest.raises(BadValue):
        sessions.set_model(sessions.ensure(agents.current(), "s1"), KEY)
