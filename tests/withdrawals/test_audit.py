"""Each invariant of withdrawals complains of its own breach, and of no other."""

from collections.abc import AsyncIterator

import pytest

from conftest import new_database
from support.api import complaints
from support.breaches import copied, sound, spoil
from vintem.kit.clock import utc_now
from vintem.runtime.db import Database
from vintem.withdrawals import service as withdrawals
from withdrawals.till import crypto_body, new_till

# Those whose checks and triggers would refuse the breaches.
TABLES = ("posting", "hold", "withdrawal", "withdrawal_day", "asset_posting", "decision_log")


@pytest.fixture(scope="module")
async def sound_url(worker_id: str) -> str:
    """A database with withdrawals in every status, and nobody connected to it."""
    url = await new_database(f"payout_audit_{worker_id}")
    async with sound(url) as (api, database):
        till = await new_till(api, database, funds=100_000)
        await till.ask(crypto_body(20_000))
        for amount in (1_000, 1_101, 1_200):
            await till.take(amount)
        await till.work()
        await till.work(after=3)
        cancelled = await till.take(1_300)
        await till.cancel(cancelled["id"])
        await till.rule(automatic_cents_max=0)
        approved = await till.take(1_400)
        await withdrawals.approve(
            database, approved["id"], decided_by="operator:a", reason="x", now=utc_now()
        )
        await till.take(1_500)
        await till.rule()
        await till.take(1_602)
        await till.work()
        await till.take(1_700)
    return url


@pytest.fixture
async def own(sound_url: str) -> AsyncIterator[Database]:
    """A copy of it to spoil."""
    async with copied(sound_url) as opened:
        yield opened


def one(status: str) -> str:
    """The id of some withdrawal in a status."""
    return f"(select min(withdrawal_id) from withdrawal where status = '{status}')"


@pytest.mark.parametrize(
    ("broken", "breach"),
    [
        pytest.param(
            {"I8", "I10"},
            f"update hold set resolution = 'restored', resolved_at = now()"
            f" where reference = {one('processing')}",
            id="I8 money given back while it may still be paid",
        ),
        pytest.param(
            {"I8"},
            f"update hold set resolution = 'restored' where reference = {one('completed')}",
            id="I8 an end of another kind",
        ),
        pytest.param(
            {"I8", "I10"},
            f"delete from hold where reference = {one('pending')}",
            id="I8 a withdrawal without a hold",
        ),
        pytest.param(
            {"I8"},
            f"update posting set reference = 'wd_other' where kind = 'withdrawal_returned'"
            f" and reference = {one('failed')}",
            id="I8 money given back to nothing",
        ),
        pytest.param(
            {"I8", "I11w", "W1"},
            f"update withdrawal set status = 'failed' where withdrawal_id = {one('pending')}",
            id="I8 a failure without its money",
        ),
        pytest.param(
            {"I8a"},
            "update asset_posting set amounts = array[-1, 1]::numeric[]",
            id="I8a another quantity",
        ),
        pytest.param(
            {"I8a"},
            "update asset_posting set amounts[1] = amounts[1] + 1",
            id="I8a units from nowhere",
        ),
        pytest.param({"I8a"}, "delete from asset_posting", id="I8a nothing was bought"),
        pytest.param(
            {"I10"},
            "update hold set amount = amount + 1 where kind = 'withdrawal' and resolution is null;"
            " update withdrawal set total_debited = total_debited + 1"
            " where status in ('pending', 'pending_approval', 'processing');"
            " update withdrawal_day set total = total + 4",
            id="I10 more held than there is",
        ),
        pytest.param(
            {"I11w"},
            f"delete from webhook_event where entity_id = {one('completed')} and sequence = 2",
            id="I11w a status nobody was told of",
        ),
        pytest.param(
            {"I11w"},
            f"update withdrawal_history set from_status = 'failed'"
            f" where withdrawal_id = {one('completed')} and sequence = 3",
            id="I11w a history that does not follow",
        ),
        pytest.param(
            {"W1"}, "update withdrawal_day set total = total - 1", id="W1 a day of another total"
        ),
        pytest.param(
            {"W2"},
            "update decision_log set decided_by = w.requested_by from withdrawal w"
            " where decision = 'approved' and subject = w.withdrawal_id",
            id="W2 whoever asked decided",
        ),
        pytest.param(
            {"W2"},
            "delete from decision_log where decision = 'approved'",
            id="W2 nobody decided",
        ),
    ],
)
async def test_a_breach_is_found_by_its_invariant_alone(
    own: Database, broken: set[str], breach: str
) -> None:
    await spoil(own, breach, tables=TABLES)
    found = await complaints(own)
    assert set(found) == broken, found
