"""Public calls: who may make them, how often, and in which order they are refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from checkout.conftest import WIDE
from conftest import running_api
from support.api import Api, assert_refused
from support.storefront import Basket, Storefront, buyer, new_storefront, raw_card
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.settings import Settings

OWN = "https://pay.example"
EXPECTED_EXPOSED = "x-request-id, retry-after"


@asynccontextmanager
async def narrow(
    settings: Settings, database: Database, **limits: object
) -> AsyncIterator[Storefront]:
    changed = {**WIDE, "public_url": OWN, **limits}
    # All tests call from one address, which has a past.
    await database.execute("delete from checkout_card_try")
    async with running_api(replace(settings, **changed)) as api:  # type: ignore[arg-type]
        yield await new_storefront(api, database)


@pytest.fixture(scope="module")
async def own(settings: Settings, database: Database) -> AsyncIterator[Api]:
    """A server that knows its public address."""
    changed = replace(settings, public_url=OWN, **WIDE)  # type: ignore[arg-type]
    async with running_api(changed) as running:
        yield running


@pytest.fixture
async def basket(own: Api, database: Database) -> Basket:
    store = await new_storefront(own, database)
    await store.set_up(domains=["Loja.example", "*.shop.example", "localhost:3000"])
    return await store.open()


@pytest.mark.parametrize(
    "origin",
    [
        *(OWN, "https://loja.example", "https://a.shop.example", "http://localhost:3000"),
    ],
)
async def test_known_pages_may_call_and_read(basket: Basket, origin: str) -> None:
    headers = {"Origin": origin}
    for reply in (
        await basket.call("GET", headers=headers),
        await basket.call("POST", "/pay", {"customer": buyer()}, headers=headers),
    ):
        assert reply.status in {200, 201}
        assert reply.headers["access-control-allow-origin"] == origin
        assert reply.headers["vary"] == "origin"
        assert reply.headers["access-control-expose-headers"].startswith(EXPECTED_EXPOSED)
        assert "access-control-allow-credentials" not in reply.headers
    # A refusal can be read by the page too.
    refused = await basket.call("POST", "/coupon", {"code": "X"}, headers=headers)
    assert_refused(refused, ErrorCode.COUPON_INVALID, status=422)
    assert refused.headers["access-control-allow-origin"] == origin


@pytest.mark.parametrize(
    "origin",
    [
        *("https://evil.example", "http://loja.example", "https://shop.example"),
        *("https://loja.example.evil.example", "https://xloja.example", "null", "", "junk"),
        *("https://loja.example:444", "http://pay.example", "https://pay.example/"),
        *("https://loja.example/x", "https://x@loja.example", "http://127.0.0.1:3000"),
        *("https://evil.example\\.shop.example", "https://x.evil.example%2f.shop.example"),
        *("https://a_b.shop.example", "https://.shop.example", "https://é.shop.example"),
    ],
)
async def test_other_pages_are_refused(basket: Basket, origin: str) -> None:
    for method, suffix, body in (
        ("GET", "", None),
        ("POST", "/pay", {"customer": buyer()}),
        ("POST", "/coupon", {"code": "X"}),
        ("DELETE", "/coupon", None),
        ("POST", "/card-tokens", raw_card()),
        ("OPTIONS", "/pay", None),
    ):
        reply = await basket.call(method, suffix, body, headers={"Origin": origin})
        assert_refused(reply, ErrorCode.ORIGIN_NOT_ALLOWED, status=403)
        assert "access-control-allow-origin" not in reply.headers
    assert (await basket.read())["payment"] is None


async def test_a_page_that_hides_where_it_is_may_be_our_own(basket: Basket) -> None:
    hidden = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    assert (await basket.call("GET", headers=hidden)).status == 200
    other = {"Origin": "null", "Sec-Fetch-Site": "cross-site"}
    reply = await basket.call("GET", headers=other)
    assert_refused(reply, ErrorCode.ORIGIN_NOT_ALLOWED, status=403)


async def test_a_browser_may_ask_before_it_calls(basket: Basket) -> None:
    headers = {
        "Origin": "https://loja.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    for suffix, methods in (
        ("", "GET, HEAD"),
        ("/coupon", "DELETE, POST"),
        ("/pay", "POST"),
        ("/card-tokens", "POST"),
    ):
        reply = await basket.call("OPTIONS", suffix, headers=headers)
        assert (reply.status, reply.body) == (200, b"")
        assert reply.headers["access-control-allow-origin"] == "https://loja.example"
        assert reply.headers["access-control-allow-methods"] == methods
        assert "content-type" in reply.headers["access-control-allow-headers"]
        assert "x-idempotency-key" in reply.headers["access-control-allow-headers"]
    unknown = await basket.store.api.call(
        "OPTIONS", f"/v1/checkout/sessions/{'x' * 43}/pay", headers=headers
    )
    assert_refused(unknown, ErrorCode.SESSION_NOT_FOUND, status=404)
    keyed = await basket.store.api.call("OPTIONS", "/v1/checkout/sessions", headers=headers)
    assert_refused(keyed, ErrorCode.METHOD_NOT_ALLOWED, status=405)


async def test_public_calls_are_refused_in_one_order(
    settings: Settings, database: Database
) -> None:
    async with narrow(settings, database, public_payments_per_minute=4) as store:
        basket = await store.open(expiresAt=1)
        await basket.age(timedelta(minutes=1))
        unknown = Basket(store, "", "x" * 43)
        junk: dict[str, str] = {"amount": "1"}
        foreign = {"Origin": "https://evil.example"}
        for one, headers, body, code, status in (
            (unknown, foreign, junk, ErrorCode.SESSION_NOT_FOUND, 404),
            (basket, foreign, junk, ErrorCode.ORIGIN_NOT_ALLOWED, 403),
            (basket, {}, junk, ErrorCode.VALIDATION_ERROR, 400),
            (basket, {}, {"customer": buyer()}, ErrorCode.SESSION_EXPIRED, 410),
            (unknown, foreign, junk, ErrorCode.RATE_LIMIT_EXCEEDED, 429),
        ):
            reply = await one.call("POST", "/pay", body, headers=headers)
            assert_refused(reply, code, status=status)
            assert reply.headers["X-RateLimit-Limit"] == "4"
            if status == 429:
                assert 0 < int(reply.headers["Retry-After"]) <= 60


@pytest.mark.parametrize(
    ("limit", "method", "suffix", "body"),
    [
        ("public_coupons_per_minute", "POST", "/coupon", {"code": "X"}),
        ("public_coupons_per_minute", "DELETE", "/coupon", None),
        ("public_payments_per_minute", "POST", "/pay", {}),
        ("public_card_tokens_per_minute", "POST", "/card-tokens", {}),
        ("public_reads_of_one_per_minute", "GET", "", None),
        ("public_reads_per_minute", "GET", "", None),
    ],
)
async def test_one_address_calls_only_so_often(
    settings: Settings,
    database: Database,
    limit: str,
    method: str,
    suffix: str,
    body: object,
) -> None:
    async with narrow(settings, database, **{limit: 2}) as store:
        basket = await store.open()
        for left in (1, 0):
            reply = await basket.call(method, suffix, body)
            assert reply.status != 429
            assert reply.headers["X-RateLimit-Remaining"] == str(left)
        reply = await basket.call(method, suffix, body)
        assert_refused(reply, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)
        # Only reads of one session are counted for each session.
        other = await (await store.open()).call(method, suffix, body)
        assert (other.status == 200) is (limit == "public_reads_of_one_per_minute")


async def test_a_refused_read_takes_no_place_in_the_other_window(
    settings: Settings, database: Database
) -> None:
    limits = {"public_reads_per_minute": 1, "public_reads_of_one_per_minute": 1}
    async with narrow(settings, database, **limits) as store:
        first, second = await store.open(), await store.open()
        assert (await first.call("GET")).status == 200
        reply = await second.call("GET")
        assert_refused(reply, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)
        assert reply.headers["X-RateLimit-Limit"] == "1"


def test_the_limits_are_those_of_the_contract(settings: Settings) -> None:
    assert (
        settings.public_reads_of_one_per_minute,
        settings.public_reads_per_minute,
        settings.public_coupons_per_minute,
        settings.public_payments_per_minute,
        settings.public_card_tokens_per_minute,
        settings.public_link_sessions_per_minute,
        settings.public_refused_cards_per_hour,
        settings.public_refusals_of_card_per_hour,
        settings.public_wrong_codes_per_hour,
    ) == (60, 900, 10, 10, 10, 10, 10, 3, 20)


async def test_an_address_with_many_refused_cards_tries_no_more(
    settings: Settings, database: Database
) -> None:
    async with narrow(settings, database, public_refused_cards_per_hour=2) as store:
        assert (await (await store.open()).pay_by_card()).status == 201
        for _ in range(2):
            basket = await store.open()
            assert (await basket.pay_by_card("0002")).status == 201
        reply = await (await store.open()).pay_by_card()
        assert_refused(reply, ErrorCode.CARD_ATTEMPTS_EXCEEDED, status=429)
        assert 3_500 < int(reply.headers["Retry-After"]) <= 3_600
        assert (await (await store.open()).pay()).status == 201


async def test_a_card_that_is_refused_later_counts_too(
    settings: Settings, database: Database
) -> None:
    async with narrow(settings, database, public_refused_cards_per_hour=2) as store:
        slow = []
        for _ in range(2):
            paid = (await (await store.open()).pay_by_card("0119")).data
            assert paid["payment"]["status"] == "processing"
            slow.append(paid["transactionId"])
        # Either may be refused yet.
        reply = await (await store.open()).pay_by_card()
        assert_refused(reply, ErrorCode.CARD_ATTEMPTS_EXCEEDED, status=429)
        await store.shop.simulate(slow[0], "paid")
        await store.shop.simulate(slow[1], "failed")
        # The one that was paid has given its place back, and the other one keeps it.
        assert (await (await store.open()).pay_by_card("0002")).status == 201
        reply = await (await store.open()).pay_by_card()
        assert_refused(reply, ErrorCode.CARD_ATTEMPTS_EXCEEDED, status=429)
        assert 3_500 < int(reply.headers["Retry-After"]) <= 3_600


@pytest.mark.parametrize("dispute", [("pre_chargeback",), ("chargeback",), ("blocked",)])
async def test_a_buyer_who_has_paid_is_not_told_of_disputes(
    basket: Basket, dispute: tuple[str, ...]
) -> None:
    paid = (await basket.pay_by_card()).data
    assert paid["payment"]["status"] == "paid"
    await basket.store.shop.move(paid["transactionId"], *dispute)
    shown = (await basket.read())["payment"]
    assert shown["status"] == "paid"


async def test_a_payment_that_is_made_has_no_time_left(basket: Basket) -> None:
    paid = await basket.paid_by()
    assert 0 < (await basket.read())["payment"]["expiresInSeconds"] <= 3_600
    await basket.store.shop.simulate(paid["transactionId"], "paid")
    assert (await basket.read())["payment"]["expiresInSeconds"] is None


async def test_nothing_unknown_is_sent_with_the_removal_of_a_coupon(basket: Basket) -> None:
    refused = await basket.call("DELETE", "/coupon", {"junk": 1})
    assert_refused(refused, ErrorCode.VALIDATION_ERROR, status=400)
    assert (await basket.call("DELETE", "/coupon")).status == 200
    assert (await basket.call("DELETE", "/coupon", {})).status == 200


async def test_an_address_with_many_wrong_codes_tries_no_more(
    settings: Settings, database: Database
) -> None:
    async with narrow(settings, database, public_wrong_codes_per_hour=2) as store:
        await store.coupon()
        # Those that are right do not count.
        for _ in range(3):
            assert (await (await store.open()).coupon("TEN")).status == 200
        for _ in range(2):
            reply = await (await store.open()).coupon("NONE")
            assert_refused(reply, ErrorCode.COUPON_INVALID, status=422)
        reply = await (await store.open()).coupon("TEN")
        assert_refused(reply, ErrorCode.COUPON_LOCKED, status=429)
        assert 3_500 < int(reply.headers["Retry-After"]) <= 3_600
