"""How the buyer's page looks: tried out without a script, published, brought back, copied."""

import html
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from io import BytesIO

import pytest
from aiohttp import web
from PIL import Image

from conftest import running_api
from support.api import Api, HttpReply, new_tenant
from support.desk import Desk, assert_fault, text_of
from support.sink import Sink, running_sink
from support.team import Browser, sign_in
from vintem.checkout import catalogue
from vintem.checkout.model import Appearance
from vintem.members.model import Role
from vintem.runtime.db import Database
from vintem.settings import Settings

LOOKS = {
    "display_name": "Loja do Zé",
    "theme": "AUTO",
    "primary_color": "#AA3300",
    "background_color": "#eeeeff",
}
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture(scope="module")
async def door(settings: Settings) -> AsyncIterator[Api]:
    async with running_api(replace(settings, allow_loopback_webhooks=True)) as running:
        yield running


@pytest.fixture(scope="module")
async def sink() -> AsyncIterator[Sink]:
    async def draw(_: web.Request) -> web.Response:
        written = BytesIO()
        Image.new("RGB", (60, 40), (200, 30, 60)).save(written, "PNG")
        return web.Response(body=written.getvalue(), content_type="image/png")

    async with running_sink() as running:
        running.behaviours["/logo.png"] = running.behaviours["/banner.png"] = draw
        running.answer("/none.png", 404)
        yield running


@pytest.fixture
async def desk(door: Api, database: Database) -> Desk:
    tenant = await new_tenant(database)
    return Desk(await sign_in(door, database, tenant, Role.DEVELOPER), database, tenant)


async def newest(desk: Desk, environment: str = "test") -> Appearance | None:
    scope = desk.scope if environment == "test" else desk.live
    return await catalogue.find_appearance(desk.database, scope)


async def framed(desk: Desk, reply: HttpReply) -> HttpReply:
    """The page inside the page."""
    found = re.search(r'<iframe src="([^"]*)"', reply.body.decode())
    assert found
    return await desk.browser.get(html.unescape(found[1]))


async def test_looks_are_tried_out_published_and_brought_back(desk: Desk) -> None:
    first = await desk.get("/appearance")
    assert "Nada publicado ainda" in text_of(first)
    tried = await desk.post("/appearance/preview", LOOKS)
    assert tried.status == 200
    inside = await framed(desk, tried)
    assert "Loja do Zé" in text_of(inside)
    assert "#aa3300" in inside.body.decode()
    assert await newest(desk) is None
    for number, color in enumerate(("#aa3300", "#00aa33", "#0033aa"), start=1):
        reply = await desk.post("/appearance", {**LOOKS, "primary_color": color})
        assert reply.headers["location"].endswith("/appearance?said=appearance-published")
        # Sent twice, it is published once.
        assert (await desk.post("/appearance", {**LOOKS, "primary_color": color})).status == 303
        published = await newest(desk)
        assert published is not None
        assert (published.version, published.primary_color) == (number, color)
    listed = text_of(await desk.get("/appearance?said=appearance-published"))
    assert "Aparência publicada" in listed
    assert "Cor principal: <bdi>#00aa33</bdi> → <bdi>#0033aa</bdi>" in listed
    older = text_of(await desk.get("/appearance/versions/1"))
    assert "Cor principal: <bdi>#0033aa</bdi> → <bdi>#aa3300</bdi>" in older
    assert (await desk.post("/appearance/versions/1/publish", {})).status == 303
    back = await newest(desk)
    assert back is not None
    assert (back.version, back.primary_color) == (4, "#aa3300")
    assert await desk.acts() == [
        ("appearance.published", str(number), "test") for number in range(1, 5)
    ]


async def test_a_wrong_field_is_named_and_nothing_is_published(desk: Desk, sink: Sink) -> None:
    wrong = [
        ("display_name", ""),
        ("display_name", "x" * 121),
        ("theme", "PINK"),
        ("primary_color", "red;}"),
        ("primary_color", "#12345"),
        ("background_color", "url(x)"),
        ("logo_url", "http://loja.example/logo.png"),
        ("logo_url", sink.url("/none.png")),
        ("banner1_image", "https://10.0.0.1/a.png"),
        ("banner2_href", "javascript:alert(1)"),
        ("banner2_title", "x" * 161),
        ("banner2_alt", "x" * 161),
    ]
    for field, text in wrong:
        banner = {"banner2_image": sink.url("/banner.png")} if "banner2" in field else {}
        for path in ("/appearance", "/appearance/preview"):
            reply = await desk.post(path, {**LOOKS, **banner, field: text})
            assert_fault(reply, field)
    assert_fault(await desk.post("/appearance", {**LOOKS, "banner3_title": "x"}), "banner3_image")
    assert await newest(desk) is None
    assert await desk.acts() == []


