"""The commands about companies: what they are called, how much they may, what they pay."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markup import escape
from rich.table import Table

from vintem.brazil.cards import INSTALLMENTS_MAX, MONTHLY_RATE_BASIS_POINTS_MAX
from vintem.brazil.documents import format_document, normalise_cnpj, normalise_cpf
from vintem.brazil.installments import CardInterest, installment_table
from vintem.command_line import (
    CompanyId,
    Data,
    complaint,
    complaints,
    console,
    local_time,
    noting,
    operator_act,
    password_link,
    show,
    start,
    with_database,
)
from vintem.companies import service as companies
from vintem.companies.model import (
    LIMIT_MAX,
    Company,
    Environment,
    Fee,
    ImplicitProtection,
    Method,
    TermsChange,
)
from vintem.kit.clock import utc_now
from vintem.launch import require_pepper
from vintem.members import team
from vintem.members.model import email_of
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.trail import service as trail
from vintem.webhooks import service as webhooks

FIXED_CENTS_MAX: Final = 9_999_999_999
DAYS_MAX: Final = 365
SHOWN_TOTAL_CENTS: Final = 10_000

LimitOption = Annotated[int | None, typer.Option(min=1, max=LIMIT_MAX)]
ReleaseDaysOption = Annotated[
    int | None, typer.Option(min=0, max=DAYS_MAX, help="Days until the money is available.")
]

DocumentOption = Annotated[
    str | None, typer.Option(help="Its CPF or CNPJ, with or without the mask.")
]
LegalNameOption = Annotated[str | None, typer.Option(help="Its registered name.")]

company_app: Final = typer.Typer(help="Companies and their limits.", no_args_is_help=True)


@company_app.command("create")
def company_create(
    name: Annotated[str, typer.Argument(help="The company's name.")],
    document: DocumentOption = None,
    legal_name: LegalNameOption = None,
    owner_email: Annotated[
        str | None, typer.Option(help="Who owns it, and signs in to its dashboard.")
    ] = None,
    owner_name: Annotated[str | None, typer.Option(help="The owner's name.")] = None,
    data: Data = None,
) -> None:
    """Add a company and print its id; with an owner, also a link to choose the password."""
    number = None if document is None else read_document(document)
    for each in (name, legal_name, owner_name):
        check_name(each)
    email = None if owner_email is None else read_email(owner_email)

    async def create(database: Database, settings: Settings) -> tuple[Company, str | None]:
        now = utc_now()
        async with database.atomic() as block:
            company = await companies.create_company(
                block, name, document=number, legal_name=legal_name, now=now
            )
            if email is None:
                return company, None
            token = await team.make_owner(
                block, company.company_id, email=email, name=owner_name or email, now=now
            )
            act = operator_act(company.company_id, "owner.named", "company", company.public_id)
            await trail.record(block, act)
        return company, None if token is None else password_link(settings, token)

    company, link = with_database(start(data=data), create)
    console.print(company.public_id)
    if link is not None:
        console.print(link, soft_wrap=True, markup=False)
    elif email is not None:
        complaints.print(f"{escape(email)} signs in already, and owns this company too.")


@company_app.command("set-document")
def company_set_document(
    company: CompanyId,
    document: Annotated[str, typer.Argument(help="Its CPF or CNPJ, with or without the mask.")],
    legal_name: LegalNameOption = None,
    data: Data = None,
) -> None:
    """Say who a company is to the tax office; its boletos show it."""
    number = read_document(document)
    check_name(legal_name)
    with_database(
        start(data=data),
        lambda database, _: noting(
            database,
            company,
            "company.changed",
            lambda block: companies.set_identity(
                block, company, document=number, legal_name=legal_name
            ),
            {"document_changed": True, "legal_name": legal_name},
        ),
    )
    console.print(f"{company}: the document is {format_document(number)}")


def read_document(text: str) -> str:
    """Read a CPF or CNPJ, or complain."""
    number = normalise_cpf(text) or normalise_cnpj(text)
    if number is None:
        raise complaint("The document is no CPF or CNPJ: its form or its check digits are wrong.")
    return number


def read_email(text: str) -> str:
    """Read an e-mail, or complain."""
    email = email_of(text)
    if email is None:
        raise complaint(f"{text!r} is no e-mail.")
    return email


def check_name(name: str | None) -> None:
    """Complain of a name that cannot be kept."""
    if name is not None and not 1 <= len(name) <= companies.NAME_CHARACTERS_MAX:
        raise complaint(f"A name has 1 to {companies.NAME_CHARACTERS_MAX} characters.")


@company_app.command("list")
def company_list(data: Data = None) -> None:
    """List the companies."""
    found = with_database(start(data=data), lambda database, _: companies.list_companies(database))
    table = Table(
        "Company",
        "Name",
        "Document",
        "Status",
        "Tx/s",
        "Withdrawals/min",
        "Requests/min",
        "Since (Brasília)",
    )
    for company in found:
        limits = company.limits
        table.add_row(
            company.public_id,
            escape(company.name),
            "–" if company.document is None else format_document(company.document),
            "[red]suspended[/]" if company.is_suspended else "active",
            str(limits.transactions_per_second),
            str(limits.withdrawals_per_minute),
            str(limits.requests_per_minute),
            local_time(company.created_at),
        )
    show(table)


@company_app.command("set-limits")
def company_set_limits(
    company: CompanyId,
    transactions_per_second: LimitOption = None,
    withdrawals_per_minute: LimitOption = None,
    requests_per_minute: LimitOption = None,
    data: Data = None,
) -> None:
    """Change how often a company's keys may call; running processes follow within 5 s."""
    given = {
        "transactions_per_second": transactions_per_second,
        "withdrawals_per_minute": withdrawals_per_minute,
        "requests_per_minute": requests_per_minute,
    }
    limits = with_database(
        start(data=data),
        lambda database, _: noting(
            database,
            company,
            "limits.changed",
            lambda block: companies.set_limits(block, company, **given),
            given,
        ),
    ).limits
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
        lambda database, _: noting(
            database,
            company,
            "company.suspended" if is_suspended else "company.resumed",
            lambda block: companies.set_suspended(block, company, is_suspended=is_suspended),
            {},
        ),
    )
    console.print(f"{company} is {'suspended' if is_suspended else 'active'}")


