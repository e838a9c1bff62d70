"""ask_human and request_user_input: what the operator is asked and what the model reads."""

from __future__ import annotations

import json

import pytest

from protoagent.core.errors import BadValue
from tools_app.groups.operator import TOOLS, ask_human, request_user_input

STEPS = [{"schema": {"properties": {"engine": {"enum": ["pg", "ch"]}}, "required": ["engine"]}}]


class Context:
    """Answers every question with `answer` and keeps what was asked."""

    def __init__(self, answer=""):
        self.answer = answer
        self.asked = []

    async def ask(self, form):
        self.asked.append(form)
        return self.answer


def test_both_tools_are_for_the_lead_only_and_wait_without_limit():
    assert [spec.name for spec in TOOLS] == ["ask_human", "request_user_input"]
    for spec in TOOLS:
        assert spec.lead_only
        assert spec.timeout_s is None
        assert spec.context_parameter == "ctx"
        assert "ctx" not in spec.parameters["properties"]


def test_the_model_sees_the_published_parameters():
    assert list(ask_human.parameters["properties"]) == ["question"]
    assert ask_human.parameters["required"] == ["question"]
    assert list(request_user_input.parameters["properties"]) == ["title", "steps", "description"]
    assert request_user_input.parameters["required"] == ["title", "steps"]
    for spec in TOOLS:
        assert all(entry.get("description") for entry in spec.parameters["properties"].values())


async def test_a_question_is_asked_and_its_answer_returned():
    context = Context("blue")

    answer = await ask_human.run(ctx=context, question="Which *colour*?")

    assert answer == "blue"
    assert context.asked == [{"kind": "question", "question": "Which *colour*?"}]


@pytest.mark.parametrize(("answer", "text"), [("", ""), (5, "5"), (True, "True")])
async def test_any_answer_becomes_text(answer, text):
    assert await ask_human.run(ctx=Context(answer), question="?") == text


@pytest.mark.parametrize("question", ["", "  \n", "x" * 8001])
async def test_an_unusable_question_is_not_asked(question):
    context = Context()

    with pytest.raises(BadValue, match="question"):
        await ask_human.run(ctx=context, question=question)
    assert context.asked == []


async def test_a_form_is_asked_and_its_fields_come_back_as_json():
    context = Context({"engine": "pg", "note": "größer"})

    answer = await request_user_input.run(ctx=context, title=" Storage ", steps=STEPS)

    assert json.loads(answer) == {"engine": "pg", "note": "größer"}
    assert "größer" in answer
    assert context.asked == [
        {
            "kind": "form",
            "title": "Storage",
            "steps": [{"title": "Step 1", "description": "", **STEPS[0], "order": ["engine"]}],
            "description": "",
        }
    ]


async def test_a_dismissed_form_passes_its_sentence_through():
    sentence = "[dismissed] The operator closed this."

    answer = await request_user_input.run(ctx=Context(sentence), title="t", steps=STEPS)

    assert answer == sentence


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([], "supply at least one step with fields, or use ask_human"),
        ([{"schema": {"properties": {"a": {"type": "object"}}}}], "nested object"),
        (STEPS * 9, "at most 8 steps"),
    ],
)
async def test_an_unusable_form_is_explained_and_not_asked(steps, says):
    context = Context()

    with pytest.raises(BadValue, match=says):
        await request_user_input.run(ctx=context, title="t", steps=steps)
    assert context.asked == []


async def test_a_form_without_a_title_gets_one():
    context = Context({})

    await request_user_input.run(ctx=context, title="  ", steps=STEPS)

    assert context.asked[0]["title"] == "Input required"
