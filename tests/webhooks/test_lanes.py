"""Lanes: all of them are looked at in their turn, and those that lead nowhere are deleted."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from aiohttp import web
from msgspec.structs import replace

from support.api import Shop, complaints
from support.platform import until
from support.sink import Sink
from support.webhooks import QUICK, delivering, post, register
from vintem.kit.clock import utc_now
from vintem.resources import Resources
from vintem.runtime.db import Database
from vintem.webhooks import dispatch
from vintem.webhooks import lane_store as lanes
from vintem.webhooks import service as webhooks
from vintem.webhooks.dispatch import Dispatcher
from vintem.webhooks.places import Places, Quota, Standing
from vintem.worker import DUTIES, end_refused_deliveries, retire_webhook_lanes


async def names_of(database: Database, shop: Shop) -> Sequence[str]:
    rows = await database.fetch(
        "select lane from webhook_lane where company_id = $1 order by lane", shop.scope.company_id
    )
    return [row["lane"] for row in rows]


async def test_lanes_are_looked_at_some_at_a_time_and_all_in_turn(
    shop: Shop, sink: Sink, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "LANES_LOOKED_AT_MAX", 2)
    for number in range(7):
        await register(shop, sink.url(f"/{number}"))
    await shop.create()
    async with delivering(resources):
        for number in range(7):
            await sink.until(1, f"/{number}", seconds=60)


async def test_a_look_is_bounded_and_goes_round(shop: Shop, sink: Sink, database: Database) -> None:
    for number in range(5):
        await register(shop, sink.url(f"/{number}"))
    await shop.create()
    total = await database.fetchval("select count(*) from webhook_lane")
    seen: list[tuple[int, str]] = []
    after, rounds = None, 0
    while True:
        up_to = await lanes.find_lane_further_on(database, after, lanes=3)
        found = await lanes.list_due_lanes(
            database, "nobody", after=after, up_to=up_to, now=utc_now()
        )
        assert len(found) <= 3
        seen += [lane.key for lane in found]
        rounds, after = rounds + 1, up_to
        if up_to is None:
            break
    assert total // 3 <= rounds <= total // 3 + 1
    assert len(set(seen)) == len(seen)
    assert {key for key in seen if key[0] == shop.scope.company_id} == {
        (shop.scope.company_id, name) for name in await names_of(database, shop)
    }


async def test_the_lane_of_a_postback_is_deleted_when_nothing_is_left_and_comes_back(
    shop: Shop, sink: Sink, database: Database, worker: Dispatcher
) -> None:
    made = await register(shop, sink.url("/endpoint"))
    await shop.create(postbackUrl=sink.url("/postback"))
    await sink.until(1, "/postback")
    lane = f"postback test {sink.base_url}"
    while await database.fetchval(
        "select count(*) from webhook_delivery where company_id = $1 and due_at is not null",
        shop.scope.company_id,
    ):
        await asyncio.sleep(0.02)
    await webhooks.retire_lanes(database, now=utc_now())
    assert await names_of(database, shop) == [lane, made["id"]]
    later = utc_now() + timedelta(hours=2)
    await webhooks.retire_lanes(database, now=later)
    assert await names_of(database, shop) == [made["id"]]
    assert not await complaints(database)
    # Whatever is to be sent again, or comes next, has its lane.
    delivery_id = await database.fetchval(
        "select delivery_id from webhook_delivery where company_id = $1 and lane = $2",
        shop.scope.company_id,
        lane,
    )
    assert (await post(shop, f"/v1/webhooks/deliveries/{delivery_id}/resend")).status == 200
    await sink.until(2, "/postback")
    await shop.create(postbackUrl=sink.url("/postback"))
    await sink.until(3, "/postback")


async def test_a_lane_that_was_deleted_under_an_event_is_made_again(
    shop: Shop, sink: Sink, database: Database
) -> None:
    await shop.create(postbackUrl=sink.url("/postback"))
    [lane] = await names_of(database, shop)
    await database.execute("delete from webhook_lane where company_id = $1", shop.scope.company_id)
    await webhooks.retire_lanes(database, now=utc_now() + timedelta(hours=2))
    assert await names_of(database, shop) == [lane]


async def test_the_lane_of_a_deleted_endpoint_stays_as_long_as_its_deliveries(
    shop: Shop, sink: Sink, database: Database
) -> None:
    made = await register(shop, sink.url())
    await shop.create()
    await shop.api.call("DELETE", f"/v1/webhooks/{made['id']}", key=shop.key)
    await webhooks.end_all_refused(database, now=utc_now())
    later = utc_now() + timedelta(days=91)
    await webhooks.retire_lanes(database, now=later)
    assert await names_of(database, shop) == [made["id"]]
    await database.execute(
        "delete from webhook_delivery where company_id = $1", shop.scope.company_id
    )
    await webhooks.retire_lanes(database, now=later)
    assert await names_of(database, shop) == []


async def test_a_quick_endpoint_is_called_while_all_others_of_its_company_hang(
    shop: Shop, sink: Sink, resources: Resources
) -> None:
    is_known, let_go = asyncio.Event(), asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await (let_go if is_known.is_set() else is_known).wait()
        return web.Response(status=503)

    for number in range(15):
        await register(shop, sink.url(f"/hangs/{number}"))
        sink.behaviours[f"/hangs/{number}"] = hang
    await register(shop, sink.url("/quick"))
    async with delivering(resources, replace(QUICK, call_seconds_max=6.0)):
        # The first time nobody knows which is which.
        await shop.create()
        await until(lambda: sum(sink.in_flight.values()) == 12, seconds=5)
        is_known.set()
        await sink.until(1, "/quick")
        await until(lambda: sum(sink.in_flight.values()) >= 8, seconds=5)
        for count in range(2, 8):
            began = asyncio.get_running_loop().time()
            await shop.create()
            await sink.until(count, "/quick")
            assert asyncio.get_running_loop().time() - began < 3.0
        let_go.set()


async def test_a_lane_with_much_to_send_gives_way_to_those_that_wait(
    shop: Shop, sink: Sink, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "LANES_PER_COMPANY_MAX", 2)
    # Who is next is drawn by lot, so there are ten turns for each: nobody loses all of them.
    monkeypatch.setattr(dispatch, "PARCELS_AT_ONCE_MAX", 8)
    monkeypatch.setattr(dispatch, "TURN_PARCELS_MAX", 8)
    paths = ["/a", "/b", "/c"]
    for path in paths:
        await register(shop, sink.url(path))
        sink.answer(path, 200, seconds=0.02)
    for _ in range(40):
        await shop.paid()
    async with delivering(resources):
        arrived = [await sink.until(80, path, seconds=60) for path in paths]
    assert max(each[0].at for each in arrived) < min(each[-1].at for each in arrived)


async def test_places_are_kept_for_those_that_stand_better() -> None:
    places = Places(8)

    async def take(standing: Standing) -> asyncio.Event:
        """Take a place and keep it; the event tells that it was had."""
        had = asyncio.Event()

        async def keep() -> None:
            async with places.one(standing):
                had.set()
                await asyncio.Event().wait()

        kept.append(asyncio.create_task(keep()))
        await asyncio.sleep(0.01)
        return had

    kept: list[asyncio.Task[None]] = []
    for standing, count in (
        (Standing.TROUBLED, 4),
        (Standing.UNKNOWN, 2),
        (Standing.PROVEN, 2),
    ):
        assert [(await take(standing)).is_set() for _ in range(count + 1)].count(False) == 1
    for task in kept:
        task.cancel()


def test_a_quota_counts_the_worse_against_the_better() -> None:
    quota = Quota(8)
    for standing, count in (
        (Standing.TROUBLED, 4),
        (Standing.UNKNOWN, 2),
        (Standing.PROVEN, 2),
    ):
        for _ in range(count):
            assert quota.has(standing)
            quota.take(standing)
        assert not quota.has(standing)


def test_the_worker_ends_and_retires_by_itself() -> None:
    runs = {duty.run for duty in DUTIES}
    assert {end_refused_deliveries, retire_webhook_lanes} <= runs
