"""What somebody with bad intentions tries, and what a stolen or mistaken right must not give."""

import asyncio

import pytest

from support.api import Api, new_shop
from support.storefront import new_storefront
from support.team import PASSWORD, sign_in
from support.treasury import Team, enrol, new_team, text_of
from vintem.checkout import catalogue
from vintem.companies import service as companies
from vintem.companies.model import WithdrawalRules
from vintem.dashboard.masks import REVEALS_PER_MINUTE
from vintem.dashboard.page import DENIALS_PER_MINUTE
from vintem.dashboard.trail import VERIFICATIONS_PER_MINUTE
from vintem.kit.clock import utc_now
from vintem.kit.ids import new_token
from vintem.kit.paging import Cursor
from vintem.ledger.model import Scope
from vintem.members.model import Role
from vintem.runtime.db import Database

TEST = "/dashboard/test"
AT_ONCE = 10


@pytest.fixture
async def team(api: Api, database: Database) -> Team:
    """A company with R$ 20.000,00, its owner and somebody of finance."""
    return await new_team(api, database, funds=2_000_000)


async def test_nobody_approves_what_a_key_asked_for_that_they_made(team: Team) -> None:
    await team.till.rule(automatic_cents_max=0)
    shown = await team.owner.post(f"{TEST}/keys/secret/new", {"label": "minha"})
    assert shown.status == 303
    keys_page = text_of(await team.owner.get(f"{TEST}/keys"))
    key = "sk_test_" + keys_page.partition("sk_test_")[2][:38]
    assert "por Pessoa owner" in keys_page
    body = {
        "method": "pix",
        "amount": 1_000,
        "pixKey": "cliente@example.com",
        "pixKeyType": "email",
    }
    asked = await team.till.api.post("/v1/withdrawals", key=key, json=body)
    withdrawal_id = asked.data["id"]
    path = f"{TEST}/approvals/{withdrawal_id}"
    page = text_of(await team.owner.get(path))
    assert "por uma chave de API que você criou" in page
    assert f"{path}/approve" not in page
    codes = await enrol(team, team.owner)
    for verb in ("approve", "reject"):
        refused = await team.owner.post(f"{path}/{verb}", {"code": codes[0], "reason": "eu"})
        assert refused.status == 403
    admin = await team.join(Role.ADMIN)
    approved = await admin.post(f"{path}/approve", {"code": (await enrol(team, admin))[0]})
    assert approved.status == 303
    await team.till.check()


async def test_rules_are_loosened_by_who_knows_the_password_of_the_browser(team: Team) -> None:
    await team.till.rule(automatic_cents_max=0)
    path = f"{TEST}/withdrawals/rules"
    looser = {"automatic_cents_max": "900,00"}
    confirmed = text_of(await team.owner.post(f"{path}/confirm", looser))
    assert 'name="current"' in confirmed
    for fields in ({}, {"approves_crypto": "1"}, {"automatic_cents_max": "0,01"}, looser):
        reply = await team.owner.post(path, {**fields, "current": "outra senha qualquer"})
        assert reply.status == 422, fields
        assert 'id="e-current"' in text_of(reply)
    policy = await companies.withdrawal_policy(team.till.database, team.till.company_id)
    assert policy.rules == WithdrawalRules(automatic_cents_max=0)
    stricter = {"automatic_cents_max": "0,00", "approves_crypto": "1"}
    assert (await team.owner.post(path, stricter)).status == 303
    assert (await team.owner.post(path, {**looser, "current": PASSWORD})).status == 303


async def test_money_does_not_leave_a_suspended_company_by_a_form(
    api: Api, database: Database
) -> None:
    shop = await new_shop(api, database)
    owner = await sign_in(api, database, shop.tenant, Role.OWNER)
    paid = await shop.paid(10_000)
    asked = {"amount": "100,00", "key": "refund-1"}
    await companies.set_suspended(database, shop.tenant.company.public_id, is_suspended=True)
    refused = await owner.post(f"{TEST}/transactions/{paid}/refund", asked)
    assert refused.status == 403
    assert "suspensa" in text_of(refused)
    assert (await owner.get(f"{TEST}/transactions/{paid}")).status == 200
    assert (await owner.post(f"{TEST}/security/browsers/end-others", {})).status == 303
    await companies.set_suspended(database, shop.tenant.company.public_id, is_suspended=False)
    assert (await owner.post(f"{TEST}/transactions/{paid}/refund", asked)).status == 303


