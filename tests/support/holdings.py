"""One record of every kind that a page of the dashboard can show, all of one company."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from support.api import TEST_PEPPER, Api, Tenant
from support.storefront import Storefront, buyer, new_storefront
from support.team import Browser, sign_in
from vintem.checkout import catalogue
from vintem.checkout.model import Appearance
from vintem.companies import service as companies
from vintem.companies.model import WithdrawalRules
from vintem.kit.clock import utc_now
from vintem.kit.ids import Prefix, new_id
from vintem.members.model import Role
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.webhooks.service import SECRET_PURPOSE

ABSENT = "0" * 26
POLL_SECONDS = 0.1
POLLS_MAX = 100

# What a path has before its parameter, and where the company's newest record of that kind is found.
_NEWEST: Mapping[str, str] = {
    "/transactions/": "select transaction_id from transaction where company_id = $1",
    "/simulators/transactions/": "select transaction_id from transaction where company_id = $1",
    "/customers/": "select encode(document_digest, 'hex') from transaction where company_id = $1",
    "/sessions/": "select session_id from checkout_session where company_id = $1",
    "/products/": "select product_id from checkout_product where company_id = $1",
    "/coupons/": "select coupon_id from checkout_coupon where company_id = $1",
    "/coupons/batches/": "select batch_id from checkout_coupon where company_id = $1"
    " and batch_id is not null",
    "/appearance/versions/": "select version::text, version as created_at from checkout_appearance"
    " where company_id = $1",
    "/links/": "select link_id from checkout_link where company_id = $1",
    "/withdrawals/": "select withdrawal_id from withdrawal where company_id = $1",
    "/approvals/": "select withdrawal_id from withdrawal where company_id = $1",
    "/simulators/withdrawals/": "select withdrawal_id from withdrawal where company_id = $1",
    "/webhooks/": "select endpoint_id from webhook_endpoint where company_id = $1",
    "/deliveries/": "select delivery_id from webhook_delivery where company_id = $1",
    "/requests/": "select request_id, at as created_at from request_log where company_id = $1",
    "/keys/secret/": "select key_id from api_key where company_id = $1 and type = 'sk'"
    " and environment = 'test'",
    "/keys/checkout/": "select key_id from api_key where company_id = $1 and type = 'ck'"
    " and environment = 'test'",
    "/team/members/": "select person_id from member where company_id = $1 and role = 'support'",
    "/team/invitations/": "select invitation_id from invitation where company_id = $1",
    "/security/browsers/": "select session_id from sign_in where company_id = $1",
    "/trail/": "select sequence::text, at as created_at from act where company_id = $1",
    "/exports/": "select export_id from export_file where company_id = $1",
}
# Ids that have no other form than that of a record that exists.
_ABSENT: Mapping[str, str] = {
    "/customers/": "0" * 64,
    "/trail/": "999999999",
    "/appearance/versions/": "999999999",
    "/requests/": "req_1000000000000_000000000",
}


@dataclass(frozen=True)
class Holdings:
    """Ids by what a path has before its parameter: of records, and of none."""

    tenant: Tenant
    ids: Mapping[str, str]
    absent: Mapping[str, str]


async def new_holdings(api: Api, database: Database) -> tuple[Holdings, Mapping[Role, Browser]]:
    """A company with one of everything, and its people at their browsers."""
    store = await new_storefront(api, database)
    shop, tenant = store.shop, store.shop.tenant
    team = {role: await sign_in(api, database, tenant, role) for role in Role}
    owner = team[Role.OWNER]
    await _add_people_and_files(owner)
    await add_endpoint(database, shop.scope.company_id)
    await companies.set_limits(database, tenant.company.public_id, withdrawals_per_minute=1_000)
    rules = WithdrawalRules(automatic_cents_max=0)
    await companies.set_withdrawal_rules(database, tenant.company.company_id, rules)
    await shop.paid(50_000, customer=buyer())
    asked = await api.post("/v1/withdrawals", key=shop.key, json=_WITHDRAWAL)
    assert asked.status == 201, asked.json
    await _add_catalogue(store)
    ids = {prefix: await _newest(database, shop.scope.company_id, prefix) for prefix in _NEWEST}
    absent = {
        prefix: _ABSENT.get(prefix) or f"{found.partition('_')[0]}_{ABSENT}"
        for prefix, found in ids.items()
    }
    return Holdings(tenant, ids, absent), team


_WITHDRAWAL = {
    "method": "pix",
    "amount": 1_000,
    "pixKey": "cliente@example.com",
    "pixKeyType": "email",
}


async def add_endpoint(database: Database, company_id: int) -> str:
    """An endpoint at an address that leads nowhere, which nobody could register."""
    endpoint_id = new_id(Prefix.WEBHOOK)
    await database.execute(
        """
        with lane as (
            insert into webhook_lane (company_id, lane, environment) values ($1, $2, 'test')
        )
        insert into webhook_endpoint (company_id, endpoint_id, environment, url, events,
            description, secret_sealed, created_at, subscribed_at)
        values ($1, $2, 'test', 'https://loja.example/hooks', '{*}', '', $3, now(), now())
        """,
        company_id,
        endpoint_id,
        Sealer(TEST_PEPPER.encode()).seal(b"whsec_of_nobody", purpose=SECRET_PURPOSE),
    )
    return endpoint_id


async def _add_people_and_files(owner: Browser) -> None:
    invited = await owner.post(
        "/dashboard/test/team/invitations", {"email": "nova@loja.example", "role": "support"}
    )
    assert invited.status == 303, invited.body
    exported = await owner.get("/dashboard/test/trail.csv")
    assert exported.status == 200, exported.body


async def _add_catalogue(store: Storefront) -> None:
    scope, now = store.shop.scope, utc_now()
    await store.open()
    coupon = await store.coupon()
    alike = replace(coupon, coupon_id=new_id(Prefix.COUPON), batch_id=new_id(Prefix.COUPON))
    await catalogue.create_batch(store.database, alike, count=2, now=now)
    look = Appearance(version=1, display_name="Loja")
    # More than are ever copied to the other environment.
    for _ in range(9):
        await catalogue.publish_appearance(store.database, scope, look, now=now)
    await catalogue.create_link(
        store.database,
        scope,
        name="Curso",
        product_id=store.product.product_id,
        now=now,
    )


async def _newest(database: Database, company_id: int, prefix: str) -> str:
    statement = f"{_NEWEST[prefix]} order by created_at desc limit 1"
    for _ in range(POLLS_MAX):
        found: str | None = await database.fetchval(statement, company_id)
        if found is not None:
            return found
        # The log of requests is written off the way of the calls.
        await asyncio.sleep(POLL_SECONDS)
    raise AssertionError(prefix)
