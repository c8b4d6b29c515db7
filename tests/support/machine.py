"""What random lives of a company run on: a loop and a database of their own, as quick as can be."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

import uvloop
from hypothesis import HealthCheck, settings

from conftest import new_database
from vintem.companies import service as companies
from vintem.kit.clock import utc_now
from vintem.runtime.db import Connection, Database
from vintem.runtime.migrations import migrate

T = TypeVar("T")

STEPS = 50
# Parts of a proof, so that the workers of a test run share it.
PARTS = 4


@dataclass(frozen=True)
class Machine:
    """A database of its own, with one company, and the loop that it lives in."""

    runner: asyncio.Runner
    database: Database
    reader: Connection
    company_id: int

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.runner.run(work)

    def forget(self, *tables: str) -> None:
        """Empty tables, so that each life begins with empty books and none is slower."""

        async def forget() -> None:
            async with self.database.atomic() as block:
                # Postings refuse to be deleted; this is not the place to prove that.
                await block.execute("set local session_replication_role = replica")
                for table in tables:
                    await block.execute(f"delete from {table}")

        self.run(forget())


@contextmanager
def machine() -> Iterator[Machine]:
    # A loop of its own: Hypothesis calls the rules from outside of any.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        name = f"machine_{uuid4().hex[:12]}"
        database = Database(runner.run(new_database(name)))
        runner.run(database.open())
        runner.run(migrate(database))
        # What is proven is arithmetic; what survives a crash is proven elsewhere.
        runner.run(database.execute(f"alter database {name} set synchronous_commit = off"))
        runner.run(database.close())
        runner.run(database.open())
        company = runner.run(companies.create_company(database, "Company", now=utc_now()))
        reader = runner.run(database.connect())
        yield Machine(runner, database, reader, company.company_id)
        runner.run(reader.close())
        runner.run(database.close())


def lives(runs: int) -> settings:
    """So many lives in all, in equal parts."""
    return settings(
        max_examples=-(-runs // PARTS),
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
