"""The Balance group."""

import datetime as dt
import re
from collections.abc import Sequence
from typing import Final

from vintem.api.call import Access, Answer, Call, Data, Query, Reply, Route
from vintem.api.paging import (
    PAGE_FAULTS,
    PaginationReply,
    page_faults,
    read_page,
    shown_pagination,
)
from vintem.companies.model import LimitGroup
from vintem.kit.clock import PublicTime, public_time
from vintem.kit.paging import COUNTED_ROWS_MAX, Cursor, PageFault, page_request
from vintem.ledger import service as ledger
from vintem.ledger.model import Account, Balances, Kind, Scope

NEXT_RELEASES_MAX = 10
# What a cursor of this list names its last movement by.
MOVEMENT_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")


class NextRelease(Reply, frozen=True):
    """Money that becomes available on a day."""

    date: dt.date
    amount: int


class Balance(Reply, frozen=True):
    """A company's money in one environment, in cents."""

    currency: str
    available: int
    waiting_funds: int
    reserve: int
    in_transit: int
    debt: int
    updated_at: PublicTime
    next_releases: Sequence[NextRelease]


class AvailableBalance(Reply, frozen=True):
    """The same in the short form that some integrators know, in cents."""

    amount: int
    waiting_funds: int
    reserve: int
    max_antecipable: int


class StatementQuery(Query, frozen=True):
    """Which movements are listed."""

    page: int | None = None
    page_size: int = 20
    cursor: str | None = None

    def faults(self) -> list[dict[str, str]]:
        """All that is wrong, each fault with its parameter."""
        wanted = page_request(page=self.page, page_size=self.page_size, cursor=self.cursor)
        if isinstance(wanted, PageFault):
            return page_faults(page=self.page, page_size=self.page_size, cursor=self.cursor)
        if wanted.cursor is not None and not MOVEMENT_NUMBER.fullmatch(wanted.cursor.id):
            field, message = PAGE_FAULTS[PageFault.CURSOR_INVALID]
            return [{"field": field, "message": message}]
        return []


class Entry(Reply, frozen=True):
    """One movement of the available balance."""

    kind: Kind
    amount: int
    balance_after: int
    reference: str
    created_at: PublicTime


class Statement(Reply, frozen=True):
    """Movements of the available balance, the newest first."""

    entries: Sequence[Entry]
    pagination: PaginationReply


async def read_balance(call: Call) -> Answer:
    """Tell what a company has."""
    scope, database = _scope(call), call.resources.database
    balances = await call.resources.balances.read(scope)
    waiting = balances[Account.RELEASE] or balances[Account.RESERVE]
    releases = (
        await ledger.next_releases(database, scope, rows_max=NEXT_RELEASES_MAX) if waiting else ()
    )
    return Data(
        Balance(
            currency="BRL",
            available=balances[Account.AVAILABLE],
            waiting_funds=balances[Account.RELEASE],
            reserve=_reserve(balances),
            in_transit=balances[Account.PAYOUT] + balances[Account.REFUND],
            debt=-balances[Account.DEBT],
            updated_at=public_time(call.now),
            next_releases=[NextRelease(day, amount) for day, amount in releases],
        )
    )


async def read_available(call: Call) -> Answer:
    """Tell what a company has, in the short form."""
    balances = await call.resources.balances.read(_scope(call))
    return Data(
        AvailableBalance(
            amount=balances[Account.AVAILABLE],
            waiting_funds=balances[Account.RELEASE],
            reserve=_reserve(balances),
            max_antecipable=balances[Account.RELEASE],
        )
    )


async def list_entries(call: Call) -> Answer:
    """List the movements of the available balance."""
    query = call.query_as(StatementQuery)
    page = read_page(page=query.page, page_size=query.page_size, cursor=query.cursor)
    found = await ledger.statement(
        call.resources.database,
        _scope(call),
        before=None if page.cursor is None else int(page.cursor.id),
        offset=page.offset,
        rows_max=page.page_size,
    )
    # The oldest movement is the first: whoever was shown it has seen all.
    last = found.lines[-1] if found.lines and found.lines[-1].number > 1 else None
    return Data(
        Statement(
            entries=[
                Entry(
                    kind=line.kind,
                    amount=line.amount,
                    balance_after=line.balance_after,
                    reference=line.reference,
                    created_at=public_time(line.created_at),
                )
                for line in found.lines
            ],
            pagination=shown_pagination(
                page,
                counted_rows=min(found.total, COUNTED_ROWS_MAX),
                next_cursor=None if last is None else Cursor(last.created_at, str(last.number)),
            ),
        )
    )


def _scope(call: Call) -> Scope:
    return Scope(call.company.company_id, call.company.environment)


def _reserve(balances: Balances) -> int:
    return sum(balances[account] for account in (Account.RESERVE, Account.DISPUTE, Account.BLOCKED))


ROUTES = (
    Route(
        method="GET",
        path="/v1/balance",
        handler=read_balance,
        summary="Read the balance",
        description=(
            "`available` can be withdrawn now, `waitingFunds` is being released, `reserve` is held"
            " back, `inTransit` is on its way out, and `debt` is what the company owes. All of it"
            " in cents, for the environment of the key."
        ),
        group="Balance",
        access=Access.SECRET_KEY,
        limit=LimitGroup.REQUESTS,
        answer=Balance,
        example=Balance(
            currency="BRL",
            available=1_254_390,
            waiting_funds=318_200,
            reserve=45_000,
            in_transit=100_000,
            debt=0,
            updated_at=PublicTime("2026-03-12T10:15:30.123Z"),
            next_releases=(NextRelease(dt.date(2026, 3, 13), 118_200),),
        ),
    ),
    Route(
        method="GET",
        path="/v1/balance/available",
        handler=read_available,
        summary="Read the available balance",
        description="The balance in a short form; `maxAntecipable` is what waits to be released.",
        group="Balance",
        access=Access.SECRET_KEY,
        limit=LimitGroup.REQUESTS,
        answer=AvailableBalance,
    ),
    Route(
        method="GET",
        path="/v1/balance/entries",
        handler=list_entries,
        summary="List the statement",
        description=(
            "Every movement of the available balance, the newest first, each with the balance after"
            " it; `page` and `pageSize`, or `cursor`. Go on with `nextCursor`."
        ),
        group="Balance",
        access=Access.SECRET_KEY,
        limit=LimitGroup.REQUESTS,
        query=StatementQuery,
        answer=Statement,
    ),
)
