"""BR Code: the central bank's examples, what must be refused, and the ids of payments."""

import binascii
import string
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vintem.brazil import br_code
from vintem.brazil.br_code import BrCode, BrCodeKind, StaticCodeTemplate, parse_br_code

EVP = "123e4567-e12b-12d1-a456-426655440000"
LOCATION = "pix.example.com/8b3da2f39a4140d1a91abd93113bd441"
STATIC = (
    "00020126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-426655440000"
    "5204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***63041D3D"
)
DYNAMIC = (
    "00020101021226700014br.gov.bcb.pix2548pix.example.com/8b3da2f39a4140d1a91abd93113bd441"
    "5204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***630464E4"
)
WITH_DESCRIPTION = (
    "00020126530014br.gov.bcb.pix0119saskenuba@gmail.com0208[Pix.ae]520400005303986540550.00"
    "5802BR5903Pix6003Pix62070503***63048287"
)

VISIBLE = string.ascii_letters + string.digits + string.punctuation
ALPHANUMERIC = string.ascii_letters + string.digits
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
keys = st.text(VISIBLE, min_size=1, max_size=77)
txids = st.text(ALPHANUMERIC, min_size=1, max_size=25)
cents = st.integers(1, br_code.CODE_AMOUNT_CENTS_MAX)
labels = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=12)
locations = st.builds(
    lambda host, path: ".".join(host) + path,
    st.lists(labels, min_size=2, max_size=3),
    st.just("") | st.text(VISIBLE, max_size=35).map("/{}".format),
)
codes = st.builds(
    br_code.encode_static,
    key=keys,
    merchant_name=names,
    merchant_city=names,
    amount_cents=st.none() | cents,
    txid=st.none() | txids,
    description=st.none() | names,
) | st.builds(br_code.encode_dynamic, url=locations, merchant_name=names, merchant_city=names)


def read(
    kind: BrCodeKind = BrCodeKind.STATIC,
    *,
    key: str | None = None,
    url: str | None = None,
    recurrence_url: str | None = None,
    amount_cents: int | None = None,
    txid: str | None = None,
    description: str | None = None,
    name: str = "Fulano de Tal",
    city: str = "BRASILIA",
    postal_code: str | None = None,
    is_single_use: bool = False,
) -> BrCode:
    return BrCode(
        kind=kind,
        key=key,
        url=url,
        recurrence_url=recurrence_url,
        amount_cents=amount_cents,
        txid=txid,
        description=description,
        cash_agent_ispb=None,
        merchant_name=name,
        merchant_city=city,
        merchant_category="0000",
        postal_code=postal_code,
        is_single_use=is_single_use,
    )


def field(identifier: str, value: str) -> str:
    return f"{identifier}{len(value):02d}{value}"


def sealed(body: str) -> str:
    """Close a body with a right checksum, so that only what it says can be wrong."""
    body += "6304"
    return f"{body}{binascii.crc_hqx(body.encode(), 0xFFFF):04X}"


PIX = field("00", "br.gov.bcb.pix")


def code(
    account: str | None = field("01", EVP),
    *,
    start: str = "000201",
    money: str = "520400005303986",
    amount: str = "",
    country: str = "5802BR",
    name: str = field("59", "A"),
    city: str = field("60", "B"),
    end: str = "62070503***",
) -> str:
    pix = "" if account is None else field("26", PIX + account)
    return sealed(start + pix + money + amount + country + name + city + end)


