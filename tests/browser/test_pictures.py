"""Merchants' pictures and looks on the real page: re-hosted, in their place, by version."""

from io import BytesIO

import pytest
from msgspec.structs import replace
from PIL import Image

from support.boutique import Boutique
from support.chromium import DESKTOP, PHONE, Screen
from support.shopper import Door
from support.sink import running_sink
from vintem.checkout.model import Appearance, Banner, Theme
from vintem.checkout.pictures import rehosting, with_pictures
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.outbound import Outbound

SIZES = {"/logo.png": (600, 200), "/1.png": (1_000, 300), "/2.png": (900, 400), "/3.png": (50, 50)}


@pytest.fixture(scope="module")
async def pictured(store: Boutique) -> Appearance:
    """A look with a logo and three banners, fetched from the merchant's own server."""
    outbound = Outbound()
    async with running_sink() as merchant:
        for path, size in SIZES.items():
            written = BytesIO()
            Image.new("RGB", size, (40, 90, 160)).save(written, "PNG")
            merchant.serve(path, 200, written.getvalue())
        rehost = rehosting(
            store.database, outbound, store.scope, now=utc_now(), allows_loopback=True
        )
        banners = tuple(
            Banner(number, merchant.url(f"/{number}.png"), alt_text=f"Aviso {number}",
                   href="https://loja.example/ofertas", title="Ofertas")
            for number in (1, 2, 3)
        )  # fmt: skip
        wanted = Appearance(
            0, "Loja Ilustrada", logo_url=merchant.url("/logo.png"), banners=banners
        )
        kept = await with_pictures(wanted, rehost)
        wrong = replace(wanted, logo_url=merchant.url("/nowhere"))
        merchant.answer("/nowhere", 404)
        with pytest.raises(Refusal) as caught:
            await with_pictures(wrong, rehost)
        assert caught.value.code is ErrorCode.INVALID_URL
    await outbound.close()
    return replace(
        kept,
        logo_url="https://loja.example/logo.png",
        banners=tuple(replace(one, image_url="https://loja.example/b.png") for one in kept.banners),
    )


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
async def test_pictures_come_from_us_and_keep_their_place(
    door: Door, store: Boutique, pictured: Appearance, screen: Screen
) -> None:
    await store.show(pictured)
    visit = await store.open_session()
    await store.publish()
    buyer = await door.enter(visit, screen)
    pictures = buyer.page.locator("img")
    assert await pictures.count() == 4
    for number in range(4):
        picture = pictures.nth(number)
        await picture.scroll_into_view_if_needed()
        await buyer.page.wait_for_function(
            "one => one.complete", arg=await picture.element_handle()
        )
        seen = await picture.evaluate(
            "one => ({source: one.getAttribute('src'), natural: [one.naturalWidth,"
            " one.naturalHeight], told: ['width', 'height'].map(name =>"
            " Number(one.getAttribute(name)))})"
        )
        assert seen["source"].startswith("/media/")
        assert seen["natural"] == seen["told"]
    for link in await buyer.page.locator(".banners a").all():
        assert await link.get_attribute("rel") == "noopener noreferrer nofollow"
        assert await link.get_attribute("href") == "https://loja.example/ofertas"


async def test_a_session_keeps_the_look_that_it_was_opened_with(
    door: Door, store: Boutique
) -> None:
    async def colour_of(url: str) -> object:
        buyer = await door.enter(url, DESKTOP)
        return await buyer.page.locator(".btn.primary").evaluate(
            "one => getComputedStyle(one).backgroundColor"
        )

    await store.publish(primary_color="#b00020", theme=Theme.LIGHT)
    before = await store.open_session()
    await store.publish(primary_color="#1652f0", theme=Theme.LIGHT)
    after = await store.open_session()
    await store.publish()
    assert await colour_of(before.url) == "rgb(176, 0, 32)"
    assert await colour_of(after.url) == "rgb(22, 82, 240)"


@pytest.mark.parametrize(
    "colour", ["red;}", "#fff", "red", "#12345g", "#1652f0;}*{}", "", "url(x)"]
)
async def test_what_is_no_colour_is_refused(store: Boutique, colour: str) -> None:
    for field in ("primary_color", "background_color"):
        with pytest.raises(Refusal) as caught:
            await store.publish(**{field: colour})
        assert caught.value.code is ErrorCode.VALIDATION_ERROR
