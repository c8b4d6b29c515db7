"""The commands."""

import platform as machine
import sys
from datetime import datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from vintem import audit as audits
from vintem import launch
from vintem.command_line import (
    CompanyId,
    Data,
    complaint,
    complaints,
    console,
    local_time,
    operator_act,
    run,
    show,
    start,
    with_database,
)
from vintem.companies import service as companies
from vintem.companies.model import ApiKey, Environment, KeyType
from vintem.company_commands import company_app
from vintem.kit.clock import utc_now
from vintem.member_commands import member_app
from vintem.runtime import log as logs
from vintem.runtime.db import Connection, Database
from vintem.runtime.migrations import migrate
from vintem.runtime.pepper import check_pepper
from vintem.settings import Settings
from vintem.trail import service as trail
from vintem.trail.model import Act
from vintem.unclaimed_commands import unclaimed_app
from vintem.webhook_commands import listen, trigger
from vintem.withdrawal_commands import withdrawal_app

app: Final = typer.Typer(
    help="Vintém: payments, withdrawals and a hosted checkout for Brazil.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
key_app: Final = typer.Typer(help="API keys.", no_args_is_help=True)
process_app: Final = typer.Typer(no_args_is_help=True)
app.add_typer(company_app, name="company")
app.add_typer(key_app, name="key")
app.add_typer(member_app, name="member")
app.add_typer(withdrawal_app, name="withdrawal")
app.add_typer(unclaimed_app, name="unclaimed")
app.add_typer(process_app, name="process", hidden=True)
app.command()(listen)
app.command()(trigger)

Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")]


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
    from vintem.demo import run_demo  # noqa: PLC0415 - no other command has to load it

    settings = start(data=data, host=host, port=port, keeps_files=True)
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
    run(launch.run_work(start(data=data)), on_uvloop=True)


@app.command("migrate")
def migrate_command(data: Data = None) -> None:
    """Bring the database to this version's tables."""

    async def apply(settings: Settings) -> None:
        async with launch.prepared(settings, may_create=True) as complete:
            database = Database(complete.database_url, complete.database_options)
            await database.open()
            try:
                applied = await migrate(database)
                if complete.pepper:
                    await check_pepper(database, complete.pepper.encode())
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
    from importlib.metadata import version as package_version  # noqa: PLC0415 - seldom asked for

    console.print(f"vintem {package_version('vintem')} on Python {machine.python_version()}")


def show_version(is_wanted: bool) -> None:  # noqa: FBT001 - called so by typer
    """Say which version this is, and end."""
    if is_wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    *,
    is_version_wanted: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=show_version, help="Say which version this is."
        ),
    ] = False,
) -> None:
    """Take the options that come before any command."""
    del is_version_wanted


@key_app.command("create")
def key_create(
    company: CompanyId,
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
        async with database.atomic() as block:
            made = await companies.create_key(
                block,
                found.company_id,
                key_type=type_,
                environment=environment,
                label=label,
                allowed_networks=networks,
                pepper=settings.pepper.encode(),
                now=utc_now(),
            )
            await trail.record(block, key_act(made.record, "key.created"))
        return made

    show_new_key(with_database(start(data=data), create))


@key_app.command("list")
def key_list(company: CompanyId, data: Data = None) -> None:
    """List a company's keys; the keys themselves are not known any more."""
    found = with_database(
        start(data=data), lambda database, _: companies.list_keys(database, company)
    )
    table = Table("Id", "Key", "Label", "Status", "Made (Brasília)", "Last used (Brasília)", "From")
    now = utc_now()
    for key in found:
        table.add_row(
            key.key_id,
            f"{key.type}_{key.environment}_…{key.last_four}",
            escape(key.label),
            key_status(key, now),
            local_time(key.created_at),
            local_time(key.last_used_at, otherwise="never"),
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

        async def write(block: Connection) -> companies.NewKey:
            made = await companies.rotate_key(
                block,
                key_id,
                overlap=companies.OVERLAPS[overlap],
                pepper=settings.pepper.encode(),
                now=utc_now(),
            )
            act = key_act(made.record, "key.rotated")
            after = {**act.after, "successor": made.record.key_id, "overlap": overlap}
            await trail.record(block, msgspec.structs.replace(act, target_id=key_id, after=after))
            return made

        return await database.atomically(write)

    show_new_key(with_database(start(data=data), rotate))


@key_app.command("revoke")
def key_revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, key_…")], data: Data = None
) -> None:
    """End a key; running processes refuse it within 5 s."""

    async def revoke(database: Database, _settings: Settings) -> None:
        async with database.atomic() as block:
            revoked = await companies.revoke_key(block, key_id, now=utc_now())
            await trail.record(block, key_act(revoked, "key.revoked"))

    with_database(start(data=data), revoke)
    console.print(f"{key_id} is revoked")


def key_act(key: ApiKey, action: str) -> Act:
    """Say what is done to a key, for the trail of its company."""
    act = operator_act(key.company_id, action, "key", key.key_id)
    after = {"type": key.type, "last_four": key.last_four, "label": key.label}
    return msgspec.structs.replace(act, environment=key.environment, after=after)


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
        return f"[yellow]until {local_time(key.expires_at)} Brasília[/]"
    return "[red]ended[/]"


def main() -> None:
    """Run the command that was asked for."""
    sys.excepthook = logs.report_fault
    app()


if __name__ == "__main__":
    main()
