"""One Chromium a test process; for every test a context that must stay clean."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from support import chromium


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    await asyncio.to_thread(chromium.find_or_install)
    async with chromium.running_chromium() as running:
        yield running
