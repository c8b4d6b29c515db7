"""What a buyer types into the payment form: read kindly, checked strictly, each fault by its field.

Punctuation is never a fault, and neither the number nor the code of a card is ever given back.
"""

import re
import unicodedata
from datetime import datetime
from typing import Final

import msgspec

from vintem.api.transaction_shapes import (
    EMAIL,
    AddressBody,
    CustomerBody,
    DocumentBody,
    RawCardBody,
)
from vintem.brazil.cards import CardBrand, CardNumber, has_expired, has_luhn_digit, is_cvv
from vintem.brazil.documents import normalise_cnpj, normalise_cpf
from vintem.brazil.phone import normalise_phone
from vintem.hosted.forms import Form
from vintem.hosted.views import Field, FieldError, Method, Problem, Typed

NAME_CHARACTERS_MAX: Final = 100
NAME_CHARACTERS_MIN: Final = 3
EMAIL_CHARACTERS_MAX: Final = 254
ADDRESS_CHARACTERS_MAX: Final = 120
STREET_NUMBER_CHARACTERS_MAX: Final = 20
# A card number typed into a name would be stored and shown.
NAME_DIGITS_MAX: Final = 6

CARD_DIGITS_MIN: Final = 13
CARD_DIGITS_MAX: Final = 19
CARD_FIELDS: Final = frozenset({"form_nonce", "cc_number", "cc_exp", "cc_csc"})
DOCUMENT_FIELDS: Final = frozenset({"document", "cc_document"})

_DIGITS: Final = re.compile(r"[0-9](?:[\s./()+_-]*[0-9]){12,}")
_PUNCTUATION: Final = re.compile(r"[\s./()+-]+")
_EMAIL: Final = re.compile(EMAIL)
_CPF_CHARACTERS: Final = 11
_CEP: Final = re.compile(r"[0-9]{8}")
_EXPIRY: Final = re.compile(r"(0[1-9]|1[0-2])((?:20)?[0-9]{2})")
_STATE: Final = re.compile("A[CLMP]|BA|CE|DF|ES|GO|M[AGST]|P[ABEIR]|R[JNORS]|S[CEP]|TO")
_CENTURY: Final = 2_000
_INSTALLMENTS: Final = re.compile(r"[1-9][0-9]?")


class PayForm(Form, frozen=True):
    """The payment form as it is sent; it holds a card, and so never shows itself."""

    form_nonce: str = ""
    name: str = ""
    email: str = ""
    document: str = ""
    phone: str = ""
    method: str = ""
    postal_code: str = ""
    street: str = ""
    street_number: str = ""
    complement: str = ""
    neighborhood: str = ""
    city: str = ""
    state: str = ""
    cc_number: str = ""
    cc_exp: str = ""
    cc_csc: str = ""
    cc_name: str = ""
    cc_document: str = ""
    installments: str = ""

    def __repr__(self) -> str:
        return "PayForm(…)"


class Buyer(msgspec.Struct, frozen=True):
    """Who pays, and how, once nothing is wrong with it."""

    method: Method
    customer: CustomerBody
    card: RawCardBody | None
    installments: int


def without_card_numbers(form: PayForm) -> PayForm:
    """Forget what looks like a card's number wherever none belongs: it is never kept or shown."""
    misplaced = {
        name: ""
        for name in form.__struct_fields__
        if name not in CARD_FIELDS and looks_like_card(getattr(form, name), name)
    }
    return msgspec.structs.replace(form, **misplaced)


def looks_like_card(text: str, field: str = "") -> bool:
    """Say whether a text holds a run of digits that is, or has in it, a card's number."""
    for run in _DIGITS.findall(unicodedata.normalize("NFKC", text)):
        digits = "".join(filter(str.isdigit, run))
        if _belongs(digits, field):
            continue
        if len(digits) <= CARD_DIGITS_MAX and has_luhn_digit(digits):
            return True
        for length in range(CARD_DIGITS_MIN, CARD_DIGITS_MAX + 1):
            parts = (digits[at : at + length] for at in range(len(digits) - length + 1))
            if any(_is_known_card(part) for part in parts):
                return True
    return False


