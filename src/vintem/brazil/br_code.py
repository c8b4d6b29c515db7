"""BR Code: the text inside a PIX QR code, and the ids that travel with a PIX payment."""

import re
import unicodedata
from binascii import crc_hqx
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeVar

CODE_CHARACTERS_MAX: Final = 512
KEY_CHARACTERS_MAX: Final = 77
LOCATION_CHARACTERS_MAX: Final = 77
MERCHANT_NAME_CHARACTERS_MAX: Final = 25
MERCHANT_CITY_CHARACTERS_MAX: Final = 15
DESCRIPTION_CHARACTERS_MAX: Final = 72
CODE_AMOUNT_CENTS_MAX: Final = 999_999_999_999

_ARRANGEMENT: Final = "br.gov.bcb.pix"
_NO_TXID: Final = "***"
_TEMPLATE_CHARACTERS_MAX: Final = 99
# A name with no letter that ASCII knows still has to fill its field.
_MERCHANT_NAME_SPARE: Final = "RECEBEDOR"
_MERCHANT_CITY_SPARE: Final = "BRASIL"

_CRC_START: Final = 0xFFFF
_CRC_HEAD: Final = "6304"
_ACCOUNT_IDS: Final = frozenset(f"{number:02d}" for number in range(26, 52))
_UNRESERVED_IDS: Final = frozenset(f"{number:02d}" for number in range(80, 100))

_KEY: Final = re.compile(rf"[!-~]{{1,{KEY_CHARACTERS_MAX}}}")
_LOCATION: Final = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]{1,5})?(?:/[!-~]*)?")
_STATIC_TXID: Final = re.compile(r"[A-Za-z0-9]{1,25}")
_DYNAMIC_TXID: Final = re.compile(r"[A-Za-z0-9]{26,35}")
# The central bank's own example has a hyphen in it: what others wrote is read more widely.
_TXID_READ: Final = re.compile(r"[A-Za-z0-9-]{1,25}")
_AMOUNT: Final = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,2}))?")
_CATEGORY: Final = re.compile(r"[0-9]{4}")
_ISPB: Final = re.compile(r"[0-9A-Z]{8}")
_END_TO_END_SUFFIX: Final = re.compile(r"[A-Za-z0-9]{11}")
_END_TO_END: Final = re.compile(
    r"E[0-9A-Z]{8}([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})[A-Za-z0-9]{11}"
)

_Part = TypeVar("_Part")


