"""A reply out of pieces, as the servers of the field send them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protoagent.core.errors import ModelFailed
from protoagent.providers.assembly import Assembly, read_usage
from protoagent.providers.base import ModelReply, Usage
from tests.providers.sinks import Collector


def assemble(
    *deltas: dict[str, Any], finish: str = "stop", taken: tuple[str, ...] = ()
) -> ModelReply:
    assembly = Assembly(Collector())
    for delta in deltas:
        assembly.add_chunk({"choices": [{"delta": delta}]})
    if finish:
        assembly.add_chunk({"choices": [{"delta": {}, "finish_reason": finish}]})
    return assembly.reply("m", taken)


def calls_of(*pieces: dict[str, Any], **kwargs: Any) -> list[tuple[str, str, str]]:
    reply = assemble(*({"tool_calls": [piece]} for piece in pieces), **kwargs)
    return [(call.call_id, call.name, call.arguments) for call in reply.calls]


def piece(index: Any = None, id: str = "", name: str = "", args: Any = None) -> dict[str, Any]:
    function = {"name": name} if name else {}
    if args is not None:
        function["arguments"] = args
    found: dict[str, Any] = {"function": function}
    if index is not None:
        found["index"] = index
    if id:
        found["id"] = id
    return found


def test_the_first_text_goes_on_at_once_and_the_rest_once_per_flush() -> None:
    sink = Collector()
    assembly = Assembly(sink)
    for text in ("a", "b", "c"):
        assembly.add_chunk({"choices": [{"delta": {"content": text}}]})
    assembly.flush()
    assembly.add_chunk({"choices": [{"delta": {"content": "d"}}]})

    reply = assembly.reply("m")

    assert sink.deltas == ["a", "bc", "d"]
    assert reply.text == "abcd"
    assert reply.finish_reason == "stop"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_is_a_sign_of_life_and_never_text(field: str) -> None:
    sink = Collector()
    assembly = Assembly(sink)

    assembly.add_chunk({"choices": [{"delta": {field: "hmm", "content": None}}]})
    assembly.flush()

    assert (sink.deltas, sink.lives) == ([], 1)
    assert assembly.reply("m").text == ""


def test_content_in_parts_leaves_out_the_reasoning() -> None:
    parts = [{"type": "thinking", "thinking": "hmm"}, {"type": "text", "text": "yes"}]

    assert assemble({"content": parts}).text == "yes"


def test_a_refusal_is_shown() -> None:
    assert assemble({"refusal": "I will not."}).text == "I will not."


def test_pieces_of_calls_are_joined_by_their_index() -> None:
    found = calls_of(
        piece(0, "a", "one", ""),
        piece(1, "b", "two", ""),
        piece(0, args='{"x":'),
        piece(1, args="{}"),
        piece(0, args="1}"),
        finish="tool_calls",
    )

    assert found == [("a", "one", '{"x":1}'), ("b", "two", "{}")]


def test_text_and_calls_in_one_delta_are_both_kept() -> None:
    reply = assemble({"content": "Let me see.", "tool_calls": [piece(0, "a", "one", "{}")]})

    assert reply.text == "Let me see."
    assert [call.name for call in reply.calls] == ["one"]


def test_whole_calls_that_all_have_index_0_are_several() -> None:
    found = calls_of(piece(0, "a", "one", "{}"), piece(0, "b", "one", "{}"))

    assert [call[0] for call in found] == ["a", "b"]


def test_whole_calls_without_ids_and_index_get_an_id_each() -> None:
    found = calls_of(piece(name="one", args={"x": 1}), piece(name="one", args={"x": 2}))

    assert [json.loads(call[2]) for call in found] == [{"x": 1}, {"x": 2}]
    assert all(call[0].startswith("call_") for call in found)
    assert found[0][0] != found[1][0]


def test_whole_calls_without_ids_at_index_0_are_several() -> None:
    found = calls_of(piece(0, name="one", args='{"x": 1}'), piece(0, name="one", args='{"x": 2}'))

    assert [json.loads(call[2]) for call in found] == [{"x": 1}, {"x": 2}]


def test_a_server_that_repeats_id_and_name_sends_one_call() -> None:
    found = calls_of(
        piece(0, "a", "one", '{"x"'), piece(0, "a", "one", ": 1"), piece(0, "a", "one", "}")
    )

    assert found == [("a", "one", '{"x": 1}')]


def test_a_new_id_without_a_name_continues_the_call() -> None:
    found = calls_of(piece(0, "a", "one", '{"x"'), piece(0, "zz", args=": 1}"))

    assert found == [("a", "one", '{"x": 1}')]


def test_pieces_without_an_index_follow_the_last_call() -> None:
    found = calls_of(piece(id="a", name="one", args='{"x"'), piece(args=": 1}"))

    assert found == [("a", "one", '{"x": 1}')]


def test_the_form_before_parallel_calls_is_understood() -> None:
    reply = assemble(
        {"function_call": {"name": "one", "arguments": '{"x"'}},
        {"function_call": {"arguments": ": 1}"}},
    )

    assert [(call.name, call.arguments) for call in reply.calls] == [("one", '{"x": 1}')]


def test_ids_are_unique_in_the_message_and_in_the_conversation() -> None:
    found = calls_of(
        piece(0, "a", "one", "{}"),
        piece(1, "a", "two", "{}"),
        piece(2, "old", "x", "{}"),
        taken=("old",),
    )

    ids = [call[0] for call in found]
    assert ids[0] == "a"
    assert len(set(ids)) == 3 and "old" not in ids


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert calls_of(piece(0, "a", "one")) == [("a", "one", "{}")]


def test_an_empty_call_is_no_call() -> None:
    assert assemble({"content": "hi", "tool_calls": [{"index": 0, "function": {}}]}).calls == ()


def test_a_stream_that_ends_inside_a_call_is_a_failure() -> None:
    with pytest.raises(ModelFailed, match="broke off inside a tool call") as caught:
        calls_of(piece(0, "a", "one", '{"x": '), finish="")
    assert caught.value.retryable

    with pytest.raises(ModelFailed) as caught:
        assemble({"content": "hi"}, {"tool_calls": [piece(0, args="{}")]})
    assert not caught.value.retryable


def test_malformed_arguments_of_a_finished_answer_are_the_models_words() -> None:
    assert calls_of(piece(0, "a", "one", "{x: 1"), finish="tool_calls") == [("a", "one", "{x: 1")]


def test_finish_reasons_are_kept_or_deduced() -> None:
    assert assemble({"content": "hi"}, finish="length").finish_reason == "length"
    assert assemble({"content": "hi"}, finish="").finish_reason == "stop"
    call = {"tool_calls": [piece(0, "a", "one", "{}")]}
    assert assemble(call, finish="").finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, Usage(10, 2)),
        ({"input_tokens": 10, "output_tokens": 2}, Usage(10, 2)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
            Usage(10, 2, 4),
        ),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 3}, Usage(10, 0, 3)),
        ({"prompt_tokens": None, "completion_tokens": "x"}, Usage()),
        ({"prompt_tokens": -5}, Usage()),
    ],
)
def test_usage_is_read_in_every_dialect(usage: dict[str, Any], expected: Usage) -> None:
    assert read_usage(usage) == expected
