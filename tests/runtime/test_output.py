"""Thinking never reaches the answer, however it is cut into deltas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoagent.runtime.output import ThinkingFilter


def shown(*deltas: str) -> str:
    answer = ThinkingFilter()
    return "".join(answer.feed(delta) for delta in deltas) + answer.flush()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("<think>secret</think>Hello", "Hello"),
        ("a <think>b</think> c <scratch_pad>d</scratch_pad>e", "a  c e"),
        ("cut <think>off", "cut "),
        ("<THINK>x</Think>y", "y"),
        ("the tag `<think>` is shown", "the tag `<think>` is shown"),
        ("1 < 2 and <b>", "1 < 2 and <b>"),
        ("ends with <thi", "ends with <thi"),
        ("<<think>x</think>think>y", "<think>y"),
        ("<thinking>no</thinking>", "<thinking>no</thinking>"),
        ("<<think>a</think>think>", "<think>"),
    ],
)
def test_thinking_is_taken_out(text, expected):
    assert shown(text) == expected


@given(st.data())
def test_the_cuts_between_deltas_change_nothing(data):
    text = "".join(
        data.draw(
            st.lists(
                st.sampled_from(
                    ["<think>", "</think>", "`", "<", "a", "think>", "<scratch_pad>", "/"]
                ),
                max_size=12,
            )
        )
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert shown(*parts) == shown(text)


def test_ordinary_text_is_never_held_back():
    answer = ThinkingFilter()

    assert [answer.feed(part) for part in ("He", "llo ", "world")] == ["He", "llo ", "world"]
