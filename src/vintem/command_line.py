"""What all commands share: reading the settings, reaching the database, saying what is wrong."""

import asyncio
import difflib
import getpass
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from vintem import launch
from vintem.companies import service as companies
from vintem.kit.clock import BUSINESS_ZONE, utc_now
from vintem.runtime import log as logs
from vintem.runtime.db import (
    Connection,
    Database,
    DatabaseRefusedError,
    DatabaseUnavailableError,
)
from vintem.runtime.embedded import EmbeddedPostgresError
from vintem.runtime.migrations import MigrationError
from vintem.runtime.pepper import WrongPepperError
from vintem.settings import (
    Settings,
    SettingsError,
    public_address,
    read_settings,
)
from vintem.trail import service as trail
from vintem.trail.model import Act, ActorKind

T = TypeVar("T")

EXAMPLES_KEY: Final = "VINTEM_KEY"
"""Where the examples of the documents keep a caller's key."""

TABLE_COLUMNS_MAX: Final = 1_000
ACTOR_CHARACTERS_MAX: Final = 100
SILENT_SECONDS_MAX: Final = 2.0
# A last attempt that begins before this is over may take three seconds more.
PATIENCE_SECONDS: Final = 7.0

MENDABLE: Final = (
    SettingsError,
    EmbeddedPostgresError,
    MigrationError,
    WrongPepperError,
    launch.LaunchError,
)

console: Final = Console(highlight=False)
complaints: Final = Console(stderr=True, highlight=False)

Data = Annotated[
    Path | None, typer.Option("--data", help="Data folder of the embedded PostgreSQL.")
]
CompanyId = Annotated[str, typer.Argument(help="The company's id, cmp_…")]


def start(
    *,
    data: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    keeps_files: bool = False,
) -> Settings:
    """Read the settings, let the command line win over them, and set the log up.

    A command that keeps files in the data folder uses it beside a server of one's own.
    """
    try:
        settings = read_settings()
    except SettingsError as error:
        raise complaint(str(error)) from None
    if data is not None and settings.database_url and not keeps_files:
        address = launch.address_of(settings.database_url)
        raise complaint(
            f"--data names an embedded database, but DATABASE_URL names the one at {address}."
            " Leave one of them out."
        )
    is_json = settings.log_format == "json" or (
        settings.log_format == "auto" and not sys.stderr.isatty()
    )
    logs.configure(is_json=is_json, level=settings.log_level)
    for sentence in unknown_variables():
        complaints.print(sentence, style="yellow", markup=False, soft_wrap=True)
    return replace(
        settings,
        data=settings.data if data is None else data,
        host=settings.host if host is None else host,
        port=settings.port if port is None else port,
    )


def with_database(settings: Settings, do: Callable[[Database, Settings], Awaitable[T]]) -> T:
    """Run one thing on the database, starting the embedded one if it is not running."""

    async def within() -> T:
        async with launch.prepared(settings, may_create=False) as complete:
            waiting = asyncio.create_task(say_waiting(complete))
            try:
                async with launch.migrated(complete, seconds_max=PATIENCE_SECONDS) as database:
                    waiting.cancel()
                    return await do(database, complete)
            finally:
                waiting.cancel()

    # A command says what it did; the comings and goings of the database are not its news.
    logs.configure(is_json=False, level="error")
    return run(within())


async def say_waiting(settings: Settings) -> None:
    """Say where the database is looked for, when it does not answer at once."""
    await asyncio.sleep(SILENT_SECONDS_MAX)
    address = launch.address_of(settings.database_url)
    complaints.print(f"[dim]Waiting for the database at {escape(address)} …[/]", soft_wrap=True)


