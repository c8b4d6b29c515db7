"""The commands about money going out: second persons, the kill switch, what is held to what."""

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
from vintem.companies.model import Company, WithdrawalPolicy, WithdrawalRules
from vintem.company_commands import company_app
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.db import Connection, Database
from vintem.settings import Settings
from vintem.trail import service as trail
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.model import Decision, Entry, Status, Withdrawal
from vintem.withdrawals.record import masked_destination

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
    ) -> tuple[Sequence[Withdrawal], Mapping[int, str], Mapping[tuple[int, str], str]]:
        found = await withdrawals.list_by_status(database, status)
        known = await companies.list_companies(database)
        names = {company.company_id: company.public_id for company in known}
        return found, names, await withdrawals.approval_reasons(database, found)

    found, names, reasons = with_database(start(data=data), find)
    if not found:
        console.print(f"No withdrawal is {status}.")
        return
    table = Table(
        "Withdrawal",
        "Company",
        "Environment",
        "To",
        "Debits (cents)",
        "externalRef",
        "Since (Brasília)",
        "Reason",
    )
    for each in found:
        why = reasons.get((each.company_id, each.withdrawal_id), "–")
        table.add_row(
            each.withdrawal_id,
            names[each.company_id],
            each.environment,
            escape(masked_destination(each)),
            str(each.total_debited),
            escape(each.external_ref or "–"),
            local_time(each.created_at),
            escape(why if each.failure is None else each.failure.reason),
        )
    show(table)


@withdrawal_app.command("show")
def withdrawal_show(withdrawal: WithdrawalId, data: Data = None) -> None:
    """Show a withdrawal, and all that happened to it: statuses, decisions, its provider's words."""

    async def find(
        database: Database, _settings: Settings
    ) -> tuple[Withdrawal, str, Sequence[Entry]]:
        found = await withdrawals.find_anywhere(database, withdrawal)
        known = await companies.list_companies(database)
        [owner] = [each.public_id for each in known if each.company_id == found.company_id]
        return found, owner, await withdrawals.history(database, found)

    try:
        found, owner, entries = with_database(start(data=data), find)
    except Refusal:
        raise complaint(f"{withdrawal} does not exist.") from None
    failure = found.failure
    about = Table(show_header=False)
    for name, value in (
        ("Withdrawal", found.withdrawal_id),
        ("Company", owner),
        ("Environment", found.environment),
        ("Status", found.status),
        ("To", masked_destination(found)),
        ("Recipient gets (cents)", str(found.net_amount)),
        ("Fee (cents)", str(found.fee)),
        ("Debits (cents)", str(found.total_debited)),
        ("externalRef", found.external_ref or "–"),
        ("Asked for by", found.requested_by),
        ("Request to the provider", found.request_id or "–"),
        ("endToEndId or hash", found.end_to_end_id or found.tx_hash or "–"),
        ("Failure", "–" if failure is None else f"{failure.code}: {failure.reason}"),
        ("Looked at next (Brasília)", local_time(found.due_at)),
    ):
        about.add_row(name, escape(value))
    show(about)
    happened = Table("When (Brasília)", "What", "By", "Reason")
    for entry in entries:
        happened.add_row(local_time(entry.at), entry.what, escape(entry.by), escape(entry.note))
    show(happened)


@withdrawal_app.command("rules")
def withdrawal_rules(data: Data = None) -> None:
    """Show what the withdrawals of each company are held to, and which are paused."""

    async def find(
        database: Database, _settings: Settings
    ) -> tuple[Decision | None, Sequence[tuple[Company, WithdrawalPolicy, Decision | None]]]:
        rows = []
        for company in await companies.list_companies(database):
            policy = await companies.withdrawal_policy(database, company.company_id)
            pause = await withdrawals.pause_of(database, company.company_id)
            rows.append((company, policy, pause))
        return await withdrawals.pause_of(database, None), rows

    everybody, rows = with_database(start(data=data), find)
    if everybody is None:
        console.print("Withdrawals are not paused for the whole platform.")
    else:
        console.print(
            f"[red]The withdrawals of every company are paused[/]: {words_of(everybody)}",
            soft_wrap=True,
        )
    table = Table(
        "Company",
        "At most (cents)",
        "A day (cents)",
        "Second person above (cents)",
        "for new destinations",
        "for crypto",
        "Paused",
    )
    for company, policy, pause in rows:
        rules = policy.rules
        table.add_row(
            company.public_id,
            *(
                "any" if each is None else str(each)
                for each in (rules.cents_max, rules.daily_cents_max, rules.automatic_cents_max)
            ),
            "yes" if rules.approves_new_destinations else "no",
            "yes" if rules.approves_crypto else "no",
            pause_words(company, policy, pause),
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

        async def witness(block: Connection) -> None:
            act = operator_act(company_id, "withdrawal_rules.changed", "company", company, by=by)
            told = msgspec.structs.replace(act, before=asdict(rules), after=asdict(changed))
            await trail.record(block, told)

        await withdrawals.set_rules(
            database,
            company_id,
            changed,
            decided_by=operator(by),
            now=utc_now(),
            witness=witness,
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


def pause_words(company: Company, policy: WithdrawalPolicy, pause: Decision | None) -> str:
    """Say whether a company's withdrawals are paused, and by whom."""
    if pause is not None:
        return words_of(pause)
    if company.is_suspended:
        return "the company is suspended"
    return "with every company's" if policy.is_paused else "no"


def words_of(pause: Decision) -> str:
    """Who paused withdrawals, when and why."""
    return escape(f"{local_time(pause.at)} Brasília, {pause.decided_by}: {pause.reason}")


def decide(
    withdrawal_id: str, *, is_approved: bool, reason: str, by: str | None, data: Path | None
) -> None:
    """Approve or reject, or say why that cannot be."""

    async def run(database: Database, _settings: Settings) -> Withdrawal:
        verb = withdrawals.approve if is_approved else withdrawals.reject
        return await verb(
            database,
            withdrawal_id,
            decided_by=operator(by),
            reason=reason,
            now=utc_now(),
            witness=witness,
        )

    async def witness(block: Connection, decided: Withdrawal) -> None:
        action = "withdrawal.approved" if is_approved else "withdrawal.rejected"
        act = operator_act(decided.company_id, action, "withdrawal", withdrawal_id, by=by)
        told = msgspec.structs.replace(
            act,
            environment=decided.environment,
            before={"status": Status.PENDING_APPROVAL},
            after={"status": decided.status, "amount": decided.amount},
            reason=reason,
        )
        await trail.record(block, told)

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
        known = None if company is None else await companies.get_company(database, company)

        async def witness(block: Connection) -> None:
            # The switch of all companies is nobody's in particular: the log of decisions has it.
            if known is not None:
                action = f"withdrawal_rules.{'paused' if is_paused else 'resumed'}"
                act = operator_act(known.company_id, action, "company", known.public_id, by=by)
                await trail.record(block, msgspec.structs.replace(act, reason=reason))

        await withdrawals.pause(
            database,
            None if known is None else known.company_id,
            is_paused=is_paused,
            decided_by=operator(by),
            reason=reason,
            now=utc_now(),
            witness=witness,
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
