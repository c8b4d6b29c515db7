"""Products, coupons and payment links, set up from the dashboard over real HTTP."""

import asyncio
import csv
import html
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from io import BytesIO, StringIO

import pytest
from aiohttp import web
from msgspec.structs import replace as changed
from PIL import Image

from conftest import running_api
from support.api import Api, new_tenant
from support.desk import Desk, assert_fault, id_in, text_of
from support.sink import Sink, running_sink
from support.team import sign_in
from vintem.checkout import catalogue
from vintem.checkout.link import PaymentLink
from vintem.checkout.model import Coupon
from vintem.kit.clock import utc_now
from vintem.kit.ids import Prefix, new_id
from vintem.members.model import Role
from vintem.runtime.db import Database
from vintem.settings import Settings

HOSTILE = """<script>alert(1)</script>"'&"""
PRODUCT = {"name": "Curso de Violão", "price": "1.149,90", "description": "", "image_url": ""}
COUPON = {"code": "natal10", "discount_type": "PERCENTAGE", "discount": "12,5"}
LINK = {"name": "Turma de março", "quantity": "1"}


@pytest.fixture(scope="module")
async def door(settings: Settings) -> AsyncIterator[Api]:
    """A server that fetches pictures from this machine, too."""
    wide = replace(settings, allow_loopback_webhooks=True, public_link_sessions_per_minute=10_000)
    async with running_api(wide) as running:
        yield running


@pytest.fixture(scope="module")
async def sink() -> AsyncIterator[Sink]:
    async with running_sink() as running:
        yield running


@pytest.fixture
async def desk(door: Api, database: Database) -> Desk:
    tenant = await new_tenant(database)
    return Desk(await sign_in(door, database, tenant, Role.OWNER), database, tenant)


# Products


async def test_a_product_is_made_changed_archived_and_sold_again(desk: Desk) -> None:
    reply = await desk.post("/products", {**PRODUCT, "id": new_id(Prefix.PRODUCT)})
    product_id = id_in(reply)
    assert reply.headers["location"].endswith("?said=product-created")
    shown = text_of(await desk.get(f"/products/{product_id}?said=product-created"))
    assert "Produto criado." in shown
    assert "R$\N{NO-BREAK SPACE}1.149,90" in shown
    edited = {**PRODUCT, "price": "999", "description": "Doze aulas"}
    assert (await desk.post(f"/products/{product_id}", edited)).status == 303
    shown = text_of(await desk.get(f"/products/{product_id}"))
    assert "Doze aulas" in shown
    for price in ("1.149,90", "999,00"):
        assert f"R$\N{NO-BREAK SPACE}{price}" in shown
    assert "Arquivar" in text_of(await desk.get(f"/products/{product_id}/archive"))
    for action, is_active in (("archive", False), ("restore", True)):
        assert (await desk.post(f"/products/{product_id}/{action}", {})).status == 303
        product = await catalogue.find_product(desk.database, desk.scope, product_id)
        assert product is not None
        assert product.is_active is is_active
    acts = [(action, target) for action, target, _ in await desk.acts()]
    assert acts == [("product.created", product_id), *[("product.changed", product_id)] * 3]


WRONG_PRODUCTS = [
    ("name", ""),
    ("name", "x" * 256),
    ("price", ""),
    ("price", "0"),
    ("price", "dez"),
    ("price", "1,234"),
    ("price", "99999999999,99"),
    ("description", "x" * 2_001),
    ("image_url", "http://loja.example/a.png"),
    ("image_url", "https://127.0.0.1/a.png"),
    ("image_url", "javascript:alert(1)"),
]


async def test_a_wrong_field_of_a_product_is_named_and_nothing_is_saved(desk: Desk) -> None:
    for field, text in WRONG_PRODUCTS:
        reply = await desk.post("/products", {**PRODUCT, field: text})
        assert_fault(reply, field)
        # What was typed stays.
        assert text in text_of(reply)
    assert await desk.products() == 0
    assert await desk.acts() == []


