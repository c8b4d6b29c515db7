"""The commands about money going out: second persons, the kill switch, what is held to what."""

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from vintem.command_line import CompanyId, Data, complaint, console, show, start, with_database
from vintem.companies import service as companies
from vintem.companies.model import WithdrawalRules
from vintem.company_commands import company_app
from vintem.kit.clock import public_time, utc_now
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.model import Status, Withdrawal

NO_LIMIT: Final = -1
CENTS_MAX: Final = 1_000_000_000_000

withdrawal_app: Final = typer.Typer(help="Withdrawals and their approval.", no_args_is_help=True)

WithdrawalId = Annotated[str, typer.Argument(help="The withdrawal's id, wd_…")]
Reason = Annotated[str, typer.Option(help="Why; it is kept in the log of decisions.")]
By = Annotated[str | None, typer.Option(help="Who decides; the system's user when left out.")]
Limit = Annotated[
    int | None, typer.Option(min=NO_LIMIT, max=CENTS_MAX, help="Cents, fee included; -1: none.")
]


@withdrawal_app.command("list")
def withdrawal_list(
    status: Annotated[Status, typer.Option(help="Where they stand.")] = Status.PENDING_APPROVAL,
    data: Data = None,
) -> None:
    """List the withdrawals of all companies that wait for approval, or stand elsewhere."""

    async def find(
        database: Database, _settings: Settings
    ) -> tuple[Sequence[Withdrawal], dict[int, str]]:
        found = await withdrawals.list_by_status(database, status)
        known = await companies.list_companies(database)
        return found, {company.company_id: company.public_id for company in known}

    found, names = with_database(start(data=data), find)
    table = Table("Withdrawal", "Company", "Environment", "Method", "Debits (cents)", "Since")
    for each in found:
        table.add_row(
            each.withdrawal_id,
            names[each.company_id],
            each.environment,
            each.method,
            str(each.total_debited),
            public_time(each.created_at),
        )
    show(table)


@withdrawal_app.command("approve")
def withdrawal_approve(
    withdrawal: WithdrawalId, reason: Reason, by: By = None, data: Data = None
) -> None:
    """Let a withdrawal go that waits for a second person."""
    decide(withdrawal, is_approved=True, reason=reason, by=by, data=data)
    console.print(f"{withdrawal} is approved")


@withdrawal_app.command("reject")
def withdrawal_reject(
    withdrawal: WithdrawalId, reason: Reason, by: By = None, data: Data = None
) -> None:
    """Refuse a withdrawal that waits for a second person; its money is given back."""
    decide(withdrawal, is_approved=False, reason=reason, by=by, data=data)
    console.print(f"{withdrawal} is rejected")


@withdrawal_app.command("pause")
def withdrawal_pause(reason: Reason, by: By = None, data: Data = None) -> None:
    """Stop the withdrawals of every company at once: none is taken, none is sent."""
    switch(None, is_paused=True, reason=reason, by=by, data=data)
    console.print("withdrawals of every company are paused")


@withdrawal_app.command("resume")
def withdrawal_resume(reason: Reason, by: By = None, data: Data = None) -> None:
    """Let the withdrawals of every company go on, but for those paused on their own."""
    switch(None, is_paused=False, reason=reason, by=by, data=data)
    console.print("withdrawals go on")


@company_app.command("pause-withdrawals")
def company_pause_withdrawals(
    company: CompanyId, reason: Reason, by: By = None, data: Data = None
) -> None:
    """Stop a company's withdrawals at once: none is taken, none is sent."""
    switch(company, is_paused=True, reason=reason, by=by, data=data)
    console.print(f"{company}: withdrawals are paused")


@company_app.command("resume-withdrawals")
def company_resume_withdrawals(
    company: CompanyId, reason: Reason, by: By = None, data: Data = None
) -> None:
    """Let a company's withdrawals go on."""
    switch(company, is_paused=False, reason=reason, by=by, data=data)
    console.print(f"{company}: withdrawals go on")


