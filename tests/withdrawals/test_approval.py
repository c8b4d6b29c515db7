"""A second person: what waits for one, who it may be, and that every word is kept."""

import asyncio

import asyncpg
import pytest

from support.api import Api, assert_refused
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.db import Database
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.model import Withdrawal
from withdrawals.till import Till, crypto_body, new_till, pix_body

OPERATOR = "operator:ana"


async def approve(till: Till, withdrawal_id: str, by: str = OPERATOR) -> Withdrawal:
    return await withdrawals.approve(
        till.database, withdrawal_id, decided_by=by, reason="known supplier", now=utc_now()
    )


async def reject(till: Till, withdrawal_id: str, by: str = OPERATOR) -> Withdrawal:
    return await withdrawals.reject(
        till.database, withdrawal_id, decided_by=by, reason="not ours", now=utc_now()
    )


async def test_nothing_waits_unless_a_rule_says_so(till: Till) -> None:
    assert (await till.take(100_000))["status"] == "pending"


async def test_what_is_above_the_automatic_limit_waits(till: Till) -> None:
    await till.rule(automatic_cents_max=5_000)
    assert (await till.take(5_000))["status"] == "pending"
    above = await till.take(5_001)
    assert above["status"] == "pending_approval"
    assert await till.balance() == {"available": 89_999, "inTransit": 10_001}
    assert await till.events(above["id"]) == ["PENDING_APPROVAL"]
    assert await till.decisions(above["id"]) == [("approval_required", "rules")]
    await till.work()
    assert await till.status(above["id"]) == "pending_approval"
    await till.check()


async def test_a_destination_is_new_until_a_withdrawal_to_it_was_completed(till: Till) -> None:
    await till.rule(approves_new_destinations=True)
    first = await till.take()
    assert first["status"] == "pending_approval"
    assert (await till.take(1_001))["status"] == "pending_approval"
    await approve(till, first["id"])
    await till.work()
    await till.work(after=3)
    assert await till.status(first["id"]) == "completed"
    assert (await till.take(1_002))["status"] == "pending"
    assert (await till.take(pixKey="other@example.com"))["status"] == "pending_approval"
    await till.check()


async def test_a_destination_of_another_company_is_not_known(
    till: Till, api: Api, database: Database
) -> None:
    await till.take()
    await till.work()
    await till.work(after=3)
    other = await new_till(api, database, funds=5_000)
    await other.rule(approves_new_destinations=True)
    assert (await other.take())["status"] == "pending_approval"


async def test_crypto_waits_where_the_company_wants_it(till: Till) -> None:
    await till.rule(approves_crypto=True)
    assert (await till.ask(crypto_body())).data["status"] == "pending_approval"
    assert (await till.take())["status"] == "pending"


async def test_an_approved_withdrawal_is_sent(till: Till) -> None:
    await till.rule(automatic_cents_max=0)
    made = await till.take()
    approved = await approve(till, made["id"])
    assert approved.status == "pending"
    await till.work()
    await till.work(after=3)
    assert await till.status(made["id"]) == "completed"
    assert await till.events(made["id"]) == [
        "PENDING_APPROVAL", "PENDING", "PROCESSING", "COMPLETED",
    ]  # fmt: skip
    assert await till.decisions(made["id"]) == [
        ("approval_required", "rules"),
        ("approved", OPERATOR),
    ]
    await till.check()


async def test_a_rejected_withdrawal_gives_its_money_back(till: Till) -> None:
    await till.rule(automatic_cents_max=0)
    made = await till.take()
    await reject(till, made["id"])
    shown = await till.read(made["id"])
    assert (shown["status"], shown["cancelledAt"] is not None) == ("cancelled", True)
    assert await till.balance() == {"available": 100_000}
    assert await till.decisions(made["id"]) == [
        ("approval_required", "rules"),
        ("rejected", OPERATOR),
    ]
    await till.check()


async def test_whoever_asked_does_not_decide(till: Till) -> None:
    await till.rule(automatic_cents_max=0)
    made = await till.take()
    requester = await till.database.fetchval(
        "select requested_by from withdrawal where withdrawal_id = $1", made["id"]
    )
    assert requester.startswith("key_")
    for decide in (approve, reject):
        with pytest.raises(withdrawals.SelfApprovalError):
            await decide(till, made["id"], by=requester)
    assert await till.status(made["id"]) == "pending_approval"
    assert await till.decisions(made["id"]) == [("approval_required", "rules")]


async def test_a_decision_is_made_once(till: Till) -> None:
    await till.rule(automatic_cents_max=0)
    made = await till.take()
    results = await asyncio.gather(
        *(decide(till, made["id"]) for decide in (approve, reject) * 8), return_exceptions=True
    )
    refusals = [result for result in results if isinstance(result, Refusal)]
    assert len(refusals) == 15
    assert {refusal.code for refusal in refusals} == {ErrorCode.INVALID_STATE}
    assert len(await till.decisions(made["id"])) == 2
    await till.check()


async def test_only_what_waits_is_decided(till: Till) -> None:
    made = await till.take()
    with pytest.raises(Refusal) as refused:
        await approve(till, made["id"])
    assert refused.value.code is ErrorCode.INVALID_STATE
    with pytest.raises(Refusal) as refused:
        await approve(till, "wd_00000000000000000000000000")
    assert refused.value.code is ErrorCode.WITHDRAWAL_NOT_FOUND


async def test_what_waits_can_be_cancelled_by_its_owner(till: Till) -> None:
    await till.rule(automatic_cents_max=0)
    made = await till.take()
    assert (await till.cancel(made["id"])).data["status"] == "cancelled"
    with pytest.raises(Refusal):
        await approve(till, made["id"])
    assert await till.balance() == {"available": 100_000}
    await till.check()


@pytest.mark.parametrize(
    "statement",
    [
        "update decision_log set reason = 'other' where company_id = $1",
        "delete from decision_log where company_id = $1",
    ],
)
async def test_the_log_of_decisions_is_never_changed(till: Till, statement: str) -> None:
    await till.rule(automatic_cents_max=0)
    with pytest.raises(asyncpg.RaiseError, match="decision_log is never changed"):
        await till.database.execute(statement, till.company_id)


async def test_a_replay_writes_no_second_decision(till: Till) -> None:
    await till.rule(automatic_cents_max=0)
    made = (await till.ask(pix_body(), idempotency_key="k-1")).data
    await till.ask(pix_body(), idempotency_key="k-1")
    count = await till.database.fetchval(
        "select count(*) from decision_log"
        " where company_id = $1 and decision = 'approval_required'",
        till.company_id,
    )
    assert count == 1
    assert await till.decisions(made["id"]) == [("approval_required", "rules")]


async def test_a_refused_withdrawal_leaves_no_decision(till: Till) -> None:
    await till.rule(automatic_cents_max=0)
    reply = await till.ask(pix_body(200_000))
    assert_refused(reply, ErrorCode.INSUFFICIENT_BALANCE, status=422)
    count = await till.database.fetchval(
        "select count(*) from decision_log"
        " where company_id = $1 and decision = 'approval_required'",
        till.company_id,
    )
    assert count == 0
