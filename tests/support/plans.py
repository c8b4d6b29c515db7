"""What the database does for a statement."""

import json
from collections.abc import Sequence
from typing import Any

import asyncpg

from vintem.runtime.db import Database


async def rows_read(database: Database, statement: str, values: Sequence[object]) -> int:
    """How many rows a statement takes from tables and indexes, those that it drops included."""
    read, plans = 0, [await _plan(database, statement, values)]
    while plans:
        plan = plans.pop()
        plans += plan.get("Plans", [])
        if "Relation Name" in plan:
            dropped = plan.get("Rows Removed by Filter", 0)
            read += round((plan["Actual Rows"] + dropped) * plan["Actual Loops"])
    return read


async def blocks_read(database: Database, statement: str, values: Sequence[object]) -> int:
    """How many blocks a statement looks at: what it passes over in an index shows only here."""
    plan = await _plan(database, statement, values)
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def _plan(database: Database, statement: str, values: Sequence[object]) -> dict[str, Any]:
    connection = await asyncpg.connect(database.url)
    try:
        # Nothing stays of what is explained: it is never committed.
        await connection.execute("begin")
        text = await connection.fetchval(
            f"explain (analyze, buffers, format json) {statement}", *values
        )
    finally:
        await connection.close()
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan
