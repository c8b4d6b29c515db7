"""Phones: the forms people write, and agreement with the numbering plan of another library."""

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.brazil import phone

DIGITS = "0123456789"
AREAS = [
    *(11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 24, 27, 28, 31, 32, 33, 34, 35, 37, 38),
    *(41, 42, 43, 44, 45, 46, 47, 48, 49, 51, 53, 54, 55, 61, 62, 63, 64, 65, 66, 67, 68, 69),
    *(71, 73, 74, 75, 77, 79, 81, 82, 83, 84, 85, 86, 87, 88, 89),
    *(91, 92, 93, 94, 95, 96, 97, 98, 99),
]


def valid_elsewhere(national: str) -> bool:
    number = phonenumbers.PhoneNumber(country_code=55, national_number=int(national))
    return phonenumbers.is_valid_number(number)


@pytest.mark.parametrize(
    "text",
    [
        "11987654321",
        "5511987654321",
        "+5511987654321",
        "(11) 98765-4321",
        "(11)98765-4321",
        "(11) 9 8765-4321",
        "11 98765-4321",
        "11-98765-4321",
        "11 98765 4321",
        "+55 11 98765-4321",
        "+55 (11) 98765-4321",
        "55 11 98765.4321",
        "  11987654321 ",
    ],
)
def test_every_way_of_writing_a_mobile_gives_its_e164_form(text: str) -> None:
    assert phone.normalise_phone(text) == "+5511987654321"
    assert phone.normalise_mobile(text) == "+5511987654321"


@pytest.mark.parametrize(
    "text", ["1133334444", "551133334444", "+551133334444", "(11) 3333-4444", "+55 11 3333-4444"]
)
def test_a_landline_is_a_phone_but_no_mobile(text: str) -> None:
    assert phone.normalise_phone(text) == "+551133334444"
    assert phone.normalise_mobile(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "987654321",
        "87654321",
        "011987654321",
        "0055 11 98765-4321",
        "+11987654321",
        "+1 202 555 0123",
        "+351912345678",
        "1187654321",
        "1177654321",
        "11087654321",
        "1113334444",
        "10987654321",
        "20987654321",
        "23987654321",
        "52987654321",
        "76987654321",
        "119876543210",
        "55119876543210",
        "5611987654321",
        "+55991234567",
        "(11 98765-4321",
        "11) 98765-4321",
        "11 98765--4321",
        "11  98765-4321",
        "11987654321\n",
        "11987654321 ramal 2",
        "١١٩٨٧٦٥٤٣٢١",
        "１１９８７６５４３２１",
        "1198765432１",
        "++5511987654321",
    ],
)
def test_a_text_that_is_no_brazilian_phone_is_refused(text: str) -> None:
    assert phone.normalise_phone(text) is None
    assert phone.normalise_mobile(text) is None


def test_exactly_the_67_area_codes_are_accepted() -> None:
    assert len(AREAS) == 67
    accepted = [area for area in range(100) if phone.normalise_phone(f"{area:02d}987654321")]
    assert accepted == AREAS


def test_the_area_code_55_is_not_taken_for_the_country() -> None:
    assert phone.normalise_phone("55991234567") == "+5555991234567"
    assert phone.normalise_phone("5532123456") == "+555532123456"
    assert phone.normalise_phone("5555991234567") == "+5555991234567"


@given(st.sampled_from(AREAS), st.text(DIGITS, min_size=8, max_size=9))
def test_a_number_is_valid_exactly_when_the_other_library_agrees(area: int, local: str) -> None:
    national = f"{area}{local}"
    # Eight digits from 7 were trunked radios, whose network was switched off.
    expected = valid_elsewhere(national) and not (len(local) == 8 and local[0] == "7")
    assert (phone.normalise_phone(national) is not None) == expected


@given(st.text("0123456789+()- ", max_size=20) | st.text())
def test_what_is_accepted_is_canonical_whatever_the_text(text: str) -> None:
    accepted = phone.normalise_phone(text)
    assert accepted is None or phone.normalise_phone(accepted) == accepted


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("11 98765-4321", "+5511987654321"),
        ("1187654321", "1187654321"),
        ("0800-123-4567", "08001234567"),
        ("+1 (212) 555-0100", "+12125550100"),
        ("12125550100", "12125550100"),
        ("1234567890123", "1234567890123"),
    ],
)
def test_a_number_of_any_country_is_its_digits_unless_it_is_brazilian(
    text: str, number: str
) -> None:
    assert phone.normalise_any_phone(text) == number
    assert phone.normalise_any_phone(number) == number


@pytest.mark.parametrize(
    "text",
    [
        *("", "+", "123456789", "12345678901234", "1-2-3", "++12125550100", "1212555+0100"),
        *("12125550100x", "12125550100\n", "１２１２５５５０１００", "1212/5550100"),
    ],
)
def test_a_text_of_fewer_or_more_digits_or_of_anything_else_is_no_number(text: str) -> None:
    assert phone.normalise_any_phone(text) is None
