"""Pictures of codes and pages of boletos, fetched without a key and read by readers not ours."""

import asyncio
import base64
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from io import BytesIO
from typing import Any
from xml.etree import ElementTree as ET

import pypdfium2  # type: ignore[import-untyped]
import pytest
from PIL import Image, ImageDraw

from conftest import running_api
from support.api import TEST_PEPPER, Api, HttpReply, Shop, assert_refused, new_shop, pix_order
from support.codes import read_codes
from vintem.api.pictures import PDF, PNG, SVG, Drawings
from vintem.api.pix_order import PICTURE_PURPOSE
from vintem.brazil import boleto_page
from vintem.brazil.boleto import format_line
from vintem.brazil.boleto_page import TEST_MARK, draw_pdf
from vintem.brazil.boleto_sheet import BoletoSheet
from vintem.companies import service as companies
from vintem.kit.clock import business_day, utc_now
from vintem.kit.errors import ErrorCode
from vintem.kit.ids import Prefix, new_id
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.settings import Settings

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
ADDRESS = {
    "street": "Rua de Exemplo",
    "streetNumber": "123",
    "complement": "Sala 4",
    "neighborhood": "Jardim Ação",
    "zipCode": "01310-100",
    "city": "São Paulo",
    "state": "SP",
}
IMAGE, BOLETO = "/v1/pix/{}.svg", "/v1/boletos/{}.pdf"


@pytest.fixture(scope="module")
async def gallery(settings: Settings) -> AsyncIterator[Api]:
    """A server that lets one address fetch as many pictures as a test wants."""
    async with running_api(replace(settings, public_pictures_per_minute=1_000_000)) as running:
        yield running


@pytest.fixture
async def shop(gallery: Api, database: Database) -> Shop:
    return await new_shop(gallery, database)


async def created_boleto(shop: Shop, **boleto: object) -> Any:
    order = pix_order(123_456, paymentMethod="boleto", boleto=boleto)
    order["customer"]["address"] = ADDRESS
    reply = await shop.order(order)
    assert reply.status == 201, reply.json
    return reply.data


def path_of(address: str) -> str:
    return address[address.index("/v1/") :]


def token_of(address: str) -> str:
    found = re.fullmatch(r".*/v1/(?:pix|boletos)/([A-Za-z0-9_-]+)\.(?:svg|pdf)", address)
    assert found is not None
    return found[1]


def text_of(reply: HttpReply) -> str:
    with closing(pypdfium2.PdfDocument(reply.body)) as document:
        assert len(document) == 1
        return str(document[0].get_textpage().get_text_bounded())


def codes_of(picture: Image.Image) -> set[str]:
    return {code.text for code in read_codes(picture)}


def paint_svg(svg: bytes, *, scale: int = 6) -> Image.Image:
    """Paint the strokes of a picture, as a browser would."""
    root = ET.fromstring(svg)
    side = int(root.attrib["viewBox"].split()[2])
    picture = Image.new("L", (side * scale, side * scale), "white")
    pen = ImageDraw.Draw(picture)
    x = y = 0.0
    for command, numbers in re.findall(r"([Mmh])([-0-9. ]+)", root[1].attrib["d"]):
        values = [float(number) for number in numbers.split()]
        if command == "h":
            box = (x * scale, (y - 0.5) * scale, (x + values[0]) * scale - 1, (y + 0.5) * scale - 1)
            pen.rectangle(box, "black")
            x += values[0]
        else:
            x, y = (values[0], values[1]) if command == "M" else (x + values[0], y + values[1])
    return picture


def assert_kept_privately(reply: HttpReply, media_type: str) -> None:
    assert reply.status == 200, reply.body
    assert reply.headers["Content-Type"] == media_type
    assert reply.headers["Cache-Control"] == "private, max-age=2592000, immutable"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["X-Robots-Tag"] == "noindex"
    assert reply.headers["X-RateLimit-Limit"] == "1000000"


async def test_the_svg_of_a_pix_reads_as_its_code(shop: Shop) -> None:
    data = await shop.create()
    assert data["pixQrCodeImage"] == data["pix"]["qrCodeImage"]
    reply = await shop.api.get(path_of(data["pixQrCodeImage"]))
    assert_kept_privately(reply, "image/svg+xml")
    assert reply.headers["Content-Security-Policy"] == "default-src 'none'"
    assert codes_of(paint_svg(reply.body)) == {data["pixQrCode"]}


