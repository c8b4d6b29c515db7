"""Limits and the kill switch: never more than was agreed, however many ask at once."""

import asyncio
from datetime import timedelta

from support.api import Api, assert_refused
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.withdrawals import service as withdrawals
from withdrawals.till import Till, new_till, pix_body


async def test_a_withdrawal_above_the_limit_is_refused(till: Till) -> None:
    await till.rule(cents_max=5_000)
    reply = await till.ask(pix_body(5_001))
    assert_refused(reply, ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED, status=422)
    assert reply.json["error"]["details"] == {"limit": "withdrawal", "maximum": 5_000}
    assert await till.balance() == {"available": 100_000}
    await till.take(5_000)
    await till.check()


async def test_a_day_takes_no_more_than_its_limit(till: Till) -> None:
    await till.take(2_000)
    await till.rule(daily_cents_max=5_000)
    await till.take(2_500)
    reply = await till.ask(pix_body(501))
    assert_refused(reply, ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED, status=422)
    assert reply.json["error"]["details"] == {"limit": "day", "maximum": 5_000}
    assert await till.balance() == {"available": 95_500, "inTransit": 4_500}
    await till.take(500)
    await till.check()


async def test_the_first_withdrawal_of_a_day_is_held_to_the_limit_too(till: Till) -> None:
    await till.rule(daily_cents_max=5_000)
    reply = await till.ask(pix_body(5_001))
    assert_refused(reply, ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED, status=422)


async def test_what_came_to_nothing_is_not_counted(till: Till) -> None:
    await till.rule(daily_cents_max=5_000)
    cancelled = await till.take(5_000)
    await till.cancel(cancelled["id"])
    failed = await till.take(4_901)
    await till.work()
    assert await till.status(failed["id"]) == "failed"
    await till.take(5_000)
    assert_refused(await till.ask(pix_body()), ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED, status=422)
    await till.check()


async def test_another_day_begins_anew(till: Till) -> None:
    await till.rule(daily_cents_max=5_000)
    made = await till.take(5_000)
    for table, column in (("withdrawal_day", "day"), ("withdrawal", "created_at")):
        await till.database.execute(
            f"update {table} set {column} = {column} - $2::interval where company_id = $1",
            till.company_id,
            timedelta(days=1),
        )
    await till.take(5_000)
    # One that fails later is taken out of its own day.
    await till.simulate(made["id"], "failed")
    assert_refused(await till.ask(pix_body()), ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED, status=422)
    await till.check()


async def test_64_at_once_do_not_pass_the_limit_of_a_day(till: Till) -> None:
    await till.rule(daily_cents_max=7_500)
    replies = await asyncio.gather(*(till.ask(pix_body(1_000)) for _ in range(64)))
    assert sorted(reply.status for reply in replies) == [201] * 7 + [422] * 57
    refused = {reply.json["error"]["code"] for reply in replies if reply.status == 422}
    assert refused == {"WITHDRAWAL_LIMIT_EXCEEDED"}
    assert await till.balance() == {"available": 93_000, "inTransit": 7_000}
    await till.check()


async def pause(till: Till, *, is_paused: bool, is_platform: bool = False) -> None:
    await withdrawals.pause(
        till.database,
        None if is_platform else till.company_id,
        is_paused=is_paused,
        decided_by="operator:ana",
        reason="fraud alarm",
        now=utc_now(),
    )


async def test_a_pause_stops_what_was_not_sent_and_goes_on_asking(till: Till) -> None:
    waiting = await till.take(1_000)
    await till.database.execute(
        "update withdrawal set due_at = due_at + interval '1 hour' where company_id = $1",
        till.company_id,
    )
    sent = await till.take(2_000)
    await till.work()
    assert await till.status(sent["id"]) == "processing"
    await till.database.execute(
        "update withdrawal set due_at = created_at where withdrawal_id = $1", waiting["id"]
    )
    await pause(till, is_paused=True)
    await till.work(after=3)
    assert await till.status(sent["id"]) == "completed"
    assert await till.status(waiting["id"]) == "pending"
    assert_refused(await till.ask(pix_body()), ErrorCode.WITHDRAWALS_PAUSED, status=403)
    assert (await till.cancel(waiting["id"])).status == 200
    await pause(till, is_paused=False)
    assert (await till.ask(pix_body())).status == 201
    assert await till.decisions("withdrawals") == [
        ("paused", "operator:ana"),
        ("resumed", "operator:ana"),
    ]
    await till.check()


async def test_a_pause_of_one_company_leaves_the_others(
    till: Till, api: Api, database: Database
) -> None:
    other = await new_till(api, database, funds=5_000)
    await pause(till, is_paused=True)
    made = await other.take()
    await other.work()
    await other.work(after=3)
    assert await other.status(made["id"]) == "completed"


async def test_a_pause_of_the_platform_stops_everybody(till: Till) -> None:
    made = await till.take()
    await pause(till, is_paused=True, is_platform=True)
    try:
        assert_refused(await till.ask(pix_body()), ErrorCode.WITHDRAWALS_PAUSED, status=403)
        await till.work(after=60)
        assert await till.status(made["id"]) == "pending"
    finally:
        await pause(till, is_paused=False, is_platform=True)
    await till.work()
    assert await till.status(made["id"]) == "processing"


async def test_what_the_provider_never_heard_of_is_not_sent_while_paused(till: Till) -> None:
    made = await till.take()
    await till.simulate(made["id"], "processing")
    await till.database.execute(
        "update withdrawal set due_at = now() where company_id = $1", till.company_id
    )
    await pause(till, is_paused=True)
    await till.work()
    assert await till.status(made["id"]) == "processing"
    assert (
        await till.database.fetchval(
            "select count(*) from simulated_payout where company_id = $1", till.company_id
        )
        == 0
    )
    await pause(till, is_paused=False)
    await till.work(after=6)
    await till.work(after=16)
    assert await till.status(made["id"]) == "completed"
    await till.check()
