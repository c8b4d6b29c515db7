"""Time ends sessions: many at once, and whatever holds one of them keeps no other waiting."""

import time
from collections.abc import Mapping
from datetime import timedelta

from support.api import Api, complaints
from support.platform import promised
from support.storefront import Basket, Storefront, new_storefront
from vintem.checkout import ending
from vintem.kit.clock import utc_now
from vintem.runtime.db import Database
from vintem.transactions import service as transactions

SESSIONS = 1_000
SECONDS_MAX = 5.0


async def statuses(store: Storefront) -> Mapping[str, int]:
    rows = await store.database.fetch(
        """
        select status, count(*) as count from checkout_session
        where company_id = $1 group by status
        """,
        store.company_id,
    )
    return {row["status"]: row["count"] for row in rows}


async def overdue(store: Storefront) -> Basket:
    basket = await store.open(expiresAt=1)
    await basket.age(timedelta(minutes=2))
    return basket


async def test_a_held_session_keeps_no_other_waiting(
    store: Storefront, door: Api, database: Database
) -> None:
    held, beside = await overdue(store), await overdue(store)
    elsewhere = await overdue(await new_storefront(door, database))
    async with database.atomic() as block:
        await block.execute(
            "select from checkout_session where company_id = $1 and session_id = $2 for update",
            store.company_id,
            held.session_id,
        )
        started = time.monotonic()
        await ending.expire_due(database, now=utc_now())
        # Less than anybody waits for a lock.
        assert time.monotonic() - started < 2
        assert (await beside.found()).status == "EXPIRED"
        assert (await elsewhere.found()).status == "EXPIRED"
        assert (await held.found()).status == "OPEN"
    await ending.expire_due(database, now=utc_now())
    assert (await held.found()).status == "EXPIRED"
    expected = [(1, "checkout.session.open"), (2, "checkout.session.expired")]
    assert await store.events(held.session_id) == expected
    assert await store.events(beside.session_id) == expected


async def test_a_held_session_keeps_no_payment_of_another_waiting(
    store: Storefront, database: Database
) -> None:
    baskets = [await store.open() for _ in range(3)]
    due = [(await basket.paid_by())["transactionId"] for basket in baskets]
    later = utc_now() + timedelta(hours=2)
    async with database.atomic() as block:
        await block.execute(
            "select from checkout_session where company_id = $1 and session_id = $2 for update",
            store.company_id,
            baskets[0].session_id,
        )
        await transactions.move_due(database, now=later)
        statuses = [(await store.shop.read(one))["status"] for one in due]
        assert statuses == ["pending", "cancelled", "cancelled"]
    await transactions.move_due(database, now=later)
    assert (await store.shop.read(due[0]))["status"] == "cancelled"


async def test_a_held_payment_keeps_no_other_session_waiting(
    store: Storefront, database: Database
) -> None:
    # The first is completed by the code that was superseded: the second code is left over.
    baskets = [await store.open(), await store.open()]
    left_over = []
    await store.coupon()
    for basket in baskets:
        first = (await basket.paid_by())["transactionId"]
        assert (await basket.coupon("TEN")).status == 200
        left_over.append((await basket.paid_by())["transactionId"])
        await store.shop.simulate(first, "paid")
    ends = {}
    async with database.atomic() as block:
        await block.execute(
            "select from transaction where company_id = $1 and transaction_id = $2 for update",
            store.company_id,
            left_over[0],
        )
        await ending.expire_due(database, now=utc_now())
        for one in left_over:
            ends[one] = (await store.shop.read(one))["status"]
    assert ends == {left_over[0]: "pending", left_over[1]: "cancelled"}
    await ending.expire_due(database, now=utc_now())
    assert (await store.shop.read(left_over[0]))["status"] == "cancelled"
    assert await complaints(database) == {}


async def test_a_thousand_sessions_are_ended_within_seconds(
    store: Storefront, database: Database
) -> None:
    basket = await overdue(store)
    await database.execute(
        """
        insert into checkout_session
        select (jsonb_populate_record(s, jsonb_build_object(
            'session_id', s.session_id || number, 'idempotency_key', s.session_id || number,
            'token_digest', '\\x' || encode(sha256((s.session_id || number)::bytea), 'hex')))).*
        from checkout_session s, generate_series(2, $3::int) number
        where s.company_id = $1 and s.session_id = $2
        """,
        store.company_id,
        basket.session_id,
        SESSIONS,
    )
    assert await statuses(store) == {"OPEN": SESSIONS}
    started = time.monotonic()
    await ending.expire_due(database, now=utc_now())
    assert time.monotonic() - started < promised(SECONDS_MAX)
    assert await statuses(store) == {"EXPIRED": SESSIONS}
    told = await database.fetchval(
        """
        select count(*) from webhook_event
        where company_id = $1 and kind = 'checkout.session.expired' and sequence = 2
        """,
        store.company_id,
    )
    assert told == SESSIONS
    # They were written without all that belongs to a session.
    for statement in (
        "delete from webhook_event where company_id = $1 and entity_id <> $2",
        "delete from checkout_session where company_id = $1 and session_id <> $2",
    ):
        await database.execute(statement, store.company_id, basket.session_id)
    assert await complaints(database) == {}