async def test_the_png_of_a_pix_reads_as_its_code(shop: Shop) -> None:
    data = await shop.create(9_999_999_999)
    path = path_of(data["pixQrCodeImage"]).removesuffix(".svg") + ".png"
    reply = await shop.api.get(path)
    assert_kept_privately(reply, "image/png")
    assert codes_of(Image.open(BytesIO(reply.body))) == {data["pixQrCode"]}


async def test_the_page_of_a_boleto_says_all_that_its_payer_needs(shop: Shop) -> None:
    data = await created_boleto(
        shop,
        dueDate=(business_day(utc_now()) + timedelta(days=40)).isoformat(),
        instructions="Não receber em cheque.",
        fine={"type": "PERCENTAGE", "value": 250},
        interest={"value": 99},
    )
    reply = await shop.api.get(path_of(data["boletoUrl"]))
    assert_kept_privately(reply, "application/pdf")
    assert reply.headers["Content-Disposition"] == 'inline; filename="boleto.pdf"'
    assert reply.body.startswith(b"%PDF-")
    text = text_of(reply)
    due_date = date.fromisoformat(data["boleto"]["dueDate"])
    last_day = date.fromisoformat(data["expiresAt"][:10])
    for shown in (
        format_line(data["boleto"]["digitableLine"]),
        f"{due_date:%d/%m/%Y}",
        "R$ 1.234,56",
        "999-",
        data["id"],
        data["boleto"]["barcode"][26:43],
        shop.tenant.company.name,
        "Cliente de Teste",
        "529.982.247-25",
        "Rua de Exemplo, 123, Sala 4, Jardim Ação",
        "01310-100 São Paulo/SP",
        "Não receber em cheque.",
        "multa de 2,50%",
        "juros de 0,99% ao mês",
        f"Não receber após {last_day:%d/%m/%Y}",
        TEST_MARK,
    ):
        assert shown in text, (shown, text)


async def test_the_page_names_the_company_as_the_tax_office_does(shop: Shop) -> None:
    company = shop.tenant.company
    bare = text_of(await shop.api.get(path_of((await created_boleto(shop))["boletoUrl"])))
    assert company.name in bare
    assert "CNPJ" not in bare
    await companies.set_identity(
        shop.database, company.public_id, document="12ABC34501DE35", legal_name="Padaria Ltda."
    )
    text = text_of(await shop.api.get(path_of((await created_boleto(shop))["boletoUrl"])))
    assert "CNPJ 12.ABC.345/01DE-35" in text
    assert "Padaria Ltda." in text


