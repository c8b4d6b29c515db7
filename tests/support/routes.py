"""Routes that exist only in tests, to send every kind of declaration through the pipeline."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from vintem.api.call import (
    Access,
    Answer,
    Body,
    Call,
    Content,
    Data,
    Processed,
    Query,
    Reply,
    Route,
)
from vintem.companies.model import LimitGroup
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.intent import IntentReused
from vintem.runtime.db import DatabaseUnavailableError

SECRET_IN_A_FAULT = "sk_live_0123456789012345678901234567890123456789"


class Address(Body, frozen=True):
    street: Annotated[str, Meta(min_length=1, max_length=100)]
    zip_code: str


class Item(Body, frozen=True):
    title: str
    unit_price: int
    quantity: Annotated[int, Meta(ge=1)] = 1


class Order(Body, frozen=True):
    amount: int
    name: Annotated[str, Meta(min_length=3, max_length=100)] = "name"
    is_gift: bool = False
    address: Address | None = None
    items: Sequence[Item] = ()
    metadata: dict[str, str | int | float | bool | None] | None = None


class Search(Query, frozen=True):
    status: str | None = None
    page: Annotated[int, Meta(ge=1)] = 1


class Echo(Reply, frozen=True):
    amount: int = 0
    name: str = ""
    value: str = ""
    fingerprint: str = ""
    client_ip: str = ""


async def echo_order(call: Call) -> Answer:
    order, intent = call.body_as(Order), call.intent
    assert intent is not None
    if order.name == "reused":
        raise IntentReused(call.now)
    echo = Echo(order.amount, order.name, fingerprint=intent.fingerprint.hex())
    is_replay = order.name == "replayed"
    return Data(echo, 200 if is_replay else 201, Processed(is_replay, call.now))


async def echo_search(call: Call) -> Answer:
    search = call.query_as(Search)
    return Data(Echo(amount=search.page, value=search.status or ""))


async def echo_optional(call: Call) -> Answer:
    return Data(Echo(amount=call.body_as(OptionalOrder).amount))


async def echo_refund(call: Call) -> Answer:
    assert call.intent is not None
    echo = Echo(value=call.params["name"], fingerprint=call.intent.fingerprint.hex())
    return Data(echo, 201, Processed(is_replay=False, at=call.now))


async def echo_param(call: Call) -> Answer:
    return Data(Echo(value=call.params["name"], client_ip=call.client_ip))


async def fail(call: Call) -> Answer:
    raise RuntimeError(f"could not use {SECRET_IN_A_FAULT}")


async def miss_database(call: Call) -> Answer:
    raise DatabaseUnavailableError("the database is away")


async def answer_unwritable(call: Call) -> Answer:
    return Data(Echo(value="half a character: \ud800"))


async def refuse_with_wait(call: Call) -> Answer:
    raise Refusal(ErrorCode.IDEMPOTENCY_IN_PROGRESS, retry_after_seconds=1)


async def answer_slowly(call: Call) -> Answer:
    await asyncio.sleep(1.0)
    return Data(Echo(value="slow"))


async def draw(call: Call) -> Answer:
    return Content(f"<svg>{call.params['token']}</svg>".encode(), "image/svg+xml")


class OptionalOrder(Body, frozen=True):
    amount: int = 7


def _route(method: str, path: str, **declared: object) -> Route:
    declared.setdefault("access", Access.SECRET_KEY)
    declared.setdefault("limit", LimitGroup.REQUESTS)
    return Route(method=method, path=path, summary="test", group="Test", **declared)  # type: ignore[arg-type]


TEST_ROUTES = (
    _route("POST", "/v1/test/orders", handler=echo_order, body=Order, is_idempotent=True),
    _route("GET", "/v1/test/orders", handler=echo_search, query=Search),
    _route(
        "POST",
        "/v1/test/optional",
        handler=echo_optional,
        body=OptionalOrder,
        is_body_optional=True,
    ),
    _route("GET", "/v1/test/orders/{name}", handler=echo_param),
    _route(
        "POST",
        "/v1/test/orders/{name}/refunds",
        handler=echo_refund,
        body=OptionalOrder,
        is_body_optional=True,
        is_idempotent=True,
    ),
    _route("GET", "/v1/test/unwritable", handler=answer_unwritable),
    _route(
        "GET",
        "/v1/test/withdrawals",
        handler=echo_search,
        query=Search,
        limit=LimitGroup.WITHDRAWALS,
    ),
    _route("GET", "/v1/test/checkout", handler=echo_search, query=Search, access=Access.ANY_KEY),
    _route("GET", "/v1/test/fails", handler=fail),
    _route("GET", "/s/test/fails", handler=fail, access=Access.PUBLIC, limit=None),
    _route("GET", "/s/test/away", handler=miss_database, access=Access.PUBLIC, limit=None),
    _route("GET", "/v1/test/waits", handler=refuse_with_wait),
    _route("GET", "/v1/test/slow", handler=answer_slowly),
    _route(
        "GET", "/v1/test/fast", handler=echo_search, query=Search, limit=LimitGroup.TRANSACTIONS
    ),
    _route("GET", "/v1/test/{token}.svg", handler=draw, access=Access.PUBLIC, limit=None),
)
