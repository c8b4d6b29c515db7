"""Lists as files that a spreadsheet opens: what an export declares, how its lines are written."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from vintem.companies.model import Environment
from vintem.kit.clock import BUSINESS_ZONE, business_day
from vintem.ledger.model import Scope
from vintem.members.model import Permission, Role
from vintem.resources import Resources

MEDIA_TYPE: Final = "text/csv; charset=utf-8"
# By this a spreadsheet knows that the file is UTF-8.
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
SEPARATOR: Final = ";"
LINE_END: Final = "\r\n"

# A spreadsheet would take a text that begins so for a formula, and work it out.
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_QUOTED: Final = frozenset(f'"\r\n{SEPARATOR}')

Cell = str | int | datetime | date | None
"""A text, a number (of cents in a column of money), a moment (in Brasilia's time) or a day."""

AskedT = TypeVar("AskedT", bound=msgspec.Struct)


class Money(NamedTuple):
    """A column of cents; the file has it twice, `valor_centavos` and `valor` as 1234,56."""

    name: str


@dataclass(frozen=True, slots=True)
class Source:
    """Whose rows are written, and for whom; the worker has one where there is no visit."""

    resources: Resources
    scope: Scope
    role: Role
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Export(Generic[AskedT]):
    """A list that can be had as a file, with the filter of its page."""

    what: str
    """The first word of the file's name, such as `transacoes`."""
    label: str
    """What people call it, such as `Transações`."""
    header: Sequence[str | Money]
    asked: type[AskedT]
    """The filter, as the page reads it from its address."""
    rows: Callable[[Source, AskedT], AsyncIterator[Sequence[Cell]]]
    """All rows of the filter, in the order of the page; it must read them in pages itself."""
    permission: Permission
    """What one must be allowed to see besides being allowed to export."""
    since: str = "since"
    until: str = "until"
    """Which fields of the filter hold its first and its last day, as 2026-11-15."""


AnyExport = Export[Any]


def file_name(
    export: AnyExport, asked: msgspec.Struct, *, environment: Environment, now: datetime
) -> str:
    """Name a file by what is in it: `transacoes_2026-11-01_2026-11-15_live.csv`."""
    first = _day(getattr(asked, export.since, "")) or "inicio"
    last = _day(getattr(asked, export.until, "")) or business_day(now).isoformat()
    return f"{export.what}_{first}_{last}_{environment}.csv"


def head(export: AnyExport) -> bytes:
    """Write how the file begins: its mark, and the names of its columns."""
    names: list[str] = []
    for column in export.header:
        if isinstance(column, Money):
            names += [f"{column.name}_centavos", column.name]
        else:
            names.append(column)
    return BYTE_ORDER_MARK + _joined(names)


def line(export: AnyExport, cells: Sequence[Cell]) -> bytes:
    """Write one row."""
    written: list[str] = []
    for column, cell in zip(export.header, cells, strict=True):
        if isinstance(column, Money):
            assert cell is None or isinstance(cell, int)
            written += ["", ""] if cell is None else [str(cell), _reais(cell)]
        else:
            written.append(_text(cell))
    return _joined(written)


def _joined(texts: Sequence[str]) -> bytes:
    return (SEPARATOR.join(_quoted(text) for text in texts) + LINE_END).encode()


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell
    if isinstance(cell, datetime):
        return f"{cell.astimezone(BUSINESS_ZONE):%d/%m/%Y %H:%M:%S}"
    if isinstance(cell, date):
        return f"{cell:%d/%m/%Y}"
    return str(cell)


def _reais(cents: int) -> str:
    whole, rest = divmod(abs(cents), 100)
    return f"{'-' if cents < 0 else ''}{whole},{rest:02}"


def _quoted(text: str) -> str:
    if _QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _day(text: object) -> str:
    try:
        return date.fromisoformat(str(text)).isoformat()
    except ValueError:
        return ""
