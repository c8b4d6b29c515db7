"""A buyer with a browser that runs no script: looks at pages, fills in forms, follows redirects."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from urllib.parse import urlencode

from yarl import URL

from support.api import Api
from support.storefront import Basket

BUYER = {
    "name": "Maria da Silva",
    "email": "maria@example.com",
    "document": "529.982.247-25",
}
ADDRESS = {
    "postal_code": "01310-100",
    "street": "Rua das Flores",
    "street_number": "10",
    "neighborhood": "Centro",
    "city": "São Paulo",
    "state": "SP",
}

_NONCE = re.compile(r'name="form_nonce" value="([^"]*)"')
_STATE = re.compile(r'<main[^>]* data-state="([^"]*)"')
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class HtmlReply:
    """An answer as a browser sees it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def html(self) -> str:
        return self.body.decode()

    @property
    def state(self) -> str:
        """The state that the page says it shows."""
        found = _STATE.search(self.html)
        assert found, self.html
        return found[1]

    @property
    def text(self) -> str:
        """What a reader sees, more or less."""
        return " ".join(unescape(_TAG.sub(" ", self.html)).split())

    @property
    def nonce(self) -> str:
        found = _NONCE.search(self.html)
        assert found, self.html
        return unescape(found[1])

    @property
    def location(self) -> str:
        assert self.status == 303, (self.status, self.html)
        return self.headers["location"]


@dataclass(frozen=True)
class Visitor:
    """One browser; its forms say which page sent them, unless a test wants otherwise."""

    api: Api
    path: str

    @classmethod
    def of(cls, basket: Basket) -> "Visitor":
        return cls(basket.store.api, f"/s/{basket.token}")

    async def send(
        self,
        method: str,
        path: str,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HtmlReply:
        url = URL(self.api.base_url + path.partition("#")[0], encoded=True)
        sent = {"accept-encoding": "identity", **(headers or {})}
        async with self.api.session.request(
            method, url, data=data, headers=sent, allow_redirects=False
        ) as response:
            return HtmlReply(response.status, response.headers, await response.read())

    async def look(self, query: str = "", **options: Mapping[str, str]) -> HtmlReply:
        return await self.send("GET", self.path + query, headers=options.get("headers"))

    async def post(
        self,
        action: str,
        fields: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: str = "",
    ) -> HtmlReply:
        path = f"{self.path}/{action}" if action else self.path
        sent = {
            "origin": self.api.base_url,
            "content-type": "application/x-www-form-urlencoded",
            **(headers or {}),
        }
        sent = {name: value for name, value in sent.items() if value}
        return await self.send(
            "POST", path + query, data=urlencode(fields or {}).encode(), headers=sent
        )

    async def follow(self, reply: HtmlReply) -> HtmlReply:
        return await self.send("GET", reply.location)

    async def pay(self, method: str = "pix", *, nonce: str = "", **changed: str) -> HtmlReply:
        """Fill in the form that is shown now and send it."""
        shown = nonce or (await self.look()).nonce
        fields = {"form_nonce": shown, **BUYER, "method": method, **changed}
        return await self.post("pay", fields)

    async def pay_by_card(self, number: str, **changed: str) -> HtmlReply:
        card = {
            "cc_number": number,
            "cc_exp": "12/30",
            "cc_csc": "123",
            "cc_name": "MARIA DA SILVA",
            "installments": "1",
        }
        return await self.pay("credit_card", **{**card, **changed})
