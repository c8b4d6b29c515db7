"""The same request again without a key: one payment where the company wants it so."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conftest import running_api
from support.api import (
    TEST_PEPPER,
    Api,
    HttpReply,
    Shop,
    assert_refused,
    complaints,
    new_key,
    new_shop,
    pix_order,
)
from support.platform import client, private_folder, served
from vintem.companies import service as companies
from vintem.companies.model import ImplicitProtection
from vintem.intents import service as intents
from vintem.intents.model import ImplicitIntent
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime import metrics
from vintem.runtime.db import Connection, Database
from vintem.settings import Settings
from vintem.worker import DUTIES

CALLS = 64
HEADERS = ("X-Idempotency-Key", "X-Idempotency-Key-Source", "X-Idempotency-Replayed")


@pytest.fixture(autouse=True)
async def _audited(database: Database) -> AsyncIterator[None]:
    yield
    assert await complaints(database) == {}


async def protected_shop(
    api: Api, database: Database, protection: ImplicitProtection = ImplicitProtection.ENFORCE
) -> Shop:
    """A company that is protected before its first call."""
    shop = await new_shop(api, database)
    await companies.set_implicit_protection(database, shop.tenant.company.public_id, protection)
    return shop


@pytest.fixture
async def shop(api: Api, database: Database) -> Shop:
    return await protected_shop(api, database)


def idempotency(reply: HttpReply) -> tuple[str, ...]:
    return tuple(reply.headers[name] for name in HEADERS)


async def total(shop: Shop) -> int:
    return int((await shop.list())["pagination"]["total"])


async def age(shop: Shop, seconds: float) -> None:
    """Let the company's requests have been made so long ago."""
    await shop.database.execute(
        "update implicit_intent set created_at = created_at - $2::interval where company_id = $1",
        shop.scope.company_id,
        timedelta(seconds=seconds),
    )


def repetitions(protection: str) -> float:
    labels = {"operation": "transaction", "protection": protection}
    return metrics.REGISTRY.get_sample_value("vintem_implicit_repetitions_total", labels) or 0.0


async def test_the_same_request_again_shows_the_payment_it_made(shop: Shop) -> None:
    first = await shop.order(pix_order())
    assert first.status == 201
    key, source, replayed = idempotency(first)
    assert key.startswith("idem_")
    assert (source, replayed) == ("generated", "false")
    again = await shop.order(pix_order())
    assert (again.status, again.data) == (200, first.data)
    assert idempotency(again) == (key, "implicit", "true")
    assert again.headers["X-Idempotency-Processed-At"] == first.data["createdAt"]
    assert await total(shop) == 1


async def test_a_repetition_shows_the_payment_as_it_is_now(shop: Shop) -> None:
    made = (await shop.order(pix_order())).data
    await shop.move(made["id"], "paid")
    again = await shop.order(pix_order())
    assert (again.status, again.data) == (200, await shop.read(made["id"]))
    assert again.data["status"] == "paid"


async def test_the_order_of_names_makes_no_difference(shop: Shop) -> None:
    order = pix_order(metadata={"a": 1, "b": 2})
    first = await shop.order(order)
    again = await shop.order({name: order[name] for name in reversed(order)})
    assert (again.status, again.data["id"]) == (200, first.data["id"])


@pytest.mark.parametrize("changed", [{"amount": 10_001}, {"externalRef": "x"}, {"metadata": {}}])
async def test_any_difference_makes_another_payment(shop: Shop, changed: dict[str, Any]) -> None:
    assert (await shop.order(pix_order())).status == 201
    assert (await shop.order({**pix_order(), **changed})).status == 201
    assert await total(shop) == 2


async def test_a_request_with_a_key_is_never_taken_for_a_repetition(shop: Shop) -> None:
    implicit = await shop.order(pix_order())
    replies = [await shop.order(pix_order(), idempotency_key=key) for key in ("k-1", "k-2")]
    assert [reply.status for reply in replies] == [201, 201]
    assert [idempotency(reply) for reply in replies] == [
        ("k-1", "client", "false"),
        ("k-2", "client", "false"),
    ]
    # The key of a payment that was made without one is a key like any other.
    key = implicit.headers["X-Idempotency-Key"]
    again = await shop.order(pix_order(), idempotency_key=key)
    assert (again.status, again.data["id"]) == (200, implicit.data["id"])
    assert idempotency(again) == (key, "client", "true")


async def test_what_was_made_with_a_key_is_not_shown_to_a_request_without_one(shop: Shop) -> None:
    keyed = await shop.order(pix_order(), idempotency_key="k-1")
    reply = await shop.order(pix_order())
    assert (reply.status, reply.headers["X-Idempotency-Key-Source"]) == (201, "generated")
    assert reply.data["id"] != keyed.data["id"]


