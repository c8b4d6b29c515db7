"""The commands about people: who works for a company, and how they come in again."""

from datetime import timedelta
from typing import Annotated, Final

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
    password_link,
    show,
    start,
    with_database,
)
from vintem.companies import service as companies
from vintem.company_commands import read_email
from vintem.kit.clock import utc_now
from vintem.members import recovery, second_factor, team
from vintem.members import service as members
from vintem.members.model import Member, Person, Role
from vintem.members.team import AlreadyMemberError, NotTheirsError, TeamFullError
from vintem.runtime.db import Connection, Database
from vintem.settings import Settings, public_address
from vintem.trail import service as trail

LINK_HOURS_MAX: Final = 168

Email = Annotated[str, typer.Argument(help="The person's e-mail.")]

member_app: Final = typer.Typer(help="People who sign in to the dashboard.", no_args_is_help=True)


@member_app.command("list")
def member_list(company: CompanyId, data: Data = None) -> None:
    """List who works for a company, and as what."""

    async def read(database: Database, _settings: Settings) -> list[Member]:
        found = await companies.get_company(database, company)
        return list(await members.list_members(database, found.company_id))

    table = Table(
        "Id", "Name", "E-mail", "Role", "Two steps", "Joined (Brasília)", "Last in (Brasília)"
    )
    for member in with_database(start(data=data), read):
        table.add_row(
            member.person_id,
            escape(member.name),
            escape(member.email),
            member.role,
            "yes" if member.has_totp else "no",
            local_time(member.joined_at),
            local_time(member.signed_in_at, otherwise="never"),
        )
    show(table)


@member_app.command("invite")
def member_invite(
    company: CompanyId,
    email: Email,
    role: Annotated[Role, typer.Option(help="admin, finance, developer or support.")],
    data: Data = None,
) -> None:
    """Ask somebody to join a company, and print the link for them: 7 days, once."""
    address = read_email(email)

    async def invite(database: Database, settings: Settings) -> str:
        found = await companies.get_company(database, company)
        async with database.atomic() as block:
            made = await team.invite(
                block,
                found.company_id,
                email=address,
                role=role,
                invited_by=None,
                now=utc_now(),
            )
            act = operator_act(
                found.company_id, "invitation.sent", "invitation", made.invitation_id
            )
            await trail.record(block, act)
        return f"{public_address(settings)}/dashboard/invitation/{made.token}"

    try:
        link = with_database(start(data=data), invite)
    except NotTheirsError:
        raise complaint("A company has one owner, who alone can transfer it.") from None
    except AlreadyMemberError:
        raise complaint(f"{address} works for {company} already.") from None
    except TeamFullError:
        raise complaint(f"{company} has as many people and invitations as it may.") from None
    console.print(link, soft_wrap=True, markup=False)


@member_app.command("reset-link")
def member_reset_link(
    email: Email,
    hours: Annotated[
        int, typer.Option(min=1, max=LINK_HOURS_MAX, help="How long the link works.")
    ] = 1,
    data: Data = None,
) -> None:
    """Print a link by which a person chooses a password: it works once, and earlier ones end."""

    async def make(database: Database, settings: Settings) -> str:
        async with database.atomic() as block:
            person = await _person(block, email)
            token = await recovery.make_link(
                block, person.person_id, lifetime=timedelta(hours=hours), now=utc_now()
            )
            await _note(block, person, "password.link-made")
        return password_link(settings, token)

    console.print(with_database(start(data=data), make), soft_wrap=True, markup=False)


@member_app.command("end-second-step")
def member_end_second_step(email: Email, data: Data = None) -> None:
    """Let a person in without a code, who has lost the authenticator and every backup code."""

    async def end(database: Database, _settings: Settings) -> None:
        async with database.atomic() as block:
            person = await _person(block, email)
            await second_factor.end(block, person.person_id)
            await _note(block, person, "second-step.ended")

    with_database(start(data=data), end)
    console.print(f"{escape(email)}: the password alone is asked for")


async def _person(db: Connection, email: str) -> Person:
    person = await members.find_person(db, email)
    if person is None:
        raise companies.UnknownRecordError(email)
    return person


async def _note(block: Connection, person: Person, action: str) -> None:
    company_id = await members.company_to_enter(block, person.person_id)
    if company_id is not None:
        await trail.record(block, operator_act(company_id, action, "person", person.person_id))
