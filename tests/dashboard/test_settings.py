"""Empresa, Limites, Métodos e parcelas, Domínios: who sees them, who changes them, what is kept."""

import asyncio
import re

import msgspec
import pytest

from support.api import Api, Tenant, complaints
from support.team import Browser, sign_in
from vintem.brazil.installments import CardInterest
from vintem.companies import service as companies
from vintem.companies.model import Storefront, domain_of
from vintem.members.model import Role
from vintem.runtime.db import Database
from vintem.trail import service as trail
from vintem.trail.model import ActFilter, Link

TEST = "/dashboard/test"
PAGES = ("company", "limits", "methods", "domains")
COMPANY = {
    "legal_name": "Padaria São João Ltda",
    "document": "11.222.333/0001-81",
    "display_name": "Padaria <b>",
    "support_email": "ajuda@padaria.example",
    "support_url": "https://padaria.com.br/ajuda",
    "support_phone": "(11) 98765-4321",
}
METHODS = {
    "pix": "1",
    "credit_card": "1",
    "boleto_due_days": "5",
    "installments_max": "6",
    "free_installments": "2",
    "monthly_rate": "2,99",
    "amount": "100,00",
    "do": "save",
}


@pytest.fixture
async def owner(api: Api, database: Database, tenant: Tenant) -> Browser:
    return await sign_in(api, database, tenant, Role.OWNER)


async def storefront_of(database: Database, tenant: Tenant) -> Storefront:
    return await companies.get_storefront(database, tenant.company.company_id)


async def interest_of(database: Database, tenant: Tenant) -> CardInterest:
    payee = await companies.find_payee(database, tenant.company.company_id, "live")
    return payee.terms.card_interest


async def acts_of(database: Database, tenant: Tenant, action: str) -> list[Link]:
    """What the trail knows, in either environment, of an action of a company."""
    return list(
        await trail.list_older(
            database,
            tenant.company.company_id,
            ActFilter(environment="live", action=action),
            rows_max=20,
        )
    )


async def test_who_sees_the_settings_and_who_may_change_them(
    api: Api, database: Database, tenant: Tenant
) -> None:
    seen, forms = {}, {}
    for role in Role:
        browser = await sign_in(api, database, tenant, role)
        replies = [await browser.get(f"{TEST}/{name}") for name in PAGES]
        seen[role] = [reply.status for reply in replies]
        forms[role] = [b'class="btn primary"' in reply.body for reply in replies]
    assert seen == {role: [403 if role is Role.SUPPORT else 200] * 4 for role in Role}
    assert forms == {
        role: [role in {Role.OWNER, Role.ADMIN} and name != "limits" for name in PAGES]
        for role in Role
    }


@pytest.mark.parametrize("role", [Role.FINANCE, Role.DEVELOPER, Role.SUPPORT])
async def test_others_change_nothing(
    api: Api, database: Database, tenant: Tenant, role: Role
) -> None:
    browser = await sign_in(api, database, tenant, role)
    before = await storefront_of(database, tenant)
    for path, fields in (
        ("company", COMPANY),
        ("methods", METHODS),
        ("domains", {"domain": "loja.com.br"}),
        ("domains/remove", {"domain": "loja.com.br"}),
    ):
        assert (await browser.post(f"{TEST}/{path}", fields)).status == 403
    assert await storefront_of(database, tenant) == before


async def test_a_form_without_the_token_of_its_page_changes_nothing(
    owner: Browser, database: Database, tenant: Tenant
) -> None:
    reply = await owner.post_raw(f"{TEST}/domains", {"csrf": "0" * 64, "domain": "loja.com.br"})
    assert reply.status == 403
    assert (await storefront_of(database, tenant)).domains == []