async def test_a_form_sent_twice_makes_one_of_each(desk: Desk) -> None:
    product = await desk.product()
    forms: list[tuple[str, Prefix, dict[str, str]]] = [
        ("/products", Prefix.PRODUCT, PRODUCT),
        ("/coupons", Prefix.COUPON, COUPON),
        ("/links", Prefix.PAYMENT_LINK, {**LINK, "product_id": product.product_id}),
        ("/coupons/bulk", Prefix.COUPON, {**COUPON, "count": "5"}),
    ]
    for path, prefix, fields in forms:
        sent = {**fields, "id": new_id(prefix)}
        first, second = await asyncio.gather(desk.post(path, sent), desk.post(path, sent))
        third = await desk.post(path, sent)
        assert id_in(first) == id_in(second) == id_in(third) == sent["id"]
    for table, count in (("product", 2), ("coupon", 6), ("link", 1)):
        counted = await desk.database.fetchval(
            f"select count(*) from checkout_{table} where company_id = $1", desk.scope.company_id
        )
        assert counted == count, table


async def test_what_merchants_type_is_shown_as_text(desk: Desk) -> None:
    product_id = id_in(
        await desk.post("/products", {**PRODUCT, "name": HOSTILE, "description": HOSTILE})
    )
    link = {**LINK, "product_id": product_id, "name": HOSTILE, "message": HOSTILE}
    link_id = id_in(await desk.post("/links", link))
    wrong = await desk.post("/products", {**PRODUCT, "name": HOSTILE, "price": HOSTILE})
    pages = [
        *[await desk.get(path) for path in ("/products", f"/products/{product_id}", "/links")],
        *[await desk.get(path) for path in (f"/links/{link_id}", "/links/new", "/coupons/new")],
        *[await desk.get(f"/links/new?twin={link_id}"), await desk.get(f"/links/{link_id}/copy")],
        wrong,
    ]
    for reply in pages:
        assert b"<script>alert" not in reply.body
        assert HOSTILE in text_of(reply)


def picture() -> bytes:
    written = BytesIO()
    Image.new("RGB", (60, 40), (200, 30, 60)).save(written, "PNG")
    return written.getvalue()


async def test_a_picture_is_fetched_when_it_is_saved(desk: Desk, sink: Sink) -> None:
    async def draw(_: web.Request) -> web.Response:
        return web.Response(body=picture(), content_type="image/png")

    sink.behaviours["/a.png"] = draw
    sink.answer("/none.png", 404)
    sink.answer("/text.png", 200, body="<svg/>")
    url = sink.url("/a.png")
    product_id = id_in(await desk.post("/products", {**PRODUCT, "image_url": url}))
    shown = (await desk.get(f"/products/{product_id}")).body.decode()
    found = re.search(r'src="(/media/[0-9a-f]{64})" width="60" height="40"', shown)
    assert found
    assert (await desk.browser.api.get(found[1])).headers["content-type"] == "image/webp"
    fetched = len(sink.arrived)
    # It is not fetched again for another price.
    edited = {**PRODUCT, "price": "5", "image_url": url}
    assert (await desk.post(f"/products/{product_id}", edited)).status == 303
    assert len(sink.arrived) == fetched
    for wrong in ("/none.png", "/text.png"):
        reply = await desk.post(
            f"/products/{product_id}", {**PRODUCT, "price": "7", "image_url": sink.url(wrong)}
        )
        assert_fault(reply, "image_url")
    product = await catalogue.find_product(desk.database, desk.scope, product_id)
    assert product is not None
    assert (product.unit_amount, product.image_url) == (500, url)
    removed = {**PRODUCT, "image_url": ""}
    assert (await desk.post(f"/products/{product_id}", removed)).status == 303
    assert "/media/" not in (await desk.get(f"/products/{product_id}")).body.decode()


