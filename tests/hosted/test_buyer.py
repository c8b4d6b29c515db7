"""What buyers type, in all the ways they type it."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from vintem.hosted.buyer import Buyer, PayForm, read_buyer, typed_of
from vintem.hosted.views import Field, FieldError, Method, Problem

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)

PIX = {
    "name": "Maria da Silva",
    "email": "maria@example.com",
    "document": "529.982.247-25",
    "method": "pix",
}
CARD = PIX | {
    "method": "credit_card",
    "cc_number": "4242-4242-4242-4242",
    "cc_exp": "12/30",
    "cc_csc": "123",
    "cc_name": "MARIA DA SILVA",
    "installments": "12",
}
BOLETO = PIX | {
    "method": "boleto",
    "postal_code": "01310-100",
    "street": "Avenida Paulista",
    "street_number": "1000",
    "neighborhood": "Bela Vista",
    "city": "São Paulo",
    "state": "SP",
}


def read(typed: dict[str, str], **changed: str) -> Buyer:
    buyer = read_buyer(PayForm(**(typed | changed)), NOW)
    assert isinstance(buyer, Buyer), buyer
    return buyer


def faults(typed: dict[str, str], **changed: str) -> dict[Field, Problem]:
    errors = read_buyer(PayForm(**(typed | changed)), NOW)
    assert isinstance(errors, list), errors
    assert all(isinstance(error, FieldError) for error in errors)
    return {error.field: error.problem for error in errors}


@pytest.mark.parametrize(
    ("typed", "kind", "number"),
    [
        ("52998224725", "cpf", "52998224725"),
        ("529.982.247-25", "cpf", "52998224725"),
        (" 529 982 247/25 ", "cpf", "52998224725"),
        ("11.222.333/0001-81", "cnpj", "11222333000181"),
        ("12.abc.345/01de-35", "cnpj", "12ABC34501DE35"),
    ],
)
def test_a_document_is_read_with_any_punctuation(typed: str, kind: str, number: str) -> None:
    document = read(PIX, document=typed).customer.document
    assert (document.type, document.number) == (kind, number)


@pytest.mark.parametrize("typed", ["5511987654321", "+55 (11) 98765-4321", "11 98765.4321"])
def test_a_phone_is_read_with_any_punctuation(typed: str) -> None:
    assert read(PIX, phone=typed).customer.phone == "+5511987654321"


@pytest.mark.parametrize(
    ("written", "month", "year"),
    [("12/30", 12, 2030), ("12 / 2030", 12, 2030), ("122030", 12, 2030), ("1230", 12, 2030)],
)
def test_an_expiry_is_read_in_each_of_its_forms(written: str, month: int, year: int) -> None:
    card = read(CARD, cc_exp=written).card
    assert card is not None
    assert (card.expiration_month, card.expiration_year) == (month, year)


def test_a_card_keeps_only_the_digits_of_its_number() -> None:
    buyer = read(CARD)
    assert buyer.card is not None
    assert (buyer.method, buyer.installments) == (Method.CARD, 12)
    assert buyer.card.number == "4242424242424242"


def test_a_boleto_has_the_address_of_its_payer() -> None:
    address = read(BOLETO).customer.address
    assert address is not None
    assert (address.zip_code, address.state, address.complement) == ("01310100", "SP", None)


def test_a_company_may_be_called_by_one_word_and_a_person_not() -> None:
    assert read(PIX, name="Mercado", document="11222333000181").customer.name == "Mercado"
    assert faults(PIX, name="Maria") == {Field.NAME: Problem.NAME_INVALID}


@pytest.mark.parametrize(
    ("typed", "changed", "field", "problem"),
    [
        (PIX, {"name": ""}, Field.NAME, Problem.NAME_INVALID),
        (PIX, {"name": "4242 4242 4242 4242"}, Field.NAME, Problem.NAME_INVALID),
        (PIX, {"name": "Ana " * 50}, Field.NAME, Problem.TOO_LONG),
        (PIX, {"email": "maria"}, Field.EMAIL, Problem.EMAIL_INVALID),
        (PIX, {"email": "a@" + "b" * 300 + ".com"}, Field.EMAIL, Problem.TOO_LONG),
        (PIX, {"document": ""}, Field.DOCUMENT, Problem.DOCUMENT_MISSING),
        (PIX, {"document": "529.982.247-26"}, Field.DOCUMENT, Problem.DOCUMENT_INVALID),
        (PIX, {"document": "11111111111"}, Field.DOCUMENT, Problem.DOCUMENT_INVALID),
        (PIX, {"phone": "123"}, Field.PHONE, Problem.PHONE_INVALID),
        (PIX, {"method": ""}, Field.METHOD, Problem.METHOD_MISSING),
        (PIX, {"method": "cash"}, Field.METHOD, Problem.METHOD_MISSING),
        (CARD, {"cc_number": "4242424242424241"}, Field.CARD_NUMBER, Problem.CARD_NUMBER_INVALID),
        (CARD, {"cc_exp": "13/30"}, Field.CARD_EXPIRY, Problem.CARD_EXPIRY_INVALID),
        (CARD, {"cc_exp": "10/26"}, Field.CARD_EXPIRY, Problem.CARD_EXPIRED),
        (CARD, {"cc_csc": "12"}, Field.CARD_CODE, Problem.CARD_CODE_INVALID),
        (CARD, {"cc_name": ""}, Field.CARD_NAME, Problem.CARD_NAME_INVALID),
        (CARD, {"cc_document": "1"}, Field.CARD_DOCUMENT, Problem.CARD_DOCUMENT_INVALID),
        (CARD, {"installments": "-1"}, Field.INSTALLMENTS, Problem.INSTALLMENTS_INVALID),
        (BOLETO, {"postal_code": "123"}, Field.POSTAL_CODE, Problem.POSTAL_CODE_INVALID),
        (BOLETO, {"street": ""}, Field.STREET, Problem.STREET_MISSING),
        (BOLETO, {"street_number": ""}, Field.STREET_NUMBER, Problem.STREET_NUMBER_MISSING),
        (BOLETO, {"street_number": "1" * 21}, Field.STREET_NUMBER, Problem.TOO_LONG),
        (BOLETO, {"neighborhood": ""}, Field.NEIGHBORHOOD, Problem.NEIGHBORHOOD_MISSING),
        (BOLETO, {"city": ""}, Field.CITY, Problem.CITY_MISSING),
        (BOLETO, {"state": "XX"}, Field.STATE, Problem.STATE_MISSING),
    ],
)
def test_each_fault_is_named_by_its_field(
    typed: dict[str, str], changed: dict[str, str], field: Field, problem: Problem
) -> None:
    assert faults(typed, **changed) == {field: problem}


def test_all_faults_are_named_at_once_in_the_order_of_the_page() -> None:
    errors = read_buyer(PayForm(method="credit_card"), NOW)
    assert isinstance(errors, list)
    assert [error.field for error in errors] == [
        Field.NAME,
        Field.EMAIL,
        Field.DOCUMENT,
        Field.CARD_NUMBER,
        Field.CARD_EXPIRY,
        Field.CARD_NAME,
    ]


def test_what_is_given_back_never_holds_a_card() -> None:
    form = PayForm(**(CARD | {"cc_name": "4242 4242 4242 4242"}))
    given_back: Any = msgspec.to_builtins(typed_of(form))
    assert "4242" not in repr(given_back)
    assert "123" not in given_back.values()
    assert "4242" not in repr(form)
