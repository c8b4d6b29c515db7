"""Calls as they are kept: which ones, and what of their bodies anybody may read later."""

import re
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from vintem.kit.ids import ANY_ID

REQUESTS_KEPT: Final = timedelta(days=7)
REFUSED_STATUS: Final = 400
REFUSED_PER_SECOND_MAX: Final = 50
ACCEPTED_PER_SECOND_MAX: Final = 20
BODY_BYTES_MAX: Final = 4_096
SHOWN_CHARACTERS_MAX: Final = 4_000
DEPTH_MAX: Final = 8
MEMBERS_MAX: Final = 100
WALKED_ROWS_MAX: Final = 1_000
"""So many calls are looked at for a page of those that a filter asks for."""


class LoggedCall(msgspec.Struct, frozen=True, gc=False):
    """One call of a company's key."""

    company_id: int
    environment: str
    request_id: str
    at: datetime
    method: str
    route: str
    record_id: str
    """The record that the path names, where it has the form of an id."""
    status: int
    code: str
    key_id: str
    client_ip: str
    correlation_id: str
    microseconds: int
    remaining: int | None
    """How many calls the limit had left."""
    body: str = ""
    """What was sent with a call that was refused, without anything personal or secret."""
    raw: bytes = b""
    """The same as it came, for as long as it waits to be written."""


class CallFilter(msgspec.Struct, frozen=True):
    """Which calls are wanted; all of them where nothing is said."""

    status_class: int | None = None
    """The first digit of the status."""
    method: str = ""
    route: str = ""
    """A part of the route."""
    key_id: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_picky(self) -> bool:
        """Say whether calls must be looked at one by one."""
        return bool(self.method or self.route or self.key_id or self.status_class is not None)

    @property
    def is_refused(self) -> bool:
        """Say whether only refused calls are wanted."""
        return self.status_class is not None and self.status_class >= 4


class CallPage(msgspec.Struct, frozen=True):
    """Some calls, the newest first, and after which one the list goes on."""

    calls: list[LoggedCall]
    next_id: str = ""
    is_cut: bool = False
    """Nothing more was looked at, although there may be some further on."""


def request_id_at(moment: datetime) -> str:
    """What every request id since a moment is not below."""
    return f"req_{int(moment.timestamp() * 1_000):013d}"


# What may be read later is listed here by its name, and must look like what it is: whatever else a
# body holds, and whatever somebody sends in the wrong place, is told by its type alone.
READABLE_NAMES: Final = frozenset(
    {
        *("amount", "coin", "country", "currency", "dueDate", "enabled", "event", "events"),
        *("expiresAt", "expiresInDays", "expiresInSeconds", "failureCode"),
        *("fee", "from", "installments", "method", "netPayout", "paymentMethod", "pixKeyType"),
        *("productId", "quantity", "shippingAmount", "additionalAmount", "sortOrder", "state"),
        *("status", "tangible", "to", "type", "unitPrice", "value", "walletNetwork"),
    }
)
READABLE_TEXT: Final = re.compile(
    rf"[A-Za-z_.*]{{1,40}}|\d{{4}}-\d{{2}}-\d{{2}}|TRC20|ERC20|BEP20|{ANY_ID.pattern}"
)
READABLE_NUMBER_MAX: Final = 9_999_999_999
UNKEPT_NAMES: Final = frozenset({"cvv"})
"""Of these not even that they were sent."""
NAME: Final = re.compile(r"[A-Za-z]{1,40}")


def readable(raw: bytes) -> str:
    """Write what was sent so that it can be kept: names and types, and values that are no one's."""
    if not raw:
        return ""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"<not JSON: {len(raw)} bytes>"
    except RecursionError:
        return f"<nested: {len(raw)} bytes>"
    shown = msgspec.json.format(msgspec.json.encode(_readable(value, "", DEPTH_MAX)), indent=2)
    return shown.decode()[:SHOWN_CHARACTERS_MAX]


def _readable(value: Any, name: str, depth: int) -> object:  # noqa: ANN401 - any JSON
    if isinstance(value, dict | list) and not depth:
        return "<nested>"
    match value:
        case dict():
            return {
                _readable_name(key): _readable(each, key, depth - 1)
                for key, each in list(value.items())[:MEMBERS_MAX]
                if key not in UNKEPT_NAMES
            }
        case list():
            return [_readable(each, name, depth - 1) for each in value[:MEMBERS_MAX]]
        case None | bool():
            return value
        case int() | float():
            is_kept = name in READABLE_NAMES and abs(value) <= READABLE_NUMBER_MAX
            return value if is_kept else "<number>"
        case _:
            is_kept = name in READABLE_NAMES and READABLE_TEXT.fullmatch(value) is not None
            return value if is_kept else f"<text: {len(value)}>"


def _readable_name(name: str) -> str:
    return name if NAME.fullmatch(name) else f"<name: {len(name)}>"
