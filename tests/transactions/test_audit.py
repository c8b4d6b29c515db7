"""Each invariant of money held or gone for payments complains of its own breach."""

from collections.abc import AsyncIterator

import pytest

from conftest import new_database
from support.api import complaints, new_shop
from support.breaches import copied, sound, spoil
from vintem.runtime.db import Database

# Those whose checks and triggers would refuse the breaches.
TABLES = ("posting", "hold", "transaction")

LIVES = (
    ("paid",),
    ("paid", "blocked"),
    ("blocked",),
    ("paid", "blocked", "paid"),
    ("paid", "blocked", "refunded"),
    ("paid", "pre_chargeback"),
    ("paid", "pre_chargeback", "paid"),
    ("paid", "pre_chargeback", "refunded"),
    ("paid", "chargeback"),
    ("paid", "pre_chargeback", "chargeback", "paid", "pre_chargeback"),
    ("paid", "pre_chargeback", "chargeback", "paid", "chargeback"),
    ("paid", "refunded"),
    ("failed",),
)


@pytest.fixture(scope="module")
async def sound_url(worker_id: str) -> str:
    """A database with payments whose money is held, or was, and nobody connected to it."""
    url = await new_database(f"held_audit_{worker_id}")
    async with sound(url) as (api, database):
        shop = await new_shop(api, database)
        for statuses in LIVES:
            await shop.move((await shop.create())["id"], *statuses)
        for status in ("blocked", "pre_chargeback", "chargeback"):
            in_part = await shop.paid()
            await shop.refund(in_part, 3_000)
            await shop.move(in_part, status)
        await shop.refund(await shop.paid(), 3_000)
    return url


@pytest.fixture
async def own(sound_url: str) -> AsyncIterator[Database]:
    """A copy of it to spoil."""
    async with copied(sound_url) as opened:
        yield opened


def one(status: str) -> str:
    """The id of some payment that was made and stands there, nothing of it given back."""
    return (
        "(select min(transaction_id) from transaction"
        f" where status = '{status}' and paid_at is not null and refunded_amount = 0)"
    )


def hold_of(status: str) -> str:
    return f"(select hold_reference from transaction where transaction_id = {one(status)})"


def in_suspense(reference: str, amount: int, *, days_ago: float, environment: str = "live") -> str:
    """Money that somebody told us of, kept where nobody owns it."""
    kind = "payment.received" if amount > 0 else "refund.done"
    return f"""
        insert into posting (
            company_id, environment, kind, reference, codes, amounts, versions, created_at
        )
        select company_id, '{environment}', 'suspense', 'bank/{reference}', '{{suspense,bank}}',
            '{{{amount},{-amount}}}', '{{0,0}}', now() - interval '{days_ago} days'
        from company;
        insert into provider_callback (
            company_id, provider, callback_id, environment, kind, reference, amount, state,
            received_at
        )
        select company_id, 'bank', '{reference}', '{environment}', '{kind}', 'x', {abs(amount)},
            'unclaimed', now() - interval '{days_ago} days'
        from company;
    """


def decided(reference: str, amount: int) -> str:
    """Money that left suspense because somebody has decided about it."""
    return f"""
        insert into posting (
            company_id, environment, kind, reference, codes, amounts, versions, created_at
        )
        select company_id, 'live', 'suspense_ended', 'bank/{reference}', '{{suspense,bank}}',
            '{{{-amount},{amount}}}', '{{0,0}}', now()
        from company;
    """