def test_the_checksum_is_the_one_whose_check_value_is_published() -> None:
    assert br_code._crc("123456789") == "29B1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (STATIC, read(key=EVP)),
        (DYNAMIC, read(BrCodeKind.DYNAMIC, url=LOCATION, is_single_use=True)),
        (
            (
                "00020101021226700014br.gov.bcb.pix2548pix.example.com/8b3da2f39a4140d1a91abd93113bd441"
                "5204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***"
                "80740014br.gov.bcb.pix2552pix.example.com/rec/2353c790eefb11eaadc10242ac1200026304FB42"
            ),
            read(
                BrCodeKind.COMPOSITE,
                url=LOCATION,
                recurrence_url="pix.example.com/rec/2353c790eefb11eaadc10242ac120002",
                is_single_use=True,
            ),
        ),
        (
            (
                "00020104141234567890123426580014BR.GOV.BCB.PIX0136123e4567-e12b-12d1-a456-426655440000"
                "27300012BR.COM.OUTRO011001234567895204000053039865406123.455802BR"
                "5917NOME DO RECEBEDOR6008BRASILIA61087007490062190515RP12345678-2019"
                "80390012BR.COM.OUTRO01190123.ABCD.3456.WXYZ6304AD38"
            ),
            read(
                key=EVP,
                amount_cents=12_345,
                txid="RP12345678-2019",
                name="NOME DO RECEBEDOR",
                postal_code="70074900",
            ),
        ),
        (
            (
                "00020126180014br.gov.bcb.pix5204000053039865802BR5913Fulano de Tal6008BRASILIA"
                "62070503***80800014br.gov.bcb.pix"
                "2558pix.example.com/qr/v2/rec/2353c790eefb11eaadc10242ac120002630462C9"
            ),
            read(
                BrCodeKind.RECURRENCE,
                recurrence_url="pix.example.com/qr/v2/rec/2353c790eefb11eaadc10242ac120002",
            ),
        ),
        (
            (
                "00020101021226760014br.gov.bcb.pix"
                "2554pix.example.com/qr/v2/8b3da2f39a4140d1a91abd93113bd4415204000053039865802BR"
                "5913Fulano de Tal6008BRASILIA62070503***80800014br.gov.bcb.pix"
                "2558pix.example.com/qr/v2/rec/94ed2badcbc04c15b0bb7fa35319489063047741"
            ),
            read(
                BrCodeKind.COMPOSITE,
                url="pix.example.com/qr/v2/8b3da2f39a4140d1a91abd93113bd441",
                recurrence_url="pix.example.com/qr/v2/rec/94ed2badcbc04c15b0bb7fa353194890",
                is_single_use=True,
            ),
        ),
        (
            (
                "00020101021226810014br.gov.bcb.pix"
                "2559pix.example.com/qr/v2/cobv/1e6c54d3ec9449b7a7fc53b6b0f998e75204000053039865802BR"
                "5913Fulano de Tal6008BRASILIA62070503***80800014br.gov.bcb.pix"
                "2558pix.example.com/qr/v2/rec/3ffa640fa4f14080adccb949fa2dc0d06304A441"
            ),
            read(
                BrCodeKind.COMPOSITE,
                url="pix.example.com/qr/v2/cobv/1e6c54d3ec9449b7a7fc53b6b0f998e7",
                recurrence_url="pix.example.com/qr/v2/rec/3ffa640fa4f14080adccb949fa2dc0d0",
                is_single_use=True,
            ),
        ),
    ],
)
def test_a_code_of_the_central_bank_is_read_as_it_was_meant(text: str, expected: BrCode) -> None:
    assert parse_br_code(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            (
                "00020126330014BR.GOV.BCB.PIX01111234567890052040000530398654041.005802BR"
                "5914Nome Sobrenome6015Cidade Ficticia62100506LOJA016304C8E4"
            ),
            read(
                key="12345678900",
                amount_cents=100,
                txid="LOJA01",
                name="Nome Sobrenome",
                city="Cidade Ficticia",
            ),
        ),
        (
            (
                "00020126330014BR.GOV.BCB.PIX011197212482404520400005303986540530.005802BR"
                "5918Victor Julio Rocha6006RECIFE62110507VIPSURF630425A1"
            ),
            read(
                key="97212482404",
                amount_cents=3_000,
                txid="VIPSURF",
                name="Victor Julio Rocha",
                city="RECIFE",
            ),
        ),
        (
            WITH_DESCRIPTION,
            read(
                key="saskenuba@gmail.com",
                amount_cents=5_000,
                description="[Pix.ae]",
                name="Pix",
                city="Pix",
            ),
        ),
        (
            (
                "00020101021126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-426655440000"
                "5204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***630448CD"
            ),
            read(key=EVP),
        ),
        (
            (
                "00020101021226800014br.gov.bcb.pix"
                "2558qrcode.mkip.com.br/v1/747287ac-cec8-4049-b008-7c61b9453c745204000053039865802BR"
                "5916VOXPAGPAGAMENTOS6008SAOPAULO62070503***630417E8"
            ),
            read(
                BrCodeKind.DYNAMIC,
                url="qrcode.mkip.com.br/v1/747287ac-cec8-4049-b008-7c61b9453c74",
                name="VOXPAGPAGAMENTOS",
                city="SAOPAULO",
                is_single_use=True,
            ),
        ),
    ],
)
def test_a_code_found_in_use_is_read(text: str, expected: BrCode) -> None:
    assert parse_br_code(text) == expected