@company_app.command("set-fee")
def company_set_fee(
    company: CompanyId,
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
        start(data=data),
        lambda database, _: noting(
            database,
            company,
            "fees.changed",
            lambda block: companies.set_fee(block, company, fee),
            asdict(fee),
        ),
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


@company_app.command("set-terms")
def company_set_terms(
    company: CompanyId,
    pix_release_days: ReleaseDaysOption = None,
    boleto_release_days: ReleaseDaysOption = None,
    card_release_days: ReleaseDaysOption = None,
    reserve_basis_points: Annotated[
        int | None,
        typer.Option(min=0, max=10_000, help="Hundredths of a percent of each payment."),
    ] = None,
    reserve_days: Annotated[
        int | None, typer.Option(min=1, max=DAYS_MAX, help="How long that part is held.")
    ] = None,
    dispute_fee_cents: Annotated[
        int | None, typer.Option(min=0, max=FIXED_CENTS_MAX, help="Cents for a lost dispute.")
    ] = None,
    data: Data = None,
) -> None:
    """Set when a company's money is free and what is held back, for payments to come."""
    change = TermsChange(
        pix_release_days=pix_release_days,
        boleto_release_days=boleto_release_days,
        card_release_days=card_release_days,
        reserve_basis_points=reserve_basis_points,
        reserve_days=reserve_days,
        dispute_fee_cents=dispute_fee_cents,
    )
    terms = with_database(
        start(data=data),
        lambda database, _: noting(
            database,
            company,
            "terms.changed",
            lambda block: companies.set_terms(block, company, change),
            {name: value for name, value in asdict(change).items() if value is not None},
        ),
    )
    table = Table("Agreed", "")
    table.add_row("PIX is free after (days)", str(terms.pix_release_days))
    table.add_row("Boleto is free after (business days)", str(terms.boleto_release_days))
    table.add_row("Each card installment is free after (days)", str(terms.card_release_days))
    table.add_row("Held in reserve (basis points)", str(terms.reserve_basis_points))
    table.add_row("Reserve is held for (days)", str(terms.reserve_days))
    table.add_row("A lost dispute costs (cents)", str(terms.dispute_fee_cents))
    show(table)


@company_app.command("set-interest")
def company_set_interest(
    company: CompanyId,
    monthly_basis_points: Annotated[
        int,
        typer.Option(
            min=0, max=MONTHLY_RATE_BASIS_POINTS_MAX, help="Hundredths of a percent a month."
        ),
    ],
    free_installments: Annotated[
        int, typer.Option(min=1, max=INSTALLMENTS_MAX, help="Up to so many cost nothing.")
    ] = 1,
    installments_max: Annotated[
        int, typer.Option(min=1, max=INSTALLMENTS_MAX, help="No more are offered.")
    ] = INSTALLMENTS_MAX,
    data: Data = None,
) -> None:
    """Set what buyers pay for installments on the hosted page, and show it for R$ 100,00."""
    if free_installments > installments_max:
        raise complaint("--free-installments must not be above --installments-max.")
    interest = CardInterest(
        monthly_rate_basis_points=monthly_basis_points,
        free_installments=free_installments,
        installments_max=installments_max,
    )
    with_database(
        start(data=data),
        lambda database, _: noting(
            database,
            company,
            "methods.changed",
            lambda block: companies.set_card_interest(block, company, interest),
            asdict(interest),
        ),
    )
    table = Table("Installments", "Each (cents)", "Total (cents)", "CET (basis points a year)")
    for option in installment_table(SHOWN_TOTAL_CENTS, interest):
        table.add_row(
            str(option.installments),
            str(option.amounts[0]),
            str(option.total_cents),
            str(option.annual_cost_basis_points),
        )
    show(table)


@company_app.command("set-protection")
def company_set_protection(
    company: CompanyId,
    mode: Annotated[
        ImplicitProtection, typer.Option(help="off, observe (count and log), or enforce.")
    ],
    data: Data = None,
) -> None:
    """Decide what happens to a request that is repeated within moments without a key."""
    with_database(
        start(data=data),
        lambda database, _: noting(
            database,
            company,
            "company.changed",
            lambda block: companies.set_implicit_protection(block, company, mode),
            {"implicit_protection": mode},
        ),
    )
    console.print(f"{company}: implicit protection is {mode}")


@company_app.command("postback-secret")
def company_postback_secret(
    company: CompanyId,
    environment: Annotated[Environment, typer.Option(help="live or test.")],
    *,
    is_rotated: Annotated[
        bool, typer.Option("--rotate", help="Make a new one; the old one signs for 24 h more.")
    ] = False,
    data: Data = None,
) -> None:
    """Print what calls to the postbackUrl of a company's records are signed with."""

    async def read(database: Database, settings: Settings) -> str:
        require_pepper(settings)
        sealer = Sealer(settings.pepper.encode())
        found = await companies.get_company(database, company)
        place = webhooks.Place(found.company_id, environment)
        if is_rotated:
            await webhooks.rotate_postback_secret(database, sealer, place, now=utc_now())
        kept = await webhooks.postback_secrets(database, sealer, place)
        return webhooks.open_secret(sealer, kept.sealed)

    console.print(with_database(start(data=data), read), soft_wrap=True, markup=False)