class BrCodeKind(StrEnum):
    """Where the payer's bank finds what is to be paid."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    COMPOSITE = "composite"
    RECURRENCE = "recurrence"


@dataclass(frozen=True, slots=True)
class BrCode:
    """What a code says; the amount and txid behind a location are not in it, hence None."""

    kind: BrCodeKind
    key: str | None
    url: str | None
    recurrence_url: str | None
    amount_cents: int | None
    txid: str | None
    description: str | None
    cash_agent_ispb: str | None
    merchant_name: str
    merchant_city: str
    merchant_category: str
    postal_code: str | None
    is_single_use: bool


class StaticCodeTemplate:
    """All that the static codes of one receiver share, worked out once."""

    __slots__ = ("_head", "_head_crc", "_receiver")

    def __init__(
        self, *, key: str, merchant_name: str, merchant_city: str, description: str | None = None
    ) -> None:
        assert _KEY.fullmatch(key)
        account = _field("00", _ARRANGEMENT) + _field("01", key)
        room = _TEMPLATE_CHARACTERS_MAX - len(account) - len("0200")
        text = _ascii_cut(description or "", min(room, DESCRIPTION_CHARACTERS_MAX))
        if text:
            account += _field("02", text)
        self._head = f"000201{_field('26', account)}520400005303986"
        # The checksum goes on from where it stopped, so that only the end is summed per code.
        self._head_crc = crc_hqx(self._head.encode(), _CRC_START)
        self._receiver = _receiver(merchant_name=merchant_name, merchant_city=merchant_city)

    def encode(self, *, amount_cents: int | None = None, txid: str | None = None) -> str:
        """Write the code of one charge."""
        if txid is None:
            label = "62070503***6304"
        else:
            assert is_static_txid(txid)
            size = len(txid)
            label = f"62{size + 4:02d}05{size:02d}{txid}6304"
        if amount_cents is None:
            end = f"{self._receiver}{label}"
        else:
            assert 0 < amount_cents <= CODE_AMOUNT_CENTS_MAX
            amount = f"{amount_cents // 100}.{amount_cents % 100:02d}"
            end = f"54{len(amount):02d}{amount}{self._receiver}{label}"
        return f"{self._head}{end}{crc_hqx(end.encode(), self._head_crc):04X}"


def encode_static(
    *,
    key: str,
    merchant_name: str,
    merchant_city: str,
    amount_cents: int | None = None,
    txid: str | None = None,
    description: str | None = None,
) -> str:
    """Write a code that pays a key; names are folded to ASCII and cut to their fields."""
    template = StaticCodeTemplate(
        key=key, merchant_name=merchant_name, merchant_city=merchant_city, description=description
    )
    return template.encode(amount_cents=amount_cents, txid=txid)


def encode_dynamic(*, url: str, merchant_name: str, merchant_city: str) -> str:
    """Write a single-use code that leads to a location, given without its scheme."""
    assert is_location(url)
    account = _field("00", _ARRANGEMENT) + _field("25", url)
    receiver = _receiver(merchant_name=merchant_name, merchant_city=merchant_city)
    code = f"000201010212{_field('26', account)}520400005303986{receiver}62070503***{_CRC_HEAD}"
    return f"{code}{_crc(code)}"


def parse_br_code(text: str) -> BrCode | None:
    """Read a code, blanks around it ignored, or give None when any part of it is wrong."""
    try:
        return _read(text.strip())
    except _UnreadableError:
        return None


def is_location(text: str) -> bool:
    """Tell whether a text is an address without scheme, as dynamic codes hold it."""
    return len(text) <= LOCATION_CHARACTERS_MAX and _LOCATION.fullmatch(text) is not None


def is_static_txid(text: str) -> bool:
    """Tell whether a text may be the txid of a static code."""
    return _STATIC_TXID.fullmatch(text) is not None


def is_dynamic_txid(text: str) -> bool:
    """Tell whether a text may be the txid of a charge behind a location."""
    return _DYNAMIC_TXID.fullmatch(text) is not None


def end_to_end_id(*, ispb: str, moment: datetime, suffix: str) -> str:
    """Name a payment by the bank that starts it, its UTC minute and eleven characters."""
    assert _ISPB.fullmatch(ispb)
    assert _END_TO_END_SUFFIX.fullmatch(suffix)
    assert moment.tzinfo is not None, "a moment without a zone has no UTC minute"
    utc = moment.astimezone(UTC)
    minute = f"{utc.year:04}{utc.month:02}{utc.day:02}{utc.hour:02}{utc.minute:02}"
    return f"E{ispb}{minute}{suffix}"


def is_end_to_end_id(text: str) -> bool:
    """Tell whether a text names a payment, its minute being one that exists."""
    parts = _END_TO_END.fullmatch(text)
    if parts is None:
        return False
    year, month, day, hour, minute = map(int, parts.groups())
    try:
        datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return False
    return True


def _receiver(*, merchant_name: str, merchant_city: str) -> str:
    name = _ascii_cut(merchant_name, MERCHANT_NAME_CHARACTERS_MAX) or _MERCHANT_NAME_SPARE
    city = _ascii_cut(merchant_city, MERCHANT_CITY_CHARACTERS_MAX) or _MERCHANT_CITY_SPARE
    return f"5802BR{_field('59', name)}{_field('60', city)}"


def _ascii_cut(text: str, characters_max: int) -> str:
    folded = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    # split() drops blanks of every kind, and the filter the control characters it leaves.
    words = "".join(filter(str.isprintable, " ".join(folded.split())))
    return words[: max(characters_max, 0)].strip()


def _field(identifier: str, value: str) -> str:
    assert 1 <= len(value) <= _TEMPLATE_CHARACTERS_MAX
    return f"{identifier}{len(value):02d}{value}"


def _crc(text: str) -> str:
    return f"{crc_hqx(text.encode(), _CRC_START):04X}"


class _UnreadableError(ValueError):
    """A code has a part that is wrong."""


def _require(is_right: bool) -> None:  # noqa: FBT001
    if not is_right:
        raise _UnreadableError


def _present(part: _Part | None) -> _Part:
    if part is None:
        raise _UnreadableError
    return part


def _read(code: str) -> BrCode:
    fields = _checked_fields(code)
    account = _present(_pix_template(fields, _ACCOUNT_IDS))
    recurrence = _pix_template(fields, _UNRESERVED_IDS)
    key, url = account.get("01"), account.get("25")
    recurrence_url = None if recurrence is None else _present(recurrence.get("25"))
    kind = _kind(key=key, url=url, recurrence_url=recurrence_url)
    _require(key is None or _KEY.fullmatch(key) is not None)
    _require(all(part is None or is_location(part) for part in (url, recurrence_url)))
    agent, description = account.get("03"), account.get("02")
    _require(agent is None or (key is not None and _ISPB.fullmatch(agent) is not None))
    _require(len(description or "") <= DESCRIPTION_CHARACTERS_MAX)
    amount_cents, txid = _amount_cents(fields.get("54")), _txid(fields.get("62"))
    # What is behind a location decides, whatever the code repeats of it.
    has_terms = key is not None
    _require(amount_cents != 0 or not has_terms)
    return BrCode(
        kind=kind,
        key=key,
        url=url,
        recurrence_url=recurrence_url,
        amount_cents=amount_cents if has_terms else None,
        txid=txid if has_terms else None,
        description=description,
        cash_agent_ispb=agent,
        merchant_name=fields["59"],
        merchant_city=fields["60"],
        merchant_category=fields["52"],
        postal_code=fields.get("61"),
        is_single_use=fields.get("01") == "12",
    )


def _checked_fields(code: str) -> dict[str, str]:
    _require(len(code) <= CODE_CHARACTERS_MAX)
    # Lone halves of characters, which no checksum can be taken of, are not printable.
    _require(code.isprintable())
    _require(code.startswith("000201"))
    _require(code[-8:-4] == _CRC_HEAD and code[-4:] == _crc(code[:-4]))
    fields = _split(code)
    # The end may look like a checksum and yet be the inside of another field.
    _require(next(reversed(fields)) == "63")
    _require(fields.get("01") in {None, "11", "12"})
    _require(_CATEGORY.fullmatch(fields.get("52", "")) is not None)
    _require(fields.get("53") == "986")
    _require(fields.get("58") == "BR")
    _require(1 <= len(fields.get("59", "")) <= MERCHANT_NAME_CHARACTERS_MAX)
    _require(1 <= len(fields.get("60", "")) <= MERCHANT_CITY_CHARACTERS_MAX)
    return fields


def _split(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    start = 0
    while start < len(text):
        head = text[start : start + 4]
        _require(len(head) == 4 and head.isascii() and head.isdigit())
        end = start + 4 + int(head[2:])
        _require(start + 4 < end <= len(text))
        _require(head[:2] not in fields)
        fields[head[:2]] = text[start + 4 : end]
        start = end
    return fields


def _pix_template(fields: dict[str, str], identifiers: frozenset[str]) -> dict[str, str] | None:
    templates = [_split(value) for name, value in fields.items() if name in identifiers]
    ours = [inner for inner in templates if inner.get("00", "").lower() == _ARRANGEMENT]
    _require(len(ours) <= 1)
    return ours[0] if ours else None


def _kind(*, key: str | None, url: str | None, recurrence_url: str | None) -> BrCodeKind:
    _require(key is None or url is None)
    has_payment = key is not None or url is not None
    if recurrence_url is not None:
        return BrCodeKind.COMPOSITE if has_payment else BrCodeKind.RECURRENCE
    _require(has_payment)
    return BrCodeKind.DYNAMIC if key is None else BrCodeKind.STATIC


def _amount_cents(text: str | None) -> int | None:
    if text is None:
        return None
    parts = _present(_AMOUNT.fullmatch(text))
    return int(parts[1]) * 100 + int((parts[2] or "").ljust(2, "0"))


def _txid(template: str | None) -> str | None:
    label = None if template is None else _split(template).get("05")
    if label is None or label == _NO_TXID:
        return None
    _require(_TXID_READ.fullmatch(label) is not None)
    return label
