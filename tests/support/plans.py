"""What the database does for a statement."""

import json
from collections.abc import Sequence

from vintem.runtime.db import Database


async def rows_read(database: Database, statement: str, values: Sequence[object]) -> int:
    """How many rows a statement takes from tables and indexes, those that it drops included."""
    async with database.atomic() as block:
        text = await block.fetchval(f"explain (analyze, format json) {statement}", *values)
    read, plans = 0, [json.loads(text)[0]["Plan"]]
    while plans:
        plan = plans.pop()
        plans += plan.get("Plans", [])
        if "Relation Name" in plan:
            dropped = plan.get("Rows Removed by Filter", 0)
            read += round((plan["Actual Rows"] + dropped) * plan["Actual Loops"])
    return read