def test_the_central_banks_codes_are_written_to_the_letter() -> None:
    name, city = "Fulano de Tal", "BRASILIA"
    static = br_code.encode_static(key=EVP, merchant_name=name, merchant_city=city)
    assert static == STATIC
    dynamic = br_code.encode_dynamic(url=LOCATION, merchant_name=name, merchant_city=city)
    assert dynamic == DYNAMIC


def test_a_code_with_amount_and_description_is_written_to_the_letter() -> None:
    written = br_code.encode_static(
        key="saskenuba@gmail.com",
        merchant_name="Pix",
        merchant_city="Pix",
        amount_cents=5_000,
        description="[Pix.ae]",
    )
    assert written == WITH_DESCRIPTION


@pytest.mark.parametrize(
    "text",
    [
        STATIC[:-1] + "E",
        # A city of 19 characters, with a right checksum.
        (
            "00020126580014br.gov.bcb.pix0136bee05743-4291-4f3c-9259-595df1307ba1520400005303986"
            "540510.005802BR5914Alexandre Lima6019Presidente Prudente62180514Um-Id-Qualquer6304D475"
        ),
        # A key and a location together; a scheme; a blank; a host without dot.
        (
            "00020101021226500014br.gov.bcb.pix0107a@b.com2517pix.example.com/x"
            "5204000053039865802BR5901A6001B62070503***63049A4B"
        ),
        (
            "00020101021226470014br.gov.bcb.pix2525https://pix.example.com/x"
            "5204000053039865802BR5901A6001B62070503***6304F843"
        ),
        (
            "00020101021226390014br.gov.bcb.pix2517pix example.com/x"
            "5204000053039865802BR5901A6001B62070503***6304C8E4"
        ),
        (
            "00020101021226330014br.gov.bcb.pix2511localhost/x"
            "5204000053039865802BR5901A6001B62070503***630494D9"
        ),
    ],
)
def test_a_published_wrong_code_is_refused(text: str) -> None:
    assert parse_br_code(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "6304",
        "00020163041D3D",
        "pix copia e cola",
        STATIC.lower(),
        STATIC[:-4] + "1d3d",
        STATIC[:-4],
        STATIC + "0",
        STATIC[1:],
        STATIC * 2,
        STATIC.replace("Fulano", "Ful\nno"),
        STATIC.replace("Fulano", "Ful\ud800no"),
        "\ud800",
    ],
)
def test_a_text_that_is_no_code_is_refused(text: str) -> None:
    assert parse_br_code(text) is None


@pytest.mark.parametrize(
    "text",
    [
        code(None),
        code(""),
        code(start="000202"),
        code(start="010211000201"),
        code(start="000201010213"),
        code(start="000201000201"),
        code("01"),
        code("0100"),
        code("0105abcd"),
        code("01030abc"),
        code("XY01a"),
        code("0１01a"),
        code(field("01", "a") + field("01", "b")),
        code(field("01", "a b")),
        code(field("01", "ação")),
        code(field("01", "a" * 78)),
        code(field("25", "")),
        code(field("25", "pix.example.com/" + "a" * 62)),
        code(field("25", "//pix.example.com/x")),
        code(field("25", "a@pix.example.com/x")),
        code(field("25", "pix..example.com/x")),
        code(field("25", ".example.com/x")),
        code(field("25", "pix.example.com?x")),
        code(field("25", "pix.example.com:/x")),
        code(field("25", "pix.example.com/é")),
        code(field("01", "a") + field("02", "b" * 73)),
        code(field("01", "a") + field("03", "1234567")),
        code(field("01", "a") + field("03", "123456789")),
        code(field("01", "a") + field("03", "1234567x")),
        code(field("25", LOCATION) + field("03", "12345678")),
        code(money="5303986"),
        code(money="5203000" + "5303986"),
        code(money="5204000x" + "5303986"),
        code(money="52040000"),
        code(money="520400005303840"),
        code(country=""),
        code(country="5802PT"),
        code(name=""),
        code(name=field("59", "A" * 26)),
        code(name="5900"),
        code(city=""),
        code(end="6100" + "62070503***"),
        code(field("01", "a") + "0200"),
        code(city=field("60", "B" * 16)),
        code(end="62019"),
        code(end=field("62", field("05", "a" * 26))),
        code(end=field("62", field("05", "a b"))),
        code(end=field("62", field("05", "**"))),
        code(end=field("62", field("05", "****"))),
        code(end="62070503***" + field("26", PIX + field("01", "b"))),
        code(end="62070503***" + field("27", PIX + field("01", "b"))),
        code(end="62070503***" + field("51", "BR.GOV.BCB.PIX")),
        code(end="62070503***" + field("80", PIX)),
        code(end="62070503***" + field("80", PIX + field("25", "localhost/x"))),
        code(end="62070503***" + field("80", PIX + field("25", LOCATION)) + field("81", PIX)),
        code(
            end="62070503***" + "".join(field(f"{n}", field("00", "x" * 95)) for n in range(82, 87))
        ),
        code(end="62070503***" + field("64", "x" * 8)[:-1]),
        # The checksum's look-alike is the inside of a field.
        code(end="62070503***" + "9908"),
    ],
)
def test_a_wrong_part_under_a_right_checksum_is_refused(text: str) -> None:
    assert parse_br_code(code()) is not None
    assert parse_br_code(text) is None


@pytest.mark.parametrize(
    "amount",
    [
        "0",
        "0.00",
        "0.0",
        "1.",
        ".50",
        "1.234",
        "1,00",
        "+1.00",
        "-1.00",
        " 1.00",
        "1e3",
        "1.00x",
        "10000000000",
        "99999999999.99",
        "1.0.0",
        "١.٠٠",
        "NaN",
    ],
)
def test_an_amount_that_is_not_plain_or_is_zero_is_refused(amount: str) -> None:
    assert parse_br_code(code(amount=field("54", amount))) is None


@pytest.mark.parametrize(
    ("amount", "amount_cents"),
    [
        ("1", 100),
        ("1.5", 150),
        ("1.05", 105),
        ("0.01", 1),
        ("0123.45", 12345),
        ("9999999999.99", 999999999999),
    ],
)
def test_an_amount_is_read_with_none_one_or_two_decimals(amount: str, amount_cents: int) -> None:
    parsed = parse_br_code(code(amount=field("54", amount)))
    assert parsed is not None
    assert parsed.amount_cents == amount_cents


def test_what_is_behind_a_location_is_not_read_from_the_code() -> None:
    text = code(
        field("25", LOCATION),
        amount=field("54", "0.00"),
        end=field("62", field("05", "ABC123")),
    )
    parsed = parse_br_code(text)
    assert parsed is not None
    assert parsed.kind is BrCodeKind.DYNAMIC
    assert (parsed.amount_cents, parsed.txid) == (None, None)


def test_a_key_with_a_recurrence_is_composite() -> None:
    recurrence = field("80", PIX + field("25", LOCATION))
    parsed = parse_br_code(code(amount=field("54", "2.50"), end=recurrence))
    assert parsed is not None
    assert (parsed.kind, parsed.key) == (BrCodeKind.COMPOSITE, EVP)
    assert (parsed.recurrence_url, parsed.amount_cents) == (LOCATION, 250)


def test_the_agent_of_a_cash_withdrawal_is_read() -> None:
    parsed = parse_br_code(code(field("01", "a") + field("03", "12345678")))
    assert parsed is not None
    assert parsed.cash_agent_ispb == "12345678"


def test_a_code_pasted_with_blanks_around_it_is_read() -> None:
    assert parse_br_code(f" \t{STATIC}\r\n ") == parse_br_code(STATIC)


