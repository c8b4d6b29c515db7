"""The Balance group."""

import datetime as dt
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from vintem.api.call import MUST, Access, Answer, Call, Data, Query, Reply, Route
from vintem.companies.model import LimitGroup
from vintem.kit.clock import PublicTime, public_time
from vintem.ledger import service as ledger
from vintem.ledger.model import Account, Balances, Kind, Scope

NEXT_RELEASES_MAX = 10


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

    page_size: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: (
        Annotated[
            str,
            Meta(
                pattern=r"^[1-9][0-9]{0,17}$(?!\n)",
                extra={MUST: "is not a cursor of this list"},
            ),
        ]
        | None
    ) = None


class Entry(Reply, frozen=True):
    """One movement of the available balance."""

    kind: Kind
    amount: int
    balance_after: int
    reference: str
    created_at: PublicTime


class StatementPagination(Reply, frozen=True):
    """Where the list goes on."""

    page_size: int
    next_cursor: str | None


class Statement(Reply, frozen=True):
    """Movements of the available balance, the newest first."""

    entries: Sequence[Entry]
    pagination: StatementPagination


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
    before = None if query.cursor is None else int(query.cursor)
    lines = await ledger.statement(
        call.resources.database, _scope(call), before=before, rows_max=query.page_size + 1
    )
    shown = lines[: query.page_size]
    next_cursor = str(shown[-1].number) if len(lines) > query.page_size else None
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
                for line in shown
            ],
            pagination=StatementPagination(query.page_size, next_cursor),
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
            " it. Go on with `nextCursor`."
        ),
        group="Balance",
        access=Access.SECRET_KEY,
        limit=LimitGroup.REQUESTS,
        query=StatementQuery,
        answer=Statement,
    ),
)