async def test_a_long_list_is_walked_page_by_page(desk: Desk) -> None:
    for number in range(52):
        await desk.product(name=f"Produto {number:02}")
    first = (await desk.get("/products")).body.decode()
    assert ("Produto 51" in first, "Produto 02" in first, "Produto 01" in first) == (
        *(True, True, False),
    )
    assert 'rel="prev"' not in first
    older = re.search(r'href="([^"]*)" rel="next"', first)
    assert older
    second = (await desk.browser.get(html.unescape(older[1]))).body.decode()
    assert ("Produto 01" in second, "Produto 02" in second) == (True, False)
    assert 'rel="next"' not in second
    newer = re.search(r'href="([^"]*)" rel="prev"', second)
    assert newer
    back = (await desk.browser.get(html.unescape(newer[1]))).body.decode()
    assert ("Produto 51" in back, "Produto 02" in back) == (True, True)
    assert (await desk.get("/products?older=nonsense")).status == 200
    assert "Nenhum produto aqui" in text_of(await desk.get("/products?status=inactive"))


# Coupons


async def find_coupon(desk: Desk, code: str) -> Coupon:
    coupon = await catalogue.find_coupon(desk.database, desk.scope, code)
    assert coupon is not None
    return coupon


async def test_a_coupon_is_made_changed_paused_and_duplicated(desk: Desk) -> None:
    product = await desk.product()
    fields = {
        **COUPON,
        "redemptions_max": "1.000",
        "customer_redemptions_max": "2",
        "starts_at": "2026-11-15T09:00",
        "ends_at": "31/12/2030 23:59",
        "minimum": "100,00",
        "product_ids": [product.product_id],
    }
    coupon_id = id_in(await desk.post("/coupons", fields))
    coupon = await find_coupon(desk, "NATAL10")
    assert (coupon.coupon_id, coupon.discount_value, coupon.redemptions_max) == (
        *(coupon_id, 1_250, 1_000),
    )
    assert (coupon.customer_redemptions_max, coupon.minimum_amount) == (2, 10_000)
    assert coupon.product_ids == (product.product_id,)
    assert coupon.starts_at is not None
    assert coupon.starts_at.hour == 12
    shown = text_of(await desk.get(f"/coupons/{coupon_id}"))
    for words in ("12,5%", "0 / 1000", "Palhetas", "15/11/2026 09:00"):
        assert words in shown
    edited = {**fields, "code": "", "discount_type": "FIXED", "discount": "20"}
    del edited["code"]
    assert (await desk.post(f"/coupons/{coupon_id}", edited)).status == 303
    assert (await find_coupon(desk, "NATAL10")).discount_value == 2_000
    assert (await desk.post(f"/coupons/{coupon_id}/pause", {})).status == 303
    assert not (await find_coupon(desk, "NATAL10")).is_active
    assert "NATAL10" in text_of(await desk.get("/coupons?status=inactive"))
    assert "NATAL10" not in text_of(await desk.get("/coupons?status=active"))
    assert (await desk.post(f"/coupons/{coupon_id}/resume", {})).status == 303
    twin = (await desk.get(f"/coupons/new?twin={coupon_id}")).body.decode()
    assert 'name="discount" type="text" value="20,00"' in twin
    assert "NATAL10" not in twin
    found = await desk.get("/coupons?code=natal10")
    assert found.headers["location"].endswith(f"/coupons/{coupon_id}")
    assert [action for action, _, _ in await desk.acts()] == [
        "coupon.created",
        *["coupon.changed"] * 3,
    ]


WRONG_COUPONS = [
    ("code", "ab"),
    ("code", "com espaço"),
    ("discount_type", "FREE"),
    ("discount", "0"),
    ("discount", "101"),
    ("discount", "muito"),
    ("redemptions_max", "0"),
    ("redemptions_max", "1,5"),
    ("customer_redemptions_max", "-1"),
    ("starts_at", "amanhã"),
    ("ends_at", "2020-01-01T00:00"),
    ("minimum", "x"),
    ("product_ids", "prod_00000000000000000000000000"),
]


