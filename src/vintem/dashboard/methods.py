"""Métodos e parcelas: how buyers may pay on the hosted page, and what installments cost them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.brazil.cards import INSTALLMENTS_MAX, MONTHLY_RATE_BASIS_POINTS_MAX
from vintem.brazil.installments import (
    INSTALLMENT_CENTS_MIN,
    CardInterest,
    InstallmentOption,
    installment_table,
)
from vintem.checkout.model import PIX_LIFETIME
from vintem.companies import service as companies
from vintem.companies.model import Storefront
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.typed import cents_of, percent_of, typed_percent, whole_of
from vintem.dashboard.visit import Visit
from vintem.kit.money import AMOUNT_CENTS_MAX, AMOUNT_CENTS_MIN
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail

METHODS: Final = ("pix", "credit_card", "boleto")
BOLETO_DUE_DAYS_MAX: Final = 60
SHOWN_AMOUNT: Final = "100,00"
PREVIEW: Final = "preview"


class MethodsForm(Form, frozen=True):
    """What is typed about ways to pay; a method that is not ticked is empty."""

    pix: str = ""
    credit_card: str = ""
    boleto: str = ""
    boleto_due_days: str = ""
    installments_max: str = ""
    free_installments: str = ""
    monthly_rate: str = ""
    amount: str = SHOWN_AMOUNT
    do: str = ""


async def show_methods(visit: Visit) -> Answer:
    """Show how buyers may pay."""
    storefront, interest = await _read(visit, visit.resources.database)
    return _page(visit, _typed(storefront, interest), {})


async def save_methods(visit: Visit) -> Answer:
    """Change how buyers may pay, or only show what a table would be."""
    typed = await visit.form(MethodsForm)
    read = _read_form(typed)
    if isinstance(read, dict):
        return _page(visit, typed, read)
    if typed.do == PREVIEW:
        return _page(visit, typed, {}, is_preview=True)
    methods, due_days, interest = read

    async def save(block: Connection) -> None:
        company = await companies.lock_company(block, visit.member.company_public_id)
        storefront, old_interest = await _read(visit, block)
        changed = replace(storefront, payment_methods=methods, boleto_due_days=due_days)
        await companies.set_storefront(block, company.company_id, changed)
        await companies.set_card_interest(block, company.public_id, interest)
        act = visit.act(
            "methods.changed",
            "company",
            company.public_id,
            before=_kept(storefront, old_interest),
            after=_kept(changed, interest),
        )
        # How buyers pay is the same in both environments.
        await trail.record(block, msgspec.structs.replace(act, environment=""))

    await visit.resources.database.atomically(save)
    return go(visit.href("/methods", said="methods-saved"))


async def _read(visit: Visit, db: Connection) -> tuple[Storefront, CardInterest]:
    company_id = visit.scope.company_id
    payee = await companies.find_payee(db, company_id, visit.environment)
    return await companies.get_storefront(db, company_id), payee.terms.card_interest


def _page(
    visit: Visit, typed: MethodsForm, errors: dict[str, str], *, is_preview: bool = False
) -> Answer:
    return page(
        visit,
        "methods.html",
        title="Métodos e parcelas",
        status=422 if errors else 200,
        form=typed,
        errors=errors,
        is_preview=is_preview,
        amount=cents_of(typed.amount),
        table=_table(typed),
        counts=[(str(count), f"{count}x") for count in range(1, INSTALLMENTS_MAX + 1)],
        installment_cents_min=INSTALLMENT_CENTS_MIN,
        pix_minutes=int(PIX_LIFETIME.total_seconds()) // 60,
    )


def _table(typed: MethodsForm) -> Sequence[InstallmentOption]:
    """Work out what a buyer would choose from; nothing where the fields do not say it."""
    interest, amount = _interest(typed), _amount(typed)
    if amount is None or not isinstance(interest, CardInterest) or not typed.credit_card:
        return ()
    return installment_table(amount, interest)


def _amount(typed: MethodsForm) -> int | None:
    amount = cents_of(typed.amount)
    return amount if amount is not None and AMOUNT_CENTS_MIN <= amount <= AMOUNT_CENTS_MAX else None


def _typed(storefront: Storefront, interest: CardInterest) -> MethodsForm:
    ticked = {method: "1" for method in METHODS if method in storefront.payment_methods}
    return MethodsForm(
        **ticked,
        boleto_due_days=str(storefront.boleto_due_days),
        installments_max=str(interest.installments_max),
        free_installments=str(interest.free_installments),
        monthly_rate=typed_percent(interest.monthly_rate_basis_points),
    )


def _read_form(typed: MethodsForm) -> tuple[list[str], int, CardInterest] | dict[str, str]:
    """Read what was typed, or say what is wrong with it."""
    methods = [method for method in METHODS if getattr(typed, method)]
    due_days = whole_of(typed.boleto_due_days)
    interest = _interest(typed)
    errors = {} if isinstance(interest, CardInterest) else interest
    if not methods:
        errors["pix"] = "Deixe ao menos um método ligado."
    if due_days is None or not 1 <= due_days <= BOLETO_DUE_DAYS_MAX:
        errors["boleto_due_days"] = f"Use de 1 a {BOLETO_DUE_DAYS_MAX} dias."
    if typed.do == PREVIEW and _amount(typed) is None:
        errors["amount"] = "Escreva um valor a partir de R$ 1,00, como 1.234,56."
    if errors or due_days is None or not isinstance(interest, CardInterest):
        return errors
    return methods, due_days, interest


def _interest(typed: MethodsForm) -> CardInterest | dict[str, str]:
    most, free = whole_of(typed.installments_max), whole_of(typed.free_installments)
    rate = percent_of(typed.monthly_rate)
    errors: dict[str, str] = {}
    if most is None or not 1 <= most <= INSTALLMENTS_MAX:
        errors["installments_max"] = f"Use de 1 a {INSTALLMENTS_MAX} parcelas."
    elif free is None or not 1 <= free <= most:
        errors["free_installments"] = "As parcelas sem juros não passam do máximo de parcelas."
    if rate is None or rate > MONTHLY_RATE_BASIS_POINTS_MAX:
        errors["monthly_rate"] = "Escreva a taxa ao mês em porcentagem, como 2,99."
    if errors or most is None or free is None or rate is None:
        return errors
    return CardInterest(
        monthly_rate_basis_points=rate, free_installments=free, installments_max=most
    )


def _kept(storefront: Storefront, interest: CardInterest) -> dict[str, object]:
    return {
        "payment_methods": list(storefront.payment_methods),
        "boleto_due_days": storefront.boleto_due_days,
        "installments_max": interest.installments_max,
        "free_installments": interest.free_installments,
        "monthly_rate_basis_points": interest.monthly_rate_basis_points,
    }


PAGES: Final[tuple[Page, ...]] = (
    shown("/methods", show_methods, Permission.COMPANY_READ, "Métodos e parcelas"),
    sent("/methods", save_methods, Permission.COMPANY, "Salvar métodos e parcelas"),
)
