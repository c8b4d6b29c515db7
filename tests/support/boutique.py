"""A shop that sells: the whole demo, buyers' sessions, and what happens behind a page's back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from support.api import TEST_PEPPER, Api
from support.platform import Running, client, demo, fresh_database, until, vintem
from vintem.audit import audit
from vintem.brazil.installments import CardInterest
from vintem.checkout import catalogue
from vintem.checkout import moves as checkout_moves
from vintem.checkout import service as checkout
from vintem.checkout.link import PaymentLink
from vintem.checkout.model import Appearance, Coupon, DiscountType, Product
from vintem.companies import service as companies
from vintem.kit.clock import utc_now
from vintem.ledger.model import Scope
from vintem.media import service as media
from vintem.media.model import Picture, Use
from vintem.runtime.db import Database
from vintem.transactions import following

CPF = "52998224725"
BUYER = {
    "name": "Maria da Silva",
    "email": "maria@example.com",
    "document": {"type": "cpf", "number": CPF},
}
ADDRESS = {
    "street": "Rua de Exemplo",
    "streetNumber": "123",
    "neighborhood": "Centro",
    "zipCode": "01310100",
    "city": "São Paulo",
    "state": "SP",
}
CARD = {"holderName": "MARIA DA SILVA", "expirationMonth": 12, "expirationYear": 2031, "cvv": "123"}
PRICE = 14_990
# One address buys everything here, and a test is no robot that has to be slowed down.
LIMITS = {
    "VINTEM_PUBLIC_PICTURES_PER_MINUTE": "1000000",
    "VINTEM_PUBLIC_MEDIA_PER_MINUTE": "1000000",
    "VINTEM_PUBLIC_READS_PER_MINUTE": "1000000",
    "VINTEM_PUBLIC_READS_OF_ONE_PER_MINUTE": "1000000",
    "VINTEM_PUBLIC_COUPONS_PER_MINUTE": "1000000",
    "VINTEM_PUBLIC_PAYMENTS_PER_MINUTE": "1000000",
    "VINTEM_PUBLIC_CARD_TOKENS_PER_MINUTE": "1000000",
    "VINTEM_PUBLIC_LINK_SESSIONS_PER_MINUTE": "1000000",
    "VINTEM_PUBLIC_REFUSED_CARDS_PER_HOUR": "1000000",
}


@dataclass(frozen=True)
class Visit:
    """A session, as the shop keeps it with its order."""

    session_id: str
    url: str

    @property
    def token(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def path(self) -> str:
        return f"/v1/checkout/sessions/{self.token}"


@dataclass(frozen=True)
class Boutique:
    """A company whose checkout runs."""

    running: Running
    api: Api
    database: Database
    scope: Scope
    product: Product

    @property
    def base_url(self) -> str:
        return self.running.base_url

    async def open_session(self, **body: object) -> Visit:
        """A new session of the shop's one product, with what a test wants besides."""
        if "lineItems" not in body:
            body = {"productId": self.product.product_id, **body}
        reply = await self.api.post(
            "/v1/checkout/sessions", key=self.running.ready["testCheckoutKey"], json=body
        )
        assert reply.status == 201, reply.json
        return Visit(reply.data["sessionId"], reply.data["checkoutUrl"])

    async def read(self, visit: Visit) -> Any:
        """The session as the page polls it."""
        reply = await self.api.get(f"{visit.path}?poll=1")
        assert reply.status == 200, reply.json
        return reply.data

    async def pay(self, visit: Visit, method: str = "pix", **body: object) -> Any:
        """Begin a payment as a page of the shop's own would."""
        customer: dict[str, object] = {**BUYER}
        if method == "boleto":
            customer["address"] = ADDRESS
        reply = await self.api.post(
            f"{visit.path}/pay", json={"paymentMethod": method, "customer": customer, **body}
        )
        assert reply.status == 201, reply.json
        return reply.data

    async def pay_by_card(self, visit: Visit, number: str, *, installments: int = 1) -> Any:
        reply = await self.api.post(f"{visit.path}/card-tokens", json={"number": number, **CARD})
        assert reply.status == 201, reply.json
        card = {"token": reply.data["token"]}
        return await self.pay(visit, "credit_card", card=card, installments=installments)

    async def simulate(self, transaction_id: str, status: str) -> None:
        """Play the bank or the analyst."""
        reply = await self.api.post(
            f"/v1/sandbox/transactions/{transaction_id}/simulate",
            key=self.running.ready["testSecretKey"],
            json={"status": status},
        )
        assert reply.status == 200, reply.json

    async def transactions_of(self, visit: Visit) -> list[Any]:
        """Every payment that was begun for a session, the first one first."""
        rows = await self.database.fetch(
            "select transaction_id from checkout_payment where company_id = $1 and session_id = $2"
            " order by transaction_id",
            self.scope.company_id,
            visit.session_id,
        )
        key = self.running.ready["testSecretKey"]
        replies = [
            await self.api.get(f"/v1/transactions/{row['transaction_id']}", key=key) for row in rows
        ]
        return [reply.data for reply in replies]

    async def set_session_end(self, visit: Visit, moment: datetime) -> None:
        """Let a session end at another time than it was made for."""
        await self.database.execute(
            "update checkout_session set expires_at = $3, due_at = $3"
            " where company_id = $1 and session_id = $2",
            self.scope.company_id,
            visit.session_id,
            moment,
        )

    async def set_payment_end(self, transaction_id: str, moment: datetime) -> None:
        """Let a PIX end at another time than it was made for."""
        await self.database.execute(
            "update transaction set expires_at = $3, due_at = $3"
            " where company_id = $1 and transaction_id = $2",
            self.scope.company_id,
            transaction_id,
            moment,
        )

    async def expire(self, visit: Visit) -> None:
        """Let the time of a session, and of what waits to be paid for it, be over."""
        await self.set_session_end(visit, utc_now())
        for payment in await self.transactions_of(visit):
            await self.set_payment_end(payment["id"], utc_now())

    async def until_cancelled(self, visit: Visit) -> None:
        """Wait until the worker has written down that the payment's time is over."""

        async def is_cancelled() -> bool:
            (payment,) = await self.transactions_of(visit)
            return bool(payment["status"] == "cancelled")

        await until(is_cancelled, seconds=30)

    async def expire_by_token(self, token: str) -> None:
        public = await checkout.read_public(self.database, token, utc_now())
        assert public is not None
        await self.expire(Visit(public.session.session_id, token))

    async def cancel(self, visit: Visit) -> None:
        await checkout.cancel_session(self.database, self.scope, visit.session_id, now=utc_now())

    async def publish(self, **changed: object) -> Appearance:
        """Let new sessions look so."""
        known = {"version": 0, "display_name": "Loja Exemplo"}
        return await self.show(Appearance(**{**known, **changed}))  # type: ignore[arg-type]

    async def show(self, wanted: Appearance) -> Appearance:
        return await catalogue.publish_appearance(self.database, self.scope, wanted, now=utc_now())

    async def coupon(
        self, code: str, *, cents: int = 2_000, ends_in: timedelta | None = None
    ) -> Coupon:
        now = utc_now()
        return await catalogue.create_coupon(
            self.database,
            self.scope,
            code,
            DiscountType.FIXED,
            cents,
            now=now,
            ends_at=None if ends_in is None else now + ends_in,
        )

    async def link(self, **changed: Any) -> PaymentLink:
        return await catalogue.create_link(
            self.database,
            self.scope,
            name="Link de teste",
            product_id=self.product.product_id,
            now=utc_now(),
            **changed,
        )

    async def pause(self, link: PaymentLink) -> None:
        await catalogue.change_link(self.database, replace(link, is_active=False), now=utc_now())

    async def sell(self, name: str, cents: int) -> Product:
        """One more product."""
        return await catalogue.create_product(
            self.database, self.scope, name=name, unit_amount=cents, now=utc_now()
        )

    async def keep_picture(self, content: bytes, use: Use) -> Picture:
        return await media.keep(
            self.database,
            content,
            use=use,
            company_id=self.scope.company_id,
            environment=self.scope.environment,
            now=utc_now(),
        )

    async def set_card_interest(
        self, *, monthly_rate_basis_points: int, free_installments: int
    ) -> None:
        await companies.set_card_interest(
            self.database,
            self.running.ready["companyId"],
            CardInterest(
                monthly_rate_basis_points=monthly_rate_basis_points,
                free_installments=free_installments,
            ),
        )

    async def postback_secret(self) -> str:
        """What the operator's command says that calls to postback addresses are signed with."""
        settings = {"DATABASE_URL": self.database.url, "VINTEM_PEPPER": TEST_PEPPER}
        words = ("company", "postback-secret", self.running.ready["companyId"])
        said = await vintem(*words, "--environment", "test", settings=settings)
        assert said.status == 0, said.text
        return said.out.strip()

    async def assert_books_balance(self) -> None:
        assert [finding for finding in await audit(self.database) if finding.rows] == []


@asynccontextmanager
async def running_boutique(folder: Path) -> AsyncIterator[Boutique]:
    """The demo with limits that tests cannot reach, and a product of theirs."""
    # Some of what the shop does here is done by this process, not by the demo's.
    following.follow_with(checkout_moves.follow)
    url = await fresh_database()
    settings = {"DATABASE_URL": url, "VINTEM_PEPPER": TEST_PEPPER, **LIMITS}
    async with demo(folder / "data", settings=settings) as running, client(running) as api:
        database = Database(url)
        await database.open()
        try:
            company = await companies.get_company(database, running.ready["companyId"])
            await companies.set_limits(
                database,
                company.public_id,
                requests_per_minute=1_000_000,
                transactions_per_second=100_000,
            )
            scope = Scope(company.company_id, "test")
            product = await catalogue.create_product(
                database, scope, name="Curso de Violão", unit_amount=PRICE, now=utc_now()
            )
            yield Boutique(running, api, database, scope, product)
        finally:
            await database.close()
