"""One page of a long list: from a row on, to either side, and never counted."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

ROWS_MAX: Final = 50

RowT = TypeVar("RowT")
Reader = Callable[[str, int], Awaitable[Sequence[RowT]]]
"""Reads so many rows just past one, the newest first."""


@dataclass(frozen=True, slots=True)
class Slice(Generic[RowT]):
    """The rows of a page, the newest first, and whether there are more."""

    rows: Sequence[RowT]
    has_newer: bool
    has_older: bool


async def read_slice(
    older: Reader[RowT], newer: Reader[RowT], *, before: str, after: str
) -> Slice[RowT]:
    """Read the rows after one, or those before one, or else the newest."""
    if after:
        found = await newer(after, ROWS_MAX + 1)
        if found:
            # The one too many is the newest.
            return Slice(found[-ROWS_MAX:], len(found) > ROWS_MAX, has_older=True)
        before = ""
    found = await older(before, ROWS_MAX + 1)
    return Slice(found[:ROWS_MAX], bool(before), len(found) > ROWS_MAX)
