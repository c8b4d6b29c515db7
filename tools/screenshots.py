"""Takes the pictures of docs/images/checkout again: every state of the page, phone and desktop."""

import asyncio
import sys
from io import BytesIO
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.async_api import Browser

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import chromium
from support.chromium import DESKTOP, PHONE, Screen
from support.showcase import Showcase, running_showcase

FOLDER: Final = ROOT / "docs/images/checkout"
COVER: Final = ROOT / "docs/images/checkout.webp"
STATES: Final = (
    "open",
    "open_card",
    "declined",
    "pix_shown",
    "pix_expired",
    "boleto_shown",
    "processing",
    "in_review",
    "paid",
    "expired",
    "cancelled",
    "not_found",
    "error",
    "link_landing",
    "link_inactive",
)
SCREENS: Final = {"phone": PHONE, "desktop": DESKTOP}
WIDTHS_MAX: Final = {"phone": 540, "desktop": 1_280}
DARK: Final = ("pix_shown",)
QUALITY: Final = 70
COVER_HEIGHT: Final = 800
COVER_GAP: Final = 40
COVER_GROUND: Final = (228, 232, 238)


async def main() -> None:
    """Have a browser, and take every picture."""
    chromium.find_or_install()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.webp"):
        old.unlink()
    async with chromium.running_chromium() as browser, running_showcase() as showcase:
        for device, screen in SCREENS.items():
            for state in STATES:
                await take(browser, showcase, state, "light", device, screen)
            for state in DARK:
                await take(browser, showcase, state, "dark", device, screen)
        desktop = await picture(
            browser, showcase.url("open_card", "light"), DESKTOP, is_whole=False
        )
        phone = await picture(browser, showcase.url("pix_shown", "light"), PHONE, is_whole=False)
    save(beside(desktop, phone), COVER)


async def take(
    browser: Browser, showcase: Showcase, state: str, theme: str, device: str, screen: Screen
) -> None:
    """Take one picture and keep it."""
    shown = await picture(browser, showcase.url(state, theme), screen, is_whole=True)
    shown.thumbnail((WIDTHS_MAX[device], shown.height))
    suffix = "" if theme == "light" else f"-{theme}"
    save(shown, FOLDER / f"{state}-{device}{suffix}.webp")


async def picture(browser: Browser, url: str, screen: Screen, *, is_whole: bool) -> Image.Image:
    """Show a page and look at it once everything on it has come to rest."""
    context = await browser.new_context(
        viewport={"width": screen.width, "height": screen.height},
        device_scale_factor=screen.scale,
        is_mobile=screen.is_phone,
        has_touch=screen.is_phone,
        locale="pt-BR",
        reduced_motion="reduce",
    )
    page = await context.new_page()
    await page.goto(url.replace("&test", "&still"))
    shot = await page.screenshot(full_page=is_whole)
    await context.close()
    with Image.open(BytesIO(shot)) as shown:
        return shown.convert("RGB")


def beside(desktop: Image.Image, phone: Image.Image) -> Image.Image:
    """Put a phone before a desktop, both of one height."""
    small = phone.resize((phone.width * COVER_HEIGHT // phone.height, COVER_HEIGHT))
    width = desktop.width + small.width + 3 * COVER_GAP
    cover = Image.new("RGB", (width, COVER_HEIGHT + 2 * COVER_GAP), COVER_GROUND)
    cover.paste(desktop.crop((0, 0, desktop.width, COVER_HEIGHT)), (COVER_GAP, COVER_GAP))
    cover.paste(small, (desktop.width + 2 * COVER_GAP, COVER_GAP))
    return cover


def save(shown: Image.Image, file: Path) -> None:
    """Write a picture small."""
    shown.save(file, "WEBP", quality=QUALITY, method=6)


if __name__ == "__main__":
    asyncio.run(main())
