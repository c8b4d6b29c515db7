"""Domínios: the hosts that buyers may be sent back to, and whose pages may call the checkout."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.companies import service as companies
from vintem.companies.model import DOMAINS_MAX, domain_of
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail

Change = Callable[[Sequence[str]], Sequence[str] | str]
"""From the domains as they are to what they shall be, or to a sentence that says why not."""


class DomainForm(Form, frozen=True):
    """A domain as it is typed."""

    domain: str = ""


class Asked(msgspec.Struct, frozen=True):
    """Which domain."""

    domain: str = ""


async def show_domains(visit: Visit) -> Answer:
    """List the domains."""
    return await _page(visit, DomainForm(), {})


async def add_domain(visit: Visit) -> Answer:
    """Add a domain."""
    typed = await visit.form(DomainForm)
    domain = domain_of(typed.domain)
    if domain is None:
        why = "Escreva só o domínio, como loja.com.br ou *.loja.com.br, sem caminho."
        return await _page(visit, typed, {"domain": why})

    def add(domains: Sequence[str]) -> Sequence[str] | str:
        if domain in domains:
            return "Este domínio já está na lista."
        if len(domains) >= DOMAINS_MAX:
            return f"A lista tem {DOMAINS_MAX} domínios, que é o máximo."
        return [*domains, domain]

    why_not = await _change(visit, "domain.added", domain, add)
    if why_not:
        return await _page(visit, typed, {"domain": why_not})
    return go(visit.href("/domains", said="domain-added"))


async def ask_removal(visit: Visit) -> Answer:
    """Ask whether a domain shall really go."""
    domain = visit.asked(Asked).domain
    storefront = await companies.get_storefront(visit.resources.database, visit.scope.company_id)
    if domain not in storefront.domains:
        raise Refusal(ErrorCode.NOT_FOUND)
    return page(
        visit,
        "domain_removal.html",
        title="Remover domínio",
        domain=domain,
        is_last=len(storefront.domains) == 1,
    )


async def remove_domain(visit: Visit) -> Answer:
    """Remove a domain."""
    domain = (await visit.form(DomainForm)).domain

    def remove(domains: Sequence[str]) -> Sequence[str]:
        if domain not in domains:
            raise Refusal(ErrorCode.NOT_FOUND)
        return [one for one in domains if one != domain]

    await _change(visit, "domain.removed", domain, remove)
    return go(visit.href("/domains", said="domain-removed"))


async def _change(visit: Visit, action: str, domain: str, change: Change) -> str:
    """Change the list and write it into the trail; gives the sentence that says why not."""

    async def apply(block: Connection) -> str:
        company = await companies.lock_company(block, visit.member.company_public_id)
        storefront = await companies.get_storefront(block, company.company_id)
        changed = change(storefront.domains)
        if isinstance(changed, str):
            return changed
        await companies.set_storefront(
            block, company.company_id, replace(storefront, domains=changed)
        )
        act = visit.act(
            action,
            "domain",
            domain,
            before={"domains": list(storefront.domains)},
            after={"domains": list(changed)},
        )
        await trail.record(block, msgspec.structs.replace(act, environment=""))
        return ""

    return await visit.resources.database.atomically(apply)


async def _page(visit: Visit, typed: DomainForm, errors: dict[str, str]) -> Answer:
    storefront = await companies.get_storefront(visit.resources.database, visit.scope.company_id)
    return page(
        visit,
        "domains.html",
        title="Domínios",
        status=422 if errors else 200,
        domains=storefront.domains,
        form=typed,
        errors=errors,
    )


PAGES: Final[tuple[Page, ...]] = (
    shown("/domains", show_domains, Permission.COMPANY_READ, "Domínios"),
    sent("/domains", add_domain, Permission.COMPANY, "Incluir um domínio"),
    shown("/domains/remove", ask_removal, Permission.COMPANY, "Remover um domínio?"),
    sent("/domains/remove", remove_domain, Permission.COMPANY, "Remover um domínio"),
)
