"""What happens to exports: they are noted, made by the worker, fetched and forgotten."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from vintem.exports import store
from vintem.exports.model import ExportFile, ExportStatus
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection, Database

KEPT: Final = timedelta(days=7)
# A file is made within its days, so its pieces are at most that much older than the file.
PIECES_KEPT: Final = KEPT + timedelta(days=1)
LEASE: Final = timedelta(minutes=2)
ATTEMPTS_MAX: Final = 3
FORGOTTEN_AT_ONCE_MAX: Final = 100


class TakenOverError(Exception):
    """Somebody else makes this file by now."""


async def note(block: Connection, export: ExportFile) -> None:
    """Write who takes which list: one that was sent, or one that waits for the worker."""
    await store.insert(block, export)


async def find(db: Connection, scope: Scope, export_id: str) -> ExportFile | None:
    """Find an export by its id."""
    return await store.find(db, scope.company_id, scope.environment, export_id)


async def list_older(
    db: Connection, scope: Scope, *, person_id: str | None, than: str | None, rows_max: int
) -> Sequence[ExportFile]:
    """The exports of a company, or of one person in it, before one or all, the newest first."""
    return await store.list_older(
        db, scope.company_id, scope.environment, person_id=person_id, than=than, rows_max=rows_max
    )


async def list_newer(
    db: Connection, scope: Scope, *, person_id: str | None, than: str, rows_max: int
) -> Sequence[ExportFile]:
    """The exports just after one, the newest first."""
    found = await store.list_newer(
        db, scope.company_id, scope.environment, person_id=person_id, than=than, rows_max=rows_max
    )
    return list(reversed(found))


async def claim(database: Database, *, now: datetime) -> ExportFile | None:
    """Take the export that waits longest, without what an earlier attempt has left of it."""
    waiting = await store.find_waiting(database, now=now)
    if waiting is None:
        return None
    async with database.atomic() as block:
        export = await store.claim(block, *waiting, now=now, leased_until=now + LEASE)
        if export is not None:
            await store.delete_chunks(block, export.company_id, export.export_id)
    return export


async def write_piece(
    database: Database, export: ExportFile, *, number: int, content: bytes, now: datetime
) -> None:
    """Keep the next piece of a file, or raise TakenOverError."""
    async with database.atomic() as block:
        if not await store.extend(block, export, leased_until=now + LEASE):
            raise TakenOverError(export.export_id)
        await store.insert_chunk(block, export, number=number, content=content, now=now)


async def finish(
    block: Connection, export: ExportFile, *, rows: int, size: int, now: datetime
) -> None:
    """Let a file be fetched, or raise TakenOverError."""
    is_ours = await store.finish(
        block,
        export,
        status=ExportStatus.READY,
        rows=rows,
        size=size,
        now=now,
        expires_at=now + KEPT,
    )
    if not is_ours:
        raise TakenOverError(export.export_id)


async def give_up(block: Connection, export: ExportFile, *, now: datetime) -> None:
    """Make a file no more, and keep nothing of it."""
    await store.finish(
        block, export, status=ExportStatus.FAILED, rows=0, size=0, now=now, expires_at=None
    )
    await store.delete_chunks(block, export.company_id, export.export_id)


async def pieces(db: Connection, export: ExportFile) -> AsyncIterator[bytes]:
    """Read a file piece by piece."""
    number = 1
    while content := await store.find_chunk(db, export.company_id, export.export_id, number):
        yield content
        number += 1


async def forget_old(db: Connection, *, now: datetime) -> int:
    """Delete the files that nobody may fetch any more; who had them stays known."""
    forgotten = 0
    for company_id in await store.list_companies(db):
        while gone := await store.delete_old_chunks(
            db, company_id, made_before=now - PIECES_KEPT, rows_max=FORGOTTEN_AT_ONCE_MAX
        ):
            forgotten += gone
    return forgotten