async def test_a_wrong_field_of_a_coupon_is_named(desk: Desk) -> None:
    await desk.product()
    for field, text in WRONG_COUPONS:
        fields = {**COUPON, "starts_at": "2026-01-01T00:00", field: text}
        assert_fault(await desk.post("/coupons", fields), field)
        if field != "code":
            bulk = {**fields, "count": "5", "prefix": ""}
            assert_fault(await desk.post("/coupons/bulk", bulk), field)
    assert await desk.acts() == []


async def test_a_code_is_of_one_coupon(desk: Desk) -> None:
    id_in(await desk.post("/coupons", {**COUPON, "id": new_id(Prefix.COUPON)}))
    again = await desk.post("/coupons", {**COUPON, "id": new_id(Prefix.COUPON)})
    assert_fault(again, "code")


async def test_many_coupons_are_made_and_their_codes_downloaded(desk: Desk) -> None:
    fields = {**COUPON, "count": "1.000", "prefix": "vip-", "redemptions_max": "1"}
    batch_id = id_in(await desk.post("/coupons/bulk", fields))
    shown = text_of(await desk.get(f"/coupons/batches/{batch_id}"))
    assert "Baixar 1000 códigos" in shown
    reply = await desk.get(f"/coupons/batches/{batch_id}/codes.csv")
    assert reply.headers["content-type"].startswith("text/csv")
    assert "attachment" in reply.headers["content-disposition"]
    assert reply.body.startswith(b"\xef\xbb\xbf")
    rows = list(csv.reader(StringIO(reply.body.decode("utf-8-sig")), delimiter=";"))
    assert rows[0][:2] == ["codigo", "desconto_percentual"]
    codes = {row[0] for row in rows[1:]}
    assert len(codes) == 1_000
    assert all(re.fullmatch(r"VIP-[2-9A-HJ-NP-Z]{10}", code) for code in codes)
    for field, text in (("count", "1001"), ("count", "0"), ("count", "x"), ("prefix", "é")):
        assert_fault(await desk.post("/coupons/bulk", {**fields, field: text}), field)
    assert [action for action, _, _ in await desk.acts()] == ["coupon.batch"]


# Links


async def find_link(desk: Desk, link_id: str) -> PaymentLink:
    link = await catalogue.find_link(desk.database, desk.scope, link_id)
    assert link is not None
    return link


async def test_a_link_is_made_shared_changed_paused_and_duplicated(desk: Desk) -> None:
    product = await desk.product()
    await desk.post("/coupons", COUPON)
    fields = {
        **LINK,
        "product_id": product.product_id,
        "quantity": "2",
        "methods": ["pix", "credit_card"],
        "installments_max": "3",
        "coupon_code": "natal10",
        "payments_max": "10",
        "ends_at": "2030-12-31T23:59",
        "success_url": "https://loja.example/ok?s={SESSION_ID}",
        "message": "Até 20 de março",
        "inactive_message": "Inscrições encerradas",
    }
    link_id = id_in(await desk.post("/links", fields))
    link = await find_link(desk, link_id)
    assert (link.quantity, link.installments_max, link.payments_max) == (2, 3, 10)
    assert link.payment_methods == ("pix", "credit_card")
    url = f"{link.public_token}"
    shown = text_of(await desk.get(f"/links/{link_id}"))
    for words in (url, "https://wa.me/?text=Turma", "Pagar agora</a>", "NATAL10", "0 / 10"):
        assert words in shown
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        reply = await desk.get(f"/links/{link_id}/qr.{kind}?download=1")
        assert reply.body.startswith(start)
        assert reply.headers["content-disposition"].startswith("attachment")
    # Buyers see it.
    page = text_of(await desk.browser.api.get(f"/l/{link.public_token}"))
    assert "Até 20 de março" in page
    opened = await desk.browser.api.post(f"/v1/checkout/payment-links/{link.public_token}/sessions")
    token = opened.data["checkoutUrl"].rpartition("/s/")[2]
    read = (await desk.browser.api.get(f"/v1/checkout/sessions/{token}")).data
    assert (read["totalAmount"], read["paymentMethods"]) == (8_750, ["pix", "credit_card"])
    assert opened.data["sessionId"] in text_of(await desk.get(f"/links/{link_id}"))
    assert opened.data["sessionId"] in text_of(await desk.get(f"/products/{product.product_id}"))
    edited = {**fields, "payments_max": "", "coupon_code": "", "methods": []}
    assert (await desk.post(f"/links/{link_id}", edited)).status == 303
    again = await find_link(desk, link_id)
    assert (again.payments_max, again.coupon_id, again.payment_methods) == (None, None, ())
    assert again.public_token == link.public_token
    assert (await desk.post(f"/links/{link_id}/pause", {})).status == 303
    gone = await desk.browser.api.get(f"/l/{link.public_token}")
    assert (gone.status, "Inscrições encerradas" in text_of(gone)) == (410, True)
    assert (await desk.post(f"/links/{link_id}/resume", {})).status == 303
    twin = text_of(await desk.get(f"/links/new?twin={link_id}"))
    assert "Turma de março (cópia)" in twin
    assert [action for action, _, _ in await desk.acts()] == [
        *["coupon.created", "link.created"],
        *["link.changed"] * 3,
    ]


