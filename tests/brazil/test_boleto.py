"""Boleto: published slips, the new count of due dates, check digits and late payments."""

from datetime import date, timedelta
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vintem.brazil import boleto
from vintem.brazil.boleto import Fine, FineKind, parse_boleto

DIGITS = "0123456789"
TODAY = date(2025, 6, 15)
# Line as printed, barcode, due date, cents; read from about the time of their issue.
SLIPS = [
    (
        "00190.00009 07777.777009 00087.654182 6 49000000295295",
        "00196490000002952950000007777777000008765418",
        date(2011, 3, 8),
        295_295,
    ),
    (
        "23790.27804 60000.212559 25003.923205 4 48690000828000",
        "23794486900008280000278060000212552500392320",
        date(2011, 2, 5),
        828_000,
    ),
    (
        "34191.09008 00015.710296 30132.800001 9 43950000002980",
        "34199439500000029801090000015710293013280000",
        date(2009, 10, 19),
        2_980,
    ),
    (
        "03399.07073 07700.000123 34567.901029 5 54020000295295",
        "03395540200002952959070707700000123456790102",
        date(2012, 7, 22),
        295_295,
    ),
    (
        "10498.01952 25086.156582 70000.004146 1 53880000295295",
        "10491538800002952958019525086156587000000414",
        date(2012, 7, 8),
        295_295,
    ),
    (
        "00190.50095 40144.816069 06809.350314 3 37370000000100",
        "00193373700000001000500940144816060680935031",
        date(2007, 12, 31),
        100,
    ),
    (
        "03399.77779 29900.000000 04751.101017 1 81510000002990",
        "03391815100000029909777729900000000475110101",
        date(2020, 1, 31),
        2_990,
    ),
    (
        "00190.00009 02625.444209 58002.630174 2 81200000002000",
        "00192812000000020000000002625444205800263017",
        date(2019, 12, 31),
        2_000,
    ),
]
# The same slip of R$ 1.026,56 with several counts of its due date.
FACTORS = [
    ("00190000090114971860168524522114100000000102656", None),
    ("00190000090114971860168524522114210000000102656", date(2025, 2, 22)),
    ("00190000090114971860168524522114810010000102656", date(2025, 2, 23)),
    ("00190000090114971860168524522114350000000102656", date(2036, 2, 5)),
    ("00190000090114971860168524522114675860000102656", date(2018, 7, 15)),
    ("00190000090114971860168524522114799990000102656", date(2025, 2, 21)),
]
due_dates = st.dates(boleto.DUE_DATE_MIN, date(2199, 12, 31))
cents = st.integers(0, boleto.BOLETO_CENTS_MAX)
free_fields = st.text(DIGITS, min_size=25, max_size=25)
banks = st.integers(0, 999).map("{:03d}".format).filter(lambda bank: bank[0] != "8")
boletos = st.builds(
    boleto.make_boleto,
    bank=banks,
    due_date=st.none() | due_dates,
    amount_cents=cents,
    free_field=free_fields,
)


@pytest.mark.parametrize(("line", "barcode", "due_date", "amount_cents"), SLIPS)
def test_a_published_slip_is_read_from_its_line_and_from_its_barcode(
    line: str, barcode: str, due_date: date, amount_cents: int
) -> None:
    bare = line.replace(".", "").replace(" ", "")
    slip = parse_boleto(line, reference=due_date)
    assert slip is not None
    assert slip == parse_boleto(bare, reference=due_date)
    assert slip == parse_boleto(barcode, reference=due_date)
    assert slip == parse_boleto(f" {line}  ", reference=due_date)
    assert (slip.bank, slip.free_field) == (barcode[:3], barcode[19:])
    assert (slip.barcode, slip.line) == (barcode, bare)
    assert (slip.due_date, slip.amount_cents) == (due_date, amount_cents)
    assert boleto.format_line(slip.line) == line


@pytest.mark.parametrize(("line", "barcode", "due_date", "amount_cents"), SLIPS)
def test_a_published_slip_can_be_made_from_its_parts(
    line: str, barcode: str, due_date: date, amount_cents: int
) -> None:
    made = boleto.make_boleto(
        bank=barcode[:3], due_date=due_date, amount_cents=amount_cents, free_field=barcode[19:]
    )
    assert made.barcode == barcode
    assert boleto.format_line(made.line) == line


@pytest.mark.parametrize(("line", "due_date"), FACTORS)
def test_a_due_date_is_read_on_either_side_of_the_new_count(
    line: str, due_date: date | None
) -> None:
    slip = parse_boleto(line, reference=TODAY)
    assert slip is not None
    assert (slip.due_date, slip.amount_cents) == (due_date, 102_656)
    made = boleto.make_boleto(
        bank="001", due_date=due_date, amount_cents=102_656, free_field=slip.free_field
    )
    assert made.line == line


