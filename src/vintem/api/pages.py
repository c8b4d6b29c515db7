"""Pages of lists: what a caller may ask for, and where a page stands."""

from typing import Final

from vintem.api.body import validation_refusal
from vintem.api.transaction_shapes import PaginationReply
from vintem.kit.paging import Cursor, PageFault, PageRequest, page_request, pagination

PAGE_FAULTS: Final = {
    PageFault.PAGE_OUT_OF_RANGE: ("page", "must be at least 1"),
    PageFault.PAGE_SIZE_OUT_OF_RANGE: ("pageSize", "must be from 1 to 100"),
    PageFault.TOO_DEEP: ("page", "is too deep: page × pageSize may be 10000; go on with cursor"),
    PageFault.CURSOR_INVALID: ("cursor", "is not a cursor of this list"),
    PageFault.PAGE_AND_CURSOR: ("cursor", "cannot be combined with page"),
}


def read_page(*, page: int | None, page_size: int, cursor: str | None) -> PageRequest:
    """Read which page is asked for, or refuse."""
    request = page_request(page=page, page_size=page_size, cursor=cursor)
    if isinstance(request, PageFault):
        field, message = PAGE_FAULTS[request]
        raise validation_refusal([{"field": field, "message": message}])
    return request


def shown_pagination(
    request: PageRequest, *, counted_rows: int, next_cursor: Cursor | None
) -> PaginationReply:
    """Say where a page stands in its list."""
    where = pagination(request, counted_rows=counted_rows, next_cursor=next_cursor)
    return PaginationReply(
        page=where.page,
        page_size=where.page_size,
        total=where.total,
        total_pages=where.total_pages,
        total_capped=where.total_capped,
        next_cursor=where.next_cursor,
    )
