"""S25, as far as tools reach: work is bounded, and off the event loop where it takes time."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
import zlib

import pytest

from protoagent.core import arithmetic
from protoagent.core.errors import BadValue
from protoagent.internet.fetch import fetch
from protoagent.internet.readable import readable
from protoagent.security import egress
from protoagent.security.egress import EgressPolicy
from tests.core.test_arithmetic import HOSTILE, ORDINARY

URL = "http://public.example/bomb"
OPEN = EgressPolicy()
MIB = 1024 * 1024


def bomb(megabytes):
    """A thousand times as large when unpacked."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    zeros = bytes(MIB)
    return b"".join(packer.compress(zeros) for _ in range(megabytes)) + packer.flush()


def test_hostile_and_ordinary_expressions_are_answered_in_100_ms_together():
    def run():
        began = time.perf_counter()
        for expression in [*HOSTILE, *ORDINARY]:
            try:
                arithmetic.answer(expression)
            except BadValue:
                assert expression in HOSTILE
        return time.perf_counter() - began

    assert len(HOSTILE) == len(ORDINARY) == 20
    assert min(run() for _ in range(5)) < 0.1


async def test_a_gzip_bomb_gives_two_megabytes_and_little_memory(web):
    packed = bomb(500)
    assert len(packed) < MIB
    headers = {"Content-Encoding": "gzip"}
    web.page(URL, packed, content_type="application/octet-stream; x=text", headers=headers)

    tracemalloc.start()
    async with (
        egress.client(OPEN, resolve=web.resolve, network=web) as http,
        egress.get(http, URL) as response,
    ):
        body = await egress.read_capped(response, 2_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (len(body.data), body.is_cut) == (2_000_000, True)
    assert peak < 12 * MIB


async def test_a_bomb_inside_a_bomb_is_not_unpacked(web):
    packed = gzip.compress(bomb(100))
    web.page(URL, packed, headers={"Content-Encoding": "gzip, gzip"})

    with pytest.raises(Exception, match="the server packed its answer as 'gzip, gzip'"):
        await fetch(URL, OPEN, resolve=web.resolve, network=web)


async def test_reading_a_bomb_as_it_comes_gives_small_pieces(web):
    web.page(URL, bomb(20), headers={"Content-Encoding": "gzip"})
    sizes = []

    async with (
        egress.client(OPEN, resolve=web.resolve, network=web) as http,
        egress.get(http, URL) as response,
    ):
        async for piece in response.aiter_raw():
            sizes.append(len(piece))

    assert sum(sizes) == 20 * MIB
    assert max(sizes) <= 64 * 1024


async def test_a_page_of_open_elements_does_not_hold_up_the_event_loop(web):
    web.page(URL, "<div>" * 400_000)
    worst = 0.0

    async def watch():
        nonlocal worst
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.001)
            worst = max(worst, loop.time() - before)

    watcher = asyncio.create_task(watch())
    began = time.perf_counter()
    page = await fetch(URL, OPEN, resolve=web.resolve, network=web)
    took = time.perf_counter() - began
    watcher.cancel()

    assert page.text == ""
    assert took < 15
    assert worst < took / 2


def test_deep_markup_is_no_deep_recursion():
    assert readable("<div>" * 100_000 + "text") == "text"