WRONG_LINKS = [
    ("name", ""),
    ("name", "x" * 121),
    ("product_id", "prod_00000000000000000000000000"),
    ("product_id", "x"),
    ("quantity", "0"),
    ("quantity", "1001"),
    ("methods", "cash"),
    ("installments_max", "13"),
    ("coupon_code", "NENHUM"),
    ("payments_max", "0"),
    ("ends_at", "nunca"),
    ("success_url", "http://loja.example/ok"),
    ("cancel_url", "javascript:alert(1)"),
    ("message", "x" * 501),
    ("inactive_message", "x" * 501),
]


async def test_a_wrong_field_of_a_link_is_named(desk: Desk) -> None:
    product = await desk.product()
    for field, text in WRONG_LINKS:
        reply = await desk.post("/links", {**LINK, "product_id": product.product_id, field: text})
        assert_fault(reply, field)
    assert await desk.acts() == []


async def test_a_link_sells_no_archived_product_and_no_coupon_of_others(desk: Desk) -> None:
    archived = changed(await desk.product(), is_active=False)
    await catalogue.change_product(desk.database, archived, now=utc_now())
    reply = await desk.post("/links", {**LINK, "product_id": archived.product_id})
    assert_fault(reply, "product_id")
    product, other = await desk.product(), await desk.product()
    id_in(await desk.post("/coupons", {**COUPON, "product_ids": [other.product_id]}))
    fields = {**LINK, "product_id": product.product_id, "coupon_code": "NATAL10"}
    assert_fault(await desk.post("/links", fields), "coupon_code")


# Who may what


async def test_ids_of_others_are_not_found(desk: Desk, door: Api) -> None:
    stranger = Desk(
        await sign_in(door, desk.database, tenant := await new_tenant(desk.database), Role.OWNER),
        desk.database,
        tenant,
    )
    product = await desk.product()
    coupon_id = id_in(await desk.post("/coupons", COUPON))
    batch_id = id_in(await desk.post("/coupons/bulk", {**COUPON, "count": "2"}))
    link_id = id_in(await desk.post("/links", {**LINK, "product_id": product.product_id}))
    reads = [
        *[f"/products/{product.product_id}{more}" for more in ("", "/archive")],
        *[f"/coupons/{coupon_id}", f"/coupons/batches/{batch_id}"],
        *[f"/coupons/batches/{batch_id}/codes.csv"],
        *[f"/links/{link_id}{more}" for more in ("", "/qr.svg", "/qr.png")],
    ]
    writes = [
        *[
            (f"/products/{product.product_id}{more}", PRODUCT if not more else {})
            for more in ("", "/archive", "/restore", "/copy")
        ],
        *[
            (f"/coupons/{coupon_id}{more}", COUPON if not more else {})
            for more in ("", "/pause", "/resume")
        ],
        *[
            (
                f"/links/{link_id}{more}",
                {**LINK, "product_id": product.product_id} if not more else {},
            )
            for more in ("", "/pause", "/resume", "/copy")
        ],
    ]
    before = await desk.acts()
    for path in reads:
        assert (await desk.get(path)).status == 200, path
        assert (await stranger.get(path)).status == 404, path
        assert (await desk.get(path, "live")).status == 404, path
    for path, fields in writes:
        assert (await stranger.post(path, fields)).status == 404, path
        assert (await desk.post(path, fields, "live")).status == 404, path
    assert await desk.acts() == before
    # Neither do they sell or discount what is not theirs.
    theirs = {**LINK, "product_id": product.product_id, "coupon_code": "NATAL10"}
    assert_fault(await stranger.post("/links", theirs), "product_id")
    assert_fault(await desk.post("/links", theirs, "live"), "product_id")


