"""The page of a boleto, drawn: the payer's receipt above, the slip that banks process below.

The library that draws takes a second and tens of megabytes to load: whoever may never draw a page
should load this module when the first one is asked for.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from io import BytesIO
from typing import Final

from fpdf import FPDF
from fpdf.enums import Align, RenderStyle

from vintem.brazil.boleto import BOLETO_CENTS_MAX, format_line, line_of_barcode
from vintem.brazil.boleto_sheet import (
    INSTRUCTIONS_CHARACTERS_MAX,
    LATE_LINE_CHARACTERS_MAX,
    LATE_LINES_MAX,
    BoletoSheet,
)
from vintem.brazil.documents import format_cnpj, format_cpf
from vintem.brazil.qr_picture import draw_png
from vintem.kit.money import Cents

TEST_MARK: Final = "TESTE – NÃO PAGUE"

_BANK_CODE: Final = re.compile(r"[0-9]{3}-[0-9X]")

# Millimetres of an A4 page: a wide column of boxes, and a narrow one on its right.
_LEFT: Final = 12.0
_WIDTH: Final = 186.0
_SIDE_WIDTH: Final = 46.0
_MAIN_WIDTH: Final = _WIDTH - _SIDE_WIDTH
_RIGHT: Final = _LEFT + _WIDTH
_PADDING: Final = 1.2
_INNER_LEFT: Final = _LEFT + _PADDING
_INNER_MAIN_WIDTH: Final = _MAIN_WIDTH - 2 * _PADDING
_HEADER_HEIGHT: Final = 9.0
_ROW_HEIGHT: Final = 7.4

_BANNER_TOP: Final = 6.0
_RECEIPT_TOP: Final = 16.0
_PANEL_TOP: Final = 104.0
_PANEL_HEIGHT: Final = 52.0
_PANEL_GAP: Final = 4.0
_CUT: Final = 165.0
_SLIP_TOP: Final = 169.0
_TEST_MARK_MIDDLES: Final = (72.0, 229.0)

# The size that the banks' readers are built for; the 44 digits take 405 modules.
_BARCODE_HEIGHT: Final = 13.0
_MODULE_WIDTH: Final = 103.0 / 405
# The five bars, or the five spaces, of each digit, narrow or wide.
_DIGIT_BARS: Final = "nnwwn wnnnw nwnnw wwnnn nnwnw wnwnn nwwnn nnnww wnnwn nwnwn"
_BAR_MODULES: Final = {"n": 1, "w": 3}

_THIN: Final = 0.2
_THICK: Final = 0.5
_FONT: Final = "helvetica"
_LEADING: Final = 1.2 * 25.4 / 72
_POINTS_MIN: Final = 5.5
_STRETCHING_MIN: Final = 70
_BLOCK_POINTS: Final = (8.5, 7.5, 6.5, 5.5)
_BLACK: Final = 0
_GREY: Final = 80
_SHADE: Final = 232
_WHITE: Final = 255
_RED: Final = (190, 20, 20)
_PALE_RED: Final = (250, 222, 222)

_ENCODING: Final = "cp1252"
_SCISSORS: Final = '"'
# Letters and marks that no decomposition brings into the alphabet of the fonts.
_SPARE_CHARACTERS: Final = str.maketrans("łŁđĐıħĦŧŦŋŊĸ‐‑‒−", "lLdDihHtTnNk----")

_BENEFICIARY_CODE: Final = "Agência/Código do beneficiário"
_INSTRUCTIONS: Final = "Instruções (texto de responsabilidade do beneficiário)"
_PAYMENT_PLACE: Final = "Pagável em qualquer banco ou aplicativo bancário"
_ADJUSTMENTS: Final = (
    "(-) Desconto/Abatimento",
    "(-) Outras deduções",
    "(+) Mora/Multa",
    "(+) Outros acréscimos",
    "(=) Valor cobrado",
)
_PIX_STEPS: Final = (
    "1. Abra o aplicativo do seu banco e escolha Pix.",
    "2. Leia este QR Code.",
    "3. Confira os dados e confirme o pagamento.",
)
_LINE_STEPS: Final = (
    "1. Abra o aplicativo do seu banco e escolha pagar boleto.",
    "2. Leia o código de barras abaixo ou digite a linha.",
    "3. Confira os dados e confirme o pagamento.",
)


def draw_pdf(sheet: BoletoSheet) -> bytes:
    """Draw a boleto on one A4 page, the same bytes for the same sheet."""
    assert _BANK_CODE.fullmatch(sheet.bank_code)
    assert 0 <= sheet.amount_cents <= BOLETO_CENTS_MAX
    assert len(sheet.instructions) <= INSTRUCTIONS_CHARACTERS_MAX
    assert len(sheet.late_lines) <= LATE_LINES_MAX
    assert all(len(line) <= LATE_LINE_CHARACTERS_MAX for line in sheet.late_lines)
    assert sheet.digitable_line == line_of_barcode(sheet.barcode)
    pen = _Pen(_blank_page(sheet))
    if sheet.is_test:
        _draw_test_marks(pen)
    _draw_receipt(pen, sheet)
    _draw_ways_to_pay(pen, sheet)
    _draw_cut(pen)
    _draw_slip(pen, sheet)
    return bytes(pen.pdf.output())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    points: float
    is_bold: bool = False
    grey: int = _BLACK
    align: Align = Align.L


_LABEL: Final = _Style(points=5.8, grey=_GREY)
_LABEL_RIGHT: Final = _Style(points=5.8, grey=_GREY, align=Align.R)
_VALUE: Final = _Style(points=8.5)
_VALUE_RIGHT: Final = _Style(points=8.5, align=Align.R)
_ADDRESS: Final = _Style(points=7.5)
_STRONG_RIGHT: Final = _Style(points=10, is_bold=True, align=Align.R)
_TITLE: Final = _Style(points=13, is_bold=True)
_TITLE_RIGHT: Final = _Style(points=12, is_bold=True, align=Align.R)
_BANK: Final = _Style(points=16, is_bold=True, align=Align.C)
_BANNER: Final = _Style(points=12, is_bold=True, grey=_WHITE, align=Align.C)


@dataclass(frozen=True, slots=True)
class _Cell:
    """A box with its label; a strong value gets a shade behind it."""

    width: float
    label: str
    value: str = ""
    style: _Style = _VALUE


class _Pen:
    """Writes and draws in millimetres from the top left corner of the page."""

    def __init__(self, pdf: FPDF) -> None:
        self.pdf = pdf

    def write(self, text: str, style: _Style, *, x: float, y: float, width: float) -> None:
        """Write one line on a base line, made smaller, then narrower, then cut, to fit a width."""
        text = printable(text)
        self.pdf.set_font(_FONT, style="B" if style.is_bold else "", size=style.points)
        self.pdf.set_text_color(style.grey)
        excess = self.pdf.get_string_width(text) / width
        if excess > 1:
            points = max(style.points / excess, min(style.points, _POINTS_MIN))
            self.pdf.set_font_size(points)
            self.pdf.set_stretching(max(100 * style.points / points / excess, _STRETCHING_MIN))
            text = self._cut(text, width)
        space = width - self.pdf.get_string_width(text)
        self.pdf.text(x + {Align.C: space / 2, Align.R: space}.get(style.align, 0), y, text)
        self.pdf.set_stretching(100)

    def write_block(
        self, paragraphs: Sequence[str], *, x: float, y: float, width: float, height: float
    ) -> None:
        """Write paragraphs from the top of a place, as large as they fit into it."""
        points, lines = self._largest(paragraphs, width=width, height=height)
        for number, line in enumerate(lines, start=1):
            base = y + number * points * _LEADING
            self.write(line, _Style(points=points), x=x, y=base, width=width)

    def row(self, cells: Sequence[_Cell], *, y: float, height: float = _ROW_HEIGHT) -> float:
        """Draw boxes side by side and give the place below them."""
        x = _LEFT
        for cell in cells:
            self.box(cell, x=x, y=y, height=height)
            x += cell.width
        return y + height

    def box(self, cell: _Cell, *, x: float, y: float, height: float = _ROW_HEIGHT) -> None:
        """Draw a box with its label at the top and its value at the bottom."""
        self.pdf.set_line_width(_THIN)
        self.pdf.set_fill_color(_SHADE)
        style = RenderStyle.DF if cell.style.is_bold else RenderStyle.D
        self.pdf.rect(x, y, cell.width, height, style=style)
        left, room = x + _PADDING, cell.width - 2 * _PADDING
        self.write(cell.label, _LABEL, x=left, y=y + 2.4, width=room)
        self.write(cell.value, cell.style, x=left, y=y + height - 1.3, width=room)

    def rule(self, *, y: float) -> None:
        """Draw a thick line over the width of the sheet."""
        self.pdf.set_line_width(_THICK)
        self.pdf.line(_LEFT, y, _RIGHT, y)

    def _cut(self, text: str, width: float) -> str:
        # What was made to fit exactly may be over by a rounding.
        if self.pdf.get_string_width(text) <= width * 1.001:
            return text
        return f"{self._fitting(text, width - self.pdf.get_string_width('…')).rstrip()}…"

    def _largest(
        self, paragraphs: Sequence[str], *, width: float, height: float
    ) -> tuple[float, list[str]]:
        # With too many line breaks the words go on after one another instead.
        for texts in (paragraphs, [" ".join(paragraphs)]):
            for points in _BLOCK_POINTS:
                lines = self._lines(texts, points=points, width=width)
                if len(lines) * points * _LEADING <= height:
                    return points, lines
        # Only words that seem made to waste their lines come to be cut.
        lines = self._lines([" ".join(paragraphs)], points=_POINTS_MIN, width=width)
        return _POINTS_MIN, lines[: int(height / (_POINTS_MIN * _LEADING))]

    def _lines(self, paragraphs: Sequence[str], *, points: float, width: float) -> list[str]:
        self.pdf.set_font(_FONT, size=points)
        return [line for text in paragraphs for line in self._wrapped(text, width)]

    def _wrapped(self, text: str, width: float) -> Iterator[str]:
        line = ""
        for word in printable(text).split():
            longer = f"{line} {word}".lstrip()
            if self._fitting(longer, width) == longer:
                line = longer
                continue
            if line:
                yield line
            line = word
            while (start := self._fitting(line, width)) != line:
                yield start
                line = line.removeprefix(start)
        yield line

    def _fitting(self, text: str, width: float) -> str:
        end = len(text)
        while self.pdf.get_string_width(text[:end]) > width:
            end -= 1
        return text[:end]


def _blank_page(sheet: BoletoSheet) -> FPDF:
    pdf = FPDF(format="A4", unit="mm")
    pdf.core_fonts_encoding = _ENCODING
    pdf.set_auto_page_break(auto=False)
    pdf.set_creation_date(datetime.combine(sheet.document_date, time(), UTC))
    pdf.set_producer("Vintém")
    pdf.set_lang("pt-BR")
    pdf.set_title(f"Boleto {printable(sheet.document_number)}")
    pdf.add_page()
    return pdf


def _draw_test_marks(pen: _Pen) -> None:
    # Under all the rest, and pale, so that what is printed over them stays readable.
    pen.pdf.set_font(_FONT, style="B", size=46)
    pen.pdf.set_text_color(*_PALE_RED)
    x = _LEFT + (_WIDTH - pen.pdf.get_string_width(TEST_MARK)) / 2
    for middle in _TEST_MARK_MIDDLES:
        with pen.pdf.rotation(12, x=_LEFT + _WIDTH / 2, y=middle):
            pen.pdf.text(x, middle + 6, TEST_MARK)
    pen.pdf.set_fill_color(*_RED)
    pen.pdf.rect(_LEFT, _BANNER_TOP, _WIDTH, 7, style=RenderStyle.F)
    pen.write(TEST_MARK, _BANNER, x=_LEFT, y=_BANNER_TOP + 5, width=_WIDTH)


def _draw_receipt(pen: _Pen, sheet: BoletoSheet) -> None:
    y = _draw_header(pen, sheet, y=_RECEIPT_TOP, right="Recibo do Pagador")
    _write_beneficiary(pen, sheet, y=y)
    y = pen.row((_Cell(_MAIN_WIDTH, "Beneficiário"), _due_date_cell(sheet)), y=y, height=10)
    _write_payer(pen, sheet, y=y)
    y = pen.row((_Cell(_MAIN_WIDTH, "Pagador"), _amount_cell(sheet)), y=y, height=13)
    details = (
        _Cell(30, "Data do documento", _day(sheet.document_date)),
        _Cell(66, "Nº documento", sheet.document_number),
        _Cell(44, _BENEFICIARY_CODE, sheet.beneficiary_code),
        _Cell(_SIDE_WIDTH, "Nosso número", sheet.our_number, _VALUE_RIGHT),
    )
    y = pen.row(details, y=y)
    y = _draw_instructions(pen, sheet, y=y, width=_WIDTH, height=26)
    pen.write("Autenticação mecânica", _LABEL_RIGHT, x=_LEFT, y=y + 2.8, width=_WIDTH)


def _draw_ways_to_pay(pen: _Pen, sheet: BoletoSheet) -> None:
    x, width = _LEFT, _WIDTH
    if sheet.pix_code is not None:
        width = (_WIDTH - _PANEL_GAP) / 2
        # The picture brings its own margin.
        qr, side = BytesIO(draw_png(sheet.pix_code)), _PANEL_HEIGHT - 2
        pen.pdf.image(qr, x=x + 1, y=_PANEL_TOP + 1, w=side, h=side)
        amount = _Cell(width - side - 2, "Valor", _reais(sheet.amount_cents), _TITLE)
        _draw_panel(pen, "Pague com Pix", _PIX_STEPS, amount, x=x, width=width)
        x += width + _PANEL_GAP
    line = _Cell(width - 4, "Linha digitável", format_line(sheet.digitable_line), _TITLE)
    _draw_panel(pen, "Pague com o código de barras", _LINE_STEPS, line, x=x, width=width)


def _draw_panel(
    pen: _Pen, title: str, steps: Sequence[str], end: _Cell, *, x: float, width: float
) -> None:
    pen.pdf.set_line_width(_THIN)
    pen.pdf.rect(x, _PANEL_TOP, width, _PANEL_HEIGHT, round_corners=True, corner_radius=2)
    left, room, bottom = x + width - end.width, end.width - 4, _PANEL_TOP + _PANEL_HEIGHT - 5
    pen.write(title, _TITLE, x=left, y=_PANEL_TOP + 8, width=room)
    pen.write_block(steps, x=left, y=_PANEL_TOP + 10.5, width=room, height=_PANEL_HEIGHT - 24)
    pen.write(end.label, _LABEL, x=left, y=bottom - 5.5, width=room)
    pen.write(end.value, end.style, x=left, y=bottom, width=room)


def _draw_cut(pen: _Pen) -> None:
    pen.write("Corte na linha pontilhada", _LABEL_RIGHT, x=_LEFT, y=_CUT - 1, width=_WIDTH)
    pen.pdf.set_line_width(_THIN)
    pen.pdf.set_dash_pattern(dash=1.4, gap=1)
    pen.pdf.line(_LEFT, _CUT, _RIGHT, _CUT)
    pen.pdf.set_dash_pattern()
    pen.pdf.set_font("zapfdingbats", size=11)
    pen.pdf.text(_LEFT - 4.5, _CUT + 1.3, _SCISSORS)


def _draw_slip(pen: _Pen, sheet: BoletoSheet) -> None:
    y = _draw_header(pen, sheet, y=_SLIP_TOP, right=format_line(sheet.digitable_line))
    place = _Cell(_MAIN_WIDTH, "Local de pagamento", _PAYMENT_PLACE)
    y = pen.row((place, _due_date_cell(sheet)), y=y)
    _write_beneficiary(pen, sheet, y=y)
    code = _Cell(_SIDE_WIDTH, _BENEFICIARY_CODE, sheet.beneficiary_code, _VALUE_RIGHT)
    y = pen.row((_Cell(_MAIN_WIDTH, "Beneficiário"), code), y=y, height=10)
    for cells in _slip_details(sheet):
        y = pen.row(cells, y=y)
    for number, label in enumerate(_ADJUSTMENTS):
        pen.box(_Cell(_SIDE_WIDTH, label), x=_LEFT + _MAIN_WIDTH, y=y + number * _ROW_HEIGHT)
    height = len(_ADJUSTMENTS) * _ROW_HEIGHT
    y = _draw_instructions(pen, sheet, y=y, width=_MAIN_WIDTH, height=height)
    _write_payer(pen, sheet, y=y)
    y = pen.row((_Cell(_WIDTH, "Pagador"),), y=y, height=16.5)
    pen.write("Sacador/Avalista", _LABEL, x=_INNER_LEFT, y=y - 1.1, width=40)
    pen.write("Cód. baixa", _LABEL, x=_INNER_LEFT + _MAIN_WIDTH, y=y - 1.1, width=40)
    pen.rule(y=y)
    authentication = "Autenticação mecânica – Ficha de Compensação"
    pen.write(authentication, _LABEL_RIGHT, x=_LEFT, y=y + 2.8, width=_WIDTH)
    _draw_barcode(pen, sheet.barcode, y=y + 4)


def _slip_details(sheet: BoletoSheet) -> Sequence[Sequence[_Cell]]:
    day = _day(sheet.document_date)
    return (
        (
            _Cell(26, "Data do documento", day),
            _Cell(50, "Nº documento", sheet.document_number),
            _Cell(17, "Espécie doc.", "DM"),
            _Cell(14, "Aceite", "N"),
            _Cell(33, "Data processamento", day),
            _Cell(_SIDE_WIDTH, "Nosso número", sheet.our_number, _VALUE_RIGHT),
        ),
        (
            _Cell(26, "Uso do banco"),
            _Cell(25, "Carteira", sheet.wallet),
            _Cell(25, "Espécie", "R$"),
            _Cell(31, "Quantidade"),
            _Cell(33, "Valor"),
            _amount_cell(sheet),
        ),
    )


def _draw_header(pen: _Pen, sheet: BoletoSheet, *, y: float, right: str) -> float:
    base, bottom = y + _HEADER_HEIGHT - 2.4, y + _HEADER_HEIGHT
    code_start, code_end = _LEFT + 44, _LEFT + 66
    pen.write(sheet.bank_name, _TITLE, x=_LEFT, y=base, width=42)
    pen.write(sheet.bank_code, _BANK, x=code_start, y=base, width=code_end - code_start)
    pen.write(right, _TITLE_RIGHT, x=code_end + 2, y=base, width=_RIGHT - code_end - 2)
    pen.rule(y=bottom)
    for x in (code_start, code_end):
        pen.pdf.line(x, y + 1.5, x, bottom)
    return bottom


def _due_date_cell(sheet: BoletoSheet) -> _Cell:
    return _Cell(_SIDE_WIDTH, "Vencimento", _day(sheet.due_date), _STRONG_RIGHT)


def _amount_cell(sheet: BoletoSheet) -> _Cell:
    amount = _reais(sheet.amount_cents)
    return _Cell(_SIDE_WIDTH, "(=) Valor do documento", amount, _STRONG_RIGHT)


def _write_beneficiary(pen: _Pen, sheet: BoletoSheet, *, y: float) -> None:
    _write_party(pen, name=sheet.beneficiary_name, document=sheet.beneficiary_document, y=y)
    address = sheet.beneficiary_address
    pen.write(address, _ADDRESS, x=_INNER_LEFT, y=y + 8.8, width=_INNER_MAIN_WIDTH)


def _write_payer(pen: _Pen, sheet: BoletoSheet, *, y: float) -> None:
    _write_party(pen, name=sheet.payer_name, document=sheet.payer_document, y=y)
    # There is room for two lines: whatever comes after the first shares the second.
    lines = (*sheet.payer_address_lines[:1], ", ".join(sheet.payer_address_lines[1:]))
    for number, line in enumerate(lines):
        base = y + 8.8 + number * 3.2
        pen.write(line, _ADDRESS, x=_INNER_LEFT, y=base, width=_INNER_MAIN_WIDTH)


def _write_party(pen: _Pen, *, name: str, document: str, y: float) -> None:
    name_width, base = _INNER_MAIN_WIDTH - 42, y + 5.6
    pen.write(name, _VALUE, x=_INNER_LEFT, y=base, width=name_width - 2)
    pen.write(_masked(document), _VALUE_RIGHT, x=_INNER_LEFT + name_width, y=base, width=42)


def _draw_instructions(
    pen: _Pen, sheet: BoletoSheet, *, y: float, width: float, height: float
) -> float:
    pen.box(_Cell(width, _INSTRUCTIONS), x=_LEFT, y=y, height=height)
    paragraphs = (*sheet.instructions.splitlines(), *sheet.late_lines)
    room = width - 2 * _PADDING
    pen.write_block(paragraphs, x=_INNER_LEFT, y=y + 3, width=room, height=height - 4)
    return y + height


def _draw_barcode(pen: _Pen, digits: str, *, y: float) -> None:
    pen.pdf.set_fill_color(_BLACK)
    x = _LEFT
    for bar, space in _bars(digits):
        pen.pdf.rect(x, y, bar * _MODULE_WIDTH, _BARCODE_HEIGHT, style=RenderStyle.F)
        x += (bar + space) * _MODULE_WIDTH


def _bars(digits: str) -> Iterator[tuple[int, int]]:
    # Interleaved 2 of 5: of each two digits the first is in the bars, the second in the spaces.
    narrow_or_wide = [_DIGIT_BARS[int(digit) * 6 :][:5] for digit in digits]
    bars, spaces = "".join(narrow_or_wide[::2]), "".join(narrow_or_wide[1::2])
    for bar, space in zip(f"nn{bars}wn", f"nn{spaces}nn", strict=True):
        yield _BAR_MODULES[bar], _BAR_MODULES[space]


def _masked(document: str) -> str:
    if not document:
        return ""
    if len(document) == 11:
        return f"CPF {format_cpf(document)}"
    return f"CNPJ {format_cnpj(document)}"


def _day(day: date) -> str:
    return f"{day.day:02d}/{day.month:02d}/{day.year:04d}"


def _reais(cents: Cents) -> str:
    whole, rest = divmod(cents, 100)
    thousands = f"{whole:,}".replace(",", ".")
    return f"R$ {thousands},{rest:02d}"


def printable(text: str) -> str:
    """Write a text in the alphabet of the fonts that every reader of PDF has."""
    composed = unicodedata.normalize("NFC", text.translate(_SPARE_CHARACTERS))
    return "".join(map(_printable_character, composed)).strip()


def _printable_character(character: str) -> str:
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    # Controls, and accents without a letter of their own, leave no mark.
    if category[0] in "CM":
        return ""
    if character.encode(_ENCODING, "ignore"):
        return character
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    # A small picture says little and is left out; a letter is shown to be missing.
    return plain or ("" if category in {"So", "Sk"} else "?")
