"""Workers are killed in the middle of deliveries: nothing is lost, and repeats carry their id."""

import asyncio
import os
import random
import signal
import tempfile
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from support.api import TEST_PEPPER, complaints
from support.platform import Running, command, fresh_database, promised, until, until_logged
from support.sink import Sink, running_sink
from vintem.companies import service as companies
from vintem.kit.clock import utc_now
from vintem.kit.ids import Prefix, new_id
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection, Database
from vintem.runtime.migrations import migrate
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import Change
from vintem.webhooks.service import Place, Wishes

# More by a switch: PROOF_WORKER_KILLS=100.
KILLS = int(os.environ.get("PROOF_WORKER_KILLS", "4"))
WORKERS = 2
COMPANIES = 7
RECORDS_A_ROUND = 4
STATUSES = ("pending", "processing", "paid", "refunded")


async def tell_all(database: Database, company_ids: list[int]) -> int:
    """Some records of every company, each through all of its statuses; says how many events."""
    for company_id in company_ids:
        for _ in range(RECORDS_A_ROUND):
            entity_id = new_id(Prefix.TRANSACTION)
            changes = [
                Change(
                    company_id=company_id,
                    environment="test",
                    entity_id=entity_id,
                    sequence=sequence,
                    group="proof",
                    status=status,
                    previous_status=None,
                    is_first_time=True,
                    data=b'{"id":"%s"}' % entity_id.encode(),
                    at=utc_now(),
                )
                for sequence, status in enumerate(STATUSES, 1)
            ]

            async def write(block: Connection, changes: list[Change] = changes) -> None:
                await webhooks.record(block, changes)

            await database.atomically(write)
    return len(company_ids) * RECORDS_A_ROUND * len(STATUSES)


@pytest.mark.timeout(240)
async def test_kills_of_workers_lose_no_delivery() -> None:
    url = await fresh_database()
    database = Database(url)
    await database.open()
    await migrate(database)
    settings = {
        "DATABASE_URL": url,
        "VINTEM_PEPPER": TEST_PEPPER,
        "VINTEM_ALLOW_LOOPBACK_WEBHOOKS": "1",
    }
    async with running_sink() as sink, AsyncExitStack() as processes:
        folder = Path(processes.enter_context(tempfile.TemporaryDirectory()))

        async def start(number: int) -> Running:
            started = await processes.enter_async_context(
                command(["work"], data=folder / f"{number}", address="", settings=settings)
            )
            await until_logged(started, "worker started")
            return started

        secrets, company_ids = {}, []
        for number in range(COMPANIES):
            company = await companies.create_company(database, "Loja", now=utc_now())
            company_ids.append(company.company_id)
            path = f"/{number}"
            sink.answer(path, 200, seconds=0.02)
            _, secrets[path] = await webhooks.register(
                database,
                Sealer(TEST_PEPPER.encode()),
                Place(company.company_id, "test"),
                Wishes(sink.url(path), ("*",)),
                now=utc_now(),
            )
        alive = [await start(number) for number in range(WORKERS)]
        told = 0
        for kill in range(KILLS):
            told += await tell_all(database, company_ids)
            seen = len(sink.arrived)
            await until(lambda: len(sink.arrived) > seen + 5, seconds=promised(30))  # noqa: B023
            await asyncio.sleep(random.uniform(0.0, 0.2))
            alive.pop(0).process.send_signal(signal.SIGKILL)
            alive.append(await start(WORKERS + kill))
        await until(lambda: is_all_delivered(database), seconds=promised(60))
        assert_told(sink, secrets, told)
    assert not await complaints(database)
    await database.close()


async def is_all_delivered(database: Database) -> bool:
    left = await database.fetchval(
        "select count(*) from webhook_delivery where state <> 'delivered'"
    )
    return not left


def assert_told(sink: Sink, secrets: dict[str, str], told: int) -> None:
    """Everything arrived, signed, first to last; what arrived twice is the same byte for byte."""
    bodies: dict[str, bytes] = {}
    order: dict[str, list[int]] = defaultdict(list)
    for arrived in sink.arrived:
        event = arrived.verify(secrets[arrived.path])
        assert bodies.setdefault(arrived.event_id, arrived.body) == arrived.body
        order[event["data"]["id"]].append(event["sequence"])
    assert len(bodies) == told
    for sequences in order.values():
        assert list(dict.fromkeys(sequences)) == [1, 2, 3, 4]
