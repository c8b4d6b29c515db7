"""A page of products, coupons or links, the newest first, and the ways to the other pages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from vintem.checkout.catalogue_listing import Span
from vintem.dashboard.asked import cursor_of
from vintem.dashboard.visit import Visit
from vintem.kit.paging import Cursor

ROWS_MAX: Final = 50
IS_ACTIVE: Final[Mapping[str, bool]] = {"active": True, "inactive": False}

T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True):
    """What the address of a list says."""

    status: str = ""
    older: str = ""
    newer: str = ""


@dataclass(frozen=True, slots=True)
class Rows(Generic[T]):
    """The rows of a page, and where the pages beside it are."""

    rows: Sequence[T]
    newer: str
    older: str


def span_of(asked: Asked) -> Span:
    """Say which rows are read; one more than are shown, which tells whether there are others."""
    return Span(
        rows_max=ROWS_MAX + 1,
        cursor=cursor_of(asked.newer or asked.older),
        is_newer=bool(asked.newer),
        is_active=IS_ACTIVE.get(asked.status),
    )


def rows_of(
    visit: Visit,
    path: str,
    asked: Asked,
    found: Sequence[T],
    place: Callable[[T], Cursor],
) -> Rows[T]:
    """Take what is shown of what was read, and say where the rest is."""
    span, has_more = span_of(asked), len(found) > ROWS_MAX
    shown = found[-ROWS_MAX:] if span.is_newer else found[:ROWS_MAX]
    has_newer = has_more if span.is_newer else span.cursor is not None
    has_older = True if span.is_newer else has_more
    if not shown:
        return Rows(shown, "", "")
    first, last = place(shown[0]).encode(), place(shown[-1]).encode()
    return Rows(
        shown,
        visit.href(path, status=asked.status, newer=first) if has_newer else "",
        visit.href(path, status=asked.status, older=last) if has_older else "",
    )