async def test_the_company_is_changed_and_the_change_is_written_down(
    owner: Browser, database: Database, tenant: Tenant
) -> None:
    await companies.set_storefront(
        database, tenant.company.company_id, Storefront(domains=["loja.com.br"])
    )
    reply = await owner.post(f"{TEST}/company", COMPANY)
    assert (reply.status, reply.headers["location"]) == (303, f"{TEST}/company?said=company-saved")
    assert await storefront_of(database, tenant) == Storefront(
        display_name="Padaria <b>",
        support_email="ajuda@padaria.example",
        support_url="https://padaria.com.br/ajuda",
        support_phone="+5511987654321",
        domains=["loja.com.br"],
        payment_methods=["pix", "credit_card", "boleto"],
    )
    company = await companies.get_company(database, tenant.company.public_id)
    assert (company.document, company.legal_name) == ("11222333000181", "Padaria São João Ltda")
    page = (await owner.get(f"{TEST}/company?said=company-saved")).body.decode()
    assert "Dados da empresa salvos." in page
    assert 'value="11.222.333/0001-81"' in page
    assert 'value="Padaria &lt;b&gt;"' in page
    [act] = await acts_of(database, tenant, "company.changed")
    after = msgspec.json.decode(act.after)
    assert after["legal_name"] == "Padaria São João Ltda"
    assert after["document_changed"] is True
    assert "11222333000181" not in act.after
    # What is left empty is taken away, but for who the company is.
    await owner.post(f"{TEST}/company", {})
    assert (await storefront_of(database, tenant)).support_email is None
    company = await companies.get_company(database, tenant.company.public_id)
    assert company.document == "11222333000181"
    assert await complaints(database) == {}


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("document", "11.222.333/0001-82"),
        ("document", "123"),
        ("support_email", "ajuda"),
        ("support_email", f"{'a' * 60}@{'b' * 200}.com"),
        ("support_url", "http://padaria.com.br"),
        ("support_url", "javascript:alert(1)"),
        ("support_url", "https://127.0.0.1/"),
        ("support_phone", "123"),
        ("display_name", "x" * 121),
        ("legal_name", "x" * 121),
    ],
)
async def test_a_wrong_field_is_named_and_what_was_typed_stays(
    owner: Browser, database: Database, tenant: Tenant, field: str, text: str
) -> None:
    before = await storefront_of(database, tenant)
    reply = await owner.post(f"{TEST}/company", {**COMPANY, field: text})
    page = reply.body.decode()
    assert reply.status == 422
    assert f'id="e-{field}"' in page
    assert page.count('class="error"') == 1
    assert f'value="{text}"' in page
    assert 'value="ajuda@padaria.example"' in page or field == "support_email"
    assert await storefront_of(database, tenant) == before


async def test_a_registered_name_needs_its_number(owner: Browser) -> None:
    reply = await owner.post(f"{TEST}/company", {"legal_name": "Padaria Ltda"})
    assert reply.status == 422
    assert b'id="e-document"' in reply.body


async def test_ways_to_pay_are_changed_and_the_change_is_written_down(
    owner: Browser, database: Database, tenant: Tenant
) -> None:
    reply = await owner.post(f"{TEST}/methods", METHODS)
    assert (reply.status, reply.headers["location"]) == (303, f"{TEST}/methods?said=methods-saved")
    storefront = await storefront_of(database, tenant)
    assert list(storefront.payment_methods) == ["pix", "credit_card"]
    assert storefront.boleto_due_days == 5
    assert await interest_of(database, tenant) == CardInterest(
        monthly_rate_basis_points=299, free_installments=2, installments_max=6
    )
    [act] = await acts_of(database, tenant, "methods.changed")
    assert msgspec.json.decode(act.before)["payment_methods"] == ["pix", "credit_card", "boleto"]
    assert msgspec.json.decode(act.after)["monthly_rate_basis_points"] == 299
    page = (await owner.get(f"{TEST}/methods")).body.decode()
    assert 'value="2,99"' in page
    assert re.findall(r"<th scope=\"row\" class=\"each\">(\d+)x de", page) == [
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
    ]
    assert page.count("sem juros</td>") == 2
    assert "2,99%" in page


async def test_a_table_is_shown_before_anything_is_saved(
    owner: Browser, database: Database, tenant: Tenant
) -> None:
    before = await interest_of(database, tenant)
    typed = {**METHODS, "installments_max": "3", "amount": "20,00", "do": "preview"}
    page = (await owner.post(f"{TEST}/methods", typed)).body.decode()
    assert "ainda não salvo" in page
    assert re.findall(
        r"<th scope=\"row\" class=\"each\">(\d)x de R\$\s?([\d,]+)", page.replace("\xa0", " ")
    ) == [
        ("1", "20,00"),
        ("2", "10,00"),
        ("3", "7,07"),
    ]
    assert await interest_of(database, tenant) == before
    assert await acts_of(database, tenant, "methods.changed") == []


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("monthly_rate", "muito"),
        ("monthly_rate", "100,01"),
        ("monthly_rate", "-1"),
        ("installments_max", "13"),
        ("installments_max", "0"),
        ("free_installments", "7"),
        ("boleto_due_days", "61"),
        ("boleto_due_days", ""),
    ],
)
async def test_wrong_terms_are_refused(
    owner: Browser, database: Database, tenant: Tenant, field: str, text: str
) -> None:
    before = await interest_of(database, tenant)
    reply = await owner.post(f"{TEST}/methods", {**METHODS, field: text})
    assert reply.status == 422
    assert f'id="e-{field}"' in reply.body.decode()
    assert await interest_of(database, tenant) == before


