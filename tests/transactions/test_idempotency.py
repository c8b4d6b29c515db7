"""One intent, one payment: however often, however fast and wherever it is sent."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from conftest import running_api
from support.api import (
    TIMESTAMP,
    Api,
    HttpReply,
    Shop,
    assert_refused,
    complaints,
    new_key,
    new_shop,
    new_tenant,
    pix_order,
)
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.transactions import service as transactions

CALLS = 64
# The storm of tests/proofs has more keys, over processes of their own.
KEYS = 12
# The callers and both servers share one process: more at once only wait for each other.
KEYS_AT_ONCE = 6


@pytest.fixture
async def shop(api: Api, database: Database) -> Shop:
    return await new_shop(api, database)


@pytest.fixture
async def audited(database: Database) -> AsyncIterator[None]:
    """For tests that move money: no invariant complains afterwards."""
    yield
    assert await complaints(database) == {}


async def send(api: Api, shop: Shop, body: object, headers: Mapping[str, str]) -> HttpReply:
    return await api.post("/v1/transactions", key=shop.key, json=body, headers=headers)


async def warm(shop: Shop, *servers: Api) -> None:
    """Let servers that have just started meet the company before the storm."""
    for server in servers:
        assert (await server.get("/v1/transactions", key=shop.key)).status == 200


async def test_the_first_call_creates_and_the_second_repeats(shop: Shop) -> None:
    first = await shop.order(pix_order(), idempotency_key="k-1")
    assert first.status == 201
    assert first.headers["X-Idempotency-Key"] == "k-1"
    assert first.headers["X-Idempotency-Key-Source"] == "client"
    assert first.headers["X-Idempotency-Replayed"] == "false"
    assert first.headers["X-Idempotency-Processed-At"] == first.data["createdAt"]
    again = await shop.order(pix_order(), idempotency_key="k-1")
    assert (again.status, again.data) == (200, first.data)
    assert again.headers["X-Idempotency-Key"] == "k-1"
    assert again.headers["X-Idempotency-Key-Source"] == "client"
    assert again.headers["X-Idempotency-Replayed"] == "true"
    assert again.headers["X-Idempotency-Processed-At"] == first.data["createdAt"]
    assert (await shop.list())["pagination"]["total"] == 1


@pytest.mark.usefixtures("audited")
async def test_a_replay_shows_the_payment_as_it_is_now(shop: Shop) -> None:
    made = (await shop.order(pix_order(), idempotency_key="k-1")).data
    await shop.move(made["id"], "paid")
    await shop.refund(made["id"], 100)
    again = await shop.order(pix_order(), idempotency_key="k-1")
    assert again.status == 200
    assert (again.data["status"], again.data["refundedAmount"]) == ("paid", 100)
    assert again.data == await shop.read(made["id"])
    assert again.data["customer"]["document"]["number"] == "52998224725"


@pytest.mark.usefixtures("audited")
async def test_a_replay_outlives_the_expiry_of_the_code(shop: Shop) -> None:
    order = pix_order(pix={"expiresInSeconds": 60})
    made = (await shop.order(order, idempotency_key="k-1")).data
    await transactions.move_due(shop.database, now=utc_now() + timedelta(seconds=90))
    again = await shop.order(order, idempotency_key="k-1")
    assert (again.status, again.data["id"], again.data["status"]) == (200, made["id"], "cancelled")


async def test_the_order_of_names_and_the_white_space_make_no_difference(shop: Shop) -> None:
    order = pix_order(metadata={"a": 1, "b": "é"}, description="x")
    first = await shop.order(order, idempotency_key="k-1")
    turned = {name: order[name] for name in reversed(order)}
    turned["metadata"] = {"b": "é", "a": 1}
    reply = await shop.api.post(
        "/v1/transactions",
        key=shop.key,
        data=json.dumps(turned, indent=3, ensure_ascii=True).encode(),
        headers={"Content-Type": "application/json; charset=utf-8", "X-Idempotency-Key": "k-1"},
    )
    assert (reply.status, reply.data["id"]) == (200, first.data["id"])


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": 10_001},
        {"externalRef": "x"},
        {"metadata": {}},
        {"installments": 1},
        {"amount": 50},
        {"installments": 5},
        {"items": [{"title": "x", "unitPrice": 1, "quantity": 1}]},
        {
            "customer": {
                **pix_order()["customer"],
                "document": {"type": "cpf", "number": "111.444.777-35"},
            }
        },
        {
            "customer": {
                **pix_order()["customer"],
                "document": {"type": "cpf", "number": "52998224724"},
            }
        },
    ],
)
async def test_the_same_key_with_another_body_is_refused(
    shop: Shop, changed: dict[str, Any]
) -> None:
    first = await shop.order(pix_order(), idempotency_key="k-1")
    reply = await shop.order({**pix_order(), **changed}, idempotency_key="k-1")
    assert_refused(reply, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
    assert reply.headers["X-Idempotency-Processed-At"] == first.data["createdAt"]
    assert reply.headers["X-Idempotency-Key"] == "k-1"
    assert reply.headers["X-Idempotency-Key-Source"] == "client"
    assert "X-Idempotency-Replayed" not in reply.headers
    assert (await shop.list())["pagination"]["total"] == 1


@pytest.mark.parametrize(
    "changed", [{"amount": "1"}, {"ip": "nowhere"}, {"metadata": {"a": "x" * 5_000}}, {"x": 1}]
)
async def test_a_wrong_form_is_named_before_the_key_is_looked_up(
    shop: Shop, changed: dict[str, Any]
) -> None:
    await shop.order(pix_order(), idempotency_key="k-1")
    reply = await shop.order({**pix_order(), **changed}, idempotency_key="k-1")
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert "X-Idempotency-Processed-At" not in reply.headers


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 256, "tab\tkey", "a, b"])
async def test_a_key_of_the_wrong_form_is_refused(shop: Shop, key: str) -> None:
    reply = await shop.order(pix_order(), idempotency_key=key)
    assert_refused(reply, ErrorCode.IDEMPOTENCY_KEY_INVALID, status=400)
    assert "X-Idempotency-Key" not in reply.headers
    assert (await shop.list())["pagination"]["total"] == 0


async def test_two_keys_in_one_call_are_refused(shop: Shop) -> None:
    reply = await shop.api.post(
        "/v1/transactions",
        key=shop.key,
        json=pix_order(),
        headers=[("X-Idempotency-Key", "a"), ("X-Idempotency-Key", "b")],
    )
    assert_refused(reply, ErrorCode.IDEMPOTENCY_KEY_INVALID, status=400)


@pytest.mark.parametrize("key", ["!", "~" * 255, "'; drop table transaction; --"[1:7], "k,1"])
async def test_every_visible_character_may_be_in_a_key(shop: Shop, key: str) -> None:
    key = key.replace(" ", "_")
    assert (await shop.order(pix_order(), idempotency_key=key)).status == 201
    assert (await shop.order(pix_order(), idempotency_key=key)).status == 200


async def test_keys_differ_by_their_case(shop: Shop) -> None:
    for key in ("k", "K"):
        assert (await shop.order(pix_order(), idempotency_key=key)).status == 201


async def test_without_a_key_each_call_creates(shop: Shop) -> None:
    replies = [await shop.order(pix_order()) for _ in range(3)]
    assert {reply.status for reply in replies} == {201}
    assert len({reply.data["id"] for reply in replies}) == 3
    assert {reply.headers["X-Idempotency-Key-Source"] for reply in replies} == {"generated"}
    assert all(reply.headers["X-Idempotency-Key"].startswith("idem_") for reply in replies)
    assert {reply.headers["X-Idempotency-Replayed"] for reply in replies} == {"false"}


async def test_a_key_belongs_to_its_company_not_to_an_api_key(shop: Shop) -> None:
    first = await shop.order(pix_order(), idempotency_key="k-1")
    rotated = (await new_key(shop.database, shop.scope.company_id)).key
    headers = {"X-Idempotency-Key": "k-1"}
    again = await shop.api.post("/v1/transactions", key=rotated, json=pix_order(), headers=headers)
    assert (again.status, again.data["id"]) == (200, first.data["id"])
    other = await new_shop(shop.api, shop.database)
    theirs = await other.order(pix_order(1_234), idempotency_key="k-1")
    assert (theirs.status, theirs.data["amount"]) == (201, 1_234)


async def test_a_key_of_the_sandbox_is_unknown_in_the_live_environment(shop: Shop) -> None:
    await shop.order(pix_order(), idempotency_key="k-1")
    for body in (pix_order(), pix_order(20_000)):
        reply = await shop.api.post(
            "/v1/transactions",
            key=shop.tenant.sk_live,
            json=body,
            headers={"X-Idempotency-Key": "k-1"},
        )
        assert_refused(reply, ErrorCode.PROVIDER_NOT_CONFIGURED, status=503)


async def test_what_was_refused_leaves_the_key_free(shop: Shop) -> None:
    reply = await shop.order(pix_order(50), idempotency_key="k-1")
    assert_refused(reply, ErrorCode.AMOUNT_BELOW_MINIMUM, status=422)
    assert reply.headers["X-Idempotency-Key"] == "k-1"
    assert (await shop.order(pix_order(), idempotency_key="k-1")).status == 201


async def test_what_was_limited_leaves_the_key_free(api: Api, database: Database) -> None:
    shop = Shop(api, database, await new_tenant(database, transactions_per_second=2))
    replies = await asyncio.gather(
        *(shop.order(pix_order(), idempotency_key=f"k-{number}") for number in range(4))
    )
    limited = [number for number, reply in enumerate(replies) if reply.status == 429]
    assert len(limited) == 2
    for number in limited:
        assert "X-Idempotency-Key" not in replies[number].headers
        await asyncio.sleep(1.0)
        again = await shop.order(pix_order(), idempotency_key=f"k-{number}")
        assert (again.status, again.headers["X-Idempotency-Replayed"]) == (201, "false")


async def test_a_caller_that_hangs_up_finds_its_payment_by_the_key(shop: Shop) -> None:
    for number in range(20):
        call = asyncio.create_task(shop.order(_order(number), idempotency_key=f"storm-{number}"))
        await asyncio.sleep(number / 2_000)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
    replies = [
        await shop.order(_order(number), idempotency_key=f"storm-{number}") for number in range(20)
    ]
    assert {reply.status for reply in replies} <= {200, 201}
    assert [reply.data["amount"] for reply in replies] == [1_000 + number for number in range(20)]
    await _each_key_made_one(shop, 20)


async def test_the_header_is_ignored_where_it_does_nothing(shop: Shop) -> None:
    made = await shop.create()
    headers = {"X-Idempotency-Key": "é not valid"}
    for method, path in (
        ("GET", f"/v1/transactions/{made['id']}"),
        ("GET", "/v1/transactions"),
        ("GET", "/v1/balance"),
        ("POST", f"/v1/transactions/{made['id']}/cancel"),
    ):
        reply = await shop.api.call(method, path, key=shop.key, headers=headers)
        assert reply.status == 200
        assert "X-Idempotency-Key" not in reply.headers


@pytest.mark.usefixtures("audited")
async def test_a_first_call_is_waited_for_until_it_is_thirty_seconds_old(shop: Shop) -> None:
    created = await shop.order(pix_order(), idempotency_key="k-1")

    async def pretend(sequence: int, *, seconds_old: float) -> HttpReply:
        """Ask again as if the first call had begun so long ago, with its answer or without."""
        await shop.database.execute(
            """
            update transaction set sequence = $3, created_at = $4
            where company_id = $1 and transaction_id = $2
            """,
            shop.scope.company_id,
            created.data["id"],
            sequence,
            utc_now() - timedelta(seconds=seconds_old),
        )
        return await shop.order(pix_order(), idempotency_key="k-1")

    young = await pretend(0, seconds_old=29)
    assert_refused(young, ErrorCode.IDEMPOTENCY_IN_PROGRESS, status=409)
    assert young.headers["Retry-After"] == "1"
    old = await pretend(0, seconds_old=31)
    assert (old.status, old.data["id"]) == (200, created.data["id"])
    assert old.headers["X-Idempotency-Replayed"] == "true"
    answered = await pretend(1, seconds_old=0)
    assert (answered.status, answered.data["id"]) == (200, created.data["id"])


@pytest.mark.usefixtures("audited")
async def test_a_storm_over_two_servers_makes_each_payment_once(
    shop: Shop, settings: Settings
) -> None:
    """Same key, same body: one creates, and everyone else is shown what was created."""
    async with running_api(settings) as one, running_api(settings) as two:
        await warm(shop, one, two)
        calls, replies = [], []
        for first in range(0, KEYS, KEYS_AT_ONCE):
            wave = [
                (number, (one, two)[call % 2])
                for call in range(CALLS)
                for number in range(first, min(first + KEYS_AT_ONCE, KEYS))
            ]
            replies += await asyncio.gather(
                *(send(server, shop, _order(number), _key(number)) for number, server in wave)
            )
            calls += wave
    statuses: dict[int, Counter[int]] = {number: Counter() for number in range(KEYS)}
    created: dict[int, set[str]] = {number: set() for number in range(KEYS)}
    for (number, _), reply in zip(calls, replies, strict=True):
        statuses[number][reply.status] += 1
        if reply.status in {200, 201}:
            assert reply.data["amount"] == 1_000 + number
            assert TIMESTAMP.fullmatch(reply.headers["X-Idempotency-Processed-At"])
            created[number].add(reply.data["id"])
        else:
            assert_refused(reply, ErrorCode.IDEMPOTENCY_IN_PROGRESS, status=409)
    assert all(count[201] == 1 for count in statuses.values()), statuses
    assert all(len(made) == 1 for made in created.values())
    await _each_key_made_one(shop, KEYS)


@pytest.mark.usefixtures("audited")
async def test_a_storm_of_different_bodies_makes_one_payment_a_key(
    shop: Shop, settings: Settings
) -> None:
    """Same key, four bodies: one of them wins, and only its own repetitions are answered."""
    keys = 8
    async with running_api(settings) as one, running_api(settings) as two:
        await warm(shop, one, two)
        calls = [
            (number, 1_000 + call % 4, (one, two)[call // 4 % 2])
            for call in range(32)
            for number in range(keys)
        ]
        replies = await asyncio.gather(
            *(send(api, shop, pix_order(amount), _key(number)) for number, amount, api in calls)
        )
    winners: dict[int, set[tuple[str, int]]] = {number: set() for number in range(keys)}
    for (number, amount, _), reply in zip(calls, replies, strict=True):
        if reply.status in {200, 201}:
            winners[number].add((reply.data["id"], amount))
            assert reply.data["amount"] == amount
        else:
            assert_refused(reply, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
            assert TIMESTAMP.fullmatch(reply.headers["X-Idempotency-Processed-At"])
    assert all(len(won) == 1 for won in winners.values())
    assert Counter(reply.status for reply in replies)[201] == keys
    await _each_key_made_one(shop, keys)


def _order(number: int) -> dict[str, Any]:
    return pix_order(1_000 + number)


def _key(number: int) -> Mapping[str, str]:
    return {"X-Idempotency-Key": f"storm-{number}"}


async def _each_key_made_one(shop: Shop, keys: int) -> None:
    row = await shop.database.fetchrow(
        """
        select count(*) as made, count(distinct idempotency_key) as keys,
            (select count(*) from webhook_event e where e.company_id = $1) as events,
            (select count(*) from transaction_history h where h.company_id = $1) as history
        from transaction where company_id = $1
        """,
        shop.scope.company_id,
    )
    assert row is not None
    assert [row[name] for name in ("made", "keys", "events", "history")] == [keys] * 4
