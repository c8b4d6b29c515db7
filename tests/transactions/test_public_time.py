"""Days are Brasilia days: at 23:30 on the last day of a month it is already tomorrow in UTC."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.api import Api, Shop, complaints, new_shop
from vintem.kit.clock import public_time
from vintem.kit.errors import ErrorCode, Refusal
from vintem.ledger import service as ledger
from vintem.ledger.model import Scope
from vintem.providers.faults import Faults
from vintem.providers.simulator import Simulator
from vintem.runtime.db import Database
from vintem.transactions.batches import Payment
from vintem.transactions.model import Status
from vintem.transactions.moves import generated_intent
from vintem.transactions.service import Transactions, move_due

LATE = datetime(2026, 5, 1, 2, 30, tzinfo=UTC)
"""23:30 on Thursday, 30 April 2026 in Brasilia; 1 May is a holiday, the 2nd a Saturday."""


@pytest.fixture
async def shop(api: Api, database: Database) -> AsyncIterator[Shop]:
    yield await new_shop(api, database)
    assert await complaints(database) == {}


@pytest.fixture
async def transactions(database: Database) -> AsyncIterator[Transactions]:
    opened = Transactions(database, Simulator(database, secret=b"", faults=Faults()))
    yield opened
    await opened.close()


async def paid_at(shop: Shop, transactions: Transactions, moment: datetime, amount: int) -> str:
    """A payment that was created and made at a moment."""
    transaction_id: str = (await shop.create(amount))["id"]
    await shop.database.execute(
        """
        update transaction set created_at = $3, expires_at = $3::timestamptz + interval '1 hour',
            due_at = $3::timestamptz + interval '1 hour',
            details = jsonb_set(details::jsonb, '{createdAt}', to_jsonb($4::text))::text
        where company_id = $1 and transaction_id = $2
        """,
        shop.scope.company_id,
        transaction_id,
        moment,
        public_time(moment),
    )
    scope = Scope(shop.scope.company_id, "test")
    await transactions.confirm(
        Payment(scope, transaction_id, "E9999999920260501023000000000001", moment)
    )
    return transaction_id


async def next_releases(shop: Shop) -> list[Any]:
    data = (await shop.api.get("/v1/balance", key=shop.key)).data
    return [(each["date"], each["amount"]) for each in data["nextReleases"]]


async def test_a_payment_late_on_the_last_of_the_month_shows_that_day(
    shop: Shop, transactions: Transactions
) -> None:
    transaction_id = await paid_at(shop, transactions, LATE, 1_000)
    data = await shop.read(transaction_id)
    for name in ("createdAt", "paidAt", "updatedAt"):
        assert data[name] == "2026-04-30T23:30:00.000Z"
    assert data["expiresAt"] == "2026-05-01T00:30:00.000Z"
    entries = (await shop.api.get("/v1/balance/entries", key=shop.key)).data["entries"]
    assert [entry["createdAt"] for entry in entries] == ["2026-04-30T23:30:00.000Z"]
    told = await shop.database.fetchval(
        "select body::jsonb ->> 'timestamp' from webhook_event"
        " where company_id = $1 and kind = 'transaction.paid'",
        shop.scope.company_id,
    )
    assert told == "2026-04-30T23:30:00.000Z"


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("startDate=2026-04-30&endDate=2026-04-30", True),
        ("startDate=2026-04-01&endDate=2026-04-30", True),
        ("startDate=2026-05-01", False),
        ("endDate=2026-04-29", False),
        ("startDate=2026-04-30T23:30:00.000Z&endDate=2026-04-30T23:30:00.000Z", True),
        ("startDate=2026-04-30T23:30:00.001Z", False),
        ("endDate=2026-04-30T23:29:59.999Z", False),
        # The same moment as UTC would write it is another one here.
        ("startDate=2026-05-01T02:30:00.000Z", False),
    ],
)
async def test_it_is_found_by_that_day_and_no_other(
    shop: Shop, transactions: Transactions, query: str, is_found: bool
) -> None:
    await paid_at(shop, transactions, LATE, 1_000)
    assert len((await shop.list(f"?{query}"))["transactions"]) == is_found


@pytest.mark.parametrize(
    ("moment", "days", "due"),
    [
        # One day later is the holiday, then comes the weekend.
        (LATE, 1, "2026-05-04"),
        (LATE, 4, "2026-05-04"),
        (LATE, 5, "2026-05-05"),
        # Half an hour later it is Friday, 1 May, in Brasilia too.
        (LATE + timedelta(minutes=30), 1, "2026-05-04"),
        (LATE + timedelta(minutes=30), 4, "2026-05-05"),
        # The night before Christmas, and the last night of the year.
        (datetime(2026, 12, 25, 2, 59, 59, 999_999, tzinfo=UTC), 1, "2026-12-28"),
        (datetime(2027, 1, 1, 2, 30, tzinfo=UTC), 1, "2027-01-04"),
        # Before Carnival: Monday and Tuesday are free.
        (datetime(2027, 2, 6, 2, 30, tzinfo=UTC), 1, "2027-02-10"),
        # 28 and 29 February 2028 are the Monday and the Tuesday of Carnival.
        (datetime(2028, 2, 29, 2, 30, tzinfo=UTC), 1, "2028-03-01"),
    ],
)
async def test_it_becomes_available_on_the_right_business_day(
    shop: Shop, transactions: Transactions, moment: datetime, days: int, due: str
) -> None:
    await shop.agree(pix_release_days=days, reserve_basis_points=1_000, reserve_days=days)
    await paid_at(shop, transactions, moment, 1_000)
    assert await next_releases(shop) == [(due, 1_000)]
    assert await shop.balance() == {"waitingFunds": 900, "reserve": 100}
    first_moment = datetime.fromisoformat(f"{due}T03:00:00+00:00")
    await ledger.release_due(shop.database, now=first_moment - timedelta(microseconds=1))
    assert await shop.balance() == {"waitingFunds": 900, "reserve": 100}
    await ledger.release_due(shop.database, now=first_moment)
    assert await shop.balance() == {"available": 1_000}


async def test_a_refund_is_possible_for_ninety_times_24_hours(
    shop: Shop, transactions: Transactions
) -> None:
    """The window is counted in whole days from the moment of the payment."""
    transaction_id = await paid_at(shop, transactions, LATE, 1_000)
    end = LATE + timedelta(days=90)
    refund, _ = await transactions.refund(
        shop.scope, transaction_id, generated_intent(), amount=1, reason=None, now=end
    )
    assert public_time(refund.created_at) == "2026-07-29T23:30:00.000Z"
    with pytest.raises(Refusal) as refused:
        await transactions.refund(
            shop.scope,
            transaction_id,
            generated_intent(),
            amount=1,
            reason=None,
            now=end + timedelta(microseconds=1),
        )
    assert refused.value.code is ErrorCode.REFUND_WINDOW_EXPIRED


async def test_a_code_expires_at_its_moment_and_says_so_in_brasilia_time(
    shop: Shop, transactions: Transactions
) -> None:
    made = await shop.create()
    await shop.database.execute(
        "update transaction set expires_at = $3, due_at = $3"
        " where company_id = $1 and transaction_id = $2",
        shop.scope.company_id,
        made["id"],
        LATE,
    )
    await move_due(shop.database, now=LATE - timedelta(microseconds=1))
    assert (await shop.read(made["id"]))["status"] == "pending"
    await move_due(shop.database, now=LATE)
    data = await shop.read(made["id"])
    assert (data["status"], data["statusReason"]) == ("cancelled", "expired")
    assert data["cancelledAt"] == data["expiresAt"] == "2026-04-30T23:30:00.000Z"
    moved = await transactions.move(
        shop.scope, made["id"], Status.PAID, now=LATE + timedelta(minutes=30)
    )
    # The bank's own name of the payment carries true UTC.
    assert moved.end_to_end_id is not None
    assert moved.end_to_end_id.startswith("E99999999202605010300")
    assert (await shop.read(made["id"]))["paidAt"] == "2026-05-01T00:00:00.000Z"
