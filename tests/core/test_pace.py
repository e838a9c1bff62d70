from __future__ import annotations

import asyncio

from protoagent.core import clock
from protoagent.core.pace import MAX_WAIT_S, pace


async def test_nobody_waits_when_nothing_begins():
    began = clock.monotonic()

    await pace().give_way()

    assert clock.monotonic() - began < MAX_WAIT_S / 2


async def test_what_goes_on_waits_for_the_last_that_begins():
    order: list[str] = []

    async def relay() -> None:
        await pace().give_way()
        order.append("relay")

    first, second = pace().begin(), pace().begin()
    task = asyncio.create_task(relay())
    await asyncio.sleep(0)
    first.end()
    first.end()
    await asyncio.sleep(0.002)
    order.append("second ends")
    second.end()
    await task

    assert order == ["second ends", "relay"]


async def test_a_beginning_that_does_not_end_holds_nobody_for_long():
    with pace().begin():
        began = clock.monotonic()
        await pace().give_way()
        waited_s = clock.monotonic() - began

    assert MAX_WAIT_S * 0.8 <= waited_s < 1


async def test_a_failed_beginning_has_ended():
    try:
        with pace().begin():
            raise ValueError
    except ValueError:
        pass

    began = clock.monotonic()
    await pace().give_way()
    assert clock.monotonic() - began < MAX_WAIT_S / 2


async def test_who_is_cancelled_while_waiting_is_forgotten():
    beginning = pace().begin()
    task = asyncio.create_task(pace().give_way())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    beginning.end()

    assert task.cancelled()
