"""The commands; settings are read here, once."""

import asyncio
import platform as machine
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version as package_version
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
import uvloop
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from vintem import audit as audits
from vintem import launch
from vintem.companies import service as companies
from vintem.companies.model import LIMIT_MAX, ApiKey, Company, Environment, Fee, KeyType, Method
from vintem.demo import run_demo
from vintem.kit.clock import public_time, utc_now
from vintem.resources import open_database
from vintem.runtime import log as logs
from vintem.runtime.db import Database, DatabaseRefusedError, DatabaseUnavailableError
from vintem.runtime.embedded import EmbeddedPostgresError
from vintem.runtime.migrations import MigrationError, migrate
from vintem.settings import Settings, SettingsError, read_settings, unknown_variables

T = TypeVar("T")

TABLE_COLUMNS_MAX: Final = 1_000
FIXED_CENTS_MAX: Final = 9_999_999_999

console: Final = Console(highlight=False)
complaints: Final = Console(stderr=True, highlight=False)

app: Final = typer.Typer(
    help="Vintém: payments, withdrawals and a hosted checkout for Brazil.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
company_app: Final = typer.Typer(help="Companies and their limits.", no_args_is_help=True)
key_app: Final = typer.Typer(help="API keys.", no_args_is_help=True)
process_app: Final = typer.Typer(no_args_is_help=True)
app.add_typer(company_app, name="company")
app.add_typer(key_app, name="key")
app.add_typer(process_app, name="process", hidden=True)

Data = Annotated[
    Path | None, typer.Option("--data", help="Data folder of the embedded PostgreSQL.")
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")]
LimitOption = Annotated[int | None, typer.Option(min=1, max=LIMIT_MAX)]


@app.command()
def demo(
    host: Host = None,
    port: Port = None,
    data: Data = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Written as JSON once requests are answered.")
    ] = None,
) -> None:
    """Run everything on this machine, with a demo company and working keys."""
    settings = start(data=data, host=host, port=port)
    run(run_demo(settings, ready_file=ready_file, console=console))


@app.command()
def serve(
    workers: Annotated[int, typer.Option(min=1, max=64, help="API processes.")] = 1,
    host: Host = None,
    port: Port = None,
    data: Data = None,
) -> None:
    """Answer API calls."""
    run(launch.run_serve(start(data=data, host=host, port=port), workers=workers))


@app.command()
def work(data: Data = None) -> None:
    """Do due work: whatever must happen without a call."""
    run(launch.run_work(start(data=data)))


@app.command("migrate")
def migrate_command(data: Data = None) -> None:
    """Bring the database to this version's tables."""

    async def apply(settings: Settings) -> None:
        async with launch.prepared(settings) as complete:
            database = open_database(complete)
            await database.open()
            try:
                applied = await migrate(database)
            finally:
                await database.close()
        for migration in applied:
            console.print(f"[green]applied[/] {migration.version:04} {migration.name}")
        console.print("The database is current.")

    run(apply(start(data=data)))


@app.command()
def audit(data: Data = None) -> None:
    """Check every invariant; ends with 1 and shows the rows when one is broken."""
    findings = with_database(start(data=data), lambda database, _: audits.audit(database))
    for finding in findings:
        mark = "[red]BROKEN[/]" if finding.rows else "[green]ok[/]"
        sentence = f"{finding.invariant.name}  {finding.invariant.sentence}"
        console.print(f"{mark}  {sentence}", soft_wrap=True)
        for row in finding.rows:
            console.print(f"        {row}", markup=False, soft_wrap=True)
    broken = sum(1 for finding in findings if finding.rows)
    console.print(f"{len(findings)} invariants checked, {broken} broken.")
    raise typer.Exit(1 if broken else 0)


@app.command()
def version() -> None:
    """Say which version this is."""
    console.print(f"vintem {package_version('vintem')} on Python {machine.python_version()}")


@company_app.command("create")
def company_create(
    name: Annotated[str, typer.Argument(help="The company's name.")], data: Data = None
) -> None:
    """Add a company and print its id."""

    async def create(database: Database, _settings: Settings) -> Company:
        return await companies.create_company(database, name, now=utc_now())

    if not 1 <= len(name) <= companies.NAME_CHARACTERS_MAX:
        raise complaint(f"A name has 1 to {companies.NAME_CHARACTERS_MAX} characters.")
    console.print(with_database(start(data=data), create).public_id)


@company_app.command("list")
def company_list(data: Data = None) -> None:
    """List the companies."""
    found = with_database(start(data=data), lambda database, _: companies.list_companies(database))
    table = Table("Company", "Name", "Status", "Tx/s", "Withdrawals/min", "Requests/min", "Since")
    for company in found:
        limits = company.limits
        table.add_row(
            company.public_id,
            escape(company.name),
            "[red]suspended[/]" if company.is_suspended else "active",
            str(limits.transactions_per_second),
            str(limits.withdrawals_per_minute),
            str(limits.requests_per_minute),
            public_time(company.created_at),
        )
    show(table)


@company_app.command("set-limits")
def company_set_limits(
    company: Annotated[str, typer.Argument(help="The company's id, cmp_…")],
    transactions_per_second: LimitOption = None,
    withdrawals_per_minute: LimitOption = None,
    requests_per_minute: LimitOption = None,
    data: Data = None,
) -> None:
    """Change how often a company's keys may call; running processes follow within 5 s."""

    async def change(database: Database, _settings: Settings) -> Company:
        return await companies.set_limits(
            database,
            company,
            transactions_per_second=transactions_per_second,
            withdrawals_per_minute=withdrawals_per_minute,
            requests_per_minute=requests_per_minute,
        )

    limits = with_database(start(data=data), change).limits
    console.print(
        f"{company}: {limits.transactions_per_second} transactions per second,"
        f" {limits.withdrawals_per_minute} withdrawals per minute,"
        f" {limits.requests_per_minute} other requests per minute",
        soft_wrap=True,
    )


@company_app.command("suspend")
def company_suspend(company: str, data: Data = None) -> None:
    """Refuse every call of a company; running processes follow within 5 s."""
    set_suspended(company, data, is_suspended=True)


@company_app.command("resume")
def company_resume(company: str, data: Data = None) -> None:
    """Let a suspended company work again."""
    set_suspended(company, data, is_suspended=False)


def set_suspended(company: str, data: Path | None, *, is_suspended: bool) -> None:
    """Change a company's status and say so."""
    with_database(
        start(data=data),
        lambda database, _: companies.set_suspended(database, company, is_suspended=is_suspended),
    )
    console.print(f"{company} is {'suspended' if is_suspended else 'active'}")


@company_app.command("set-fee")
def company_set_fee(
    company: Annotated[str, typer.Argument(help="The company's id, cmp_…")],
    method: Annotated[Method, typer.Option(help="What the fee is for.")],
    fixed_cents: Annotated[
        int, typer.Option(min=0, max=FIXED_CENTS_MAX, help="Cents a movement.")
    ] = 0,
    percent_basis_points: Annotated[
        int, typer.Option(min=0, max=10_000, help="Hundredths of a percent of the amount.")
    ] = 0,
    installments_from: Annotated[
        int, typer.Option(min=1, max=12, help="From so many installments on.")
    ] = 1,
    data: Data = None,
) -> None:
    """Set what a company pays for a method; records made before keep their fee."""
    fee = Fee(method, fixed_cents, percent_basis_points, installments_from)
    plan = with_database(
        start(data=data), lambda database, _: companies.set_fee(database, company, fee)
    )
    table = Table("Method", "From installments", "Fixed (cents)", "Percent (basis points)")
    for each in plan.fees:
        table.add_row(
            each.method,
            str(each.installments_from),
            str(each.fixed_cents),
            str(each.percent_basis_points),
        )
    show(table)


@key_app.command("create")
def key_create(
    company: Annotated[str, typer.Argument(help="The company's id, cmp_…")],
    type_: Annotated[KeyType, typer.Option("--type", help="sk: everything; ck: checkout only.")],
    environment: Annotated[Environment, typer.Option(help="live or test.")],
    label: Annotated[str, typer.Option(help="A name for people.")] = "",
    allow_ip: Annotated[
        list[str] | None, typer.Option(help="Network the key may be used from; repeatable.")
    ] = None,
    data: Data = None,
) -> None:
    """Make a key and print it: this once, it cannot be shown again."""
    try:
        networks = tuple(ip_network(text) for text in allow_ip or ())
    except ValueError as error:
        raise complaint(f"--allow-ip: {error}.") from None

    async def create(database: Database, settings: Settings) -> companies.NewKey:
        launch.require_pepper(settings)
        found = await companies.get_company(database, company)
        return await companies.create_key(
            database,
            found.company_id,
            key_type=type_,
            environment=environment,
            label=label,
            allowed_networks=networks,
            pepper=settings.pepper.encode(),
            now=utc_now(),
        )

    show_new_key(with_database(start(data=data), create))


@key_app.command("list")
def key_list(
    company: Annotated[str, typer.Argument(help="The company's id, cmp_…")], data: Data = None
) -> None:
    """List a company's keys; the keys themselves are not known any more."""
    found = with_database(
        start(data=data), lambda database, _: companies.list_keys(database, company)
    )
    table = Table("Id", "Key", "Label", "Status", "Made", "Last used", "From")
    now = utc_now()
    for key in found:
        table.add_row(
            key.key_id,
            f"{key.type}_{key.environment}_…{key.last_four}",
            escape(key.label),
            key_status(key, now),
            public_time(key.created_at),
            public_time(key.last_used_at) if key.last_used_at else "never",
            ", ".join(str(network) for network in key.allowed_networks) or "anywhere",
        )
    show(table)


@key_app.command("rotate")
def key_rotate(
    key_id: Annotated[str, typer.Argument(help="The key's id, key_…")],
    overlap: Annotated[
        str, typer.Option(help="How long the old key goes on working: 0, 1h, 24h or 7d.")
    ] = "24h",
    data: Data = None,
) -> None:
    """Make a key's successor; the old one ends after the overlap."""
    if overlap not in companies.OVERLAPS:
        raise complaint(f"--overlap is {overlap!r}; it must be 0, 1h, 24h or 7d.")

    async def rotate(database: Database, settings: Settings) -> companies.NewKey:
        launch.require_pepper(settings)
        return await companies.rotate_key(
            database,
            key_id,
            overlap=companies.OVERLAPS[overlap],
            pepper=settings.pepper.encode(),
            now=utc_now(),
        )

    show_new_key(with_database(start(data=data), rotate))


@key_app.command("revoke")
def key_revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, key_…")], data: Data = None
) -> None:
    """End a key; running processes refuse it within 5 s."""
    with_database(
        start(data=data),
        lambda database, _: companies.revoke_key(database, key_id, now=utc_now()),
    )
    console.print(f"{key_id} is revoked")


