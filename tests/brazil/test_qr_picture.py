"""Pictures of a QR code: what a reader sees in them, and what they are made of."""

import re
from collections.abc import Callable
from io import BytesIO
from xml.etree import ElementTree as ET

import pytest
import zxingcpp
from PIL import Image, ImageDraw

from support.codes import read_codes
from vintem.brazil.br_code import CODE_CHARACTERS_MAX, encode_dynamic, encode_static
from vintem.brazil.qr_picture import draw_png, draw_svg

SVG = "{http://www.w3.org/2000/svg}"
STATIC = encode_static(
    key="chave@exemplo.com.br",
    merchant_name="Loja de Teste",
    merchant_city="São Paulo",
    amount_cents=123_456,
)
DYNAMIC = encode_dynamic(
    url="pix.exemplo.com.br/qr/v2/9d36b84fc70b478fb95c12729b90ca25",
    merchant_name="Loja de Teste",
    merchant_city="São Paulo",
)
LONGEST = ("Az9*" * CODE_CHARACTERS_MAX)[:CODE_CHARACTERS_MAX]
TEXTS = [STATIC, DYNAMIC, LONGEST, "1", "Ação"]


def read(picture: Image.Image) -> zxingcpp.Barcode:
    (found,) = read_codes(picture)
    return found


def paint_svg(svg: bytes, *, scale: int = 6, page: str = "black") -> Image.Image:
    """Paint the two paths of the picture, as a browser would on a page of that colour."""
    root = ET.fromstring(svg)
    side = int(root.attrib["viewBox"].split()[2])
    picture = Image.new("L", (side * scale, side * scale), page)
    pen = ImageDraw.Draw(picture)
    ground, modules = root
    assert ground.attrib == {"fill": "#fff", "d": f"M0 0h{side}v{side}h-{side}z"}
    pen.rectangle((0, 0, side * scale, side * scale), "white")
    assert modules.attrib["stroke"] == "#000"
    x = y = 0.0
    for command, numbers in re.findall(r"([Mmh])([-0-9. ]+)", modules.attrib["d"]):
        values = [float(number) for number in numbers.split()]
        if command == "h":
            box = (x * scale, (y - 0.5) * scale, (x + values[0]) * scale - 1, (y + 0.5) * scale - 1)
            pen.rectangle(box, "black")
            x += values[0]
        else:
            x, y = (values[0], values[1]) if command == "M" else (x + values[0], y + values[1])
    return picture


@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_the_png_reads_back_as_its_text(text: str) -> None:
    found = read(Image.open(BytesIO(draw_png(text))))
    assert found.text == text
    assert found.format == zxingcpp.BarcodeFormat.QRCode


@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_the_svg_reads_back_as_its_text_on_a_dark_page(text: str) -> None:
    assert read(paint_svg(draw_svg(text))).text == text


@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_level_m_is_the_least(text: str) -> None:
    assert read(Image.open(BytesIO(draw_png(text)))).ec_level in {"M", "Q", "H"}


@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_the_png_is_a_small_square_of_about_600_pixels(text: str) -> None:
    png = draw_png(text)
    width, height = Image.open(BytesIO(png)).size
    assert width == height
    assert 540 <= width <= 660
    assert len(png) < 8_000


def test_both_pictures_have_a_quiet_zone_of_four_modules() -> None:
    for picture in (
        Image.open(BytesIO(draw_png(STATIC))).convert("L"),
        paint_svg(draw_svg(STATIC)),
    ):
        dark = picture.point(lambda value: 255 - value).getbbox()
        assert dark is not None
        left, top, right, bottom = dark
        # The corner mark is seven modules wide.
        corner = picture.crop((left, top, right, top + 1)).point(lambda value: 255 - value)
        run = next(x for x in range(right - left) if corner.getpixel((x, 0)) == 0)
        margin = 4 * run // 7
        assert (left, top) == (margin, margin)
        assert (picture.width - right, picture.height - bottom) == (margin, margin)


def test_the_svg_scales_and_refers_to_nothing_outside() -> None:
    svg = draw_svg(DYNAMIC)
    root = ET.fromstring(svg)
    assert set(root.attrib) == {"viewBox"}
    assert [child.tag for child in root] == [f"{SVG}path", f"{SVG}path"]
    assert svg.count(b"http") == 1
    assert b"style" not in svg
    assert len(svg) < 6_000


@pytest.mark.parametrize("draw", [draw_svg, draw_png])
def test_the_same_text_is_always_the_same_picture(draw: Callable[[str], bytes]) -> None:
    assert draw(STATIC) == draw(STATIC)
    assert draw(STATIC) != draw(DYNAMIC)


@pytest.mark.parametrize("text", ["", "0" * (CODE_CHARACTERS_MAX + 1)])
def test_a_text_no_code_may_have_is_a_bug(text: str) -> None:
    for draw in (draw_svg, draw_png):
        with pytest.raises(AssertionError):
            draw(text)
