"""What happens to money, on a real database."""

import itertools
from datetime import UTC, date, datetime, timedelta

import asyncpg
import pytest

from ledger.books import TODAY, Books, complaints, in_days, noon, payment
from support.api import new_tenant
from vintem.brazil.calendar import add_business_days
from vintem.kit.clock import utc_now
from vintem.ledger import service as ledger
from vintem.ledger.model import BALANCED, Account, HoldKind, Kind, Scope
from vintem.runtime.db import Database

REFUND, BLOCK, DISPUTE = HoldKind.REFUND, HoldKind.BLOCK, HoldKind.DISPUTE


async def other_books(books: Books, environment: str = "live") -> Books:
    tenant = await new_tenant(books.database)
    return Books(books.database, Scope(tenant.company.company_id, environment))


# Captures


async def test_a_new_company_has_nothing_anywhere(books: Books) -> None:
    assert await books.all_balances() == dict.fromkeys(
        ("available", "blocked", "debt", "dispute", "payout", "refund", "release", "reserve"), 0
    )
    assert await books.statement() == []
    assert await books.next_releases() == []


async def test_a_capture_keeps_the_fee_and_divides_the_rest(books: Books) -> None:
    await books.capture(
        "tx_1",
        10_000,
        fee=399,
        release=[(in_days(30), 3_000), (in_days(60), 3_000), (in_days(90), 3_001)],
        reserve=[(in_days(180), 500)],
    )
    assert await books.balances() == {"available": 100, "release": 9_001, "reserve": 500}
    assert await books.total(Account.BANK) == -10_000
    assert await books.total(Account.FEE) == 399
    assert await books.next_releases() == [
        (in_days(30), 3_000),
        (in_days(60), 3_000),
        (in_days(90), 3_001),
        (in_days(180), 500),
    ]


async def test_the_next_releases_are_summed_by_day_and_as_many_as_asked_for(books: Books) -> None:
    await books.capture("tx_1", 300, release=[(in_days(30), 100), (in_days(60), 200)])
    await books.capture("tx_2", 70, release=[(in_days(30), 50)], reserve=[(in_days(30), 20)])
    assert await books.next_releases(1) == [(in_days(30), 170)]
    assert await books.next_releases(2) == [(in_days(30), 170), (in_days(60), 200)]


async def test_a_capture_that_is_all_fee_leaves_the_company_nothing(books: Books) -> None:
    await books.capture("tx_1", 100, fee=100)
    assert await books.balances() == {}
    await books.hold(REFUND, "re_1", 100)
    assert await books.balances() == {"debt": -100, "refund": 100}


async def test_payments_of_several_companies_are_captured_together(books: Books) -> None:
    second, third = await other_books(books), await other_books(books, "test")
    async with books.database.atomic() as block:
        await ledger.capture_many(
            block,
            [
                payment(third.scope, "tx_1", 1_000, fee=10),
                payment(books.scope, "tx_2", 2_000, release=[(in_days(1), 500)]),
                payment(second.scope, "tx_3", 3_000, source=Account.RECEIVABLE),
                payment(books.scope, "tx_4", 4_000, fee=1),
                payment(third.scope, "tx_5", 5_000),
            ],
            now=noon(TODAY),
        )
    assert await books.balances() == {"available": 5_499, "release": 500}
    assert await second.balances() == {"available": 3_000}
    assert await second.total(Account.RECEIVABLE) == -3_000
    assert await third.balances() == {"available": 5_990}
    assert [line.reference for line in await books.statement()] == ["tx_4", "tx_2"]
    assert await Books(books.database, Scope(third.scope.company_id, "live")).balances() == {}
    assert await complaints(books.database) == {}


async def test_the_same_capture_again_fails_and_leaves_nothing(books: Books) -> None:
    await books.capture("tx_1", 1_000, fee=10, release=[(in_days(1), 500)])
    before = (await books.balances(), await books.next_releases(), await books.postings())
    with pytest.raises(asyncpg.UniqueViolationError):
        await books.capture("tx_1", 1_000, fee=10, release=[(in_days(1), 500)])
    with pytest.raises(asyncpg.UniqueViolationError):
        await books.capture("tx_1", 2_000)
    async with books.database.atomic() as block:
        with pytest.raises(asyncpg.UniqueViolationError):
            await ledger.capture_many(
                block,
                [payment(books.scope, reference, 1) for reference in ("tx_2", "tx_3", "tx_2")],
                now=noon(TODAY),
            )
    after = (await books.balances(), await books.next_releases(), await books.postings())
    assert after == before


