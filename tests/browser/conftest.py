"""One Chromium and one shop a test process; every page a test opens must stay clean."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from support import chromium
from support.boutique import Boutique, running_boutique
from support.platform import private_folder
from support.shopper import Door
from support.showcase import Showcase, running_showcase

# A browser takes much of a machine that others use too.
TEST_SECONDS_MAX = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TEST_SECONDS_MAX))


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    await asyncio.to_thread(chromium.find_or_install)
    async with chromium.running_chromium() as running:
        yield running


@pytest.fixture(scope="session")
async def store() -> AsyncIterator[Boutique]:
    """The shop; at the end of all, its books must balance."""
    with private_folder() as folder:
        async with running_boutique(folder) as running:
            yield running
            await running.assert_books_balance()


@pytest.fixture(scope="session")
async def showcase() -> AsyncIterator[Showcase]:
    async with running_showcase() as running:
        yield running


@pytest.fixture
async def hall(browser: Browser, showcase: Showcase) -> AsyncIterator[Door]:
    """Where one comes in to look at sample pages."""
    opened = Door(browser, showcase.base_url)
    yield opened
    await opened.close()


@pytest.fixture
async def door(browser: Browser, store: Boutique) -> AsyncIterator[Door]:
    """Where buyers come in; what their browsers reported is looked at when they have left."""
    opened = Door(browser, store.base_url)
    yield opened
    await opened.close()