def run(job: Coroutine[Any, Any, T], *, on_uvloop: bool = False) -> T:
    """Run to the end, and turn what an operator can mend into a sentence."""
    try:
        return _run_on_uvloop(job) if on_uvloop else asyncio.run(job)
    except MENDABLE as error:
        raise complaint(str(error)) from None
    except DatabaseRefusedError as error:
        raise complaint(f"The database refuses DATABASE_URL: {error}") from None
    except DatabaseUnavailableError as error:
        raise complaint(f"The database cannot be reached: {error}") from None
    except companies.UnknownRecordError as error:
        raise complaint(f"{error} does not exist.") from None
    except companies.KeyEndedError as error:
        raise complaint(f"{error} no longer works, so it cannot be rotated.") from None
    except companies.KeyReplacedError as error:
        raise complaint(
            f"{error.key_id} was replaced by {error.replaced_by} already; rotate that one."
        ) from None


def password_link(settings: Settings, token: str) -> str:
    """Write the address of the page on which somebody chooses a password."""
    return f"{public_address(settings)}/dashboard/reset/{token}"


def operator_act(
    company_id: int, action: str, target_type: str, target_id: str, *, by: str | None = None
) -> Act:
    """Say what is done by a command, for the trail of a company."""
    # It is found by its name, and an index holds no name of any length.
    user = (by or getpass.getuser())[:ACTOR_CHARACTERS_MAX]
    return Act(
        company_id=company_id,
        environment="",
        at=utc_now(),
        actor_kind=ActorKind.OPERATOR,
        actor_id=user,
        actor_name=user,
        role="",
        ip="",
        user_agent="",
        action=action,
        target_type=target_type,
        target_id=target_id,
    )


def _run_on_uvloop(job: Coroutine[Any, Any, T]) -> T:
    import uvloop  # noqa: PLC0415 - for processes that go on and on; a command does without it

    return uvloop.run(job)


async def noting(
    database: Database,
    company: str,
    action: str,
    change: Callable[[Connection], Awaitable[T]],
    after: Mapping[str, object],
) -> T:
    """Change something of a company, and write it into its trail in the same commit."""
    async with database.atomic() as block:
        kept = await companies.lock_company(block, company)
        outcome = await change(block)
        act = operator_act(kept.company_id, action, "company", company)
        await trail.record(block, msgspec.structs.replace(act, after=after))
    return outcome


def complaint(sentence: str) -> typer.Exit:
    """Say what is wrong and end with 2."""
    # What an operator wrote is shown as it is, square brackets included.
    complaints.print(
        f"[bold red]vintem:[/] {escape(logs.redact_secrets(sentence))}", soft_wrap=True
    )
    return typer.Exit(2)


def local_time(moment: datetime | None, *, otherwise: str = "–") -> str:
    """Write a moment by the clock of Brasília, as a table's heading says; no zone of its own."""
    if moment is None:
        return otherwise
    return moment.astimezone(BUSINESS_ZONE).strftime("%Y-%m-%d %H:%M:%S")


def show(table: Table) -> None:
    """Print a table whole, however narrow the terminal: an id that was cut cannot be copied."""
    wide = console.options.update(max_width=TABLE_COLUMNS_MAX)
    if console.measure(table, options=wide).maximum > console.width:
        # The terminal breaks the lines of such a table, and a frame would only be torn.
        table.box = None
    width = max(console.width, console.measure(table, options=wide).maximum)
    Console(highlight=False, width=width).print(table)


def unknown_variables() -> list[str]:
    """One sentence for each VINTEM_ variable that is no setting: most likely a typing error."""
    # What all have in common would make everything look alike.
    known = {
        declared.metadata["variable"].removeprefix("VINTEM_"): declared.metadata["variable"]
        for declared in fields(Settings)
    }
    sentences = []
    for name in sorted(os.environ):
        is_ours = name.startswith("VINTEM_") and name != EXAMPLES_KEY
        if is_ours and name not in known.values():
            close = difflib.get_close_matches(name.removeprefix("VINTEM_"), known, n=1)
            hint = f"; did you mean {known[close[0]]}?" if close else "."
            sentences.append(f"{name} is not a setting and has no effect{hint}")
    return sentences