def test_a_code_without_additional_data_or_with_accents_is_read() -> None:
    parsed = parse_br_code(code(name=field("59", "João & Cia"), end=""))
    assert parsed is not None
    assert (parsed.merchant_name, parsed.txid) == ("João & Cia", None)


@given(keys, names, names, st.none() | cents, st.none() | txids, st.none() | names)
def test_a_static_code_is_read_back(
    key: str,
    name: str,
    city: str,
    amount_cents: int | None,
    txid: str | None,
    description: str | None,
) -> None:
    text = br_code.encode_static(
        key=key,
        merchant_name=name,
        merchant_city=city,
        amount_cents=amount_cents,
        txid=txid,
        description=description,
    )
    assert text.isascii()
    assert len(text) <= br_code.CODE_CHARACTERS_MAX
    parsed = parse_br_code(text)
    assert parsed is not None
    assert (parsed.kind, parsed.key, parsed.url) == (BrCodeKind.STATIC, key, None)
    assert (parsed.amount_cents, parsed.txid) == (amount_cents, txid)
    template = StaticCodeTemplate(
        key=key, merchant_name=name, merchant_city=city, description=description
    )
    assert template.encode(amount_cents=amount_cents, txid=txid) == text


@given(locations, names, names)
def test_a_dynamic_code_is_read_back(url: str, name: str, city: str) -> None:
    text = br_code.encode_dynamic(url=url, merchant_name=name, merchant_city=city)
    parsed = parse_br_code(text)
    assert parsed is not None
    assert (parsed.kind, parsed.url, parsed.key) == (BrCodeKind.DYNAMIC, url, None)
    assert parsed.is_single_use


@given(codes, st.data())
def test_one_changed_character_is_always_caught(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(max_codepoint=127).filter(lambda c: c != text[place]))
    assert parse_br_code(text[:place] + other + text[place + 1 :]) is None


@given(codes, st.data())
def test_two_neighbours_swapped_are_always_caught(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text) - 2))
    assume(text[place] != text[place + 1])
    swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    assert parse_br_code(swapped) is None


@given(codes, st.integers(1, 40))
def test_a_code_cut_short_is_never_read_as_another(text: str, cut: int) -> None:
    assert parse_br_code(text[:-cut]) is None


@given(st.text() | st.text("0126543" + VISIBLE).map(sealed) | st.text(max_size=60).map(code))
def test_any_text_is_read_or_refused_without_an_error(text: str) -> None:
    parsed = parse_br_code(text)
    assert parsed is None or parsed.merchant_name


@pytest.mark.parametrize(
    ("name", "city", "expected"),
    [
        ("Açaí & Cia", "São Paulo", ("Acai & Cia", "Sao Paulo")),
        ("  José  da\tSilva\n", "BRASÍLIA", ("Jose da Silva", "BRASILIA")),
        ("A" * 40, "Presidente Prudente", ("A" * 25, "Presidente Prud")),
        ("Confecções Nossa Senhora X Y", "Embu das Artes de São Paulo", None),
        ("1ª Loja Nº 2", "S\x00P", ("1a Loja No 2", "SP")),
        ("日本", "", ("RECEBEDOR", "BRASIL")),
    ],
)
def test_names_are_folded_to_ascii_and_cut_to_their_fields(
    name: str, city: str, expected: tuple[str, str] | None
) -> None:
    parsed = parse_br_code(br_code.encode_static(key="a", merchant_name=name, merchant_city=city))
    assert parsed is not None
    expected = expected or ("Confeccoes Nossa Senhora", "Embu das Artes")
    assert (parsed.merchant_name, parsed.merchant_city) == expected


@pytest.mark.parametrize(
    ("key_length", "room"), [(1, 72), (2, 71), (36, 37), (72, 1), (73, 0), (77, 0)]
)
def test_a_description_gets_what_the_key_leaves(key_length: int, room: int) -> None:
    text = br_code.encode_static(
        key="k" * key_length, merchant_name="A", merchant_city="B", description="ç" * 200
    )
    parsed = parse_br_code(text)
    assert parsed is not None
    assert parsed.description == ("c" * room or None)