async def test_after_a_minute_the_same_request_is_a_new_wish(shop: Shop) -> None:
    first = await shop.order(pix_order())
    await age(shop, 58)
    assert (await shop.order(pix_order())).data["id"] == first.data["id"]
    await age(shop, 3)
    second = await shop.order(pix_order())
    assert (second.status, second.headers["X-Idempotency-Key-Source"]) == (201, "generated")
    # A minute counts from the payment that was made, not from the last repetition.
    third = await shop.order(pix_order())
    assert (third.status, third.data["id"]) == (200, second.data["id"])
    assert await total(shop) == 2


async def test_companies_do_not_share_their_wishes(shop: Shop) -> None:
    other = await protected_shop(shop.api, shop.database)
    replies = [await shop.order(pix_order()), await other.order(pix_order())]
    assert [reply.status for reply in replies] == [201, 201]


async def test_a_wish_belongs_to_the_company_not_to_an_api_key(shop: Shop) -> None:
    first = await shop.order(pix_order())
    rotated = (await new_key(shop.database, shop.scope.company_id)).key
    again = await shop.api.post("/v1/transactions", key=rotated, json=pix_order())
    assert (again.status, again.data["id"]) == (200, first.data["id"])


async def test_what_was_refused_is_not_remembered(shop: Shop) -> None:
    for _ in range(2):
        reply = await shop.order(pix_order(50))
        assert_refused(reply, ErrorCode.AMOUNT_BELOW_MINIMUM, status=422)
        assert reply.headers["X-Idempotency-Key-Source"] == "generated"
    live = await shop.api.post("/v1/transactions", key=shop.tenant.sk_live, json=pix_order())
    assert_refused(live, ErrorCode.PROVIDER_NOT_CONFIGURED, status=503)
    assert (await shop.order(pix_order())).status == 201


async def test_a_company_that_observes_gets_every_payment_and_the_operator_hears_of_it(
    api: Api, database: Database, worker_id: str
) -> None:
    shop = await protected_shop(api, database, ImplicitProtection.OBSERVE)
    before = repetitions("observe")
    replies = [await shop.order(pix_order()) for _ in range(3)]
    assert [reply.status for reply in replies] == [201, 201, 201]
    assert len({reply.data["id"] for reply in replies}) == 3
    assert {idempotency(reply)[1:] for reply in replies} == {("generated", "false")}
    assert repetitions("observe") == before + 2
    first = replies[0].data["id"]
    lines = (Path(os.environ["TEST_LOG_FOLDER"]) / f"{worker_id}.log").read_text().splitlines()
    told = [json.loads(line) for line in lines if first in line and "without a key" in line]
    assert [(line["earlier"], line["protection"]) for line in told] == [(first, "observe")] * 2


async def test_repetitions_that_were_prevented_are_counted(shop: Shop) -> None:
    before = repetitions("enforce")
    for _ in range(3):
        await shop.order(pix_order())
    assert repetitions("enforce") == before + 2


async def test_a_company_without_protection_leaves_no_trace(api: Api, database: Database) -> None:
    shop = await new_shop(api, database)
    assert [(await shop.order(pix_order())).status for _ in range(2)] == [201, 201]
    assert await remembered(shop) == 0


async def remembered(shop: Shop) -> int:
    count = await shop.database.fetchval(
        "select count(*) from implicit_intent where company_id = $1", shop.scope.company_id
    )
    return int(count)


def card_order(token: str) -> dict[str, Any]:
    return {**pix_order(), "paymentMethod": "credit_card", "card": {"token": token}}


async def card_token(shop: Shop, number: str = "4111111111111111") -> str:
    card = {"number": number, "holderName": "CLIENTE DE TESTE", "cvv": "123"}
    card |= {"expirationMonth": 12, "expirationYear": 2035}  # type: ignore[dict-item]
    reply = await shop.api.post("/v1/card-tokens", key=shop.key, json=card)
    return str(reply.data["token"])


async def test_a_repetition_is_answered_although_its_card_token_is_spent(shop: Shop) -> None:
    token = await card_token(shop)
    first = await shop.order(card_order(token))
    assert (first.status, first.data["status"]) == (201, "paid")
    again = await shop.order(card_order(token))
    assert (again.status, again.data["id"]) == (200, first.data["id"])
    await age(shop, 61)
    assert_refused(await shop.order(card_order(token)), ErrorCode.CARD_TOKEN_INVALID, status=422)
    assert (await shop.balance()) == {"waitingFunds": 10_000}


async def test_twins_with_one_card_token_make_one_payment(shop: Shop) -> None:
    token = await card_token(shop)
    replies = await asyncio.gather(*(shop.order(card_order(token)) for _ in range(16)))
    assert Counter(reply.status for reply in replies) == {201: 1, 200: 15}
    assert len({reply.data["id"] for reply in replies}) == 1
    assert (await shop.balance()) == {"waitingFunds": 10_000}


