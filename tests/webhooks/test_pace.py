"""When a delivery is tried again, when a lane is left alone, and who delivers: the rules."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web
from msgspec.structs import replace

from support.api import Shop, complaints
from support.sink import Sink
from support.webhooks import deliveries, delivering, patch, register
from vintem.audit import INVARIANTS
from vintem.kit.clock import parse_public_time, utc_now
from vintem.resources import Resources
from vintem.runtime.db import Database
from vintem.webhooks import delivery_store as store
from vintem.webhooks import lane_store as lanes
from vintem.webhooks import service as webhooks
from vintem.webhooks.delivery_store import LanePlace, Tried
from vintem.webhooks.dispatch import Dispatcher
from vintem.webhooks.model import Attempt, Lane, Pace, State, lane_after, outcome_of

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
PROMISED = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]


def attempt(status: int | None, number: int = 1) -> Attempt:
    return Attempt(number, "https://loja.com.br/", 1, "v1,x", status, None, "", 1, NOW)


@pytest.mark.parametrize(("tries", "seconds"), list(enumerate(PROMISED, 1)))
def test_waits_follow_the_promised_schedule_scattered_by_a_fifth(tries: int, seconds: int) -> None:
    waits = []
    for _ in range(300):
        outcome = outcome_of(attempt(500), tries=tries, pace=Pace(), now=NOW)
        assert outcome.state is State.PENDING
        assert outcome.due_at is not None
        waits.append((outcome.due_at - NOW).total_seconds())
    assert seconds * 0.8 <= min(waits) < seconds * 0.9
    assert seconds * 1.1 < max(waits) <= seconds * 1.2


def test_the_other_times_are_those_that_are_promised() -> None:
    pace = Pace()
    assert (pace.call_seconds_max, pace.jitter) == (15.0, 0.2)
    assert (pace.hold_back, pace.disable_after) == (timedelta(hours=1), timedelta(hours=120))


@pytest.mark.parametrize("status", [None, 199, 300, 301, 400, 404, 410, 429, 500, 503])
def test_the_tenth_failure_is_the_last(status: int | None) -> None:
    assert outcome_of(attempt(status), tries=9, pace=Pace(), now=NOW).state is State.PENDING
    assert outcome_of(attempt(status), tries=10, pace=Pace(), now=NOW).state is State.FAILED


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_success_ends_it(status: int) -> None:
    assert outcome_of(attempt(status), tries=10, pace=Pace(), now=NOW).state is State.DELIVERED


def test_the_breaker_opens_with_the_fifth_failure_for_longer_each_time() -> None:
    lane, pauses = Lane(1, "whk_1", "test"), []
    for _ in range(12):
        lane = lane_after(lane, attempt(500), tries=1, pace=Pace(), now=NOW)
        pauses.append(None if lane.retry_at is None else (lane.retry_at - NOW).total_seconds())
    assert pauses == [None] * 4 + [30, 60, 120, 240, 480, 900, 900, 900]
    assert lane.failing_since == NOW
    rested = lane_after(lane, attempt(200), tries=1, pace=Pace(), now=NOW)
    assert rested == Lane(1, "whk_1", "test")


def asked_to_wait(status: int, seconds: float) -> Attempt:
    return replace(attempt(status), retry_after_seconds=seconds)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("tries", "asked", "least", "most"),
    [
        # Less than the schedule says is not less.
        (1, 0, 4, 6),
        (2, 10, 240, 360),
        # As long as they ask, but not before the schedule.
        (1, 8, 8, 8),
        (2, 500, 500, 500),
        # No more than twice the step, and than a day.
        (1, 3_600, 10, 10),
        (2, 3_600, 600, 600),
        (8, 999_999, 86_400, 86_400),
        (9, 999_999, 86_400, 86_400 * 1.2),
    ],
)
def test_who_asks_to_wait_is_left_alone_within_bounds(
    status: int, tries: int, asked: float, least: float, most: float
) -> None:
    for _ in range(50):
        outcome = outcome_of(asked_to_wait(status, asked), tries=tries, pace=Pace(), now=NOW)
        assert outcome.due_at is not None
        assert least <= (outcome.due_at - NOW).total_seconds() <= most


def test_other_answers_do_not_say_how_long_to_wait() -> None:
    for status in (500, 301, 404):
        outcome = outcome_of(asked_to_wait(status, 10), tries=1, pace=Pace(), now=NOW)
        assert outcome.due_at is not None
        assert (outcome.due_at - NOW).total_seconds() <= 6
    tenth = outcome_of(asked_to_wait(429, 10), tries=10, pace=Pace(), now=NOW)
    assert tenth.state is State.FAILED


def test_a_lane_that_asks_to_wait_is_left_alone_as_a_whole() -> None:
    lane = Lane(1, "whk_1", "test")
    once = lane_after(lane, asked_to_wait(429, 8), tries=1, pace=Pace(), now=NOW)
    assert once.retry_at == NOW + timedelta(seconds=8)
    # A delivery that was tried often may wait for hours; the others do not wait with it.
    late = lane_after(lane, asked_to_wait(429, 999_999), tries=6, pace=Pace(), now=NOW)
    assert late.retry_at == NOW + timedelta(minutes=15)
    many = replace(lane, failures_in_row=6)
    assert lane_after(many, asked_to_wait(429, 1), tries=1, pace=Pace(), now=NOW).retry_at == (
        NOW + timedelta(seconds=120)
    )


@pytest.mark.parametrize("is_date", [False, True])
async def test_retry_after_is_heard(
    shop: Shop, sink: Sink, resources: Resources, database: Database, *, is_date: bool
) -> None:
    async def throttle(_: web.Request) -> web.Response:
        until = format_datetime(utc_now() + timedelta(seconds=60), usegmt=True)
        return web.Response(status=429, headers={"retry-after": until if is_date else "60"})

    sink.behaviours["/hook"] = throttle
    made = await register(shop, sink.url())
    await shop.create()
    await shop.create()
    slow = Pace(retry_seconds=(40.0,) * 9, lease_seconds=3.0)
    async with delivering(resources, slow):
        await sink.until(1)
        while not (tried := [d for d in await deliveries(shop, made["id"]) if d["attempts"]]):
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
    assert len(sink.at()) == 1
    [delivery] = tried
    began = parse_public_time(delivery["attempts"][0]["at"])
    waits = parse_public_time(delivery["nextAttemptAt"]) - began
    assert timedelta(seconds=58) < waits < timedelta(seconds=63)


async def test_an_open_breaker_uses_up_no_tries(shop: Shop, sink: Sink, worker: Dispatcher) -> None:
    sink.answer("/hook", 500)
    made = await register(shop, sink.url())
    for _ in range(8):
        await shop.create()
    await sink.until(5)
    await asyncio.sleep(0.15)
    count = len(sink.at())
    # One call finds out; the other deliveries are not tried while the lane is left alone.
    assert count <= 6
    tried = sum(len(each["attempts"]) for each in await deliveries(shop, made["id"]))
    assert tried <= count + 1
    sink.answer("/hook", 200)
    await sink.until(count + 8)


async def held(database: Database, shop: Shop, lane: str, now: datetime) -> list[int]:
    place = LanePlace(shop.scope.company_id, lane, 16, timedelta(hours=1), now)
    return [parcel.sequence for parcel in await store.fetch_due(database, [place])]


async def test_a_later_event_is_held_back_for_an_hour_at_most(
    shop: Shop, sink: Sink, database: Database
) -> None:
    made = await register(shop, sink.url())
    await shop.paid()
    now = utc_now()
    assert await held(database, shop, made["id"], now) == [1]
    await database.execute(
        "update webhook_delivery set due_at = $2 where company_id = $1 and sequence = 1",
        shop.scope.company_id,
        now + timedelta(days=1),
    )
    assert await held(database, shop, made["id"], now) == []
    assert await held(database, shop, made["id"], now + timedelta(minutes=59)) == []
    assert await held(database, shop, made["id"], now + timedelta(minutes=61)) == [2]
    # What waits comes up again when the earlier one does, or when the hour is over.
    lane = Lane(shop.scope.company_id, made["id"], "test")
    await store.put_off_held(database, lane, hold_back=timedelta(hours=1), now=now)
    due = await database.fetchval(
        "select due_at - asked_at from webhook_delivery where company_id = $1 and sequence = 2",
        shop.scope.company_id,
    )
    assert due == timedelta(hours=1)


async def test_a_slower_worker_does_not_write_over_a_quicker_one(
    shop: Shop, sink: Sink, database: Database
) -> None:
    made = await register(shop, sink.url())
    await shop.create()
    place = LanePlace(shop.scope.company_id, made["id"], 1, timedelta(hours=1), utc_now())
    [parcel] = await store.fetch_due(database, [place])
    quick = attempt(200)
    slow = attempt(500)
    for each, is_written in ((quick, True), (slow, False), (quick, False)):
        outcome = outcome_of(each, tries=1, pace=Pace(), now=utc_now())
        written = await store.write_tries(database, [Tried(parcel, each, outcome)])
        assert bool(written) is is_written
    [delivery] = await deliveries(shop, made["id"])
    assert (delivery["status"], len(delivery["attempts"])) == ("delivered", 1)


async def test_a_company_has_one_worker_until_its_lease_ends(
    shop: Shop, database: Database
) -> None:
    company = shop.scope.company_id
    assert await lanes.lease_companies(database, "a", [company], seconds=60) == {company}
    assert await lanes.lease_companies(database, "b", [company], seconds=60) == set()
    assert await lanes.lease_companies(database, "a", [company], seconds=0.1) == {company}
    await asyncio.sleep(0.2)
    assert await lanes.lease_companies(database, "b", [company], seconds=60) == {company}
    assert await lanes.lease_companies(database, "a", [company], seconds=60) == set()
    await lanes.release_companies(database, "a", [company])
    assert await lanes.lease_companies(database, "a", [company], seconds=60) == set()
    await lanes.release_companies(database, "b", [company])
    assert await lanes.lease_companies(database, "a", [company], seconds=60) == {company}


async def test_many_workers_deliver_each_event_once(
    shop: Shop, sink: Sink, resources: Resources
) -> None:
    await register(shop, sink.url())
    async with delivering(resources), delivering(resources), delivering(resources):
        await asyncio.gather(*(shop.paid() for _ in range(30)))
        await sink.until(60)
        await asyncio.sleep(0.3)
    assert len(sink.at()) == 60
    assert len({each.event_id for each in sink.at()}) == 60


class TakenBack(Exception):  # noqa: N818 - nothing went wrong
    """What a test has spoiled is put right again."""


@pytest.mark.parametrize(
    ("broken", "breach"),
    [
        ({"E1"}, "delete from webhook_delivery"),
        ({"E2", "E3"}, "update webhook_event set sequence = 7 where kind = 'ping'"),
        ({"E3"}, "update webhook_delivery set attempts = attempts + 1"),
        ({"E3"}, "delete from webhook_lane"),
        ({"E3"}, "update webhook_attempt set status = 500"),
        ({"E3"}, "delete from webhook_attempt"),
    ],
)
async def test_a_breach_is_found(
    shop: Shop, sink: Sink, worker: Dispatcher, database: Database, broken: set[str], breach: str
) -> None:
    made = await register(shop, sink.url())
    await shop.api.post(f"/v1/webhooks/{made['id']}/test", key=shop.key)
    await shop.create()
    await sink.until(2)
    while {each["status"] for each in await deliveries(shop, made["id"])} != {"delivered"}:
        await asyncio.sleep(0.05)
    company = shop.scope.company_id
    await database.execute(
        "update webhook_endpoint set subscribed_at = subscribed_at - interval '11 seconds'"
        " where company_id = $1",
        company,
    )
    assert not await complaints(database)
    found: set[str] = set()
    with suppress(TakenBack):
        async with database.atomic() as block:
            where = "and" if " where " in breach else "where"
            await block.execute(f"{breach} {where} company_id = {company}")
            for invariant in INVARIANTS:
                if await block.fetch(invariant.statement):
                    found.add(invariant.name)
            raise TakenBack
    assert found == broken


async def test_a_change_lets_a_rested_lane_try_again(
    shop: Shop, sink: Sink, database: Database
) -> None:
    made = await register(shop, sink.url())
    lane = replace(
        Lane(shop.scope.company_id, made["id"], "test"),
        failures_in_row=9,
        retry_at=utc_now() + timedelta(minutes=15),
        failing_since=utc_now(),
    )
    await lanes.update_lane(database, lane)
    await patch(shop, made["id"], url=sink.url("/new"))
    row = await database.fetchrow(
        "select * from webhook_lane where company_id = $1", shop.scope.company_id
    )
    assert row is not None
    assert (row["failures_in_row"], row["retry_at"], row["failing_since"]) == (0, None, None)


async def test_deliveries_are_forgotten_after_ninety_days(
    shop: Shop, sink: Sink, worker: Dispatcher, database: Database
) -> None:
    made = await register(shop, sink.url())
    first = (await shop.create())["id"]
    await shop.create()
    while {each["status"] for each in await deliveries(shop, made["id"])} != {"delivered"}:
        await asyncio.sleep(0.05)
    await database.execute(
        """
        update webhook_delivery set created_at = created_at - interval '91 days',
            asked_at = asked_at - interval '91 days'
        where company_id = $1 and entity_id = $2
        """,
        shop.scope.company_id,
        first,
    )
    assert await webhooks.forget_old(database, now=utc_now()) == 1
    [left] = await deliveries(shop, made["id"])
    assert left["entityId"] != first
    tries = await database.fetchval(
        "select count(*) from webhook_attempt where company_id = $1", shop.scope.company_id
    )
    assert tries == 1
    assert not await complaints(database)
