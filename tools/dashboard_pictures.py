"""Takes the pictures of the dashboard again: the first steps, and every page of the menu."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.async_api import Browser, Page

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import chromium, first_steps
from support.chromium import DESKTOP, PHONE, Screen
from support.first_steps import Member
from support.platform import demo
from support.shopper import Door
from vintem.dashboard.menu import MENU

STEPS: Final = ROOT / "docs/images/first-steps"
PAGES: Final = ROOT / "docs/images/dashboard"
SCREENS: Final = {"phone": PHONE, "desktop": DESKTOP}
WIDTHS_MAX: Final = {"phone": 480, "desktop": 1_100}
HEIGHT_MAX: Final = 1_800
QUALITY: Final = 62


async def main() -> None:
    """Have a browser and a demo, walk the first steps, then look at every page."""
    chromium.find_or_install()
    for folder in (STEPS, PAGES):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.webp"):
            old.unlink()
    with tempfile.TemporaryDirectory() as name:
        os.environ["TEST_LOG_FOLDER"] = name
        async with (
            chromium.running_chromium() as browser,
            demo(Path(name) / "data", is_first=True) as running,
        ):
            door = Door(browser, running.ready["baseUrl"])
            await first_steps.walk(door, running.ready["dashboard"], take_step)
            owner = await first_steps.sign_in(door, running.ready["dashboard"])
            await take_pages(browser, owner)
            await door.close()


async def take_step(page: Page, step: str) -> None:
    """Keep what a step has come to, as far as a screen shows it."""
    keep(await page.screenshot(), STEPS / f"{step}.webp", WIDTHS_MAX["desktop"])


async def take_pages(browser: Browser, owner: Member) -> None:
    """Keep every page of the menu, on both screens."""
    cookies = await owner.page.context.cookies()
    for device, screen in SCREENS.items():
        context = await browser.new_context(**options(screen))  # type: ignore[arg-type]
        await context.add_cookies(cookies)  # type: ignore[arg-type]
        page = await context.new_page()
        for path in menu_paths():
            await page.goto(f"{owner.base_url}/dashboard/test{path}")
            shown = path[1:] or "home"
            keep(
                await page.screenshot(full_page=True),
                PAGES / f"{shown}-{device}.webp",
                WIDTHS_MAX[device],
            )
        await context.close()


def options(screen: Screen) -> dict[str, object]:
    """How a browser shows pages on a screen."""
    return {
        "viewport": {"width": screen.width, "height": screen.height},
        "device_scale_factor": screen.scale,
        "is_mobile": screen.is_phone,
        "locale": "pt-BR",
        "reduced_motion": "reduce",
    }


def menu_paths() -> Sequence[str]:
    """Every page that has a place in the menu."""
    return [item.path for section in MENU for item in section.items]


def keep(shot: bytes, file: Path, width_max: int) -> None:
    """Write a picture small."""
    with Image.open(BytesIO(shot)) as shown:
        picture = shown.convert("RGB")
    picture.thumbnail((width_max, picture.height))
    picture.crop((0, 0, picture.width, min(picture.height, HEIGHT_MAX))).save(
        file, "WEBP", quality=QUALITY, method=6
    )


if __name__ == "__main__":
    asyncio.run(main())