def _belongs(digits: str, field: str) -> bool:
    # Some numbers of companies and telephones are as long, and end with the digit of a card.
    if field == "phone":
        return normalise_phone(digits) is not None
    return field in DOCUMENT_FIELDS and normalise_cnpj(digits) is not None


def _is_known_card(digits: str) -> bool:
    number = CardNumber.parse(digits)
    return number is not None and number.brand is not CardBrand.UNKNOWN


def typed_of(form: PayForm) -> Typed:
    """What is given back with a page that asks again."""
    return Typed(
        name=form.name[:NAME_CHARACTERS_MAX],
        email=form.email[:EMAIL_CHARACTERS_MAX],
        document=form.document[:24],
        phone=form.phone[:24],
        postal_code=form.postal_code[:12],
        street=form.street[:ADDRESS_CHARACTERS_MAX],
        street_number=form.street_number[:STREET_NUMBER_CHARACTERS_MAX],
        complement=form.complement[:ADDRESS_CHARACTERS_MAX],
        neighborhood=form.neighborhood[:ADDRESS_CHARACTERS_MAX],
        city=form.city[:ADDRESS_CHARACTERS_MAX],
        state=form.state if _STATE.fullmatch(form.state) else "",
        card_name="" if _holds_number(form.cc_name) else form.cc_name[:NAME_CHARACTERS_MAX],
        card_document=form.cc_document[:24],
        installments=int(form.installments) if _INSTALLMENTS.fullmatch(form.installments) else 1,
    )


def read_buyer(form: PayForm, now: datetime) -> Buyer | list[FieldError]:
    """Read the whole form, or list every field that is wrong, in the order of the page."""
    check = _Check()
    name = check.name(Field.NAME, form.name, Problem.NAME_INVALID)
    email = check.email(form.email)
    document = check.document(Field.DOCUMENT, form.document, Problem.DOCUMENT_INVALID)
    # A company may be called by one word, a person is not.
    if name is not None and " " not in name and (document is None or document.type == "cpf"):
        check.fail(Field.NAME, Problem.NAME_INVALID)
    phone = check.phone(form.phone)
    method = check.method(form.method)
    address = check.address(form) if method is Method.BOLETO else None
    card = check.card(form, now) if method is Method.CARD else None
    installments = check.installments(form.installments) if method is Method.CARD else 1
    if check.errors:
        order = list(Field)
        return sorted(check.errors, key=lambda error: order.index(error.field))
    assert name is not None
    assert email is not None
    assert document is not None
    assert method is not None
    customer = CustomerBody(name=name, email=email, document=document, phone=phone, address=address)
    return Buyer(method, customer, card, installments)