async def test_money_for_nothing_stands_in_suspense(books: Books) -> None:
    now = utc_now()
    async with books.database.atomic() as block:
        await ledger.book_unclaimed(
            block, books.scope, "bank/e2e_1", source=Account.BANK, amount=700, now=now
        )
        await block.execute(
            """
            insert into provider_callback (company_id, provider, callback_id, environment, kind,
                reference, amount, state, received_at)
            values ($1, 'bank', 'e2e_1', $2, 'payment.received', 'x', 700, 'unclaimed', $3)
            """,
            books.scope.company_id,
            books.scope.environment,
            now,
        )
    assert await books.balances() == {}
    assert await books.total(Account.SUSPENSE) == 700
    assert await books.total(Account.BANK) == -700


# The statement


async def test_a_statement_is_numbered_without_gaps_and_its_balances_follow(books: Books) -> None:
    await books.capture("tx_1", 1_000)
    await books.capture("tx_2", 500, release=[(in_days(1), 500)])
    await books.hold(REFUND, "re_1", 300)
    await books.pay_out(REFUND, "re_1")
    await books.release_due(in_days(1))
    await books.hold(DISPUTE, "dp_1", 2_000)
    await books.capture("tx_3", 900)
    lines = await books.statement()
    assert [(line.kind, line.reference, line.amount, line.balance_after) for line in lines] == [
        (Kind.DEBT_RECOVERY, "capture/tx_3", -800, 100),
        (Kind.CAPTURE, "tx_3", 900, 900),
        (Kind.DISPUTE, "dp_1", -1_200, 0),
        (Kind.RELEASE, "tx_2/1", 500, 1_200),
        (Kind.REFUND, "re_1", -300, 700),
        (Kind.CAPTURE, "tx_1", 1_000, 1_000),
    ]
    assert [line.number for line in lines] == [6, 5, 4, 3, 2, 1]
    assert lines[-1].created_at == noon(TODAY)


async def test_a_statement_is_paged_by_number(books: Books) -> None:
    for number in range(1, 8):
        await books.capture(f"tx_{number}", number)
    pages = []
    before = None
    while page := await books.statement(before=before, rows_max=3):
        pages.append([line.number for line in page])
        before = page[-1].number
    assert pages == [[7, 6, 5], [4, 3, 2], [1]]


async def test_a_statement_shows_only_its_environment(books: Books) -> None:
    test = Books(books.database, Scope(books.scope.company_id, "test"))
    await books.capture("tx_1", 100)
    await test.capture("tx_2", 200)
    assert [(line.number, line.amount) for line in await books.statement()] == [(1, 100)]
    assert [(line.number, line.amount) for line in await test.statement()] == [(1, 200)]


# Releases


async def test_money_is_released_when_its_banking_day_begins_in_brasilia(books: Books) -> None:
    friday_before_carnival = date(2026, 2, 13)
    due_on = add_business_days(friday_before_carnival, 1)
    assert due_on == date(2026, 2, 18)
    await books.capture("tx_1", 1_000, release=[(due_on, 1_000)], on=friday_before_carnival)
    midnight = datetime(2026, 2, 18, 3, tzinfo=UTC)
    await ledger.release_due(books.database, now=midnight - timedelta(seconds=1))
    assert await books.balances() == {"release": 1_000}
    await ledger.release_due(books.database, now=midnight)
    assert await books.balances() == {"available": 1_000}
    await ledger.release_due(books.database, now=midnight)
    assert await books.balances() == {"available": 1_000}


async def test_installments_and_reserve_are_released_each_on_its_day(books: Books) -> None:
    await books.capture(
        "tx_1",
        900,
        release=[(in_days(30), 300), (in_days(60), 300)],
        reserve=[(in_days(60), 300)],
    )
    await books.release_due(in_days(30))
    assert await books.balances() == {"available": 300, "release": 300, "reserve": 300}
    await books.release_due(in_days(60))
    assert await books.balances() == {"available": 900}
    assert {(line.kind, line.reference) for line in await books.statement()} == {
        (Kind.RELEASE, "tx_1/1"),
        (Kind.RELEASE, "tx_1/2"),
        (Kind.RESERVE_RELEASE, "tx_1/1"),
    }
    assert await books.next_releases() == []


