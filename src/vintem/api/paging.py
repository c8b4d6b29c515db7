"""Lists: which page and which days are asked for, and where a page stands."""

from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar

from vintem.api.body import Fault, validation_refusal
from vintem.api.call import Reply
from vintem.kit.clock import parse_public_time, start_of_business_day
from vintem.kit.paging import (
    PAGE_SIZE_DEFAULT,
    Cursor,
    PageFault,
    PageRequest,
    page_request,
    pagination,
)

StatusT = TypeVar("StatusT", bound=StrEnum)

PAGE_FAULTS: Final = {
    PageFault.PAGE_OUT_OF_RANGE: ("page", "must be at least 1"),
    PageFault.PAGE_SIZE_OUT_OF_RANGE: ("pageSize", "must be from 1 to 100"),
    PageFault.TOO_DEEP: ("page", "is too deep: page × pageSize may be 10000; go on with cursor"),
    PageFault.CURSOR_INVALID: ("cursor", "is not a cursor of this list"),
    PageFault.PAGE_AND_CURSOR: ("cursor", "cannot be combined with page"),
}


class PaginationReply(Reply, frozen=True):
    """Where in a list this page stands."""

    page: int | None
    page_size: int
    total: int
    total_pages: int
    total_capped: bool
    next_cursor: str | None


def read_page(*, page: int | None, page_size: int, cursor: str | None) -> PageRequest:
    """Read which page is asked for, or refuse."""
    wanted = page_request(page=page, page_size=page_size, cursor=cursor)
    if isinstance(wanted, PageFault):
        raise validation_refusal(page_faults(page=page, page_size=page_size, cursor=cursor))
    return wanted


def page_faults(*, page: int | None, page_size: int, cursor: str | None) -> list[Fault]:
    """Name all that keeps a page from being asked for so."""
    faults = []
    while isinstance(
        fault := page_request(page=page, page_size=page_size, cursor=cursor), PageFault
    ):
        field, message = PAGE_FAULTS[fault]
        faults.append({"field": field, "message": message})
        # Without what was wrong, the rest is looked at.
        match field:
            case "page":
                page = None
            case "pageSize":
                page_size = PAGE_SIZE_DEFAULT
            case _:
                cursor = None
    return faults


def read_statuses(
    text: str | None, known: type[StatusT], faults: list[Fault] | None = None
) -> tuple[StatusT, ...] | None:
    """Read a list of statuses, each once."""
    if text is None:
        return None
    words = text.split(",")
    if not all(word in list(known) for word in words):
        allowed = ", ".join(known)
        message = f"must be one or more of {allowed}, separated by commas"
        _note({"field": "status", "message": message}, faults)
        return None
    return tuple(dict.fromkeys(known(word) for word in words))


def shown_pagination(
    request: PageRequest,
    *,
    counted_rows: int,
    next_cursor: Cursor | None,
    is_counted_in_part: bool = False,
) -> PaginationReply:
    """Say where a page stands in its list."""
    where = pagination(
        request,
        counted_rows=counted_rows,
        next_cursor=next_cursor,
        is_counted_in_part=is_counted_in_part,
    )
    return PaginationReply(
        page=where.page,
        page_size=where.page_size,
        total=where.total,
        total_pages=where.total_pages,
        total_capped=where.total_capped,
        next_cursor=where.next_cursor,
    )


def read_moment(
    field: str, text: str | None, faults: list[Fault] | None = None, *, is_end: bool
) -> datetime | None:
    """Read a business day or a public time; an end is inclusive, so what follows it is returned."""
    if text is None:
        return None
    try:
        if "T" in text:
            moment = parse_public_time(text)
            return moment + timedelta(milliseconds=1) if is_end else moment
        day = date.fromisoformat(text)
        if day.isoformat() != text:
            raise ValueError("the other forms of ISO 8601 are not ours")  # noqa: TRY301
        return start_of_business_day(day + timedelta(days=1) if is_end else day)
    except (ValueError, OverflowError):
        message = "must be a day (YYYY-MM-DD) or a public time (YYYY-MM-DDTHH:MM:SS.mmmZ)"
        _note({"field": field, "message": message}, faults)
        return None


def _note(fault: Fault, faults: list[Fault] | None) -> None:
    """Add a fault to those that are looked for; whoever looks for none has looked before."""
    assert faults is not None, "a query is checked before it is used"
    faults.append(fault)