async def test_twins_with_one_raw_card_are_charged_once(shop: Shop) -> None:
    card = {"number": "4111111111111111", "holderName": "CLIENTE DE TESTE", "cvv": "123"}
    card |= {"expirationMonth": 12, "expirationYear": 2035}  # type: ignore[dict-item]
    order = {**pix_order(), "paymentMethod": "credit_card", "card": card}
    replies = await asyncio.gather(*(shop.order(order) for _ in range(16)))
    assert sorted(reply.status for reply in replies) == [200] * 15 + [201]
    assert {reply.data["status"] for reply in replies} == {"paid"}
    charges = await shop.database.fetchval(
        "select count(*) from simulator_charge where company_id = $1", shop.scope.company_id
    )
    assert charges == 1


async def test_a_storm_over_two_servers_makes_each_payment_once(
    shop: Shop, settings: Settings
) -> None:
    wishes = 4
    async with running_api(settings) as one, running_api(settings) as two:
        # One after the other: callers and servers share this process and few connections.
        for number in range(wishes):
            order = pix_order(1_000 + number)
            replies = await asyncio.gather(
                *(
                    (one, two)[call % 2].post("/v1/transactions", key=shop.key, json=order)
                    for call in range(CALLS)
                )
            )
            assert_one_payment(replies, amount=1_000 + number)
    assert await total(shop) == await remembered(shop) == wishes


async def test_a_storm_over_two_processes_makes_one_payment(shop: Shop, database_url: str) -> None:
    settings = {"DATABASE_URL": database_url, "VINTEM_PEPPER": TEST_PEPPER}
    with private_folder() as folder:
        async with (
            served(folder / "data", workers=2, settings=settings) as running,
            client(running) as there,
        ):
            call = partial(there.post, "/v1/transactions", key=shop.key, json=pix_order())
            replies = await asyncio.gather(*(call() for _ in range(CALLS)))
    assert_one_payment(replies, amount=10_000)
    assert await total(shop) == 1


def assert_one_payment(replies: list[HttpReply], *, amount: int) -> None:
    assert Counter(reply.status for reply in replies) == {201: 1, 200: CALLS - 1}
    assert len({reply.data["id"] for reply in replies}) == 1
    assert {reply.data["amount"] for reply in replies} == {amount}
    assert len({reply.headers["X-Idempotency-Key"] for reply in replies}) == 1
    sources = Counter(reply.headers["X-Idempotency-Key-Source"] for reply in replies)
    assert sources == {"generated": 1, "implicit": CALLS - 1}


# The domain, which other operations share


def wish(shop: Shop, **changed: Any) -> ImplicitIntent:
    given: dict[str, Any] = {
        "company_id": shop.scope.company_id,
        "environment": "test",
        "operation": "other",
        "fingerprint": b"f" * 32,
        "now": utc_now(),
        "window": timedelta(seconds=600),
        **changed,
    }
    return ImplicitIntent(**given)


async def test_a_claimed_wish_stands_for_its_first_entity_as_long_as_its_window(
    shop: Shop,
) -> None:
    first = wish(shop)
    assert await intents.claim(shop.database, first, "wd_1") is None
    later = wish(shop, now=first.now + timedelta(seconds=600))
    assert await intents.claim(shop.database, later, "wd_2") == "wd_1"
    earlier = wish(shop, now=first.now - timedelta(seconds=5))
    assert await intents.claim(shop.database, earlier, "wd_3") == "wd_1"
    over = wish(shop, now=first.now + timedelta(seconds=601))
    assert await intents.find(shop.database, over) is None
    assert await intents.claim(shop.database, over, "wd_4") is None
    assert await intents.find(shop.database, over) == "wd_4"


@pytest.mark.parametrize(
    "changed", [{"operation": "another"}, {"environment": "live"}, {"fingerprint": b"g" * 32}]
)
async def test_another_kind_place_or_content_is_another_wish(
    shop: Shop, changed: dict[str, Any]
) -> None:
    assert await intents.claim(shop.database, wish(shop), "wd_1") is None
    assert await intents.claim(shop.database, wish(shop, **changed), "wd_2") is None


async def test_a_wish_that_was_undone_is_free(shop: Shop) -> None:
    async def claim_and_fail(block: Connection) -> None:
        await intents.claim(block, wish(shop), "wd_1")
        raise LookupError

    with pytest.raises(LookupError):
        await shop.database.atomically(claim_and_fail)
    assert await intents.claim(shop.database, wish(shop), "wd_2") is None


async def test_wishes_older_than_a_day_are_forgotten(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intents, "FORGOTTEN_AT_ONCE_MAX", 2)
    now = utc_now()
    for number in range(5):
        at = now - timedelta(days=1, seconds=1)
        await intents.claim(
            shop.database, wish(shop, fingerprint=bytes([number]) * 32, now=at), "wd_1"
        )
    kept = wish(shop, now=now - timedelta(hours=23))
    await intents.claim(shop.database, kept, "wd_kept")
    assert await intents.forget_old(shop.database, now=now) >= 5
    assert await remembered(shop) == 1
    assert await intents.find(shop.database, kept) == "wd_kept"
    assert "old implicit intents" in {duty.kind for duty in DUTIES}