@pytest.mark.parametrize(
    "text",
    [
        "00190000020114971860168524522114675860000102656",
        "00190000090114971860168524522114975860000102656",
        "23793.38128 60007.827263 37000.963779 4 10010000025000",
        "",
        " ",
        "0019000009011497186016852452211467586000010265",
        "001900000901149718601685245221146758600001026560",
        "0019649000000295295000000777777700000876541",
        "001964900000029529500000077777770000087654180",
        "00196490000002952950000007777777000008765419",
        "00190-00009 07777-777009 00087-654182 6 49000000295295",
        "00190.00009  07777.777009 00087.654182 6 49000000295295",
        "00190.00009 07777.777009 00087.654182 6 49000000295295\n",
        "0019.000009 07777.777009 00087.654182 6 49000000295295",
        "٠٠١٩٠٠٠٠٠٩٠١١٤٩٧١٨٦٠١٦٨٥٢٤٥٢٢١١٤٦٧٥٨٦٠٠٠٠١٠٢٦٥٦",
        "０0190000090114971860168524522114675860000102656",
        "84670000001 7 43590024020 9 02405000243 5 84221010811 9",
        "846700000017435900240209024050002435842210108119",
        "84670000001435900240200240500024384221010811",
        "00000000000000000000000000000000000000000000000",
        "00000000000000000000000000000000000000000000",
    ],
)
def test_a_text_that_is_no_boleto_is_refused(text: str) -> None:
    assert parse_boleto(text, reference=TODAY) is None


def with_check_digit(digits: str) -> str:
    return f"{digits[:4]}{boleto.check_digit_mod_11(digits)}{digits[4:]}"


@pytest.mark.parametrize("start", ["8999", "0018", "0010"])
def test_a_barcode_of_a_bill_or_of_another_currency_is_refused_with_right_digits(
    start: str,
) -> None:
    assert parse_boleto(with_check_digit("0019" + "1" * 39), reference=TODAY) is not None
    assert parse_boleto(with_check_digit(start + "1" * 39), reference=TODAY) is None


@pytest.mark.parametrize("factor", ["0001", "0999"])
def test_a_count_below_the_first_is_refused(factor: str) -> None:
    barcode = with_check_digit(f"0019{factor}{'1' * 35}")
    assert parse_boleto(barcode, reference=TODAY) is None
    line = boleto.line_of_barcode(barcode)
    assert parse_boleto(line, reference=TODAY) is None


@pytest.mark.parametrize(
    ("due_date", "factor"),
    [
        (None, 0),
        (date(2000, 7, 3), 1000),
        (date(2007, 12, 31), 3737),
        (date(2025, 2, 21), 9999),
        (date(2025, 2, 22), 1000),
        (date(2025, 2, 23), 1001),
        (date(2049, 10, 13), 9999),
        (date(2049, 10, 14), 1000),
    ],
)
def test_due_dates_are_counted_from_1000_to_9999_and_again(
    due_date: date | None, factor: int
) -> None:
    assert boleto.due_date_factor(due_date) == factor


@given(due_dates, st.integers(-4_500, 4_499))
def test_a_due_date_is_found_again_from_any_day_of_the_dozen_years_around_it(
    due_date: date, distance: int
) -> None:
    reference = due_date + timedelta(days=distance)
    factor = boleto.due_date_factor(due_date)
    assert 1_000 <= factor <= 9_999
    assert boleto.due_date_of_factor(factor, reference=reference) == due_date


def test_of_two_due_dates_as_near_the_later_is_chosen() -> None:
    reference = date(2025, 2, 22) - timedelta(days=4_500)
    assert boleto.due_date_of_factor(1_000, reference=reference) == date(2025, 2, 22)
    before = reference - timedelta(days=1)
    assert boleto.due_date_of_factor(1_000, reference=before) == date(2000, 7, 3)


@given(st.integers(1_000, 9_999), st.dates(max_value=date(2000, 7, 3)))
def test_no_due_date_is_before_the_first_count(factor: int, reference: date) -> None:
    found = boleto.due_date_of_factor(factor, reference=reference)
    assert found is not None
    assert date(2000, 7, 3) <= found <= date(2025, 2, 21)


@given(boletos)
def test_what_is_made_is_read_back(made: boleto.Boleto) -> None:
    reference = made.due_date or TODAY
    assert parse_boleto(made.line, reference=reference) == made
    assert parse_boleto(boleto.format_line(made.line), reference=reference) == made
    assert parse_boleto(made.barcode, reference=reference) == made


@given(boletos, st.integers(0, 31), st.integers(1, 9))
def test_a_wrong_digit_in_the_first_three_fields_of_a_line_is_always_caught(
    made: boleto.Boleto, place: int, step: int
) -> None:
    assert parse_boleto(changed(made.line, place, step), reference=TODAY) is None


@given(boletos, st.integers(32, 46), st.integers(1, 9))
def test_a_wrong_digit_in_the_end_of_a_line_is_caught_unless_its_check_digit_is_one(
    made: boleto.Boleto, place: int, step: int
) -> None:
    # One stands for three remainders, and cannot tell them apart.
    assume(place == 32 or made.barcode[4] != "1")
    assert parse_boleto(changed(made.line, place, step), reference=TODAY) is None