@company_app.command("set-withdrawal-rules")
def company_set_withdrawal_rules(
    company: CompanyId,
    maximum_cents: Limit = None,
    daily_cents: Limit = None,
    automatic_cents: Limit = None,
    approve_new_destinations: Annotated[bool | None, typer.Option()] = None,
    approve_crypto: Annotated[bool | None, typer.Option()] = None,
    by: By = None,
    data: Data = None,
) -> None:
    """Change what a company's withdrawals are held to; what is left out stays as it is."""

    async def change(database: Database, _settings: Settings) -> WithdrawalRules:
        company_id = (await companies.get_company(database, company)).company_id
        rules = (await companies.withdrawal_policy(database, company_id)).rules
        changed = WithdrawalRules(
            cents_max=limit(rules.cents_max, maximum_cents),
            daily_cents_max=limit(rules.daily_cents_max, daily_cents),
            automatic_cents_max=limit(rules.automatic_cents_max, automatic_cents),
            approves_new_destinations=choice(
                approve_new_destinations, now=rules.approves_new_destinations
            ),
            approves_crypto=choice(approve_crypto, now=rules.approves_crypto),
        )
        await withdrawals.set_rules(
            database, company_id, changed, decided_by=operator(by), now=utc_now()
        )
        return changed

    rules = with_database(start(data=data), change)
    console.print(
        f"{company}: at most {cents(rules.cents_max)} a withdrawal,"
        f" {cents(rules.daily_cents_max)} a day; a second person above"
        f" {cents(rules.automatic_cents_max)}, for new destinations:"
        f" {'yes' if rules.approves_new_destinations else 'no'}, for crypto:"
        f" {'yes' if rules.approves_crypto else 'no'}",
        soft_wrap=True,
    )


def decide(
    withdrawal_id: str, *, is_approved: bool, reason: str, by: str | None, data: Path | None
) -> None:
    """Approve or reject, or say why that cannot be."""

    async def run(database: Database, _settings: Settings) -> Withdrawal:
        verb = withdrawals.approve if is_approved else withdrawals.reject
        return await verb(
            database, withdrawal_id, decided_by=operator(by), reason=reason, now=utc_now()
        )

    settings = start(data=data)
    try:
        with_database(settings, run)
    except Refusal as refusal:
        if refusal.code is ErrorCode.WITHDRAWAL_NOT_FOUND:
            raise complaint(f"{withdrawal_id} does not exist.") from None
        status = refusal.details["status"]
        raise complaint(f"{withdrawal_id} is {status}: nobody has to decide.") from None
    except withdrawals.SelfApprovalError:
        raise complaint("Whoever asked for a withdrawal cannot decide about it.") from None


def switch(
    company: str | None, *, is_paused: bool, reason: str, by: str | None, data: Path | None
) -> None:
    """Stop withdrawals or let them go on, of one company or of all."""

    async def run(database: Database, _settings: Settings) -> None:
        company_id = None
        if company is not None:
            company_id = (await companies.get_company(database, company)).company_id
        await withdrawals.pause(
            database,
            company_id,
            is_paused=is_paused,
            decided_by=operator(by),
            reason=reason,
            now=utc_now(),
        )

    with_database(start(data=data), run)


def limit(now: int | None, given: int | None) -> int | None:
    """A limit as it is from now on: as given, none, or as it was."""
    if given is None:
        return now
    return None if given == NO_LIMIT else given


def choice(given: bool | None, *, now: bool) -> bool:  # noqa: FBT001
    """A choice as it is from now on: as given, or as it was."""
    return now if given is None else given


def operator(name: str | None) -> str:
    """Who decides, as the log of decisions names them: never an API key."""
    return f"operator:{name or getpass.getuser()}"


def cents(limit: int | None) -> str:
    """A limit in words."""
    return "any amount" if limit is None else f"{limit} cents"
