"""A buyer in front of a real browser: comes in by a door, types, presses, reads."""

import time
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from PIL import Image
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from support.boutique import CPF, Visit
from support.chromium import PHONE, Screen, Watch
from support.codes import read_codes

# How long anything may take before a test gives up; what is promised about time is tested apart.
STEP_SECONDS_MAX = 30.0
expect.set_options(timeout=STEP_SECONDS_MAX * 1_000)


@dataclass
class Door:
    """Opens contexts, and closes them with a look at what they reported."""

    browser: Browser
    base_url: str
    contexts: list[tuple[BrowserContext, Watch]] = field(default_factory=list)

    async def context(
        self,
        screen: Screen = PHONE,
        *,
        theme: str = "light",
        locale: str = "pt-BR",
        strangers: tuple[str, ...] = (),
        **options: Any,
    ) -> tuple[BrowserContext, Watch]:
        context = await self.browser.new_context(
            viewport={"width": screen.width, "height": screen.height},
            device_scale_factor=screen.scale,
            is_mobile=screen.is_phone,
            has_touch=screen.is_phone,
            color_scheme=theme,  # type: ignore[arg-type]
            locale=locale,
            # A wrong zone must change nothing: times are Brasilia's.
            timezone_id=options.pop("timezone_id", "Asia/Tokyo"),
            **options,
        )
        context.set_default_timeout(STEP_SECONDS_MAX * 1_000)
        watch = Watch({self.base_url, *strangers})
        watch.follow(context)
        self.contexts.append((context, watch))
        return context, watch

    async def enter(
        self, visit: Visit | str, screen: Screen = PHONE, *, status: int = 200, **options: Any
    ) -> "Shopper":
        """Open a page, which must answer with a status."""
        context, watch = await self.context(screen, **options)
        if status >= 400:
            watch.statuses.add(status)
        page = await context.new_page()
        url = visit.url if isinstance(visit, Visit) else visit
        response = await page.goto(url)
        assert response is not None
        assert response.status == status, await page.content()
        return Shopper(page, context, watch)

    async def close(self) -> None:
        for context, _ in self.contexts:
            await context.close()
        for _, watch in self.contexts:
            watch.assert_clean()


@dataclass
class Shopper:
    """A buyer's page."""

    page: Page
    context: BrowserContext
    watch: Watch

    @property
    def heading(self) -> Locator:
        return self.page.locator("h1")

    @property
    def state(self) -> Locator:
        return self.page.locator("main")

    async def sees(self, heading: str, *, seconds: float = STEP_SECONDS_MAX) -> None:
        """Wait for the one heading of the page."""
        await expect(self.heading).to_have_text(heading, timeout=seconds * 1_000)

    async def sees_state(self, state: str, *, seconds: float = STEP_SECONDS_MAX) -> None:
        await expect(self.state).to_have_attribute("data-state", state, timeout=seconds * 1_000)

    async def reads(self, text: str) -> None:
        await expect(self.page.locator("main")).to_contain_text(text)

    async def fill_in(
        self, *, name: str = "Maria da Silva", email: str = "maria@example.com", document: str = CPF
    ) -> None:
        """Type who one is, key by key."""
        for field_name, value in (("name", name), ("email", email), ("document", document)):
            await self.page.locator(f"#f-{field_name}").fill("")
            await self.page.locator(f"#f-{field_name}").press_sequentially(value)

    async def choose(self, method: str) -> None:
        await self.page.locator(f"label[for=m-{method}]").click()

    async def fill_in_card(
        self, number: str, *, expiry: str = "1231", code: str = "123", name: str = ""
    ) -> None:
        await self.page.locator("#f-cc_number").fill("")
        await self.page.locator("#f-cc_number").press_sequentially(number)
        await self.page.locator("#f-cc_exp").fill("")
        await self.page.locator("#f-cc_exp").press_sequentially(expiry)
        await self.page.locator("#f-cc_csc").fill(code)
        if name or not await self.page.locator("#f-cc_name").input_value():
            await self.page.locator("#f-cc_name").fill(name or "MARIA DA SILVA")

    async def press_pay(self) -> None:
        await self.page.locator("form[data-pay] button.primary").click()

    async def until_paid(self, *, since: float) -> float:
        """How many seconds after a moment the page says that it is paid."""
        await self.sees("Pagamento confirmado")
        return time.monotonic() - since

    async def codes_in(self, place: Locator) -> list[str]:
        """What a phone's camera reads there."""
        return codes_of(await place.screenshot())


def codes_of(picture: bytes) -> list[str]:
    """Every code in a picture."""
    with Image.open(BytesIO(picture)) as shown:
        return [code.text for code in read_codes(shown)]
