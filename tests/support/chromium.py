"""Debian's Chromium with the fonts of a phone, and pages that are held to what they promise."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    async_playwright,
)

from support import debian

# The same browser with and without the parts that only a window needs; without, it takes two thirds
# of the time. A Debian of some years ago has only the other.
PROGRAMS = (Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium"))
# Roboto is what most buyers' phones show; Liberation has Arial's measures, DejaVu has the rest.
# Playwright's driver needs libatomic, which a bare machine does not have.
PACKAGES = (
    "libatomic1",
    "fonts-roboto-unhinted",
    "fonts-liberation",
    "fonts-dejavu-core",
    "fonts-noto-color-emoji",
)
FONTS = Path(__file__).with_name("fonts.conf")
FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
)
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]
AXE_COLOURS = ["color-contrast", "link-in-text-block"]
TEXT_CONTRAST_MIN = 4.5
SHAPE_CONTRAST_MIN = 3.0
RGB = re.compile(r"rgb\((\d+), (\d+), (\d+)\)")
# Axe comes into every frame, also into the preview of a page, where no script runs.
NO_SCRIPT = re.compile(r"Blocked script execution in '[^']*/appearance/frame\?")
FAILED_LOAD = re.compile(r"Failed to load resource: the server responded with a status of (\d{3})")


@dataclass(frozen=True)
class Screen:
    """A device that a page is shown on."""

    width: int
    height: int
    scale: float = 1.0
    is_phone: bool = False


PHONE = Screen(360, 740, 2.0, is_phone=True)
DESKTOP = Screen(1280, 800)


def find_or_install() -> None:
    """Have Chromium and its fonts; skip where only somebody else could install them."""
    if debian.can_install():
        faults = []
        for program in PROGRAMS:
            fault = debian.install((program.name, *PACKAGES))
            if not fault:
                return
            faults.append(fault)
        pytest.fail(f"Chromium could not be installed: {faults}")
    elif not any(program.exists() for program in PROGRAMS):
        names = " ".join((PROGRAMS[0].name, *PACKAGES))
        pytest.skip(f"Chromium is not installed: apt-get install {names}")


@asynccontextmanager
async def running_chromium() -> AsyncIterator[Browser]:
    """A browser without a window, as a buyer's."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=next(program for program in PROGRAMS if program.exists()),
            args=list(FLAGS),
            # Buyers' browsers keep the page that one comes back to.
            ignore_default_args=["--disable-back-forward-cache"],
            env={"FONTCONFIG_FILE": str(FONTS), "HOME": "/tmp", "TZ": "UTC"},
        )
        yield browser
        await browser.close()


@dataclass
class Watch:
    """What a page must not do: report an error, break its own policy, call a stranger."""

    origins: set[str]
    complaints: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)
    """Answers other than 2xx and 3xx that the test is about."""
    is_offline: bool = False
    """Calls fail, and are reported, because the test has cut the line."""

    def follow(self, context: BrowserContext) -> None:
        context.on("console", self._hear)
        context.on("weberror", lambda error: self.complaints.append(f"script: {error.error}"))
        context.on("request", self._see)

    def assert_clean(self) -> None:
        assert self.complaints == [], self.complaints

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        failed = FAILED_LOAD.match(message.text)
        if failed is not None and int(failed[1]) in self.statuses:
            return
        if NO_SCRIPT.match(message.text):
            return
        if self.is_offline and "net::ERR_" in message.text:
            return
        self.complaints.append(f"console: {message.text} ({message.location.get('url')})")

    def _see(self, request: Request) -> None:
        self.requests.append(request)
        parts = urlsplit(request.url)
        is_ours = parts.scheme in {"data", "blob", "about"}
        if not is_ours and f"{parts.scheme}://{parts.netloc}" not in self.origins:
            self.complaints.append(f"stranger: {request.url}")


async def bring_axe(context: BrowserContext) -> None:
    """Let every page of a context know axe from its start: to send it to each takes longer."""
    await context.add_init_script(AXE)


async def axe_complaints(page: Page, *, only_colours: bool = False) -> list[str]:
    """What axe has to say against a page; also what it could not decide, unless we can."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE)
    found: Any = await page.evaluate(
        "wanted => axe.run(document, {runOnly: wanted, resultTypes: ['violations', 'incomplete']})",
        {"type": "rule", "values": AXE_COLOURS} if only_colours else AXE_TAGS,
    )
    return [
        f"{kind}: {rule['id']}: {node['target']} {node['html'][:160]} {node.get('failureSummary')}"
        for kind in ("violations", "incomplete")
        for rule in found[kind]
        for node in rule["nodes"]
        if kind == "violations" or not await _is_known(page, rule["id"], node)
    ]


async def _is_known(page: Page, rule: str, node: Any) -> bool:
    """Decide what axe leaves open: a list whose arrow is a picture in its background, and a frame
    in which no script may run, axe neither; what it shows is tested as a page of its own.
    """
    if rule == "frame-tested":
        return " sandbox" in node["html"].partition(">")[0]
    reasons = {each["data"]["messageKey"] for each in node["any"] if each.get("data")}
    if rule != "color-contrast" or reasons != {"bgGradient"} or len(node["target"]) != 1:
        return False
    colours = await page.locator(node["target"][0]).evaluate(
        """one => {
            if (one.tagName !== 'SELECT') return null;
            let ground = one;
            while (getComputedStyle(ground).backgroundColor === 'rgba(0, 0, 0, 0)') {
                ground = ground.parentElement;
            }
            return [getComputedStyle(one).color, getComputedStyle(ground).backgroundColor];
        }"""
    )
    return bool(colours) and contrast(*colours) >= TEXT_CONTRAST_MIN


def contrast(one: str, other: str) -> float:
    """The ratio in which two colours of a style differ in light, 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    found = RGB.fullmatch(colour)
    assert found is not None, f"{colour} is not opaque"
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (int(part) / 255 for part in found.groups())
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