@pytest.mark.parametrize("key", ["", "a b", "ç", "a" * 78, "a\n"])
def test_writing_a_code_for_what_cannot_be_a_key_is_a_bug(key: str) -> None:
    with pytest.raises(AssertionError):
        br_code.encode_static(key=key, merchant_name="A", merchant_city="B")


@pytest.mark.parametrize("amount_cents", [0, -1, br_code.CODE_AMOUNT_CENTS_MAX + 1])
def test_writing_an_amount_out_of_its_limits_is_a_bug(amount_cents: int) -> None:
    template = StaticCodeTemplate(key="a", merchant_name="A", merchant_city="B")
    with pytest.raises(AssertionError):
        template.encode(amount_cents=amount_cents)


def test_writing_a_txid_or_location_of_the_wrong_form_is_a_bug() -> None:
    template = StaticCodeTemplate(key="a", merchant_name="A", merchant_city="B")
    with pytest.raises(AssertionError):
        template.encode(txid="a-b")
    with pytest.raises(AssertionError):
        br_code.encode_dynamic(url="https://a.b/c", merchant_name="A", merchant_city="B")


def test_a_static_txid_has_1_to_25_letters_and_digits() -> None:
    accepted = {length for length in range(40) if br_code.is_static_txid("a" * length)}
    assert accepted == set(range(1, 26))


def test_a_dynamic_txid_has_26_to_35_letters_and_digits() -> None:
    accepted = {length for length in range(40) if br_code.is_dynamic_txid("Z" * length)}
    assert accepted == set(range(26, 36))


@pytest.mark.parametrize("character", ["-", "_", " ", "*", "ç", "１", "\n", "."])
def test_a_txid_has_no_character_but_letters_and_digits(character: str) -> None:
    assert not br_code.is_static_txid("a" * 20 + character)
    assert not br_code.is_dynamic_txid("a" * 30 + character)


def test_an_end_to_end_id_tells_the_bank_and_the_utc_minute() -> None:
    brasilia = timezone(timedelta(hours=-3))
    moment = datetime(2020, 9, 9, 9, 21, 59, tzinfo=brasilia)
    made = br_code.end_to_end_id(ispb="12345678", moment=moment, suffix="abcdef12345")
    assert made == "E12345678202009091221abcdef12345"
    assert br_code.is_end_to_end_id(made)


@given(
    st.text(string.digits + string.ascii_uppercase, min_size=8, max_size=8),
    st.datetimes(timezones=st.just(UTC)),
    st.text(ALPHANUMERIC, min_size=11, max_size=11),
)
def test_every_end_to_end_id_has_the_form_of_one(ispb: str, moment: datetime, suffix: str) -> None:
    made = br_code.end_to_end_id(ispb=ispb, moment=moment, suffix=suffix)
    assert len(made) == 32
    assert br_code.is_end_to_end_id(made)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "D12345678202009091221abcdef12345",
        "e12345678202009091221abcdef12345",
        "E12345678202009091221abcdef1234",
        "E12345678202009091221abcdef123456",
        "E12345678202009091221abcdef1234-",
        "E12345678202009091221abcdef1234\n",
        "E1234567x202009091221abcdef12345",
        "E12345678202013091221abcdef12345",
        "E12345678202002301221abcdef12345",
        "E12345678202009092421abcdef12345",
        "E12345678202009091260abcdef12345",
        "E12345678000009091221abcdef12345",
        "E12345678２02009091221abcdef12345",
    ],
)
def test_a_text_that_is_no_end_to_end_id_is_refused(text: str) -> None:
    assert not br_code.is_end_to_end_id(text)


@pytest.mark.parametrize(
    ("ispb", "moment", "suffix"),
    [
        ("1234567", datetime(2020, 9, 9, tzinfo=UTC), "abcdef12345"),
        ("12345678", datetime(2020, 9, 9, tzinfo=UTC), "abcdef1234"),
        ("12345678", datetime(2020, 9, 9, tzinfo=UTC).replace(tzinfo=None), "abcdef12345"),
    ],
)
def test_an_end_to_end_id_of_wrong_parts_is_a_bug(ispb: str, moment: datetime, suffix: str) -> None:
    with pytest.raises(AssertionError):
        br_code.end_to_end_id(ispb=ispb, moment=moment, suffix=suffix)
