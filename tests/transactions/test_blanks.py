"""Texts of nothing but blanks say nothing, and are refused where a text is required."""

from copy import deepcopy
from typing import Any

import pytest

from support.api import Api, Shop, assert_refused, new_shop, pix_order
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database

ADDRESS = {
    "street": "Rua de Exemplo",
    "streetNumber": "123",
    "neighborhood": "Centro",
    "zipCode": "01310-100",
    "city": "São Paulo",
    "state": "SP",
}
CARD = {
    "number": "4111111111111111",
    "holderName": "CLIENTE DE TESTE",
    "expirationMonth": 12,
    "expirationYear": 2035,
    "cvv": "123",
}
BLANKS = {
    "spaces": "   ",
    "tabs and line breaks": "\t\r\n",
    "no-break spaces": "\u00a0" * 3,
    "wide spaces": "\u3000" * 3,
    "spaces without width": "\u200b\u2060\ufeff",
    "soft hyphens": "\u00ad" * 3,
}
FIELDS = (
    "customer.name",
    "customer.address.street",
    "customer.address.streetNumber",
    "customer.address.neighborhood",
    "customer.address.zipCode",
    "customer.address.city",
    "customer.address.state",
    "customer.address.country",
    "customer.email",
    "shipping.address.street",
    "shipping.address.city",
    "items[0].title",
    "card.holderName",
)


@pytest.fixture
async def shop(api: Api, database: Database) -> Shop:
    return await new_shop(api, database)


def full_order() -> dict[str, Any]:
    order = pix_order(paymentMethod="credit_card", card=dict(CARD))
    order["items"] = [{"title": "x", "unitPrice": 10_000, "quantity": 1}]
    order["customer"]["address"] = dict(ADDRESS)
    order["shipping"] = {"fee": 0, "address": dict(ADDRESS)}
    return deepcopy(order)


def with_text(field: str, text: str) -> dict[str, Any]:
    order = full_order()
    *path, last = field.replace("[0]", ".0").split(".")
    inner: Any = order
    for name in path:
        inner = inner[int(name) if name.isdigit() else name]
    inner[last] = text
    return order


async def test_the_order_without_blanks_is_taken(shop: Shop) -> None:
    assert (await shop.order(full_order())).status == 201


@pytest.mark.parametrize("blanks", BLANKS.values(), ids=BLANKS)
@pytest.mark.parametrize("field", FIELDS)
async def test_a_required_text_of_blanks_is_refused(shop: Shop, field: str, blanks: str) -> None:
    reply = await shop.order(with_text(field, blanks))
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert [fault["field"] for fault in reply.json["error"]["details"]["errors"]] == [field]


@pytest.mark.parametrize("name", ["Ana", "  Ana", "Ana  ", "Zé da Silva", "李小龙", "A. "])
async def test_a_name_with_blanks_around_it_is_kept_as_it_is(shop: Shop, name: str) -> None:
    reply = await shop.order(with_text("customer.name", name))
    assert (reply.status, reply.data["customer"]["name"]) == (201, name)


async def test_a_card_token_needs_the_holder_as_well(shop: Shop) -> None:
    card = {**CARD, "holderName": "  "}
    reply = await shop.api.post("/v1/card-tokens", key=shop.key, json=card)
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