async def test_one_way_to_pay_is_left(owner: Browser) -> None:
    none = {name: text for name, text in METHODS.items() if name not in {"pix", "credit_card"}}
    reply = await owner.post(f"{TEST}/methods", none)
    assert reply.status == 422
    assert "Deixe ao menos um método ligado." in reply.body.decode()


async def test_domains_are_added_and_removed_after_a_question(
    owner: Browser, database: Database, tenant: Tenant
) -> None:
    for typed in ("https://Loja.com.br/", "*.loja.com.br", "localhost:3000"):
        reply = await owner.post(f"{TEST}/domains", {"domain": typed})
        assert reply.headers["location"] == f"{TEST}/domains?said=domain-added"
    kept = ["loja.com.br", "*.loja.com.br", "localhost:3000"]
    assert (await storefront_of(database, tenant)).domains == kept
    again = await owner.post(f"{TEST}/domains", {"domain": "LOJA.com.br"})
    assert again.status == 422
    question = await owner.get(f"{TEST}/domains/remove?domain=*.loja.com.br")
    assert b"Remover *.loja.com.br?" in question.body
    assert (await storefront_of(database, tenant)).domains == kept
    gone = await owner.post(f"{TEST}/domains/remove", {"domain": "*.loja.com.br"})
    assert gone.headers["location"] == f"{TEST}/domains?said=domain-removed"
    assert (await storefront_of(database, tenant)).domains == ["loja.com.br", "localhost:3000"]
    for path in ("domains/remove?domain=other.com.br",):
        assert (await owner.get(f"{TEST}/{path}")).status == 404
    assert (await owner.post(f"{TEST}/domains/remove", {"domain": "x.com.br"})).status == 404
    assert len(await acts_of(database, tenant, "domain.added")) == 3
    [act] = await acts_of(database, tenant, "domain.removed")
    assert (act.target_id, act.environment) == ("*.loja.com.br", "")
    assert await complaints(database) == {}


async def test_no_more_domains_than_there_is_room_for(
    owner: Browser, database: Database, tenant: Tenant
) -> None:
    full = [f"loja{number}.com.br" for number in range(50)]
    await companies.set_storefront(database, tenant.company.company_id, Storefront(domains=full))
    assert (await owner.post(f"{TEST}/domains", {"domain": "mais.com.br"})).status == 422
    assert (await storefront_of(database, tenant)).domains == full


async def test_two_who_change_at_once_lose_nothing(
    owner: Browser, api: Api, database: Database, tenant: Tenant
) -> None:
    admin = await sign_in(api, database, tenant, Role.ADMIN)
    await asyncio.gather(
        *(
            browser.post(f"{TEST}/domains", {"domain": f"loja{number}{place}.com.br"})
            for number in range(4)
            for place, browser in enumerate((owner, admin))
        )
    )
    assert len((await storefront_of(database, tenant)).domains) == 8
    assert await complaints(database) == {}


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("loja.com.br", "loja.com.br"),
        (" LOJA.com.br ", "loja.com.br"),
        ("https://loja.com.br/", "loja.com.br"),
        ("loja.com.br:8443", "loja.com.br:8443"),
        ("*.loja.com.br", "*.loja.com.br"),
        ("*.loja.com", "*.loja.com"),
        ("ação.com.br", "xn--ao-siap.com.br"),
        ("localhost:3000", "localhost:3000"),
        ("127.0.0.1:3000", "127.0.0.1:3000"),
        ("*", None),
        ("*.", None),
        ("*.com", None),
        ("*.com.br", None),
        ("*.*.loja.com.br", None),
        ("loja.*.br", None),
        ("*.localhost", None),
        ("http://loja.com.br", None),
        ("https://loja.com.br/x", None),
        ("loja.com.br?x", None),
        ("loja.com.br#x", None),
        ("a@loja.com.br", None),
        ("loja.com.br:0", None),
        ("loja.com.br:x", None),
        ("loja", None),
        ("10.0.0.1", None),
        ("", None),
    ],
)
def test_a_domain_is_a_host_and_nothing_more(text: str, domain: str | None) -> None:
    assert domain_of(text) == domain


async def test_limits_show_what_is_used_now(
    owner: Browser, api: Api, database: Database, tenant: Tenant
) -> None:
    await companies.set_limits(
        database, tenant.company.public_id, withdrawals_per_minute=77, requests_per_minute=90
    )
    for _ in range(3):
        await api.get("/v1/balance", key=tenant.sk_test)
    page = (await owner.get(f"{TEST}/limits")).body.decode()
    assert "77 por minuto" in page
    assert "3 de 90" in page
    assert tenant.company.public_id in page
    assert tenant.sk_test[-4:] in page
    assert tenant.sk_live[-4:] not in page
    live = (await owner.get("/dashboard/live/limits")).body.decode()
    assert "3 de 90" not in live
