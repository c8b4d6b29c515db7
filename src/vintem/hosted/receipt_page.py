"""A receipt, drawn on one page.

The library that draws takes a second and tens of megabytes to load: whoever may never draw a
receipt should load this module when the first one is asked for.
"""

from typing import Final

from fpdf import FPDF
from fpdf.enums import RenderStyle

from vintem.brazil.boleto_page import printable
from vintem.hosted.receipt_sheet import ReceiptSheet, SheetLine

_FONT: Final = "helvetica"
_LEFT: Final = 20.0
_WIDTH: Final = 170.0
_LABEL_WIDTH: Final = 62.0
_LINE_HEIGHT: Final = 7.0
_TEXT_HEIGHT: Final = 5.0
_TOP: Final = 22.0
_BOTTOM: Final = 18.0
_BLACK: Final = 0
_GREY: Final = 90
_RULE_GREY: Final = 200
_RED: Final = (190, 20, 20)
_WHITE: Final = 255


def draw_receipt(sheet: ReceiptSheet) -> bytes:
    """Draw a receipt on A4, the same bytes for the same sheet."""
    pdf = _blank(sheet)
    if sheet.test_mark:
        _draw_test_mark(pdf, sheet.test_mark)
    pdf.set_y(_TOP)
    _write(pdf, sheet.seller, points=11, grey=_GREY)
    _write(pdf, sheet.title, points=18, is_bold=True)
    _write(pdf, sheet.amount, points=24, is_bold=True)
    for block in sheet.blocks:
        _rule(pdf)
        for line in block:
            _draw_line(pdf, line)
    _rule(pdf)
    _write(pdf, sheet.footer, points=8, grey=_GREY)
    return bytes(pdf.output())


def _blank(sheet: ReceiptSheet) -> FPDF:
    pdf = FPDF(format="A4", unit="mm")
    pdf.core_fonts_encoding = "cp1252"
    pdf.set_margins(_LEFT, _TOP, _LEFT)
    pdf.set_auto_page_break(auto=True, margin=_BOTTOM)
    pdf.set_creation_date(sheet.made_at)
    pdf.set_producer("Vintém")
    pdf.set_lang(sheet.language)
    pdf.set_title(printable(f"{sheet.title} – {sheet.seller}"))
    pdf.add_page()
    return pdf


def _draw_test_mark(pdf: FPDF, mark: str) -> None:
    pdf.set_fill_color(*_RED)
    pdf.rect(_LEFT, 10, _WIDTH, 7, style=RenderStyle.F)
    pdf.set_font(_FONT, style="B", size=11)
    pdf.set_text_color(_WHITE)
    text = printable(mark)
    pdf.text(_LEFT + (_WIDTH - pdf.get_string_width(text)) / 2, 15, text)


def _draw_line(pdf: FPDF, line: SheetLine) -> None:
    """Write what it is on the left, and what it says on the right, as many lines as it needs."""
    top = pdf.get_y()
    pdf.set_font(_FONT, style="B" if line.is_strong else "", size=10)
    pdf.set_text_color(_BLACK if line.is_strong else _GREY)
    pdf.multi_cell(
        _LABEL_WIDTH if not line.is_wide else _WIDTH - _LABEL_WIDTH,
        _TEXT_HEIGHT,
        printable(line.label),
        align="L",
        new_x="RIGHT",
        new_y="TOP",
        dry_run=False,
    )
    below = top + _LINE_HEIGHT
    label_width = _WIDTH - _LABEL_WIDTH if line.is_wide else _LABEL_WIDTH
    pdf.set_xy(_LEFT + label_width, top)
    pdf.set_text_color(_BLACK)
    pdf.multi_cell(
        _WIDTH - label_width,
        _TEXT_HEIGHT,
        printable(line.value),
        align="R",
        new_x="LMARGIN",
        new_y="NEXT",
    )
    pdf.set_y(max(pdf.get_y() + _LINE_HEIGHT - _TEXT_HEIGHT, below))


def _rule(pdf: FPDF) -> None:
    y = pdf.get_y() + 2
    pdf.set_draw_color(_RULE_GREY)
    pdf.line(_LEFT, y, _LEFT + _WIDTH, y)
    pdf.set_y(y + 4)


def _write(pdf: FPDF, text: str, *, points: int, is_bold: bool = False, grey: int = _BLACK) -> None:
    pdf.set_font(_FONT, style="B" if is_bold else "", size=points)
    pdf.set_text_color(grey)
    pdf.multi_cell(_WIDTH, points * 0.5, printable(text), align="L", new_x="LMARGIN", new_y="NEXT")
