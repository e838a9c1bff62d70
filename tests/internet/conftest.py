"""Fixtures of the internet tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.fakes.web import FakeWeb, fake_web


@pytest_asyncio.fixture
async def web() -> AsyncIterator[FakeWeb]:
    async with fake_web() as web:
        yield web
