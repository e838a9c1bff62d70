"""Events out of bytes, however the network cuts them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoagent.core.errors import ModelFailed
from protoagent.providers import sse
from protoagent.providers.sse import EventSplitter


def split(*reads: bytes) -> list[bytes]:
    splitter = EventSplitter()
    return [event for read in reads for event in splitter.feed(read)] + splitter.finish()


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b": keep-alive\n\ndata: a\n\n", [b"a"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b'data: {"a":1}\ndata: {"b":2}\n\n', [b'{"a":1}', b'{"b":2}']),
        (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\n\ndata: b", [b"a", b"b"]),
        (b"data\n\n", [b""]),
        (b"dataset: no\n\n", []),
        (b"", []),
    ],
)
def test_a_stream_gives_its_events(stream: bytes, events: list[bytes]) -> None:
    assert split(stream) == events


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\r\n")), max_size=8),
    ending=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(0, 400), max_size=20),
)
def test_no_cut_changes_an_event(texts: list[str], ending: bytes, cuts: list[int]) -> None:
    expected = [text.encode("utf-8", "surrogatepass") for text in texts]
    stream = b"".join(b"data: " + event + ending + ending for event in expected)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]

    events = split(*(stream[a:b] for a, b in itertools.pairwise(places)))

    assert events == expected


def test_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    splitter = EventSplitter()

    with pytest.raises(ModelFailed, match="without end"):
        for _ in range(20):
            splitter.feed(b"data: " + b"x" * 100)
