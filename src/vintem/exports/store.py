"""The statements about exports and the pieces of their files."""

from collections.abc import Sequence
from datetime import datetime

from vintem.exports.model import ExportFile, ExportStatus
from vintem.runtime.db import Connection, Row


async def insert(db: Connection, export: ExportFile) -> None:
    """Write who takes which list."""
    await db.execute(
        """
        insert into export_file (
            company_id, export_id, environment, what, file_name, person_id, person_name, role,
            asked_sealed, asked_shown, status, rows, created_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
        """,
        export.company_id,
        export.export_id,
        export.environment,
        export.what,
        export.file_name,
        export.person_id,
        export.person_name,
        export.role,
        export.asked_sealed,
        export.asked_shown,
        export.status,
        export.rows,
        export.created_at,
    )


async def find(
    db: Connection, company_id: int, environment: str, export_id: str
) -> ExportFile | None:
    """Find an export by its id."""
    row = await db.fetchrow(
        """
        select * from export_file
        where company_id = $1 and environment = $2 and export_id = $3
        """,
        company_id,
        environment,
        export_id,
    )
    return None if row is None else _export(row)


async def list_older(
    db: Connection,
    company_id: int,
    environment: str,
    *,
    person_id: str | None,
    than: str | None,
    rows_max: int,
) -> Sequence[ExportFile]:
    """The exports of a company, or of one person in it, before one or all, the newest first."""
    rows = await db.fetch(
        """
        select * from export_file
        where company_id = $1 and environment = $2 and ($3::text is null or person_id = $3)
            and ($4::text is null or export_id < $4)
        order by export_id desc limit $5
        """,
        company_id,
        environment,
        person_id,
        than,
        rows_max,
    )
    return [_export(row) for row in rows]


async def list_newer(
    db: Connection,
    company_id: int,
    environment: str,
    *,
    person_id: str | None,
    than: str,
    rows_max: int,
) -> Sequence[ExportFile]:
    """The same after one, the oldest first."""
    rows = await db.fetch(
        """
        select * from export_file
        where company_id = $1 and environment = $2 and ($3::text is null or person_id = $3)
            and export_id > $4
        order by export_id limit $5
        """,
        company_id,
        environment,
        person_id,
        than,
        rows_max,
    )
    return [_export(row) for row in rows]


async def find_waiting(db: Connection, *, now: datetime) -> tuple[int, str] | None:
    """Find the company and id of the export that waits longest and that nobody works on."""
    row = await db.fetchrow(
        """
        select company_id, export_id from export_file
        where status = 'waiting' and (leased_until is null or leased_until <= $1)
        order by created_at limit 1
        """,
        now,
    )
    return None if row is None else (row["company_id"], row["export_id"])


async def claim(
    db: Connection, company_id: int, export_id: str, *, now: datetime, leased_until: datetime
) -> ExportFile | None:
    """Take an export to make, unless somebody else has it."""
    row = await db.fetchrow(
        """
        update export_file set fence = fence + 1, leased_until = $4
        where company_id = $1 and export_id = $2 and status = 'waiting'
            and (leased_until is null or leased_until <= $3)
        returning *
        """,
        company_id,
        export_id,
        now,
        leased_until,
    )
    return None if row is None else _export(row)


async def extend(db: Connection, export: ExportFile, *, leased_until: datetime) -> bool:
    """Keep an export for longer; no, when somebody else has it by now."""
    tag = await db.execute(
        """
        update export_file set leased_until = $4
        where company_id = $1 and export_id = $2 and fence = $3 and status = 'waiting'
        """,
        export.company_id,
        export.export_id,
        export.fence,
        leased_until,
    )
    return tag == "UPDATE 1"


async def delete_chunks(db: Connection, company_id: int, export_id: str) -> None:
    """Throw away the pieces of a file."""
    await db.execute(
        "delete from export_chunk where company_id = $1 and export_id = $2", company_id, export_id
    )


async def insert_chunk(
    db: Connection, export: ExportFile, *, number: int, content: bytes, now: datetime
) -> None:
    """Write a piece of a file."""
    await db.execute(
        """
        insert into export_chunk (company_id, export_id, number, content, created_at)
        values ($1, $2, $3, $4, $5)
        """,
        export.company_id,
        export.export_id,
        number,
        content,
        now,
    )


async def finish(
    db: Connection,
    export: ExportFile,
    *,
    status: ExportStatus,
    rows: int,
    size: int,
    now: datetime,
    expires_at: datetime | None,
) -> bool:
    """Write how an export ended; no, when somebody else has it by now."""
    tag = await db.execute(
        """
        update export_file
        set status = $4, rows = $5, bytes = $6, finished_at = $7, expires_at = $8,
            leased_until = null
        where company_id = $1 and export_id = $2 and fence = $3 and status = 'waiting'
        """,
        export.company_id,
        export.export_id,
        export.fence,
        status,
        rows,
        size,
        now,
        expires_at,
    )
    return tag == "UPDATE 1"


async def find_chunk(db: Connection, company_id: int, export_id: str, number: int) -> bytes | None:
    """Read a piece of a file."""
    content: bytes | None = await db.fetchval(
        """
        select content from export_chunk
        where company_id = $1 and export_id = $2 and number = $3
        """,
        company_id,
        export_id,
        number,
    )
    return content


async def list_companies(db: Connection) -> Sequence[int]:
    """Every company that has pieces of files."""
    rows = await db.fetch("select distinct company_id from export_chunk")
    return [row["company_id"] for row in rows]


async def delete_old_chunks(
    db: Connection, company_id: int, *, made_before: datetime, rows_max: int
) -> int:
    """Delete the pieces of files that nobody may fetch any more."""
    tag = await db.execute(
        """
        delete from export_chunk where company_id = $1 and (export_id, number) in (
            select export_id, number from export_chunk
            where company_id = $1 and created_at < $2 limit $3
        )
        """,
        company_id,
        made_before,
        rows_max,
    )
    return int(tag.rpartition(" ")[2])


def _export(row: Row) -> ExportFile:
    return ExportFile(
        company_id=row["company_id"],
        export_id=row["export_id"],
        environment=row["environment"],
        what=row["what"],
        file_name=row["file_name"],
        person_id=row["person_id"],
        person_name=row["person_name"],
        role=row["role"],
        asked_sealed=row["asked_sealed"],
        asked_shown=row["asked_shown"],
        status=ExportStatus(row["status"]),
        rows=row["rows"],
        bytes=row["bytes"],
        fence=row["fence"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        expires_at=row["expires_at"],
    )