@process_app.command("api")
def process_api(
    parent: Annotated[int, typer.Option()],
    fd: Annotated[int, typer.Option()],
    number: Annotated[int, typer.Option()] = 0,
) -> None:
    """Be one API process of a parent that bound the socket."""
    job = launch.run_api_process(start(), parent=parent, descriptor=fd, number=number)
    run(job, on_uvloop=True)


@process_app.command("worker")
def process_worker(
    parent: Annotated[int, typer.Option()], number: Annotated[int, typer.Option()] = 0
) -> None:
    """Be the worker of a parent."""
    run(launch.run_worker_process(start(), parent=parent, number=number), on_uvloop=True)


def start(
    *, data: Path | None = None, host: str | None = None, port: int | None = None
) -> Settings:
    """Read the settings, let the command line win over them, and set the log up."""
    try:
        settings = read_settings()
    except SettingsError as error:
        raise complaint(str(error)) from None
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
        async with launch.prepared(settings) as complete, launch.migrated(complete) as database:
            return await do(database, complete)

    # A command says what it did; the comings and goings of the database are not its news.
    logs.configure(is_json=False, level="error")
    return run(within())


def run(job: Coroutine[Any, Any, T], *, on_uvloop: bool = False) -> T:
    """Run to the end, and turn what an operator can mend into a sentence."""
    try:
        return uvloop.run(job) if on_uvloop else asyncio.run(job)
    except (SettingsError, EmbeddedPostgresError, MigrationError, launch.LaunchError) as error:
        raise complaint(str(error)) from None
    except DatabaseRefusedError as error:
        raise complaint(f"The database refuses DATABASE_URL: {error}") from None
    except DatabaseUnavailableError as error:
        raise complaint(f"The database cannot be reached: {error}") from None
    except companies.UnknownRecordError as error:
        raise complaint(f"{error} does not exist.") from None
    except companies.KeyEndedError as error:
        raise complaint(f"{error} no longer works, so it cannot be rotated.") from None