@pytest.mark.parametrize(
    ("broken", "breach"),
    [
        pytest.param(
            {"I7a"},
            "update posting set reference = 'tx_other/9' where kind = 'chargeback'"
            f" and reference = {hold_of('chargeback')}",
            id="I7a a payment charged back whose money stayed",
        ),
        pytest.param(
            {"I7a"},
            f"""
            insert into posting (
                company_id, environment, kind, reference, codes, amounts, versions, created_at
            )
            select company_id, environment, 'chargeback', transaction_id || '/9',
                '{{suspense,bank}}', '{{-10000,10000}}', '{{0,0}}', now()
            from transaction where transaction_id = {one("paid")}
            """,
            id="I7a money charged back of a payment that stands",
        ),
        pytest.param(
            {"I7a"},
            """
            insert into posting (
                company_id, environment, kind, reference, codes, amounts, versions, created_at
            )
            select company_id, environment, 'chargeback', transaction_id || '/9',
                '{suspense,bank}', '{-3000,3000}', '{0,0}', now()
            from transaction where status = 'chargeback' and refunded_amount = 3000
            """,
            id="I7a more left than came in",
        ),
        pytest.param(
            {"I7a", "I7"},  # the refund itself says otherwise, too
            "update transaction set refunded_amount = refunded_amount + 1"
            " where status = 'paid' and refunded_amount > 0",
            id="I7a a refund that did not leave",
        ),
        *(
            pytest.param(
                {"H1", "I10"},  # the account holds what no hold says
                f"delete from hold where reference = {hold_of(status)}",
                id=f"H1 {status} and nothing held",
            )
            for status in ("blocked", "pre_chargeback")
        ),
        pytest.param(
            {"H1", "I7a"},
            f"delete from hold where reference = {hold_of('chargeback')}",
            id="H1 charged back out of no hold",
        ),
        pytest.param(
            {"I7a"},
            f"update hold set amount = amount - 1 where reference = {hold_of('chargeback')}",
            id="I7a less was held than left",
        ),
        pytest.param(
            {"H1", "I7a"},
            f"update hold set amount = amount + 1 where reference = {hold_of('chargeback')}",
            id="H1 more was held than there was",
        ),
        pytest.param(
            {"H1", "I10"},
            f"update hold set amount = amount - 1 where reference = {hold_of('blocked')}",
            id="H1 less is held than is left",
        ),
        pytest.param(
            {"H1"},
            f"update hold set resolution = 'restored' where reference = {hold_of('chargeback')}",
            id="H1 a lost dispute whose money was put back",
        ),
        pytest.param(
            {"H1"},
            f"update transaction set hold_reference = null where transaction_id = {one('blocked')}",
            id="H1 a payment that does not know its hold",
        ),
        pytest.param(
            {"H1"},
            f"update transaction set hold_reference = transaction_id || '/2'"
            f" where transaction_id = {one('paid')}",
            id="H1 a payment that stands and names a hold",
        ),
        pytest.param(
            {"H1"},
            f"""
            update hold set reference = {one("paid")} || '/9' where kind = 'dispute'
                and reference = {hold_of("pre_chargeback")}
            """,
            id="H1 the hold of another payment",
        ),
        pytest.param(
            {"I14"}, in_suspense("1", 500, days_ago=2.1), id="I14 money that nobody has looked at"
        ),
        pytest.param(
            {"I14"},
            in_suspense("1", -500, days_ago=3),
            id="I14 money that left and nobody has looked at",
        ),
        pytest.param(
            {"I14"},
            in_suspense("1", 500, days_ago=4)
            + in_suspense("2", 500, days_ago=3)
            # One of them was given back.
            + in_suspense("3", -500, days_ago=1),
            id="I14 one of two that was given back",
        ),
        pytest.param(set(), in_suspense("1", 500, days_ago=1.9), id="money that came yesterday"),
        pytest.param(
            set(),
            in_suspense("1", 500, days_ago=4) + decided("1", 500),
            id="money that somebody has decided about",
        ),
        pytest.param(
            {"U4"},
            in_suspense("1", 500, days_ago=1) + decided("1", 499),
            id="U4 less left than was there",
        ),
        pytest.param({"U4"}, decided("1", 500), id="U4 money left that was never there"),
        pytest.param(
            set(),
            in_suspense("1", 500, days_ago=4) + in_suspense("2", -500, days_ago=1),
            id="money that was given back",
        ),
        pytest.param(
            set(),
            in_suspense("1", 500, days_ago=9, environment="test"),
            id="money that is not real",
        ),
    ],
)
async def test_a_breach_is_found_by_its_invariant_alone(
    own: Database, broken: set[str], breach: str
) -> None:
    await spoil(own, breach, tables=TABLES)
    found = await complaints(own)
    assert set(found) == broken, found