async def test_releases_of_one_day_are_booked_in_the_order_of_their_payments(books: Books) -> None:
    references = [f"tx_{number:02}" for number in range(20)]
    for reference in reversed(references):
        await books.capture(reference, 1, release=[(in_days(1), 1)])
    await books.release_due(in_days(1))
    lines = list(reversed(await books.statement()))
    assert [line.reference for line in lines] == [f"{reference}/1" for reference in references]


# Debt


async def test_debt_is_recovered_from_the_next_receipt_before_it_can_be_used(books: Books) -> None:
    await books.capture("tx_1", 100)
    await books.hold(REFUND, "re_1", 350)
    assert await books.balances() == {"debt": -250, "refund": 350}
    await books.capture("tx_2", 1_000, release=[(in_days(1), 900)])
    assert await books.balances() == {"debt": -150, "refund": 350, "release": 900}
    await books.release_due(in_days(1))
    assert await books.balances() == {"available": 750, "refund": 350}
    recovered = [line for line in await books.statement() if line.kind is Kind.DEBT_RECOVERY]
    assert [(line.reference, line.amount) for line in recovered] == [
        ("release/tx_2/1", -150),
        ("capture/tx_2", -100),
    ]


async def test_only_the_company_that_owes_pays_its_debt(books: Books) -> None:
    other = await other_books(books)
    await books.capture("tx_0", 1)
    await books.hold(DISPUTE, "dp_1", 101)
    async with books.database.atomic() as block:
        await ledger.capture_many(
            block,
            [
                payment(books.scope, "tx_1", 60),
                payment(other.scope, "tx_2", 60),
                payment(books.scope, "tx_3", 60),
            ],
            now=noon(TODAY),
        )
    assert await books.balances() == {"available": 20, "dispute": 101}
    assert await other.balances() == {"available": 60}


async def test_money_put_back_pays_other_debt_first(books: Books) -> None:
    await books.capture("tx_1", 100)
    await books.hold(BLOCK, "bl_1", 100)
    await books.hold(REFUND, "re_1", 30)
    await books.restore(BLOCK, "bl_1")
    assert await books.balances() == {"available": 70, "refund": 30}
    await books.restore(REFUND, "re_1")
    assert await books.balances() == {"available": 100}


async def test_a_dispute_fee_is_taken_from_available_and_the_rest_is_owed(books: Books) -> None:
    await books.capture("tx_1", 200, release=[(in_days(1), 100)])
    await books.charge_dispute_fee("dp_1", 150)
    await books.charge_dispute_fee("dp_2", 0)
    assert await books.balances() == {"debt": -50, "release": 100}
    assert await books.total(Account.FEE) == 150


# Holds


async def test_a_hold_put_back_with_nothing_in_between_leaves_all_as_it_was(books: Books) -> None:
    await books.capture(
        "tx_1", 1_000, fee=50, release=[(in_days(30), 600)], reserve=[(in_days(90), 200)]
    )
    before = (await books.balances(), await books.next_releases())
    for kind, amount in itertools.product(HoldKind, (1, 150, 151, 749, 750, 751, 951, 5_000)):
        reference = f"{kind}_{amount}"
        await books.hold(kind, reference, amount, transaction_id="tx_1")
        assert (await books.balances())[kind.account] == amount
        await books.restore(kind, reference)
        assert (await books.balances(), await books.next_releases()) == before
    assert await complaints(books.database) == {}


async def test_a_refund_leaves_the_reserve_alone_and_a_dispute_does_not(books: Books) -> None:
    await books.capture("tx_1", 300, release=[(in_days(1), 100)], reserve=[(in_days(2), 100)])
    await books.hold(REFUND, "re_1", 250)
    assert await books.balances() == {"debt": -50, "refund": 250, "reserve": 100}
    await books.restore(REFUND, "re_1")
    await books.hold(DISPUTE, "dp_1", 250)
    assert await books.balances() == {"dispute": 250, "reserve": 50}


async def test_waiting_money_is_taken_from_the_payment_itself_then_from_the_latest_due(
    books: Books,
) -> None:
    await books.capture("tx_1", 100, release=[(in_days(10), 60), (in_days(40), 40)])
    await books.capture("tx_2", 100, release=[(in_days(20), 50), (in_days(50), 50)])
    await books.capture("tx_3", 100, release=[(in_days(30), 100)])
    await books.hold(DISPUTE, "dp_1", 220, transaction_id="tx_1")
    assert await books.next_releases() == [(in_days(20), 50), (in_days(30), 30)]
    await books.restore(DISPUTE, "dp_1")
    assert len(await books.next_releases()) == 5