async def test_pictures_are_fetched_once_and_shown_from_our_own_copies(
    desk: Desk, sink: Sink
) -> None:
    pictured = {
        **LOOKS,
        "logo_url": sink.url("/logo.png"),
        "banner1_image": sink.url("/banner.png"),
        "banner1_alt": "Um violão",
        "banner1_href": "https://loja.example/aulas",
    }
    # While somebody types, nothing is fetched.
    csrf = {"csrf": await desk.browser.csrf()}
    arrived = len(sink.arrived)
    typing = await desk.browser.post_raw(
        "/dashboard/test/appearance/preview", {**csrf, **pictured}, **{"hx-request": "true"}
    )
    assert (typing.status, len(sink.arrived)) == (200, arrived)
    tried = await framed(desk, await desk.post("/appearance/preview", pictured))
    assert len(re.findall(rb'src="/media/[0-9a-f]{64}"', tried.body)) == 2
    assert (await desk.post("/appearance", pictured)).status == 303
    arrived = len(sink.arrived)
    assert (await desk.post("/appearance", {**pictured, "display_name": "Outra"})).status == 303
    assert len(sink.arrived) == arrived
    published = await newest(desk)
    assert published is not None
    assert published.logo_media is not None
    assert [(each.alt_text, each.href) for each in published.banners] == [
        ("Um violão", "https://loja.example/aulas")
    ]


async def test_only_the_form_shows_the_page_inside_of_itself(desk: Desk) -> None:
    outside = await desk.get("/appearance")
    assert "frame-src 'self'" in outside.headers["content-security-policy"]
    assert outside.headers["x-frame-options"] == "DENY"
    assert "frame-src" not in (await desk.get("/security")).headers["content-security-policy"]
    inside = await framed(desk, outside)
    policy = inside.headers["content-security-policy"]
    for words in ("default-src 'none'", "frame-ancestors 'self'", "form-action 'none'"):
        assert words in policy
    assert "script-src" not in policy
    assert "x-frame-options" not in inside.headers
    assert b"<script" not in inside.body


async def test_looks_are_written_as_text(desk: Desk) -> None:
    hostile = {**LOOKS, "display_name": HOSTILE}
    tried = await desk.post("/appearance/preview", hostile)
    inside = await framed(desk, tried)
    assert (await desk.post("/appearance", hostile)).status == 303
    published = await desk.get("/appearance")
    for reply in (tried, inside, published, await desk.get("/appearance/versions/1")):
        assert reply.status == 200
        assert b"<script>alert" not in reply.body
    # Whatever an address says wrongly is not believed.
    odd = "?primary_color=red;}&theme=X&logo=../../x&banner1=%22%3E&display_name=%3Cscript%3E"
    reply = await desk.get("/appearance/frame" + odd)
    assert reply.status == 200
    assert b"red;}" not in reply.body
    assert b"<script" not in reply.body
    assert b"../../x" not in reply.body


async def test_how_legible_it_is_is_said(desk: Desk) -> None:
    shown = text_of(await desk.post("/appearance/preview", {**LOOKS, "primary_color": "#ffff00"}))
    assert "Texto do botão: 19,6:1" in shown
    assert "Botão sobre o cartão, no claro: 1,1:1" in shown
    assert "o botão ganha uma borda" in shown
    assert "Botão sobre o cartão, no escuro:" in shown
    light = {**LOOKS, "theme": "LIGHT", "mood": "DARK"}
    tried = await desk.post("/appearance/preview", light)
    assert "no escuro:" not in text_of(tried)
    assert 'class="dark"' in (await framed(desk, tried)).body.decode()


async def test_production_looks_as_test_does_when_it_is_told_to(desk: Desk, sink: Sink) -> None:
    assert (await desk.get("/appearance/copy")).status == 404
    logo = {**LOOKS, "logo_url": sink.url("/logo.png")}
    assert (await desk.post("/appearance", logo)).status == 303
    assert "Copiar para produção" in text_of(await desk.get("/appearance/copy"))
    for _ in range(2):
        reply = await desk.post("/appearance/copy", {})
        assert reply.headers["location"].startswith("/dashboard/live/appearance?")
    copied, here = await newest(desk, "live"), await newest(desk)
    assert copied is not None
    assert copied == here
    assert (await desk.acts())[-1] == ("appearance.published", "1", "live")
    assert (await desk.post("/appearance/copy", {}, "live")).status == 404


async def test_versions_of_others_are_not_found(desk: Desk, door: Api) -> None:
    assert (await desk.post("/appearance", LOOKS)).status == 303
    tenant = await new_tenant(desk.database)
    stranger = Desk(await sign_in(door, desk.database, tenant, Role.OWNER), desk.database, tenant)
    for environment, who in (("live", desk), ("test", stranger)):
        assert (await who.get("/appearance/versions/1", environment)).status == 404
        path = "/appearance/versions/1/publish"
        assert (await who.post(path, {}, environment)).status == 404
    for version in ("0", "2", "x", "99999999999999999999"):
        assert (await desk.get(f"/appearance/versions/{version}")).status == 404
    for role in (Role.FINANCE, Role.SUPPORT):
        colleague = await desk.colleague(role)
        assert (await colleague.get("/appearance")).status == 403
        assert (await colleague.post("/appearance", LOOKS)).status == 403
    assert (await Browser(door).get("/dashboard/test/appearance/frame")).status == 303
