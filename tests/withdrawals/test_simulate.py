"""The sandbox forces any legal move, and no other; cancelling works before processing only."""

import itertools

import pytest

from support.api import assert_refused
from vintem.kit.errors import ErrorCode
from vintem.withdrawals.model import MOVES, Status
from withdrawals.till import Till

WAYS: dict[Status, tuple[str, ...]] = {
    Status.PENDING: (),
    Status.PENDING_APPROVAL: (),
    Status.PROCESSING: ("processing",),
    Status.COMPLETED: ("processing", "completed"),
    Status.FAILED: ("failed",),
    Status.CANCELLED: ("cancelled",),
}


async def brought_to(till: Till, status: Status) -> str:
    if status is Status.PENDING_APPROVAL:
        await till.rule(automatic_cents_max=0)
    made = await till.take()
    for step in WAYS[status]:
        assert (await till.simulate(made["id"], step)).status == 200
    assert await till.status(made["id"]) == status
    return str(made["id"])


@pytest.mark.parametrize(("was", "wanted"), list(itertools.product(Status, Status)))
async def test_every_pair_of_statuses_is_a_legal_move_or_refused(
    till: Till, was: Status, wanted: Status
) -> None:
    withdrawal_id = await brought_to(till, was)
    events = await till.events(withdrawal_id)
    reply = await till.simulate(withdrawal_id, wanted)
    if wanted in MOVES[was]:
        assert (reply.status, reply.data["status"]) == (200, wanted)
        assert await till.events(withdrawal_id) == [*events, wanted.upper()]
    else:
        assert_refused(reply, ErrorCode.INVALID_STATE, status=409)
        assert reply.json["error"]["details"] == {"status": was}
        assert await till.status(withdrawal_id) == was
        assert await till.events(withdrawal_id) == events
    await till.check()


async def test_a_forced_failure_has_its_code(till: Till) -> None:
    first, second = await till.take(), await till.take(1_100)
    reply = await till.simulate(first["id"], "failed", failureCode="AC07")
    assert (reply.data["failureCode"], bool(reply.data["failureReason"])) == ("AC07", True)
    await till.simulate(second["id"], "processing")
    reply = await till.simulate(second["id"], "failed", failureCode="PIX_KEY_NOT_FOUND")
    assert reply.data["failureCode"] == "PIX_KEY_NOT_FOUND"
    assert await till.balance() == {"available": 100_000}
    await till.check()


async def test_a_failure_code_is_for_failures(till: Till) -> None:
    made = await till.take()
    for more in ({"failureCode": "X"}, {"failureCode": "not a code"}):
        reply = await till.simulate(made["id"], "cancelled", **more)
        assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    reply = await till.simulate(made["id"], "paid")
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)


async def test_the_worker_leaves_alone_what_is_moved_by_hand(till: Till) -> None:
    made = await till.take()
    await till.simulate(made["id"], "processing")
    await till.work(after=400)
    assert await till.status(made["id"]) == "processing"


async def test_what_the_provider_has_paid_cannot_be_made_to_fail(till: Till) -> None:
    made = await till.take()
    await till.work(loses_answers=True)
    reply = await till.simulate(made["id"], "failed")
    assert_refused(reply, ErrorCode.INVALID_STATE, status=409)
    assert (await till.simulate(made["id"], "completed")).status == 200
    await till.check()


async def test_what_the_worker_has_sent_can_still_be_decided(till: Till) -> None:
    made = await till.take()
    await till.work()
    assert (await till.simulate(made["id"], "failed")).data["status"] == "failed"
    await till.work(after=3)
    assert await till.status(made["id"]) == "failed"
    assert await till.balance() == {"available": 100_000}
    await till.check()


async def test_a_live_key_is_refused_before_anything_is_looked_up(till: Till) -> None:
    path = "/v1/sandbox/withdrawals/wd_nothing/simulate"
    key = till.shop.tenant.sk_live
    reply = await till.api.post(path, key=key, json={"status": "failed"})
    assert_refused(reply, ErrorCode.SANDBOX_ONLY, status=403)


@pytest.mark.parametrize("name", ["wd_nothing", "wd_00000000000000000000000000", "tx_x"])
async def test_an_unknown_withdrawal_is_not_found(till: Till, name: str) -> None:
    replies = [
        await till.simulate(name, "failed"),
        await till.cancel(name),
        await till.api.get(f"/v1/withdrawals/{name}", key=till.key),
    ]
    for reply in replies:
        assert_refused(reply, ErrorCode.WITHDRAWAL_NOT_FOUND, status=404)


async def test_cancelling_gives_the_money_back(till: Till) -> None:
    made = await till.take()
    reply = await till.cancel(made["id"])
    assert (reply.status, reply.data["status"]) == (200, "cancelled")
    assert reply.data["cancelledAt"] is not None
    assert await till.balance() == {"available": 100_000}
    await till.work()
    assert await till.status(made["id"]) == "cancelled"
    assert await till.events(made["id"]) == ["PENDING", "CANCELLED"]
    await till.check()


@pytest.mark.parametrize(
    "status", [Status.PROCESSING, Status.COMPLETED, Status.FAILED, Status.CANCELLED]
)
async def test_what_is_sent_or_over_cannot_be_cancelled(till: Till, status: Status) -> None:
    withdrawal_id = await brought_to(till, status)
    balance = await till.balance()
    reply = await till.cancel(withdrawal_id)
    assert_refused(reply, ErrorCode.WITHDRAWAL_NOT_CANCELLABLE, status=409)
    assert reply.json["error"]["details"] == {"status": status}
    assert await till.balance() == balance
    await till.check()
