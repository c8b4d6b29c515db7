"""The commands for those who build on webhooks: hear events at once, and make them happen."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from vintem.command_line import Data, complaint, run, start, with_database
from vintem.companies import service as companies
from vintem.companies.model import Environment
from vintem.demo_file import DemoCompany, read_demo
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.transactions.model import MOVES, Status
from vintem.webhooks.service import Place

REFUND: Final = "refund.completed"


def listen(
    forward_to: Annotated[str, typer.Option(help="Where events are sent, signed.")],
    company: Annotated[
        str | None, typer.Option(help="The company's id, cmp_…; the demo's when left out.")
    ] = None,
    environment: Annotated[Environment, typer.Option(help="live or test.")] = Environment.TEST,
    data: Data = None,
) -> None:
    """Print a company's events as they happen and forward them, with nothing to register."""
    from vintem.webhook_calls import forward  # noqa: PLC0415 - no other command has to load it

    settings = start(data=data)
    demo = find_demo(settings.data)
    if company is None and demo is None:
        raise complaint("Name the company with --company: there is no demo in the data folder.")
    company_id = company or (demo.company_id if demo else "")

    async def hear(database: Database, _settings: Settings) -> None:
        found = await companies.get_company(database, company_id)
        await forward(database, Place(found.company_id, environment), forward_to)

    with_database(settings, hear)


def trigger(
    kind: Annotated[str, typer.Argument(help="The event, such as transaction.paid.")],
    key: Annotated[
        str | None, typer.Option(help="A secret test key; the demo's when left out.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Where the API is; the demo's when left out.")
    ] = None,
    amount: Annotated[int, typer.Option(min=100, help="Cents of the payment.")] = 1_000,
    data: Data = None,
) -> None:
    """Make a payment in the sandbox and let it go through the move that causes an event."""
    from vintem.webhook_calls import go_through  # noqa: PLC0415 - no other command has to load it

    settings = start(data=data, keeps_files=True)
    statuses = moves_to(kind)
    if statuses is None:
        kinds = ", ".join([*(f"transaction.{status}" for status in Status), REFUND])
        raise complaint(f"{kind} cannot be triggered; these can: {kinds}.")
    demo = find_demo(settings.data)
    if key is None and demo is None:
        raise complaint("Give a test key with --key: there is no demo in the data folder.")
    secret_key = key or (demo.keys["testSecretKey"] if demo else "")
    by_settings = settings.public_url or f"http://{settings.host}:{settings.port}"
    address = url or (demo.base_url if demo else None) or by_settings
    run(
        go_through(
            address.rstrip("/"),
            secret_key,
            kind,
            statuses,
            amount=amount,
            is_refunded=kind == REFUND,
        )
    )


def moves_to(kind: str) -> Sequence[Status] | None:
    """The moves of a new payment that lead to an event; nothing when none do."""
    group, _, status = kind.partition(".")
    if kind == REFUND:
        return [Status.PAID]
    if group != "transaction" or status not in list(Status):
        return None
    ways: deque[list[Status]] = deque([[Status.PENDING]])
    while ways:
        way = ways.popleft()
        if way[-1] == status:
            return way[1:]
        # Payments that were made go further than others: they are looked at first.
        further = sorted(MOVES[way[-1]], key=lambda each: (each is not Status.PAID, each))
        ways += [[*way, each] for each in further if each not in way]
    return None


def find_demo(data: Path) -> DemoCompany | None:
    """The demo of a data folder, or nothing where there is none."""
    try:
        return read_demo(data / "demo.json")
    except OSError:
        return None
    except (ValueError, KeyError):
        raise complaint(f"{data / 'demo.json'} cannot be read; start the demo anew.") from None
