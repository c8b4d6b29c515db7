"""Somebody at work on a company's pages, and what came of it."""

import html
from dataclasses import dataclass

from support.api import HttpReply, Tenant
from support.team import Browser, Fields, sign_in
from vintem.checkout import catalogue
from vintem.checkout.catalogue_listing import Span, list_products
from vintem.checkout.model import Product
from vintem.kit.clock import utc_now
from vintem.ledger.model import Scope
from vintem.members.model import Role
from vintem.runtime.db import Database


@dataclass(frozen=True)
class Desk:
    """A company and the browser of one who works there."""

    browser: Browser
    database: Database
    tenant: Tenant

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant.company.company_id, "test")

    @property
    def live(self) -> Scope:
        return Scope(self.tenant.company.company_id, "live")

    async def get(self, path: str, environment: str = "test") -> HttpReply:
        return await self.browser.get(f"/dashboard/{environment}{path}")

    async def post(self, path: str, fields: Fields, environment: str = "test") -> HttpReply:
        return await self.browser.post(f"/dashboard/{environment}{path}", fields)

    async def colleague(self, role: Role) -> "Desk":
        browser = await sign_in(self.browser.api, self.database, self.tenant, role)
        return Desk(browser, self.database, self.tenant)

    async def product(self, name: str = "Palhetas") -> Product:
        return await catalogue.create_product(
            self.database, self.scope, name=name, unit_amount=5_000, now=utc_now()
        )

    async def acts(self) -> list[tuple[str, str, str]]:
        """What was done, where it was allowed."""
        rows = await self.database.fetch(
            """
            select action, target_id, environment from act
            where company_id = $1 and action <> 'permission.denied' order by sequence
            """,
            self.scope.company_id,
        )
        return [(row["action"], row["target_id"], row["environment"]) for row in rows]

    async def products(self) -> int:
        return len(await list_products(self.database, self.scope, Span(rows_max=100)))


def text_of(reply: HttpReply) -> str:
    return html.unescape(reply.body.decode())


def id_in(reply: HttpReply) -> str:
    """The id of what a form has made, from where it leads to."""
    assert reply.status == 303, reply.body.decode()[-3_000:]
    return str(reply.headers["location"]).partition("?")[0].rpartition("/")[2]


def assert_fault(reply: HttpReply, field: str) -> None:
    assert reply.status == 422, field
    assert f'href="#f-{field}"' in reply.body.decode(), field
