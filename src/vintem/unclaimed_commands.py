"""The commands about money that came in and belongs to no payment."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from vintem.command_line import (
    CompanyId,
    Data,
    complaint,
    console,
    local_time,
    operator_act,
    show,
    start,
    with_database,
)
from vintem.companies import service as companies
from vintem.kit.clock import utc_now
from vintem.ledger import unclaimed
from vintem.ledger.model import Unclaimed
from vintem.runtime.db import Connection, Database
from vintem.settings import Settings
from vintem.trail import service as trail

unclaimed_app: Final = typer.Typer(help="Money that belongs to no payment.", no_args_is_help=True)

Reference = Annotated[str, typer.Argument(help="What `list` calls it: provider/callback.")]
Reason = Annotated[str, typer.Option(help="Why; it is kept in the company's trail.")]
By = Annotated[str | None, typer.Option(help="Who decides; the system's user when left out.")]


@unclaimed_app.command("list")
def unclaimed_list(data: Data = None) -> None:
    """List the money that nobody has decided about, the oldest first; below zero it has left."""

    async def find(
        database: Database, _settings: Settings
    ) -> tuple[Sequence[Unclaimed], Mapping[int, str]]:
        known = await companies.list_companies(database)
        names = {company.company_id: company.public_id for company in known}
        return await unclaimed.list_unclaimed(database, list(names)), names

    found, names = with_database(start(data=data), find)
    if not found:
        console.print("No money is unclaimed.")
        return
    table = Table("Company", "Reference", "Environment", "Cents", "Came from", "Since (Brasília)")
    for each in found:
        table.add_row(
            names[each.scope.company_id],
            escape(each.reference),
            each.scope.environment,
            str(each.amount),
            each.source,
            local_time(each.since),
        )
    show(table)


@unclaimed_app.command("credit")
def unclaimed_credit(
    company: CompanyId, reference: Reference, reason: Reason, by: By = None, data: Data = None
) -> None:
    """Give unclaimed money to its company, where it pays off debt first."""
    ended = end(company, reference, End.CREDITED, reason=reason, by=by, data=data)
    console.print(f"{company}: {ended.amount} cents are credited")


@unclaimed_app.command("charge")
def unclaimed_charge(
    company: CompanyId, reference: Reference, reason: Reason, by: By = None, data: Data = None
) -> None:
    """Let the company bear what has left; what it does not have becomes its debt."""
    ended = end(company, reference, End.CHARGED, reason=reason, by=by, data=data)
    console.print(f"{company}: {-ended.amount} cents are charged")


@unclaimed_app.command("returned")
def unclaimed_returned(
    company: CompanyId, reference: Reference, reason: Reason, by: By = None, data: Data = None
) -> None:
    """Note that unclaimed money has gone back to where it came from, or has come back."""
    ended = end(company, reference, End.RETURNED, reason=reason, by=by, data=data)
    way = "gone back" if ended.amount > 0 else "come back"
    console.print(f"{company}: {abs(ended.amount)} cents have {way}")


class End(StrEnum):
    """What may be decided."""

    CREDITED = "credited"
    CHARGED = "charged"
    RETURNED = "returned"


class WrongWayError(Exception):
    """What came cannot be charged, and what left cannot be credited."""


def end(
    company: str, reference: str, how: End, *, reason: str, by: str | None, data: Path | None
) -> Unclaimed:
    """Decide about money that is unclaimed, or say why that cannot be."""

    async def decide(database: Database, _settings: Settings) -> Unclaimed | None:
        company_id = (await companies.get_company(database, company)).company_id

        async def write(block: Connection) -> Unclaimed | None:
            found = await unclaimed.find_and_lock(block, company_id, reference)
            if found is None:
                return None
            if how is End.RETURNED:
                await unclaimed.give_back(block, found, now=utc_now())
            elif (found.amount > 0) == (how is End.CREDITED):
                await unclaimed.give_to_company(block, found, now=utc_now())
            else:
                raise WrongWayError
            act = operator_act(company_id, f"unclaimed.{how}", "unclaimed", reference, by=by)
            told = msgspec.structs.replace(
                act,
                environment=found.scope.environment,
                after={"amount": found.amount},
                reason=reason,
            )
            await trail.record(block, told)
            return found

        return await database.atomically(write)

    try:
        ended = with_database(start(data=data), decide)
    except WrongWayError:
        came = "left: charge it" if how is End.CREDITED else "come: credit it"
        raise complaint(f"{reference} has {came}, or say that it was returned.") from None
    if ended is None:
        raise complaint(f"{company} has no unclaimed money {reference}.")
    return ended