@given(boletos, st.integers(0, 43), st.integers(1, 9))
def test_a_wrong_digit_in_a_barcode_is_caught_unless_its_check_digit_is_one(
    made: boleto.Boleto, place: int, step: int
) -> None:
    assume(place == 4 or made.barcode[4] != "1")
    assert parse_boleto(changed(made.barcode, place, step), reference=TODAY) is None


def changed(digits: str, place: int, step: int) -> str:
    digit = str((int(digits[place]) + step) % 10)
    return digits[:place] + digit + digits[place + 1 :]


@given(st.text() | st.text(DIGITS + ". ", min_size=40, max_size=60))
def test_any_text_is_read_or_refused_without_an_error(text: str) -> None:
    slip = parse_boleto(text, reference=TODAY)
    assert slip is None or parse_boleto(slip.line, reference=TODAY) == slip


@given(st.integers(0, boleto.OUR_NUMBER_MAX), due_dates, cents)
def test_a_sandbox_boleto_carries_our_number(our_number: int, due: date, amount: int) -> None:
    made = boleto.make_sandbox_boleto(our_number=our_number, due_date=due, amount_cents=amount)
    assert made.bank == "999"
    read = parse_boleto(made.line, reference=due)
    assert read is not None
    assert boleto.sandbox_our_number(read) == our_number


def test_a_boleto_of_another_bank_or_free_field_has_no_number_of_ours() -> None:
    free_field = boleto.sandbox_free_field(77)
    wrong = changed(free_field, 24, 1)
    for bank, field in (("001", free_field), ("999", wrong), ("999", "9" * 25)):
        made = boleto.make_boleto(bank=bank, due_date=TODAY, amount_cents=1, free_field=field)
        assert boleto.sandbox_our_number(made) is None


@pytest.mark.parametrize("amount", [-1, 10_000_000_000])
def test_an_amount_that_ten_digits_cannot_hold_is_a_bug(amount: int) -> None:
    with pytest.raises(AssertionError):
        boleto.make_sandbox_boleto(our_number=1, due_date=TODAY, amount_cents=amount)


@pytest.mark.parametrize("our_number", [-1, 10**17])
def test_a_number_that_the_free_field_cannot_hold_is_a_bug(our_number: int) -> None:
    with pytest.raises(AssertionError):
        boleto.sandbox_free_field(our_number)


@pytest.mark.parametrize("bank", ["", "1", "0001", "8 1", "846", "٠٠١"])
def test_a_bank_without_three_digits_or_among_bills_is_a_bug(bank: str) -> None:
    with pytest.raises(AssertionError):
        boleto.make_boleto(bank=bank, due_date=None, amount_cents=1, free_field="0" * 25)


def test_a_due_date_before_the_first_count_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        boleto.due_date_factor(date(2000, 7, 2))


def late(amount: int, fine: Fine | None, rate: int, paid_on: str) -> tuple[int, int, int]:
    charges = boleto.late_charges(
        amount,
        fine=fine,
        monthly_interest_basis_points=rate,
        due_date=date(2026, 8, 1),
        paid_on=date.fromisoformat(paid_on),
    )
    return charges.days_late, charges.fine_cents, charges.interest_cents


def test_a_boleto_due_on_a_saturday_is_not_late_on_monday() -> None:
    fine = Fine(FineKind.PERCENTAGE, 200)
    assert late(100_000, fine, 100, "2026-07-20") == (0, 0, 0)
    assert late(100_000, fine, 100, "2026-08-01") == (0, 0, 0)
    assert late(100_000, fine, 100, "2026-08-03") == (0, 0, 0)
    assert late(100_000, fine, 100, "2026-08-04") == (1, 2_000, 33)


def test_the_fine_is_added_once_and_the_interest_by_the_day() -> None:
    fine = Fine(FineKind.PERCENTAGE, 200)
    assert late(100_000, fine, 100, "2026-08-18") == (15, 2_000, 500)
    assert late(100_000, fine, 100, "2026-09-02") == (30, 2_000, 1_000)
    assert late(100_000, None, 100, "2026-09-02") == (30, 0, 1_000)
    assert late(100_000, Fine(FineKind.FIXED, 350), 0, "2026-09-02") == (30, 350, 0)


def test_half_a_cent_of_fine_or_interest_is_rounded_up() -> None:
    assert boleto.fine_cents(125, Fine(FineKind.PERCENTAGE, 200)) == 3
    assert boleto.fine_cents(124, Fine(FineKind.PERCENTAGE, 200)) == 2
    assert boleto.interest_cents(1_500, monthly_interest_basis_points=100, days_late=1) == 1
    assert boleto.interest_cents(1_499, monthly_interest_basis_points=100, days_late=1) == 0


@given(cents, st.integers(0, 10_000), st.integers(0, 3_650))
def test_interest_is_within_half_a_cent_of_the_exact_amount(
    amount: int, rate: int, days: int
) -> None:
    exact = Fraction(amount * rate * days, 300_000)
    rounded = boleto.interest_cents(amount, monthly_interest_basis_points=rate, days_late=days)
    assert Fraction(-1, 2) < rounded - exact <= Fraction(1, 2)