async def test_a_developer_works_in_test_and_reads_in_production(desk: Desk) -> None:
    developer = await desk.colleague(Role.DEVELOPER)
    product_id = id_in(await developer.post("/products", PRODUCT))
    assert "Nova" not in text_of(await developer.get("/products"))
    for path in ("/products", "/coupons", "/links"):
        read = await developer.get(path, "live")
        assert read.status == 200
        assert f"{path}/new" not in read.body.decode()
        assert f"{path}/new" in (await developer.get(path)).body.decode()
        assert (await developer.get(f"{path}/new", "live")).status == 403
        assert (await developer.post(path, PRODUCT, "live")).status == 403
    # Copying needs the permission where it is copied to.
    assert "/copy" not in (await developer.get(f"/products/{product_id}")).body.decode()
    assert (await developer.get(f"/products/{product_id}/copy")).status == 403
    assert (await developer.post(f"/products/{product_id}/copy", {})).status == 403
    for role in (Role.FINANCE, Role.SUPPORT):
        reader = await desk.colleague(role)
        shown = await reader.get(f"/products/{product_id}")
        assert (shown.status, b"Alterar</h2>" in shown.body) == (200, False)
        assert (await reader.post(f"/products/{product_id}", PRODUCT)).status == 403


async def test_a_form_of_another_page_is_refused(desk: Desk) -> None:
    reply = await desk.browser.post_raw("/dashboard/test/products", PRODUCT)
    assert reply.status == 403
    assert await desk.products() == 0


async def test_a_product_and_a_link_are_copied_for_production_once(desk: Desk, sink: Sink) -> None:
    async def draw(_: web.Request) -> web.Response:
        return web.Response(body=picture(), content_type="image/png")

    sink.behaviours["/b.png"] = draw
    product_id = id_in(await desk.post("/products", {**PRODUCT, "image_url": sink.url("/b.png")}))
    link_id = id_in(
        await desk.post("/links", {**LINK, "product_id": product_id, "payments_max": "3"})
    )
    assert "Copiar para produção" in text_of(await desk.get(f"/links/{link_id}/copy"))
    first = await desk.post(f"/links/{link_id}/copy", {})
    assert first.headers["location"].startswith("/dashboard/live/links/pl_")
    assert id_in(await desk.post(f"/links/{link_id}/copy", {})) == id_in(first)
    link = await catalogue.find_link(desk.database, desk.live, id_in(first))
    assert link is not None
    assert (link.payments_max, link.copied_from) == (3, link_id)
    copied = id_in(await desk.post(f"/products/{product_id}/copy", {}))
    assert link.product_id == copied
    assert "/media/" in (await desk.get(f"/products/{copied}", "live")).body.decode()
    acts = [act for act in await desk.acts() if act[2] == "live"]
    assert acts == [("product.copied", copied, "live"), ("link.copied", link.link_id, "live")]
    back_here = {"success_url": "http://localhost:3000/ok", "product_id": product_id}
    local = id_in(await desk.post("/links", {**LINK, **back_here}))
    assert_fault(await desk.post(f"/links/{local}/copy", {}), "success_url")
