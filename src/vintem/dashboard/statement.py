"""The statement: every movement of what can be withdrawn, with the balance after it."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.dashboard.answers import page
from vintem.dashboard.asked import period_of
from vintem.dashboard.csv_file import Cell, Export, Money, Source
from vintem.dashboard.exporting import exported
from vintem.dashboard.money_words import KINDS, option_words
from vintem.dashboard.page import Page, shown
from vintem.dashboard.visit import Visit
from vintem.ledger import service as ledger
from vintem.ledger.model import Kind, StatementFilter
from vintem.members.model import Permission

ROWS_MAX: Final = 50
ROWS_AT_ONCE: Final = 500

# Movements of these kinds go from one held account to another, and past what is available.
_ELSEWHERE: Final = frozenset(
    {
        Kind.SUSPENSE,
        Kind.REFUND_PAID,
        Kind.BLOCK_REFUNDED,
        Kind.DISPUTE_REFUNDED,
        Kind.CHARGEBACK,
        Kind.WITHDRAWAL_PAID,
    }
)
_KINDS_SHOWN: Final = {kind: words for kind, words in KINDS.items() if kind not in _ELSEWHERE}
_RECORD: Final = re.compile(r"(?:tx|wd)_[0-9a-z]{26}")
_PLACES: Final = {"tx": "/transactions/", "wd": "/withdrawals/"}
_CURSOR: Final = re.compile(r"[1-9][0-9]{0,17}")


class Asked(msgspec.Struct, frozen=True):
    """Which movements are shown."""

    kind: str = ""
    since: str = ""
    until: str = ""
    cursor: str = ""


async def show_statement(visit: Visit) -> Answer:
    """List the movements, the newest first."""
    asked = visit.asked(Asked)
    before = int(asked.cursor) if _CURSOR.fullmatch(asked.cursor) else None
    lines = await ledger.filtered_statement(
        visit.resources.database,
        visit.scope,
        filter_of(asked),
        before=before,
        rows_max=ROWS_MAX + 1,
    )
    listed = lines[:ROWS_MAX]
    filters = {"kind": asked.kind, "since": asked.since, "until": asked.until}
    is_followed = len(lines) > len(listed)
    return page(
        visit,
        "statement.html",
        title="Extrato",
        asked=asked,
        filters=filters,
        kinds=option_words(_KINDS_SHOWN, "Todos"),
        rows=[(line, KINDS[line.kind], place_of(line.reference)) for line in listed],
        newer=visit.href("/statement", **filters) if before is not None else "",
        older=visit.href("/statement", **filters, cursor=listed[-1].number) if is_followed else "",
    )


def filter_of(asked: Asked) -> StatementFilter:
    """Turn what an address asks for into what is looked for."""
    created_from, created_before = period_of(asked.since, asked.until)
    kind = Kind(asked.kind) if asked.kind in _KINDS_SHOWN else None
    return StatementFilter(kind, created_from, created_before)


def place_of(reference: str) -> tuple[str, str]:
    """Where the page of the record is that a movement names, and its id; empty: it has none."""
    found = _RECORD.search(reference)
    if found is None:
        return "", ""
    record_id = found[0]
    return _PLACES[record_id[:2]], record_id


async def _rows(source: Source, asked: Asked) -> AsyncIterator[Sequence[Cell]]:
    before: int | None = None
    while True:
        lines = await ledger.filtered_statement(
            source.resources.database,
            source.scope,
            filter_of(asked),
            before=before,
            rows_max=ROWS_AT_ONCE,
        )
        for line in lines:
            debit = -line.amount if line.amount < 0 else None
            credit = line.amount if line.amount > 0 else None
            yield (
                *(line.number, line.created_at, KINDS[line.kind], line.kind, line.reference),
                *(debit, credit, line.balance_after),
            )
        if len(lines) < ROWS_AT_ONCE:
            return
        before = lines[-1].number


EXPORT: Final = Export(
    what="extrato",
    label="Extrato",
    header=(
        *("numero", "data", "descricao", "tipo", "referencia"),
        *(Money("debito"), Money("credito"), Money("saldo")),
    ),
    asked=Asked,
    rows=_rows,
    permission=Permission.BALANCE_READ,
)

PAGES: Final[tuple[Page, ...]] = (
    shown("/statement", show_statement, Permission.BALANCE_READ, "Extrato"),
    exported("/statement.csv", EXPORT),
)