async def test_whoever_sees_masks_does_not_reach_the_page_of_a_boleto(
    api: Api, database: Database
) -> None:
    store = await new_storefront(api, database)
    support = await sign_in(api, database, store.shop.tenant, Role.SUPPORT)
    basket = await store.open()
    boleto = await basket.pay_by_boleto()
    path = f"{TEST}/transactions/{boleto.data['transactionId']}"
    masked = text_of(await support.get(path))
    assert "/v1/boletos/" not in masked
    assert "/v1/boletos/" in text_of(await support.post(f"{path}/reveal", {}))


async def test_a_cursor_of_another_list_asks_for_the_first_customers(
    api: Api, database: Database
) -> None:
    shop = await new_shop(api, database)
    owner = await sign_in(api, database, shop.tenant, Role.OWNER)
    cursor = Cursor(utc_now(), "tx_0").encode()
    for place in ("before", "after"):
        assert (await owner.get(f"{TEST}/customers?{place}={cursor}")).status == 200


async def test_the_trail_forgets_nothing_and_so_is_not_told_who_was_looked_for(
    api: Api, database: Database
) -> None:
    shop = await new_shop(api, database)
    owner = await sign_in(api, database, shop.tenant, Role.OWNER)
    taken = await owner.get(f"{TEST}/transactions.csv?who=joaquim%40compras.example")
    assert taken.status == 200
    for page in ("exports", "trail.csv"):
        told = text_of(await owner.get(f"{TEST}/{page}"))
        assert "j***@c***.example" in told
        assert "joaquim@" not in told


async def test_nobody_fills_the_trail_or_reads_it_whole_again_and_again(
    api: Api, database: Database
) -> None:
    shop = await new_shop(api, database)
    owner = await sign_in(api, database, shop.tenant, Role.OWNER)
    support = await sign_in(api, database, shop.tenant, Role.SUPPORT)
    verified = [
        await owner.get(f"{TEST}/trail?verify=1") for _ in range(VERIFICATIONS_PER_MINUTE + 1)
    ]
    assert [reply.status for reply in verified] == [200] * VERIFICATIONS_PER_MINUTE + [429]
    for _ in range(DENIALS_PER_MINUTE // AT_ONCE + 1):
        tried = [support.get(f"{TEST}/approvals") for _ in range(AT_ONCE)]
        assert {reply.status for reply in await asyncio.gather(*tried)} == {403}
    denials = await database.fetchval(
        "select count(*) from act where company_id = $1", shop.scope.company_id
    )
    assert denials == DENIALS_PER_MINUTE


async def test_what_somebody_names_at_length_breaks_no_page(api: Api, database: Database) -> None:
    shop = await new_shop(api, database)
    owner = await sign_in(api, database, shop.tenant, Role.OWNER)
    long = "".join(new_token() for _ in range(100))
    resent = await owner.post(f"{TEST}/deliveries/resend", {"endpoint": long})
    assert resent.status == 303
    denied = await owner.post(f"{TEST}/team/members/{long}/role", {"role": "king"})
    assert denied.status == 403


async def test_masks_are_not_lifted_from_one_buyer_after_the_other(
    api: Api, database: Database
) -> None:
    shop = await new_shop(api, database)
    support = await sign_in(api, database, shop.tenant, Role.SUPPORT)
    path = f"{TEST}/transactions/{await shop.paid(1_000)}/reveal"
    csrf = {"csrf": await support.csrf()}
    replies = [await support.post_raw(path, csrf) for _ in range(REVEALS_PER_MINUTE + 1)]
    assert [reply.status for reply in replies] == [200] * REVEALS_PER_MINUTE + [429]


async def test_a_form_of_test_writes_nothing_beside_what_production_has(
    api: Api, database: Database
) -> None:
    shop = await new_shop(api, database)
    developer = await sign_in(api, database, shop.tenant, Role.DEVELOPER)
    live = Scope(shop.scope.company_id, "live")
    sold = await catalogue.create_product(
        database, live, name="Palhetas", unit_amount=5_000, now=utc_now()
    )
    fields = {"id": sold.product_id, "name": "Palhetas", "price": "0,01"}
    assert (await developer.post(f"{TEST}/products", fields)).status == 404
    prices = await database.fetch(
        "select unit_amount from checkout_product_price where product_id = $1", sold.product_id
    )
    assert [row["unit_amount"] for row in prices] == [5_000]
    link = await catalogue.create_link(
        database, live, name="L", product_id=sold.product_id, now=utc_now()
    )
    tested = await catalogue.create_product(
        database, shop.scope, name="Teste", unit_amount=5_000, now=utc_now()
    )
    fields = {"id": link.link_id, "name": "M", "product_id": tested.product_id}
    assert (await developer.post(f"{TEST}/links", fields)).status == 404
    tokens = await database.fetchval(
        "select count(*) from checkout_link_token where link_id = $1", link.link_id
    )
    assert tokens == 1