async def test_a_chargeback_leaves_and_comes_back_while_its_fee_stays(books: Books) -> None:
    await books.capture("tx_1", 500, fee=20, release=[(in_days(30), 300)])
    await books.hold(DISPUTE, "dp_1", 500, transaction_id="tx_1")
    assert await books.balances() == {"debt": -20, "dispute": 500}
    await books.pay_out(DISPUTE, "dp_1", to=Account.RECEIVABLE)
    await books.charge_dispute_fee("dp_1", 15)
    assert await books.balances() == {"debt": -35}
    assert await books.total(Account.RECEIVABLE) == 500
    await books.take_back("dp_1", source=Account.RECEIVABLE)
    assert await books.balances() == {"available": 165, "release": 300}
    assert await books.next_releases() == [(in_days(30), 300)]
    assert await books.total(Account.RECEIVABLE) == 0
    assert await books.total(Account.FEE) == 35


async def test_a_blocked_payment_can_be_refunded(books: Books) -> None:
    await books.capture("tx_1", 100)
    await books.hold(BLOCK, "bl_1", 100)
    await books.pay_out(BLOCK, "bl_1")
    assert await books.balances() == {}
    assert await books.total(Account.BANK) == 0


async def test_what_was_taken_from_a_release_waits_again_or_is_free_if_its_day_has_passed(
    books: Books,
) -> None:
    await books.capture(
        "tx_1",
        400,
        release=[(in_days(10), 100), (in_days(20), 100), (in_days(30), 100)],
        reserve=[(in_days(20), 100)],
    )
    await books.hold(DISPUTE, "dp_1", 350, transaction_id="tx_1")
    assert await books.balances() == {"dispute": 350, "reserve": 50}
    await books.release_due(in_days(20))
    assert await books.balances() == {"available": 50, "dispute": 350}
    await books.restore(DISPUTE, "dp_1", on=in_days(20))
    assert await books.balances() == {"available": 300, "release": 100}
    assert await books.next_releases() == [(in_days(30), 100)]
    await books.release_due(in_days(30))
    assert await books.balances() == {"available": 400}


async def test_a_day_that_has_passed_frees_the_money_before_the_job_has_run(books: Books) -> None:
    await books.capture("tx_1", 100, release=[(in_days(10), 100)])
    await books.hold(DISPUTE, "dp_1", 60)
    await books.restore(DISPUTE, "dp_1", on=in_days(10))
    assert await books.balances() == {"available": 60, "release": 40}
    await books.release_due(in_days(10))
    assert await books.balances() == {"available": 100}


async def test_a_release_that_ran_on_a_clock_ahead_of_ours_is_not_run_again(books: Books) -> None:
    await books.capture("tx_1", 100, release=[(in_days(10), 100)])
    await books.hold(DISPUTE, "dp_1", 60)
    await books.release_due(in_days(10))
    await books.restore(DISPUTE, "dp_1", on=in_days(9))
    await books.release_due(in_days(11))
    assert await books.balances() == {"available": 100}
    assert await complaints(books.database) == {}


async def test_a_day_of_which_all_was_taken_comes_and_is_forgotten(books: Books) -> None:
    await books.capture("tx_1", 100, release=[(in_days(10), 100)])
    await books.hold(DISPUTE, "dp_1", 100)
    await books.release_due(in_days(10))
    days = "select count(*) from release_day where company_id = $1"
    assert await books.database.fetchval(days, books.scope.company_id) == 0
    await books.restore(DISPUTE, "dp_1", on=in_days(9))
    assert await books.balances() == {"available": 100}
    assert await complaints(books.database) == {}


async def test_what_is_due_in_both_environments_is_released_together(books: Books) -> None:
    both = (books, Books(books.database, Scope(books.scope.company_id, "test")))
    for each in both:
        await each.capture("tx_" + each.scope.environment, 500, release=[(in_days(1), 300)])
        await each.capture("tx_later_" + each.scope.environment, 50, release=[(in_days(2), 50)])
    await books.release_due(in_days(1))
    for each in both:
        assert await each.balances() == {"available": 500, "release": 50}


async def test_a_hold_ends_once(books: Books) -> None:
    await books.capture("tx_1", 100)
    await books.hold(DISPUTE, "dp_1", 40)
    with pytest.raises(AssertionError):
        await books.take_back("dp_1")
    await books.pay_out(DISPUTE, "dp_1")
    for again in (books.pay_out, books.restore):
        with pytest.raises(AssertionError):
            await again(DISPUTE, "dp_1")
    await books.take_back("dp_1")
    for again in (books.pay_out, books.restore):
        with pytest.raises(AssertionError):
            await again(DISPUTE, "dp_1")
    with pytest.raises(AssertionError):
        await books.take_back("dp_1")
    assert await books.balances() == {"available": 100}


