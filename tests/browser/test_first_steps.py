"""The walk that docs/first-steps.md tells, as a newcomer takes it with a browser alone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from support import first_steps
from support.boutique import Boutique, running_boutique
from support.platform import private_folder
from support.shopper import Door

DOCUMENT = Path(__file__).parents[2] / "docs/first-steps.md"


@pytest.fixture
async def newcomer(browser: Browser) -> AsyncIterator[tuple[Boutique, Door]]:
    """A demo of one's own, as `make run` starts it."""
    with private_folder() as folder:
        async with running_boutique(folder) as store:
            door = Door(browser, store.base_url)
            yield store, door
            await door.close()
            await store.assert_books_balance()


async def test_a_newcomer_sells_and_is_paid_out_with_a_browser_alone(
    newcomer: tuple[Boutique, Door],
) -> None:
    store, door = newcomer
    taken: list[str] = []

    async def camera(_page: Page, step: str) -> None:
        taken.append(step)

    await first_steps.walk(door, store.running.ready["dashboard"], camera)
    assert tuple(taken) == first_steps.STEPS


def test_the_document_shows_every_step_in_its_order() -> None:
    text = DOCUMENT.read_text()
    places = [text.index(f"images/first-steps/{step}.webp") for step in first_steps.STEPS]
    assert places == sorted(places)
    for step in first_steps.STEPS:
        assert (DOCUMENT.parent / f"images/first-steps/{step}.webp").exists(), step
