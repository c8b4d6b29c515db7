"""The Balance group."""

from collections.abc import Sequence
from datetime import date

from vintem.api.call import Access, Answer, Call, Data, Reply, Route
from vintem.companies.model import LimitGroup
from vintem.kit.clock import PublicTime, public_time


class NextRelease(Reply, frozen=True):
    """Money that becomes available on a day."""

    date: date
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


async def read_balance(call: Call) -> Answer:
    """Tell what a company has: nothing, as long as nothing can be paid to it."""
    return Data(
        Balance(
            currency="BRL",
            available=0,
            waiting_funds=0,
            reserve=0,
            in_transit=0,
            debt=0,
            updated_at=public_time(call.now),
            next_releases=(),
        )
    )


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
            available=1_284_550,
            waiting_funds=376_200,
            reserve=50_000,
            in_transit=120_000,
            debt=0,
            updated_at=PublicTime("2026-03-02T14:30:00.000Z"),
            next_releases=(
                NextRelease(date=date(2026, 3, 3), amount=126_200),
                NextRelease(date=date(2026, 4, 1), amount=250_000),
            ),
        ),
    ),
)