class _Check:
    """The faults found so far; each check gives what was read, or None."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def fail(self, field: Field, problem: Problem) -> None:
        self.errors.append(FieldError(field=field, problem=problem))

    def name(self, field: Field, text: str, problem: Problem) -> str | None:
        name = " ".join(unicodedata.normalize("NFC", text).split())
        if len(name) > NAME_CHARACTERS_MAX:
            self.fail(field, Problem.TOO_LONG)
        elif len(name) < NAME_CHARACTERS_MIN or _holds_number(name):
            self.fail(field, problem)
        else:
            return name
        return None

    def email(self, text: str) -> str | None:
        if len(text) > EMAIL_CHARACTERS_MAX:
            self.fail(Field.EMAIL, Problem.TOO_LONG)
        elif _EMAIL.fullmatch(text) is None:
            self.fail(Field.EMAIL, Problem.EMAIL_INVALID)
        else:
            return text
        return None

    def document(self, field: Field, text: str, problem: Problem) -> DocumentBody | None:
        plain = _PUNCTUATION.sub("", text).upper()
        if not plain and field is Field.DOCUMENT:
            self.fail(field, Problem.DOCUMENT_MISSING)
            return None
        is_cpf = len(plain) == _CPF_CHARACTERS
        number = normalise_cpf(plain) if is_cpf else normalise_cnpj(plain)
        if number is None:
            self.fail(field, problem)
            return None
        return DocumentBody(type="cpf" if is_cpf else "cnpj", number=number)

    def phone(self, text: str) -> str | None:
        if not text:
            return None
        phone = normalise_phone(_PUNCTUATION.sub("", text))
        if phone is None:
            self.fail(Field.PHONE, Problem.PHONE_INVALID)
        return phone

    def method(self, text: str) -> Method | None:
        if text in set(Method):
            return Method(text)
        self.fail(Field.METHOD, Problem.METHOD_MISSING)
        return None

    def address(self, form: PayForm) -> AddressBody | None:
        found = len(self.errors)
        postal_code = _PUNCTUATION.sub("", form.postal_code)
        if _CEP.fullmatch(postal_code) is None:
            self.fail(Field.POSTAL_CODE, Problem.POSTAL_CODE_INVALID)
        street = self._text(Field.STREET, form.street, Problem.STREET_MISSING)
        number = self._text(
            Field.STREET_NUMBER,
            form.street_number,
            Problem.STREET_NUMBER_MISSING,
            characters_max=STREET_NUMBER_CHARACTERS_MAX,
        )
        complement = self._text(Field.COMPLEMENT, form.complement, None)
        neighborhood = self._text(
            Field.NEIGHBORHOOD, form.neighborhood, Problem.NEIGHBORHOOD_MISSING
        )
        city = self._text(Field.CITY, form.city, Problem.CITY_MISSING)
        if _STATE.fullmatch(form.state) is None:
            self.fail(Field.STATE, Problem.STATE_MISSING)
        if len(self.errors) > found:
            return None
        return AddressBody(
            street=street,
            street_number=number,
            neighborhood=neighborhood,
            zip_code=postal_code,
            city=city,
            state=form.state,
            complement=complement or None,
        )

    def card(self, form: PayForm, now: datetime) -> RawCardBody | None:
        found = len(self.errors)
        number = CardNumber.parse(_PUNCTUATION.sub("", form.cc_number))
        if number is None:
            self.fail(Field.CARD_NUMBER, Problem.CARD_NUMBER_INVALID)
        month, year = self._expiry(form.cc_exp, now)
        if number is not None and not is_cvv(form.cc_csc, number.brand):
            self.fail(Field.CARD_CODE, Problem.CARD_CODE_INVALID)
        name = self.name(Field.CARD_NAME, form.cc_name, Problem.CARD_NAME_INVALID)
        if form.cc_document:
            self.document(Field.CARD_DOCUMENT, form.cc_document, Problem.CARD_DOCUMENT_INVALID)
        if len(self.errors) > found:
            return None
        assert number is not None
        assert name is not None
        return RawCardBody(
            number=number.reveal(),
            holder_name=name,
            expiration_month=month,
            expiration_year=year,
            cvv=form.cc_csc,
        )

    def installments(self, text: str) -> int:
        if text and _INSTALLMENTS.fullmatch(text) is None:
            self.fail(Field.INSTALLMENTS, Problem.INSTALLMENTS_INVALID)
            return 1
        return int(text or "1")

    def _expiry(self, text: str, now: datetime) -> tuple[int, int]:
        written = _EXPIRY.fullmatch(_PUNCTUATION.sub("", text))
        if written is None:
            self.fail(Field.CARD_EXPIRY, Problem.CARD_EXPIRY_INVALID)
            return 0, 0
        month, year = int(written[1]), _CENTURY + int(written[2][-2:])
        if has_expired(month=month, year=year, now=now):
            self.fail(Field.CARD_EXPIRY, Problem.CARD_EXPIRED)
        return month, year

    def _text(
        self,
        field: Field,
        text: str,
        problem: Problem | None,
        *,
        characters_max: int = ADDRESS_CHARACTERS_MAX,
    ) -> str:
        if len(text) > characters_max:
            self.fail(field, Problem.TOO_LONG)
        elif not text and problem is not None:
            self.fail(field, problem)
        return text


def _holds_number(text: str) -> bool:
    return sum(character.isdigit() for character in text) > NAME_DIGITS_MAX