async def test_a_hold_opens_once_and_belongs_to_its_company_and_environment(books: Books) -> None:
    test = Books(books.database, Scope(books.scope.company_id, "test"))
    other = await other_books(books)
    for one in (books, test, other):
        await one.capture(f"tx_{one.scope.environment}", 100)
    await books.hold(BLOCK, "bl_1", 40)
    await test.hold(BLOCK, "bl_2", 40)
    await other.hold(BLOCK, "bl_3", 40)
    with pytest.raises(asyncpg.UniqueViolationError):
        await books.hold(BLOCK, "bl_1", 40)
    for stranger in (test, other):
        with pytest.raises(AssertionError):
            await stranger.restore(BLOCK, "bl_1")
    for one in (books, test, other):
        assert await one.balances() == {"available": 60, "blocked": 40}


# What the database itself refuses


INSERT = """
    insert into posting (
        company_id, environment, kind, reference, codes, amounts, versions, created_at
    ) values ($1, 'live', 'capture', 'tx_raw', $2, $3, $4, now())
"""


@pytest.mark.parametrize(
    ("codes", "amounts", "versions"),
    [
        (["bank", "available"], [-100, 99], [0, 1]),
        (["bank", "available"], [100, 100], [0, 1]),
        (["bank", "available"], [2**63 - 1, 2**63 - 1], [0, 1]),
        (["bank"], [0], [0]),
        ([], [], []),
        (["bank", "fee"], [0, 0], [0, 0]),
        (["bank", "fee", "available"], [-100, 100, None], [0, 0, 1]),
        (["bank", "fee", "available"], [-100, 100], [0, 0]),
        (["bank", "fee"], [-100, 100], [0]),
        (["bank", "treasure"], [-100, 100], [0, 0]),
        (["bank", None], [-100, 100], [0, 0]),
    ],
)
async def test_the_database_refuses_a_posting_that_is_not_sound(
    database: Database,
    books: Books,
    codes: list[str | None],
    amounts: list[int | None],
    versions: list[int],
) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await database.execute(INSERT, books.scope.company_id, codes, amounts, versions)


@pytest.mark.parametrize(
    "statement",
    [
        "update posting set created_at = now() where company_id = $1",
        "delete from posting where company_id = $1",
    ],
)
async def test_the_database_refuses_to_change_a_posting(books: Books, statement: str) -> None:
    await books.capture("tx_1", 100)
    with pytest.raises(asyncpg.RaiseError, match="never changed"):
        await books.database.execute(statement, books.scope.company_id)


@pytest.mark.parametrize("table", ["posting", "asset_posting", "decision_log", "act"])
async def test_the_database_refuses_to_empty_what_is_never_changed(
    database: Database, table: str
) -> None:
    with pytest.raises(asyncpg.RaiseError):
        await database.execute(f"truncate {table}")


@pytest.mark.parametrize("account", BALANCED)
async def test_the_database_refuses_a_balance_below_its_limit(
    books: Books, account: Account
) -> None:
    await books.capture("tx_1", 100)
    wrong = 1 if account is Account.DEBT else -1
    with pytest.raises(asyncpg.CheckViolationError):
        await books.database.execute(
            "update account set balance = $3 where company_id = $1 and code = $2",
            books.scope.company_id,
            account,
            wrong,
        )


async def test_the_database_refuses_an_end_of_a_hold_without_its_moment(books: Books) -> None:
    await books.capture("tx_1", 100)
    await books.hold(DISPUTE, "dp_1", 40)
    for change in (
        "resolution = 'restored'",
        "resolved_at = now()",
        "resolution = 'lost', resolved_at = now()",
        "amount = 0",
    ):
        with pytest.raises(asyncpg.CheckViolationError):
            await books.database.execute(
                f"update hold set {change} where company_id = $1", books.scope.company_id
            )


async def test_the_database_refuses_to_release_more_than_waits(books: Books) -> None:
    await books.capture("tx_1", 100, release=[(in_days(1), 100)])
    for wrong in ("open = -1", "open = 101", "amount = 0, open = 0"):
        with pytest.raises(asyncpg.CheckViolationError):
            await books.database.execute(
                f"update release_schedule set {wrong} where company_id = $1",
                books.scope.company_id,
            )
