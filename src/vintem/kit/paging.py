"""Pages of a list: by number near its start, by cursor anywhere."""

import base64
import re
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Generic, TypeVar

PAGE_SIZE_DEFAULT: Final = 20
PAGE_SIZE_MAX: Final = 100
PAGE_DEPTH_ROWS_MAX: Final = 10_000
TOTAL_MAX: Final = 10_000
# One row more than the greatest total tells a list of exactly that many from a longer one.
COUNTED_ROWS_MAX: Final = TOTAL_MAX + 1
CURSOR_CHARACTERS_MAX: Final = 128
LONG_LISTS_MAX: Final = 10_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_CURSOR_TEXT: Final = re.compile(rb"(-?[0-9]{1,18}):([0-9A-Za-z_]{1,64})")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row of a page: the next one starts just after it."""

    created_at: datetime
    id: str

    def encode(self) -> str:
        """Write the cursor as an opaque text, microseconds kept."""
        assert self.created_at.tzinfo is not None
        microseconds = (self.created_at - _EPOCH) // _MICROSECOND
        plain = f"{microseconds}:{self.id}".encode()
        assert _CURSOR_TEXT.fullmatch(plain), "an id that a cursor cannot carry"
        return base64.urlsafe_b64encode(plain).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which rows a caller asks for: a page by its number, or those after a cursor."""

    page: int | None
    page_size: int
    cursor: Cursor | None

    def __post_init__(self) -> None:
        assert (self.page is None) == (self.cursor is not None)
        assert 1 <= self.page_size <= PAGE_SIZE_MAX
        assert self.page is None or 1 <= self.page <= PAGE_DEPTH_ROWS_MAX // self.page_size

    @property
    def offset(self) -> int:
        """How many rows to skip; none after a cursor."""
        return 0 if self.page is None else (self.page - 1) * self.page_size


class PageFault(StrEnum):
    """Why no page can be asked for so."""

    PAGE_OUT_OF_RANGE = "page_out_of_range"
    PAGE_SIZE_OUT_OF_RANGE = "page_size_out_of_range"
    TOO_DEEP = "too_deep"
    CURSOR_INVALID = "cursor_invalid"
    PAGE_AND_CURSOR = "page_and_cursor"


@dataclass(frozen=True, slots=True)
class Pagination:
    """Where a page stands in its list; the page has no number after a cursor."""

    page: int | None
    page_size: int
    total: int
    total_pages: int
    total_capped: bool
    next_cursor: str | None


L = TypeVar("L", bound=Hashable)


class LongLists(Generic[L]):
    """Remembers which lists are longer than anybody counts."""

    def __init__(self, *, lists_max: int = LONG_LISTS_MAX) -> None:
        self._lists_max = lists_max
        self._until: dict[L, datetime | None] = {}

    def remember(self, wanted: L, *, until: datetime | None) -> None:
        """Know a list to be long until a moment; for ever when it can only grow."""
        self._until.pop(wanted, None)
        self._until[wanted] = until
        if len(self._until) > self._lists_max:
            # A list that is forgotten is counted once more.
            del self._until[next(iter(self._until))]

    def knows(self, wanted: L, now: datetime) -> bool:
        """Say whether a list is known to be long."""
        if wanted not in self._until:
            return False
        until = self._until[wanted]
        return until is None or now < until


def page_request(
    *, page: int | None = None, page_size: int = PAGE_SIZE_DEFAULT, cursor: str | None = None
) -> PageRequest | PageFault:
    """Read what a caller asked for, or name the first fault in it."""
    if not 1 <= page_size <= PAGE_SIZE_MAX:
        return PageFault.PAGE_SIZE_OUT_OF_RANGE
    if cursor is not None:
        return _after_cursor(cursor, page=page, page_size=page_size)
    number = 1 if page is None else page
    if number < 1:
        return PageFault.PAGE_OUT_OF_RANGE
    if number * page_size > PAGE_DEPTH_ROWS_MAX:
        return PageFault.TOO_DEEP
    return PageRequest(page=number, page_size=page_size, cursor=None)


def _after_cursor(text: str, *, page: int | None, page_size: int) -> PageRequest | PageFault:
    if page is not None:
        return PageFault.PAGE_AND_CURSOR
    try:
        cursor = decode_cursor(text)
    except ValueError:
        return PageFault.CURSOR_INVALID
    return PageRequest(page=None, page_size=page_size, cursor=cursor)


def decode_cursor(text: str) -> Cursor:
    """Read a cursor back, or raise ValueError on any text that encode does not write."""
    if len(text) > CURSOR_CHARACTERS_MAX:
        raise ValueError("not a cursor")
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError("not a cursor") from error
    parts = _CURSOR_TEXT.fullmatch(plain)
    if parts is None:
        raise ValueError("not a cursor")
    try:
        created_at = _EPOCH + timedelta(microseconds=int(parts[1]))
    except OverflowError as error:
        raise ValueError("not a cursor") from error
    cursor = Cursor(created_at=created_at, id=parts[2].decode())
    # Leading zeros and stray final bits decode too; only one text per cursor is ours.
    if cursor.encode() != text:
        raise ValueError("not a cursor")
    return cursor


def pagination(
    request: PageRequest,
    *,
    counted_rows: int,
    next_cursor: Cursor | None,
    is_counted_in_part: bool = False,
) -> Pagination:
    """Describe the page served, given the rows of its list counted up to COUNTED_ROWS_MAX."""
    assert counted_rows >= 0
    total = min(counted_rows, TOTAL_MAX)
    return Pagination(
        page=request.page,
        page_size=request.page_size,
        total=total,
        total_pages=-(-total // request.page_size),
        total_capped=counted_rows > TOTAL_MAX or is_counted_in_part,
        next_cursor=None if next_cursor is None else next_cursor.encode(),
    )
