"""Whoever tries out cards: stopped by address, by card and by company, in whichever process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from checkout.conftest import WIDE
from conftest import running_api
from support.api import HttpReply, assert_refused
from support.cards import number_ending_in
from support.storefront import Storefront, new_storefront
from vintem.checkout import card_tries
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.worker import DUTIES


@asynccontextmanager
async def two_processes(
    settings: Settings, database: Database, **limits: object
) -> AsyncIterator[tuple[Storefront, Storefront]]:
    """One company behind two servers that share their limits."""
    await database.execute("delete from checkout_card_try")
    await database.execute("delete from rate_window where company_id = 0")
    await database.execute("delete from rate_call where company_id = 0")
    changed = replace(settings, **{**WIDE, **limits})  # type: ignore[arg-type]
    async with (
        running_api(changed, shared_limits=True) as one,
        running_api(changed, shared_limits=True) as other,
    ):
        store = await new_storefront(one, database)
        yield store, replace(store, shop=replace(store.shop, api=other))


async def tried(store: Storefront, last: str = "1111") -> HttpReply:
    return await (await store.open()).pay_by_card(last)


def assert_card_refused(reply: HttpReply, *, seconds_max: int) -> None:
    assert_refused(reply, ErrorCode.CARD_ATTEMPTS_EXCEEDED, status=429)
    assert seconds_max - 100 < int(reply.headers["Retry-After"]) <= seconds_max


async def test_an_address_is_counted_by_all_processes_together(
    settings: Settings, database: Database
) -> None:
    async with two_processes(settings, database, public_refused_cards_per_hour=2) as (one, other):
        assert (await tried(one, "0002")).status == 201
        assert (await tried(other, "9995")).status == 201
        for store in (one, other):
            assert_card_refused(await tried(store), seconds_max=3_600)
            assert (await (await store.open()).pay()).status == 201


async def test_wrong_codes_are_counted_by_all_processes_together(
    settings: Settings, database: Database
) -> None:
    async with two_processes(settings, database, public_wrong_codes_per_hour=2) as (one, other):
        await one.coupon()
        for store in (one, other, one):
            assert (await (await store.open()).coupon("TEN")).status == 200
        for store in (one, other):
            reply = await (await store.open()).coupon("NONE")
            assert_refused(reply, ErrorCode.COUPON_INVALID, status=422)
        for store in (one, other):
            reply = await (await store.open()).coupon("TEN")
            assert_refused(reply, ErrorCode.COUPON_LOCKED, status=429)


async def test_one_card_is_refused_so_often_and_no_more_whoever_sells(
    settings: Settings, database: Database
) -> None:
    limits = {"public_refusals_of_test_card_per_hour": 3}
    async with two_processes(settings, database, **limits) as (one, other):
        elsewhere = await new_storefront(one.api, database)
        for store in (one, other, elsewhere):
            assert (await tried(store, "0002")).status == 201
        assert_card_refused(await tried(elsewhere, "0002"), seconds_max=3_600)
        # Another card is not meant.
        assert (await tried(elsewhere)).data["payment"]["status"] == "paid"


async def test_a_card_that_pays_is_not_counted(settings: Settings, database: Database) -> None:
    limits = {"public_refusals_of_test_card_per_hour": 1, "public_refused_cards_per_hour": 1}
    async with two_processes(settings, database, **limits) as (one, _):
        for _ in range(3):
            assert (await tried(one)).data["payment"]["status"] == "paid"


async def test_many_cards_at_once_are_not_more(settings: Settings, database: Database) -> None:
    async with two_processes(settings, database, public_refused_cards_per_hour=2) as (one, other):
        stores = [one, other] * 4
        replies = await asyncio.gather(*(tried(store, "0002") for store in stores))
        assert sum(reply.status == 201 for reply in replies) <= 2


async def test_nothing_known_of_a_try_tells_the_card_or_the_address(
    settings: Settings, database: Database
) -> None:
    async with two_processes(settings, database) as (one, _):
        await tried(one, "0002")
        row = await database.fetchval("select t::text from checkout_card_try t")
        for secret in (number_ending_in("0002"), "127.0.0.1"):
            assert secret not in row
            assert secret.encode().hex() not in row


async def test_a_payment_that_is_not_made_is_no_try(settings: Settings, database: Database) -> None:
    async with two_processes(settings, database) as (one, _):
        basket = await one.open()
        token = await basket.card_token("0119")
        for _ in range(2):
            # The second is shown the first.
            reply = await basket.pay(paymentMethod="credit_card", card={"token": token})
            assert reply.status in {200, 201}
        assert await database.fetchval("select count(*) from checkout_card_try") == 1


@pytest.mark.parametrize(("refused", "is_stopped"), [(20, False), (21, True)])
async def test_a_company_whose_cards_are_refused_too_often_takes_none_for_a_while(
    settings: Settings, database: Database, refused: int, *, is_stopped: bool
) -> None:
    async with two_processes(settings, database) as (one, other):
        for lasts in (["0002"] * refused, ["1111"] * (49 - refused)):
            replies = await asyncio.gather(*(tried(one, last) for last in lasts))
            assert {reply.status for reply in replies} == {201}
        # One less is too few to judge by.
        assert (await tried(other)).status == 201
        reply = await tried(other)
        if not is_stopped:
            assert reply.status == 201
            return
        assert_card_refused(reply, seconds_max=600)
        assert (await (await other.open()).pay()).status == 201
        assert (await (await other.open()).pay_by_boleto()).status == 201
        # Nobody else is meant, and it ends by itself.
        assert (await tried(await new_storefront(one.api, database))).status == 201
        await database.execute(
            "update checkout_card_try set tried_at = tried_at - interval '10 minutes'"
        )
        assert (await tried(one)).status == 201


async def test_tries_are_forgotten_after_an_hour(settings: Settings, database: Database) -> None:
    async with two_processes(settings, database) as (one, _):
        await tried(one)
        now = utc_now()
        assert await card_tries.forget_old(database, now=now + timedelta(minutes=59)) == 0
        assert await card_tries.forget_old(database, now=now + timedelta(minutes=61)) == 1
        assert "old card tries" in {duty.kind for duty in DUTIES}
