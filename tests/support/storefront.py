"""A company that sells on the hosted checkout, and its buyers: real HTTP, each call short."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from support.api import Api, HttpReply, Shop, new_shop
from support.cards import VISA, number_ending_in
from vintem.checkout import catalogue, ending
from vintem.checkout import service as checkout
from vintem.checkout.model import Coupon, DiscountType, Product, Session
from vintem.companies import service as companies
from vintem.companies.model import Storefront as Companys
from vintem.kit.clock import utc_now
from vintem.runtime.db import Database
from vintem.transactions import service as transactions

CPF = "529.982.247-25"
ADDRESS = {
    "street": "Rua das Flores",
    "streetNumber": "10",
    "neighborhood": "Centro",
    "zipCode": "01310-100",
    "city": "São Paulo",
    "state": "SP",
}


def buyer(**changed: object) -> dict[str, Any]:
    """Who pays, with what a test wants otherwise."""
    return {
        "name": "Maria da Silva",
        "email": "maria@example.com",
        "document": {"type": "cpf", "number": CPF},
        **changed,
    }


@dataclass(frozen=True)
class Basket:
    """A session as its buyer holds it: by its token alone."""

    store: "Storefront"
    session_id: str
    token: str

    @property
    def path(self) -> str:
        return f"/v1/checkout/sessions/{self.token}"

    async def call(
        self,
        method: str,
        suffix: str = "",
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> HttpReply:
        return await self.store.api.call(method, self.path + suffix, json=body, headers=headers)

    async def read(self) -> Any:
        """What the page polls."""
        reply = await self.call("GET", "?poll=1")
        assert reply.status == 200, reply.json
        return reply.data

    async def coupon(self, code: str) -> HttpReply:
        return await self.call("POST", "/coupon", {"code": code})

    async def pay(self, *, key: str | None = None, **changed: Any) -> HttpReply:
        headers = {} if key is None else {"X-Idempotency-Key": key}
        return await self.call("POST", "/pay", {"customer": buyer(), **changed}, headers=headers)

    async def paid_by(self, **changed: Any) -> Any:
        """What was answered to a payment that was made now."""
        reply = await self.pay(**changed)
        assert reply.status == 201, reply.json
        return reply.data

    async def card_token(self, last: str = "1111") -> str:
        reply = await self.call("POST", "/card-tokens", raw_card(last))
        assert reply.status == 201, reply.json
        token: str = reply.data["token"]
        return token

    async def pay_by_card(self, last: str = "1111", installments: int = 1) -> HttpReply:
        token = await self.card_token(last)
        return await self.pay(
            paymentMethod="credit_card", card={"token": token}, installments=installments
        )

    async def pay_by_boleto(self) -> HttpReply:
        return await self.pay(paymentMethod="boleto", customer=buyer(address=ADDRESS))

    async def found(self) -> Session:
        """The session as it is written."""
        public = await checkout.read_public(self.store.database, self.token, utc_now())
        assert public is not None
        return public.session

    async def age(self, by: timedelta) -> None:
        """Let time pass for the session and for its payments."""
        await self.store.database.execute(
            """
            update checkout_session set expires_at = expires_at - $3::interval,
                due_at = due_at - $3::interval,
                coupon_locked_until = coupon_locked_until - $3::interval
            where company_id = $1 and session_id = $2
            """,
            self.store.company_id,
            self.session_id,
            by,
        )
        await self.store.database.execute(
            """
            update transaction set expires_at = expires_at - $3::interval,
                due_at = due_at - $3::interval
            where company_id = $1 and checkout_session_id = $2
            """,
            self.store.company_id,
            self.session_id,
            by,
        )


def raw_card(last: str = "1111", **changed: object) -> dict[str, Any]:
    return {
        "number": VISA if last == "1111" else number_ending_in(last),
        "holderName": "MARIA DA SILVA",
        "expirationMonth": 12,
        "expirationYear": utc_now().year + 3,
        "cvv": "123",
        **changed,
    }


@dataclass(frozen=True)
class Storefront:
    """A company with something to sell."""

    shop: Shop
    product: Product

    @property
    def api(self) -> Api:
        return self.shop.api

    @property
    def database(self) -> Database:
        return self.shop.database

    @property
    def company_id(self) -> int:
        return self.shop.scope.company_id

    async def order(self, body: object, *, key: str | None = None) -> HttpReply:
        headers = {} if key is None else {"X-Idempotency-Key": key}
        return await self.api.post(
            "/v1/checkout/sessions", key=self.shop.tenant.ck_test, json=body, headers=headers
        )

    async def open(self, **changed: object) -> Basket:
        """A session that was opened, as its buyer holds it."""
        reply = await self.order({"productId": self.product.product_id, **changed})
        assert reply.status == 201, reply.json
        token = reply.data["checkoutUrl"].rpartition("/s/")[2]
        return Basket(self, reply.data["sessionId"], token)

    async def coupon(self, code: str = "TEN", percent: int = 10, **changed: Any) -> Coupon:
        return await catalogue.create_coupon(
            self.database,
            self.shop.scope,
            code,
            DiscountType.PERCENTAGE,
            percent * 100,
            now=utc_now(),
            **changed,
        )

    async def redemptions(self, code: str = "TEN") -> int:
        coupon = await catalogue.find_coupon(self.database, self.shop.scope, code)
        assert coupon is not None
        return coupon.redemptions

    async def set_up(self, **changed: Any) -> None:
        await companies.set_storefront(self.database, self.company_id, Companys(**changed))

    async def work(self, now: datetime | None = None) -> None:
        """Do what the worker does about payments and sessions whose time is over."""
        moment = now or utc_now()
        await transactions.move_due(self.database, now=moment)
        await ending.expire_due(self.database, now=moment)

    async def events(self, entity_id: str) -> list[tuple[int, str]]:
        """The events of a record, in their order."""
        rows = await self.database.fetch(
            """
            select sequence, kind from webhook_event
            where company_id = $1 and entity_id = $2 order by sequence
            """,
            self.company_id,
            entity_id,
        )
        return [(row["sequence"], row["kind"]) for row in rows]


async def new_storefront(api: Api, database: Database, *, price: int = 14_990) -> Storefront:
    shop = await new_shop(api, database)
    product = await catalogue.create_product(
        database, shop.scope, name="Curso de Violão", unit_amount=price, now=utc_now()
    )
    return Storefront(shop, product)
