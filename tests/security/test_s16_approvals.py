"""S16: what is shown is what runs; an answer counts for exactly what was shown, once."""

from __future__ import annotations

import pytest
from channels.db import database_sync_to_async as in_db

from protoagent.core import extensions
from protoagent.core.errors import BadValue, Conflict
from protoagent.core.text import reveal_hidden
from protoagent.journal.services import pauses
from protoagent.runtime import service
from tests.fakes.model import call, say
from tests.runtime.conftest import chat, model  # noqa: F401 — fixtures
from tools_app import registry
from tools_app.approvals import Declined, is_approval
from tools_app.spec import ToolContext, tool

target = {"path": "/tmp/a"}
done: list[str] = []


@tool(group="test")
async def wipe(ctx: ToolContext) -> str:
    """Wipe the target."""
    path = target["path"]
    answer = await ctx.ask({"kind": "approval", "title": "Wipe?", "detail": path})
    if not is_approval(answer):
        return Declined("Declined by the operator. Nothing was wiped; do not ask again.")
    done.append(path)
    return f"wiped {path}"


@pytest.fixture
async def asked(chat):  # noqa: F811
    done.clear()
    target["path"] = "/tmp/a"
    extensions.register("tool_sources", "plugins", lambda: (wipe,))
    registry._cache.clear()
    chat.model.steps = [call(("wipe", "{}")), say("ok")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")
    (row,) = await in_db(pauses.open_in_session)(chat.session.pk)
    chat.row = row
    return chat


async def test_an_approved_action_runs_once(asked):
    await in_db(service.answer)(
        asked.session, asked.row.pk, "approved", by="ada", digest=asked.row.digest
    )
    await asked.ended()

    with pytest.raises(Conflict):
        await in_db(service.answer)(asked.session, asked.row.pk, "approved", by="ada")

    assert done == ["/tmp/a"]


async def test_a_target_that_changed_after_the_approval_is_asked_about_again(asked):
    target["path"] = "/tmp/b"

    await in_db(service.answer)(asked.session, asked.row.pk, "approved", by="ada")
    event = await asked.until("input.required", detail="/tmp/b")

    assert done == []
    assert event["data"]["interrupt_id"] != asked.row.pk


async def test_an_answer_to_something_else_than_what_is_shown_is_refused(asked):
    with pytest.raises(BadValue):
        await in_db(service.answer)(asked.session, asked.row.pk, "approved", by="ada", digest="0")

    rows = await in_db(pauses.open_in_session)(asked.session.pk)
    assert [row.pk for row in rows] == [asked.row.pk]


@pytest.mark.parametrize("value", ["denied", "", "yes please", {"decision": "no"}, False, {}])
async def test_everything_unclear_is_a_no_and_a_no_is_no_error(asked, value):
    await in_db(service.answer)(asked.session, asked.row.pk, value, by="ada")
    await asked.ended()

    assert done == []
    assert asked.of("tool.finished")[-1]["status"] == "declined"


@pytest.mark.parametrize("value", ["approved", " YES ", True, {"approved": True}, {"answer": "ok"}])
def test_the_words_of_approval(value):
    assert is_approval(value)


def test_what_would_not_be_seen_is_written_out():
    shown = reveal_hidden("rm \u202e/tmp/x\u202c\u200b -rf \x07")

    assert "\u202e" not in shown
    assert shown == "rm ⟦U+202E⟧/tmp/x⟦U+202C⟧⟦U+200B⟧ -rf ⟦U+0007⟧"