def test_only_a_process_that_draws_a_page_loads_what_draws_it() -> None:
    program = (
        "import sys, vintem.__main__, vintem.app, vintem.worker;"
        "sys.exit(any(name.partition('.')[0] in ('fpdf', 'PIL') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_the_page_is_drawn_beside_the_loop(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def draw(sheet: BoletoSheet) -> bytes:
        threads.append(threading.current_thread())
        return draw_pdf(sheet)

    monkeypatch.setattr(boleto_page, "draw_pdf", draw)
    await shop.api.get(path_of((await created_boleto(shop))["boletoUrl"]))
    assert [thread.name.startswith("drawing") for thread in threads] == [True]


async def test_a_fixed_fine_is_shown_as_money(shop: Shop) -> None:
    data = await created_boleto(shop, fine={"type": "FIXED", "value": 123_405})
    text = text_of(await shop.api.get(path_of(data["boletoUrl"])))
    assert "multa de R$ 1.234,05." in text
    assert "juros" not in text


async def test_both_codes_of_the_page_read_as_what_was_answered(shop: Shop) -> None:
    data = await created_boleto(shop)
    reply = await shop.api.get(path_of(data["boletoUrl"]))
    with closing(pypdfium2.PdfDocument(reply.body)) as document:
        picture = document[0].render(scale=4).to_pil()
    assert codes_of(picture) == {data["boleto"]["barcode"], data["boleto"]["pixQrCode"]}


async def test_the_longest_texts_still_make_a_page(shop: Shop) -> None:
    order = pix_order(9_999_999_999, paymentMethod="boleto")
    order["customer"] |= {
        "name": "Ç" * 100,
        "address": {**ADDRESS, "street": "汉" * 120, "complement": "🙂" * 120, "city": "W" * 120},
    }
    order["boleto"] = {
        "instructions": "Ação\n" * 51,
        "fine": {"type": "FIXED", "value": 9_999_999_999},
        "interest": {"value": 10_000},
    }
    reply = await shop.order(order)
    assert reply.status == 201, reply.json
    page = await shop.api.get(path_of(reply.data["boletoUrl"]))
    assert "juros de 100,00% ao mês" in text_of(page)


async def test_a_company_with_a_cnpj_as_payer_has_a_page(shop: Shop) -> None:
    order = pix_order(paymentMethod="boleto")
    order["customer"] |= {
        "address": ADDRESS,
        "document": {"type": "cnpj", "number": "11.222.333/0001-81"},
    }
    reply = await shop.order(order)
    page = await shop.api.get(path_of(reply.data["boletoUrl"]))
    assert "11.222.333/0001-81" in text_of(page)


async def test_fetched_again_a_drawing_is_the_same_to_the_byte(shop: Shop) -> None:
    data = await created_boleto(shop)
    path = path_of(data["boletoUrl"])
    replies = await asyncio.gather(*(shop.api.get(path) for _ in range(5)))
    await shop.move(data["id"], "paid")
    replies.append(await shop.api.get(path))
    assert len({reply.body for reply in replies}) == 1


async def test_pages_drawn_at_the_same_moment_are_each_their_own(shop: Shop) -> None:
    made = [await created_boleto(shop, instructions=f"Pedido {number}.") for number in range(12)]
    pages = await asyncio.gather(*(shop.api.get(path_of(data["boletoUrl"])) for data in made))
    for number, (data, page) in enumerate(zip(made, pages, strict=True)):
        text = text_of(page)
        assert f"Pedido {number}." in text
        assert format_line(data["boleto"]["digitableLine"]) in text


async def test_a_picture_is_drawn_once_and_then_kept(shop: Shop) -> None:
    data = await shop.create()
    path = path_of(data["pixQrCodeImage"])
    first = await shop.api.get(path)
    await shop.database.execute(
        "update transaction set details = '{}' where company_id = $1", shop.scope.company_id
    )
    assert (await shop.api.get(path)).body == first.body


async def test_head_tells_of_a_page_without_sending_it(shop: Shop) -> None:
    data = await created_boleto(shop)
    reply = await shop.api.call("HEAD", path_of(data["boletoUrl"]))
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["Content-Type"] == "application/pdf"


@pytest.mark.parametrize("method", ["boleto", "pix"])
async def test_a_token_with_any_character_changed_is_nobodys(shop: Shop, method: str) -> None:
    if method == "boleto":
        form, address = BOLETO, (await created_boleto(shop))["boletoUrl"]
    else:
        form, address = IMAGE, (await shop.create())["pixQrCodeImage"]
    token = token_of(address)
    for place, character in enumerate(token):
        # The next letter also differs in the last bits, which a lenient reader would not look at.
        for step in (1, 2, 3, 32):
            other = ALPHABET[(ALPHABET.index(character) + step) % 64]
            changed = token[:place] + other + token[place + 1 :]
            reply = await shop.api.get(form.format(changed))
            assert_refused(reply, ErrorCode.NOT_FOUND, status=404)
    for changed in (token[1:], token[:-1], token + "A", token + "=", token + "%3D", "." + token):
        reply = await shop.api.get(form.format(changed))
        assert_refused(reply, ErrorCode.NOT_FOUND, status=404)
    assert (await shop.api.get(form.format(token))).status == 200


JUNK = [
    "a",
    "aaaa",
    "A" * 16,
    "A" * 37,
    "A" * 38,
    "A" * 400,
    "....",
    "%20",
    "%C3%A7%C3%A3o",
    "%F0%9F%99%82",
    "%00",
    "%25",
    "tx_01k7y3v9m2q8r4t6w0z5b1c3d7",
    "=" * 8,
]


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("form", [IMAGE, "/v1/pix/{}.png", BOLETO])
async def test_junk_is_nobodys(gallery: Api, form: str, junk: str) -> None:
    reply = await gallery.get(form.format(junk))
    assert_refused(reply, ErrorCode.NOT_FOUND, status=404)


async def test_an_answer_about_an_unknown_token_tells_the_limit_and_is_not_kept(
    gallery: Api,
) -> None:
    reply = await gallery.get(IMAGE.format("A" * 80))
    assert_refused(reply, ErrorCode.NOT_FOUND, status=404)
    assert reply.headers["X-RateLimit-Limit"] == "1000000"
    assert reply.headers["Cache-Control"] == "no-store"


async def test_a_token_opens_only_what_it_was_made_for(shop: Shop) -> None:
    picture = token_of((await shop.create())["pixQrCodeImage"])
    page = token_of((await created_boleto(shop))["boletoUrl"])
    for path in (BOLETO.format(picture), IMAGE.format(page), f"/v1/pix/{page}.png"):
        assert_refused(await shop.api.get(path), ErrorCode.NOT_FOUND, status=404)


@pytest.mark.parametrize("status", ["cancelled", "failed"])
async def test_a_payment_that_came_to_nothing_is_shown_to_nobody(shop: Shop, status: str) -> None:
    pix, boleto = await shop.create(), await created_boleto(shop)
    paths = [path_of(pix["pixQrCodeImage"]), path_of(boleto["boletoUrl"])]
    assert [(await shop.api.get(path)).status for path in paths] == [200, 200]
    for data in (pix, boleto):
        await shop.move(data["id"], status)
    for path in paths:
        assert_refused(await shop.api.get(path), ErrorCode.NOT_FOUND, status=404)


async def test_a_payment_that_was_made_is_shown_as_before(shop: Shop) -> None:
    pix = await shop.create()
    path = path_of(pix["pixQrCodeImage"])
    for status in ("paid", "pre_chargeback", "refunded"):
        await shop.move(pix["id"], status)
        assert (await shop.api.get(path)).status == 200


def sealed(content: str, pepper: str = TEST_PEPPER) -> str:
    token = Sealer(pepper.encode()).seal(content.encode(), purpose=PICTURE_PURPOSE)
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


async def test_a_token_of_another_server_or_of_no_payment_is_nobodys(shop: Shop) -> None:
    data = await shop.create()
    name = f"{shop.scope.company_id}/test/{data['id']}"
    assert (await shop.api.get(IMAGE.format(sealed(name)))).status == 200
    for token in (
        sealed(name, pepper="x" * 32),
        sealed(f"{shop.scope.company_id}/live/{data['id']}"),
        sealed(f"{shop.scope.company_id + 1_000_000}/test/{data['id']}"),
        sealed(f"{shop.scope.company_id}/test/{new_id(Prefix.TRANSACTION)}"),
    ):
        reply = await shop.api.get(IMAGE.format(token))
        assert_refused(reply, ErrorCode.NOT_FOUND, status=404)


async def test_two_payments_never_share_an_address(shop: Shop) -> None:
    addresses = {(await shop.create())["pixQrCodeImage"] for _ in range(20)}
    assert len(addresses) == 20


async def test_one_address_fetches_sixty_a_minute_of_all_kinds_together(
    settings: Settings, database: Database
) -> None:
    async with running_api(settings) as limited:
        shop = await new_shop(limited, database)
        picture = path_of((await shop.create())["pixQrCodeImage"])
        page = path_of((await created_boleto(shop))["boletoUrl"])
        replies = [
            await limited.get((picture, page, IMAGE.format("junk"))[number % 3])
            for number in range(60)
        ]
        assert [reply.status for reply in replies] == [200, 200, 404] * 20
        left = [int(reply.headers["X-RateLimit-Remaining"]) for reply in replies]
        assert left == list(range(59, -1, -1))
        for path in (picture, page, IMAGE.format("junk")):
            reply = await limited.get(path)
            assert_refused(reply, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)
            assert 1 <= int(reply.headers["Retry-After"]) <= 60
            assert reply.headers["X-RateLimit-Limit"] == "60"
            assert reply.headers["X-RateLimit-Remaining"] == "0"
            assert int(reply.headers["X-RateLimit-Reset"]) > 0
        # Calls with a key are counted elsewhere.
        assert (await limited.get("/v1/balance", key=shop.key)).status == 200


def test_the_drawings_that_were_not_asked_for_the_longest_are_dropped() -> None:
    drawings = Drawings(bytes_max=100)
    for name in (b"a", b"b"):
        drawings.keep((SVG, name), b"x" * 50)
    assert drawings.find((SVG, b"a")) == b"x" * 50
    drawings.keep((PNG, b"a"), b"y" * 50)
    assert drawings.find((SVG, b"b")) is None
    assert drawings.find((SVG, b"a")) is not None
    drawings.keep((PNG, b"a"), b"z" * 50)
    assert drawings.find((SVG, b"a")) is not None
    drawings.keep((PDF, b"a"), b"w" * 101)
    assert [drawings.find((form, b"a")) for form in (SVG, PNG, PDF)] == [None, None, None]
    drawings.keep((SVG, b"c"), b"v" * 100)
    assert drawings.find((SVG, b"c")) == b"v" * 100
