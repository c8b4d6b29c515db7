"""A hundred endpoints, a quarter of them bad: nothing is lost, and the good ones notice nothing."""

import asyncio
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from conftest import new_database
from support.api import TEST_PEPPER, complaints
from support.platform import free_port
from support.sink import Sink, running_sink
from vintem.companies import service as companies
from vintem.kit.clock import utc_now
from vintem.kit.ids import Prefix, new_id
from vintem.resources import Resources, open_resources
from vintem.runtime.db import Connection
from vintem.runtime.migrations import migrate
from vintem.settings import read_settings
from vintem.webhooks import service as webhooks
from vintem.webhooks.dispatch import Dispatcher
from vintem.webhooks.model import Change, Pace
from vintem.webhooks.service import Place, Wishes

# More by a switch: PROOF_DELIVERIES=200000.
DELIVERIES = int(os.environ.get("PROOF_DELIVERIES", "5000"))
COMPANIES = 10
ENDPOINTS_EACH = 10
REFUSING, HANGING, SLOW, FAILING = 10, 5, 5, 5
SECONDS = DELIVERIES / 250
RATIO_MAX = 1.2
# A delivery that waits for one more look of the worker, on a machine that does other things too.
SLACK_SECONDS = 0.2
# A tenth of the times that are promised: 15 s are 1.5 s here.
PACE = Pace(call_seconds_max=1.5, quick_seconds=0.5)
SLOW_SECONDS = 1.4
ATTEMPTS_MAX = 3


@dataclass(frozen=True)
class Spot:
    """Where one endpoint of the proof leads."""

    company_id: int
    endpoint_id: str
    path: str
    is_healthy: bool


def kinds() -> Sequence[str]:
    """What each endpoint is, the bad ones scattered over the companies."""
    bad = ["refusing"] * REFUSING + ["hanging"] * HANGING + ["slow"] * SLOW + ["failing"] * FAILING
    every = bad + ["healthy"] * (COMPANIES * ENDPOINTS_EACH - len(bad))
    random.Random(5).shuffle(every)
    return every


async def register_all(resources: Resources, sink: Sink, *, with_bad: bool) -> Sequence[Spot]:
    dead_port = free_port()
    every, places = kinds(), []
    for number in range(COMPANIES):
        company = await companies.create_company(resources.database, "Loja", now=utc_now())
        place = Place(company.company_id, "test")
        for index in range(ENDPOINTS_EACH):
            kind = every[number * ENDPOINTS_EACH + index]
            path = f"/{company.company_id}/{index}"
            url = f"http://127.0.0.1:{dead_port}/" if kind == "refusing" else sink.url(path)
            if kind != "healthy" and not with_bad:
                continue
            if kind == "hanging":
                sink.answer(path, 200, seconds=30)
            if kind == "slow":
                sink.answer(path, 200, seconds=SLOW_SECONDS)
            if kind == "failing":
                sink.answer(path, 500)
            endpoint, _ = await webhooks.register(
                resources.database, resources.sealer, place, Wishes(url, ("*",)), now=utc_now()
            )
            is_healthy = kind == "healthy"
            places.append(Spot(company.company_id, endpoint.endpoint_id, path, is_healthy))
    return places


async def write_events(resources: Resources, company_ids: Sequence[int]) -> None:
    """Two events each of many records, evenly over the time of the proof."""
    records = DELIVERIES // (COMPANIES * ENDPOINTS_EACH) // 2
    loop = asyncio.get_running_loop()
    began, told = loop.time(), 0
    for _ in range(records):
        entities = [(company_id, new_id(Prefix.TRANSACTION)) for company_id in company_ids]
        for sequence in (1, 2):
            for company_id, entity_id in entities:
                await tell(resources, company_id, entity_id, sequence)
                told += 1
                at = began + SECONDS * told / (records * len(company_ids) * 2)
                await asyncio.sleep(max(0.0, at - loop.time()))


async def tell(resources: Resources, company_id: int, entity_id: str, sequence: int) -> None:
    change = Change(
        company_id=company_id,
        environment="test",
        entity_id=entity_id,
        sequence=sequence,
        group="proof",
        status="pending" if sequence == 1 else "paid",
        previous_status=None,
        is_first_time=True,
        data=b'{"id":"%s"}' % entity_id.encode(),
        at=utc_now(),
    )

    async def write(block: Connection) -> None:
        await webhooks.record(block, [change])

    await resources.database.atomically(write)


