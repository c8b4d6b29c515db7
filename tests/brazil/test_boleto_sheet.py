"""The page of a boleto: read back as text and as a picture, by readers that are not ours."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import date

import pypdfium2  # type: ignore[import-untyped]
import pytest
import zxingcpp
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from support.codes import read_codes
from vintem.brazil.boleto import format_line, make_sandbox_boleto
from vintem.brazil.boleto_page import TEST_MARK, draw_pdf
from vintem.brazil.boleto_sheet import (
    INSTRUCTIONS_CHARACTERS_MAX,
    LATE_LINE_CHARACTERS_MAX,
    LATE_LINES_MAX,
    BoletoSheet,
    bank_code_with_digit,
)
from vintem.brazil.br_code import CODE_CHARACTERS_MAX, encode_dynamic

PIXELS_PER_MM = 12
POINTS_PER_MM = 72 / 25.4
PIX_CODE = encode_dynamic(
    url="pix.exemplo.com.br/qr/v2/9d36b84fc70b478fb95c12729b90ca25",
    merchant_name="Loja de Teste",
    merchant_city="São Paulo",
)
BOLETO = make_sandbox_boleto(our_number=1_234_567, due_date=date(2026, 3, 31), amount_cents=123_456)
SHEET = BoletoSheet(
    bank_name="Banco de Teste",
    bank_code="999-7",
    beneficiary_name="Loja de Teste Ltda.",
    beneficiary_document="11222333000181",
    beneficiary_address="Avenida Exemplo, 1000, Centro, São Paulo/SP, CEP 01000-000",
    payer_name="Cliente de Teste",
    payer_document="11144477735",
    payer_address_lines=("Rua de Exemplo, 123, Jardim Ação", "01234-567 Florianópolis/SC"),
    our_number="00000000001234567",
    document_number="tx_01k7y3v9m2q8r4t6w0z5b1c3d7",
    document_date=date(2026, 3, 24),
    due_date=date(2026, 3, 31),
    amount_cents=123_456,
    instructions="Não receber após 3 dias úteis do vencimento.\nDúvidas: fale com a loja.",
    late_lines=("Após o vencimento, multa de 2,00%.", "Juros de 1,00% ao mês."),
    digitable_line=BOLETO.line,
    barcode=BOLETO.barcode,
    pix_code=PIX_CODE,
    is_test=False,
    beneficiary_code="0001/0012345-6",
    wallet="001",
)
LONGEST = replace(
    SHEET,
    bank_name="Banco de Nome Comprido " * 5,
    beneficiary_name="W" * 100,
    beneficiary_address="Avenida Comprida, " * 20,
    payer_name="MÇÃO " * 20,
    payer_address_lines=("Rua Comprida, " * 20, "Bairro Comprido, " * 20, "Cidade/UF"),
    our_number="9" * 40,
    document_number="tx_" + "w" * 60,
    beneficiary_code="0" * 40,
    wallet="0" * 40,
    amount_cents=9_999_999_999,
    instructions=("Ação de teste\n" * 30)[:INSTRUCTIONS_CHARACTERS_MAX],
    late_lines=("M" * LATE_LINE_CHARACTERS_MAX,) * LATE_LINES_MAX,
    pix_code=("Az9*" * CODE_CHARACTERS_MAX)[:CODE_CHARACTERS_MAX],
    is_test=True,
)
LABELS = [
    "Recibo do Pagador",
    "Local de pagamento",
    "Vencimento",
    "Beneficiário",
    "Agência/Código do beneficiário",
    "Data do documento",
    "Nº documento",
    "Espécie doc.",
    "Aceite",
    "Data processamento",
    "Nosso número",
    "Uso do banco",
    "Carteira",
    "Espécie",
    "Quantidade",
    "Valor",
    "(=) Valor do documento",
    "(-) Desconto/Abatimento",
    "(-) Outras deduções",
    "(+) Mora/Multa",
    "(+) Outros acréscimos",
    "(=) Valor cobrado",
    "Instruções",
    "Pagador",
    "Sacador/Avalista",
    "Autenticação mecânica",
    "Ficha de Compensação",
]


@contextmanager
def opened(sheet: BoletoSheet) -> Iterator[pypdfium2.PdfPage]:
    with closing(pypdfium2.PdfDocument(draw_pdf(sheet))) as document:
        assert len(document) == 1
        yield document[0]


def text_of(sheet: BoletoSheet) -> str:
    with opened(sheet) as page:
        text: str = page.get_textpage().get_text_bounded()
    return text


def picture_of(sheet: BoletoSheet) -> Image.Image:
    with opened(sheet) as page:
        picture: Image.Image = page.render(scale=PIXELS_PER_MM / POINTS_PER_MM).to_pil()
    return picture.convert("L")


def codes_of(sheet: BoletoSheet) -> dict[zxingcpp.BarcodeFormat, zxingcpp.Barcode]:
    return {code.format: code for code in read_codes(picture_of(sheet))}


@pytest.mark.parametrize("label", LABELS)
def test_the_sheet_has_every_usual_label(label: str) -> None:
    assert label in text_of(SHEET)


@pytest.mark.parametrize(
    "value",
    [
        "Banco de Teste",
        "999-7",
        "31/03/2026",
        "24/03/2026",
        "R$ 1.234,56",
        format_line(BOLETO.line),
        "CNPJ 11.222.333/0001-81",
        "CPF 111.444.777-35",
        SHEET.beneficiary_address,
        *SHEET.payer_address_lines,
        SHEET.our_number,
        SHEET.document_number,
        *SHEET.instructions.splitlines(),
        *SHEET.late_lines,
        SHEET.beneficiary_code,
        "Pague com Pix",
    ],
)
def test_the_sheet_says(value: str) -> None:
    assert value in text_of(SHEET)


@pytest.mark.parametrize(
    ("cents", "text"),
    [(1, "R$ 0,01"), (100_000, "R$ 1.000,00"), (9_999_999_999, "R$ 99.999.999,99")],
)
def test_amounts_are_written_as_in_brazil(cents: int, text: str) -> None:
    assert text in text_of(replace(SHEET, amount_cents=cents))


@pytest.mark.parametrize("sheet", [SHEET, replace(SHEET, is_test=True), LONGEST])
def test_readers_find_the_barcode_and_the_pix_code(sheet: BoletoSheet) -> None:
    codes = codes_of(sheet)
    assert codes[zxingcpp.BarcodeFormat.ITF].text == sheet.barcode
    assert codes[zxingcpp.BarcodeFormat.QRCode].text == sheet.pix_code


@pytest.mark.parametrize("number", [0, 98_765_432_109_876_543, 11_223_344_556_677_889])
def test_every_digit_has_its_bars(number: int) -> None:
    boleto = make_sandbox_boleto(our_number=number, due_date=date(2030, 1, 2), amount_cents=555)
    sheet = replace(SHEET, digitable_line=boleto.line, barcode=boleto.barcode)
    assert codes_of(sheet)[zxingcpp.BarcodeFormat.ITF].text == boleto.barcode


def test_the_barcode_is_103_by_13_millimetres() -> None:
    picture = picture_of(SHEET)
    # Below the last label there is only the barcode.
    top = 272 * PIXELS_PER_MM
    bars = picture.crop((0, top, 120 * PIXELS_PER_MM, picture.height))
    box = bars.point(lambda value: 255 if value < 128 else 0).getbbox()
    assert box is not None
    assert (box[2] - box[0]) / PIXELS_PER_MM == pytest.approx(103, abs=0.2)
    middle = codes_of(SHEET)[zxingcpp.BarcodeFormat.ITF].position.top_left.x
    column = picture.crop((middle, 265 * PIXELS_PER_MM, middle + 2, picture.height))
    box = column.point(lambda value: 255 if value < 128 else 0).getbbox()
    assert box is not None
    assert (box[3] - box[1]) / PIXELS_PER_MM == pytest.approx(13, abs=0.2)


def test_without_a_pix_code_only_the_barcode_is_offered() -> None:
    sheet = replace(SHEET, pix_code=None)
    assert set(codes_of(sheet)) == {zxingcpp.BarcodeFormat.ITF}
    assert "PIX" not in text_of(sheet)


def test_a_test_is_marked_on_both_parts_and_nothing_else_is() -> None:
    assert text_of(replace(SHEET, is_test=True)).count(TEST_MARK) == 3
    assert "TESTE" not in text_of(SHEET)


def test_the_longest_texts_stay_on_the_page() -> None:
    picture = picture_of(LONGEST)
    margin = 5 * PIXELS_PER_MM
    dark = picture.point(lambda value: 255 - value).getbbox()
    assert dark is not None
    assert dark[0] >= margin
    assert dark[1] >= margin
    assert dark[2] <= picture.width - margin
    assert dark[3] <= picture.height - margin


def test_no_text_leaves_its_column() -> None:
    with opened(LONGEST) as page:
        text_page = page.get_textpage()
        boxes = [text_page.get_charbox(index) for index in range(text_page.count_chars())]
    assert max(box[2] for box in boxes) <= 198.2 * POINTS_PER_MM


def test_every_letter_of_portuguese_prints() -> None:
    letters = "áàâãäçéêíóôõöúüñ ÁÀÂÃÄÇÉÊÍÓÔÕÖÚÜÑ ªº°§ “aspas” ‘simples’ – — … € R$ (\\)"
    assert letters in text_of(replace(SHEET, instructions=letters))


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("Cliente Łódź de Teste", "Cliente Lódz de Teste"),
        ("Açaí", "Açaí"),
        ("Cliente\u200b de\tTeste\x00 🙂", "Cliente de Teste"),
        ("Клиент 1", "?????? 1"),
        ("№ 5 ﬁm", "No 5 fim"),
    ],
)
def test_a_name_outside_the_fonts_is_written_as_near_as_can_be(name: str, printed: str) -> None:
    sheet = replace(SHEET, payer_name=name, beneficiary_name=name, bank_name=name)
    assert printed in text_of(sheet)


@given(
    name=st.text(max_size=100),
    instructions=st.text(max_size=INSTRUCTIONS_CHARACTERS_MAX),
    lines=st.lists(st.text(max_size=200), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_no_text_stops_the_drawing(name: str, instructions: str, lines: list[str]) -> None:
    sheet = replace(
        SHEET,
        payer_name=name,
        document_number=name,
        beneficiary_address=instructions,
        payer_address_lines=tuple(lines),
        instructions=instructions,
        pix_code=None,
    )
    assert draw_pdf(sheet).startswith(b"%PDF-")


@pytest.mark.parametrize("instructions", ["\n" * 255, "W" * 255, f"{'W' * 50} " * 5, "é " * 127])
def test_odd_instructions_stay_above_the_payer(instructions: str) -> None:
    text = text_of(replace(SHEET, instructions=instructions))
    assert text.count(SHEET.late_lines[-1]) == 2


def test_the_same_sheet_is_always_the_same_bytes() -> None:
    first = draw_pdf(SHEET)
    time.sleep(1.1)
    assert draw_pdf(SHEET) == first
    assert draw_pdf(replace(SHEET, payer_name="Outro Cliente de Teste")) != first
    assert b"20260324000000" in first


def test_a_sheet_is_small_and_quickly_drawn() -> None:
    # The first drawing also loads what the later ones find loaded.
    assert len(draw_pdf(SHEET)) < 20_000
    seconds = []
    for _ in range(7):
        start = time.process_time()
        draw_pdf(SHEET)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.15


@pytest.mark.parametrize(
    ("bank", "code"),
    [("001", "001-9"), ("033", "033-7"), ("104", "104-0"), ("237", "237-2"), ("341", "341-7")],
)
def test_banks_show_their_own_digit(bank: str, code: str) -> None:
    assert bank_code_with_digit(bank) == code


@pytest.mark.parametrize(
    "wrong",
    [
        replace(SHEET, digitable_line=BOLETO.line[::-1]),
        replace(SHEET, bank_code="999"),
        replace(SHEET, amount_cents=-1),
        replace(SHEET, instructions="a" * (INSTRUCTIONS_CHARACTERS_MAX + 1)),
        replace(SHEET, late_lines=("a",) * (LATE_LINES_MAX + 1)),
        replace(SHEET, late_lines=("a" * (LATE_LINE_CHARACTERS_MAX + 1),)),
    ],
)
def test_a_sheet_that_contradicts_itself_is_a_bug(wrong: BoletoSheet) -> None:
    with pytest.raises(AssertionError):
        draw_pdf(wrong)
