"""Plain-SQL migrations, applied once, in order, by whichever process comes first."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import structlog

from vintem.runtime.db import Connection, Database

log = structlog.get_logger()

FILE_NAME: Final = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")

# Migrations run on one server only, so a lock of that server is enough.
LOCK: Final = "select pg_advisory_xact_lock(7236481905123)"


class MigrationError(Exception):
    """The database and this program's migrations do not fit."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of SQL: a number, a name, and what it says."""

    version: int
    name: str
    statements: str

    @property
    def checksum(self) -> str:
        """What tells that an applied file was changed later."""
        return hashlib.sha256(self.statements.encode()).hexdigest()


async def migrate(database: Database) -> Sequence[Migration]:
    """Apply what is missing; several processes at once do it once."""
    if await _are_all_applied(database):
        return []
    applied = []
    for migration in known():
        async with database.patient() as block:
            await block.execute(LOCK)
            await _make_register(block)
            if await _is_applied(block, migration):
                continue
            await block.execute(migration.statements)
            await block.execute(
                "insert into schema_migration (version, name, checksum, applied_at)"
                " values ($1, $2, $3, now())",
                migration.version,
                migration.name,
                migration.checksum,
            )
        log.info("migration applied", version=migration.version, name=migration.name)
        applied.append(migration)
    return applied


async def _are_all_applied(database: Database) -> bool:
    """Say in two steps what every start but the first would find out in as many as there are."""
    if not await database.fetchval("select to_regclass('schema_migration') is not null"):
        return False
    rows = await database.fetch("select version, checksum from schema_migration")
    applied = {(row["version"], row["checksum"]) for row in rows}
    return all((migration.version, migration.checksum) in applied for migration in known())


async def is_current(database: Database) -> bool:
    """Say whether every migration of this program is in the database."""
    if not await database.fetchval("select to_regclass('schema_migration') is not null"):
        return False
    newest = await database.fetchval("select coalesce(max(version), 0) from schema_migration")
    return bool(newest >= known()[-1].version)


@cache
def known() -> Sequence[Migration]:
    """List the migrations that this program brings, in order."""
    found = [
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in resources.files("vintem").joinpath("migrations").iterdir()
        if (match := FILE_NAME.match(file.name))
    ]
    found.sort(key=lambda migration: migration.version)
    versions = [migration.version for migration in found]
    assert versions == list(range(1, len(found) + 1)), "migrations are numbered 1, 2, 3, …"
    return tuple(found)


async def _make_register(block: Connection) -> None:
    # Not to_regclass: after waiting for the lock it may still answer from before the wait.
    if await block.fetchval(
        "select exists (select from pg_class where relname = 'schema_migration'"
        " and relnamespace = current_schema()::regnamespace)"
    ):
        return
    await block.execute(
        """
        create table schema_migration (
            version bigint primary key,
            name text not null,
            checksum text not null,
            applied_at timestamptz not null
        );
        comment on table schema_migration is 'local: which migrations this database has';
        """
    )


async def _is_applied(block: Connection, migration: Migration) -> bool:
    checksum = await block.fetchval(
        "select checksum from schema_migration where version = $1", migration.version
    )
    if checksum is not None and checksum != migration.checksum:
        raise MigrationError(
            f"Migration {migration.version:04} ({migration.name}) was changed after it was applied;"
            " restore the file and write a new migration instead."
        )
    return checksum is not None
