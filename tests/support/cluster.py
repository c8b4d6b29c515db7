"""A PostgreSQL for one test run: prints its address, runs until standard input closes."""

import asyncio
import sys
from pathlib import Path

from support.postgres import debian_postgres_15
from vintem.runtime import log as logs
from vintem.runtime.embedded import EmbeddedPostgres


async def run_cluster(kind: str, folder: Path) -> None:
    """Start the wanted server and keep it for as long as the parent lives."""
    if kind == "15":
        async with debian_postgres_15(folder) as url:
            await until_parent_ends(url)
        return
    embedded = EmbeddedPostgres(folder)
    await embedded.start()
    try:
        await until_parent_ends(embedded.url)
    finally:
        await embedded.stop()


async def until_parent_ends(url: str) -> None:
    """Tell the parent the address and wait for the end of the pipe."""
    sys.stdout.write(url + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    logs.configure(is_json=True)
    asyncio.run(run_cluster(sys.argv[1], Path(sys.argv[2])))
