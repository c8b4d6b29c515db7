"""Empresa: who the company is to the tax office and to its buyers."""

from dataclasses import replace
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.brazil.documents import format_document, normalise_cnpj, normalise_cpf
from vintem.brazil.phone import normalise_phone
from vintem.companies import service as companies
from vintem.companies.model import Company, Storefront
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.visit import Visit
from vintem.kit.clock import BUSINESS_ZONE_NAME
from vintem.kit.urls import UrlFault, parse_web_url
from vintem.members.model import Permission, email_of
from vintem.runtime.db import Connection
from vintem.trail import service as trail


class CompanyForm(Form, frozen=True):
    """What is typed about the company."""

    legal_name: str = ""
    document: str = ""
    display_name: str = ""
    support_email: str = ""
    support_url: str = ""
    support_phone: str = ""


async def show_company(visit: Visit) -> Answer:
    """Show who the company is."""
    company, storefront = await _read(visit, visit.resources.database)
    return _page(visit, _typed(company, storefront), {})


async def save_company(visit: Visit) -> Answer:
    """Change who the company is."""
    typed = await visit.form(CompanyForm)
    errors = _errors(typed)
    if errors:
        return _page(visit, typed, errors)

    async def save(block: Connection) -> None:
        company = await companies.lock_company(block, visit.member.company_public_id)
        storefront = await companies.get_storefront(block, company.company_id)
        changed = replace(
            storefront,
            display_name=typed.display_name or None,
            support_email=email_of(typed.support_email),
            support_url=typed.support_url or None,
            support_phone=normalise_phone(typed.support_phone),
        )
        document = _document(typed.document)
        if document is not None:
            await companies.set_identity(
                block, company.public_id, document=document, legal_name=typed.legal_name or None
            )
        await companies.set_storefront(block, company.company_id, changed)
        act = visit.act(
            "company.changed",
            "company",
            company.public_id,
            before=_kept(company.legal_name, storefront),
            after=_kept(typed.legal_name or company.legal_name, changed)
            | ({} if document in {None, company.document} else {"document_changed": True}),
        )
        # The company is the same in both environments.
        await trail.record(block, msgspec.structs.replace(act, environment=""))

    await visit.resources.database.atomically(save)
    return go(visit.href("/company", said="company-saved"))


async def _read(visit: Visit, db: Connection) -> tuple[Company, Storefront]:
    company = await companies.get_company(db, visit.member.company_public_id)
    return company, await companies.get_storefront(db, company.company_id)


def _page(visit: Visit, typed: CompanyForm, errors: dict[str, str]) -> Answer:
    return page(
        visit,
        "company.html",
        title="Empresa",
        status=422 if errors else 200,
        form=typed,
        errors=errors,
        zone=BUSINESS_ZONE_NAME,
        name_max=companies.NAME_CHARACTERS_MAX,
    )


def _typed(company: Company, storefront: Storefront) -> CompanyForm:
    return CompanyForm(
        legal_name=company.legal_name or "",
        document="" if company.document is None else format_document(company.document),
        display_name=storefront.display_name or "",
        support_email=storefront.support_email or "",
        support_url=storefront.support_url or "",
        support_phone=storefront.support_phone or "",
    )


def _errors(typed: CompanyForm) -> dict[str, str]:
    errors: dict[str, str] = {}
    if typed.document and _document(typed.document) is None:
        errors["document"] = "O CPF ou CNPJ não confere. Revise os números."
    if typed.legal_name and not typed.document:
        errors["document"] = "Informe o CPF ou CNPJ da razão social."
    for name in ("legal_name", "display_name"):
        if len(getattr(typed, name)) > companies.NAME_CHARACTERS_MAX:
            errors[name] = f"Use até {companies.NAME_CHARACTERS_MAX} caracteres."
    if typed.support_email and email_of(typed.support_email) is None:
        errors["support_email"] = "O e-mail não parece certo."
    if typed.support_url and isinstance(
        parse_web_url(typed.support_url, allows_loopback=False), UrlFault
    ):
        errors["support_url"] = "O endereço deve começar com https:// e ter um domínio público."
    if typed.support_phone and normalise_phone(typed.support_phone) is None:
        errors["support_phone"] = "O telefone não é um número brasileiro com DDD."
    return errors


def _document(text: str) -> str | None:
    return normalise_cpf(text) or normalise_cnpj(text.upper())


def _kept(legal_name: str | None, storefront: Storefront) -> dict[str, object]:
    return {
        "legal_name": legal_name,
        "display_name": storefront.display_name,
        "support_email": storefront.support_email,
        "support_url": storefront.support_url,
        "support_phone": storefront.support_phone,
    }


PAGES: Final[tuple[Page, ...]] = (
    shown("/company", show_company, Permission.COMPANY_READ, "Empresa"),
    sent("/company", save_company, Permission.COMPANY, "Salvar a empresa"),
)