def complaint(sentence: str) -> typer.Exit:
    """Say what is wrong and end with 2."""
    # What an operator wrote is shown as it is, square brackets included.
    complaints.print(
        f"[bold red]vintem:[/] {escape(logs.redact_secrets(sentence))}", soft_wrap=True
    )
    return typer.Exit(2)


def show(table: Table) -> None:
    """Print a table whole, however narrow the terminal: an id that was cut cannot be copied."""
    wide = console.options.update(max_width=TABLE_COLUMNS_MAX)
    if console.measure(table, options=wide).maximum > console.width:
        # The terminal breaks the lines of such a table, and a frame would only be torn.
        table.box = None
    width = max(console.width, console.measure(table, options=wide).maximum)
    Console(highlight=False, width=width).print(table)


def show_new_key(made: companies.NewKey) -> None:
    """Print a key on standard output and its circumstances beside it."""
    complaints.print(f"[dim]{made.record.key_id}, shown this once:[/]")
    console.print(made.key, soft_wrap=True, markup=False)


def key_status(key: ApiKey, now: datetime) -> str:
    """One word or two about a key."""
    if key.revoked_at is not None:
        return "[red]revoked[/]"
    if key.expires_at is None:
        return "[green]works[/]"
    if key.works_at(now):
        return f"[yellow]until {public_time(key.expires_at)}[/]"
    return "[red]ended[/]"


def main() -> None:
    """Run the command that was asked for."""
    sys.excepthook = logs.report_fault
    app()


if __name__ == "__main__":
    main()