async def run(resources: Resources, *, with_bad: bool) -> float:
    """One run; gives the 99th percentile of how long healthy endpoints waited."""
    async with running_sink() as sink:
        places = await register_all(resources, sink, with_bad=with_bad)
        company_ids = sorted({place.company_id for place in places})
        dispatcher = Dispatcher(
            resources.database,
            resources.sealer,
            resources.outbound,
            allows_loopback=True,
            pace=PACE,
        )
        stopping = asyncio.Event()

        async def deliver() -> None:
            while not stopping.is_set():
                await dispatcher.tick()
                await asyncio.sleep(0.1)

        delivering = asyncio.create_task(deliver())
        await write_events(resources, company_ids)
        healthy = [place for place in places if place.is_healthy]
        await until_delivered(resources, company_ids, healthy)
        stopping.set()
        await delivering
        await dispatcher.close()
        await assert_nothing_lost(resources, places)
        assert_in_order(sink)
    return await slowest(resources, [place.endpoint_id for place in healthy], company_ids)


async def until_delivered(
    resources: Resources, company_ids: Sequence[int], healthy: Sequence[Spot]
) -> None:
    async with asyncio.timeout(SECONDS * 4):
        while await resources.database.fetchval(
            """
            select exists (
                select from webhook_delivery where company_id = any($1::bigint[])
                    and lane = any($2::text[]) and state <> 'delivered'
            )
            """,
            list(company_ids),
            [place.endpoint_id for place in healthy],
        ):
            await asyncio.sleep(0.1)


async def assert_nothing_lost(resources: Resources, places: Sequence[Spot]) -> None:
    """Every event has a delivery to every endpoint, which was taken or is still to come."""
    each = DELIVERIES // (COMPANIES * ENDPOINTS_EACH)
    rows = await resources.database.fetch(
        """
        select lane, count(*) filter (where state = 'delivered') as delivered,
            count(*) filter (where state = 'pending') as due
        from webhook_delivery where lane = any($1::text[]) group by lane
        """,
        [place.endpoint_id for place in places],
    )
    standing = {row["lane"]: (row["delivered"], row["due"]) for row in rows}
    for place in places:
        delivered, due = standing[place.endpoint_id]
        assert delivered + due == each
        assert not place.is_healthy or due == 0


def assert_in_order(sink: Sink) -> None:
    """At each endpoint a record's events arrived first to last; what came twice has its id."""
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    for arrived in sink.arrived:
        event = arrived.event
        assert arrived.event_id == event["eventId"]
        seen[arrived.path, event["data"]["id"]].append(event["sequence"])
    for sequences in seen.values():
        firsts = list(dict.fromkeys(sequences))
        assert firsts == sorted(firsts)


async def slowest(
    resources: Resources, endpoint_ids: Sequence[str], company_ids: Sequence[int]
) -> float:
    value = await resources.database.fetchval(
        """
        select percentile_disc(0.99) within group (order by
            extract(epoch from a.created_at - d.created_at) + a.milliseconds / 1000.0)
        from webhook_delivery d join webhook_attempt a
            on a.company_id = d.company_id and a.delivery_id = d.delivery_id
        where d.lane = any($1::text[]) and d.company_id = any($2::bigint[])
        """,
        list(endpoint_ids),
        list(company_ids),
    )
    return float(value)


@pytest.mark.timeout(int(SECONDS * 20) + 120)
async def test_bad_endpoints_delay_no_other(worker_id: str) -> None:
    url = await new_database(f"isolation_{worker_id}")
    settings = read_settings({"DATABASE_URL": url, "VINTEM_PEPPER": TEST_PEPPER})
    lenient = replace(settings, allow_loopback_webhooks=True)
    async with open_resources(lenient, shared_limits=False) as resources:
        await migrate(resources.database)
        runs = []
        for _ in range(ATTEMPTS_MAX):
            calm = await run(resources, with_bad=False)
            troubled = await run(resources, with_bad=True)
            runs.append((troubled - RATIO_MAX * calm, calm, troubled))
            # A machine that has other things to do makes either run slow by chance.
            if runs[-1][0] <= SLACK_SECONDS:
                break
        assert min(runs)[0] <= SLACK_SECONDS, runs
        # So that the deliveries of every endpoint are looked at.
        await resources.database.execute(
            "update webhook_endpoint set subscribed_at = created_at - $1::interval",
            timedelta(seconds=11),
        )
        assert not await complaints(resources.database)
