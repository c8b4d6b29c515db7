"""One intent, one withdrawal, whatever is repeated and whatever has changed since."""

import asyncio
from datetime import timedelta

from support.api import assert_refused
from vintem.companies import service as companies
from vintem.companies.model import ImplicitProtection
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from withdrawals.till import Till, crypto_body, pix_body


async def test_a_repeated_key_gives_the_same_withdrawal(till: Till) -> None:
    first = await till.ask(pix_body(), idempotency_key="k-1")
    again = await till.ask(pix_body(), idempotency_key="k-1")
    assert (first.status, again.status) == (201, 200)
    assert (first.headers["X-Idempotency-Replayed"], again.headers["X-Idempotency-Replayed"]) == (
        "false", "true",
    )  # fmt: skip
    assert again.data == first.data
    processed_at = "X-Idempotency-Processed-At"
    assert again.headers[processed_at] == first.headers[processed_at] == first.data["createdAt"]
    assert await till.balance() == {"available": 99_000, "inTransit": 1_000}
    await till.check()


async def test_a_replay_shows_the_withdrawal_as_it_is_now(till: Till) -> None:
    made = (await till.ask(pix_body(), idempotency_key="k-1")).data
    await till.cancel(made["id"])
    assert (await till.ask(pix_body(), idempotency_key="k-1")).data["status"] == "cancelled"


async def test_another_body_under_the_same_key_is_refused(till: Till) -> None:
    await till.ask(pix_body(), idempotency_key="k-1")
    for body in (pix_body(1_001), pix_body(200_000), pix_body(pixKey="nobody"), crypto_body()):
        reply = await till.ask(body, idempotency_key="k-1")
        assert_refused(reply, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
        assert "X-Idempotency-Processed-At" in reply.headers
    assert await till.balance() == {"available": 99_000, "inTransit": 1_000}


async def test_a_recorded_key_replays_whatever_the_checks_say_today(till: Till) -> None:
    body = pix_body(100_000)
    made = (await till.ask(body, idempotency_key="k-1")).data
    reply = await till.ask(body, idempotency_key="k-1")
    assert (reply.status, reply.data["id"]) == (200, made["id"])
    await till.rule(cents_max=100)
    assert (await till.ask(body, idempotency_key="k-1")).status == 200


async def test_a_refusal_records_no_key(till: Till) -> None:
    reply = await till.ask(pix_body(200_000), idempotency_key="k-1")
    assert_refused(reply, ErrorCode.INSUFFICIENT_BALANCE, status=422)
    await till.fund(100_000)
    assert (await till.ask(pix_body(200_000), idempotency_key="k-1")).status == 201


async def test_64_calls_with_one_key_at_once_hold_the_money_once(till: Till) -> None:
    replies = await asyncio.gather(
        *(till.ask(pix_body(60_000), idempotency_key="k-1") for _ in range(64))
    )
    assert sorted(reply.status for reply in replies) == [200] * 63 + [201]
    assert len({reply.data["id"] for reply in replies}) == 1
    assert await till.balance() == {"available": 40_000, "inTransit": 60_000}
    await till.check()


async def test_without_a_key_each_call_is_a_withdrawal(till: Till) -> None:
    first, second = await till.ask(pix_body()), await till.ask(pix_body())
    assert first.data["id"] != second.data["id"]
    assert first.headers["X-Idempotency-Key-Source"] == "generated"
    assert first.headers["X-Idempotency-Key"].startswith("idem_")


async def protect(till: Till, mode: ImplicitProtection) -> None:
    public_id = till.shop.tenant.company.public_id
    await companies.set_implicit_protection(till.database, public_id, mode)


async def test_enforced_protection_suspects_the_same_amount_and_destination(till: Till) -> None:
    await protect(till, ImplicitProtection.ENFORCE)
    made = await till.take()
    reply = await till.ask(pix_body(description="in other words"))
    assert_refused(reply, ErrorCode.DUPLICATE_SUSPECTED, status=409)
    assert reply.json["error"]["details"] == {"existingId": made["id"]}
    assert await till.balance() == {"available": 99_000, "inTransit": 1_000}
    for other in (pix_body(1_001), pix_body(pixKey="other@example.com"), crypto_body()):
        assert (await till.ask(other)).status == 201
    # A key of one's own says that it is meant.
    assert (await till.ask(pix_body(), idempotency_key="meant")).status == 201
    await till.check()


async def test_a_refused_withdrawal_is_no_earlier_one(till: Till) -> None:
    await protect(till, ImplicitProtection.ENFORCE)
    reply = await till.ask(pix_body(200_000))
    assert_refused(reply, ErrorCode.INSUFFICIENT_BALANCE, status=422)
    await till.fund(100_000)
    assert (await till.ask(pix_body(200_000))).status == 201


async def test_of_many_equal_requests_at_once_one_passes(till: Till) -> None:
    await protect(till, ImplicitProtection.ENFORCE)
    replies = await asyncio.gather(*(till.ask(pix_body()) for _ in range(16)))
    assert sorted(reply.status for reply in replies) == [201] + [409] * 15
    assert await till.balance() == {"available": 99_000, "inTransit": 1_000}
    await till.check()


async def test_after_ten_minutes_it_is_another_wish_and_not_before(till: Till) -> None:
    await protect(till, ImplicitProtection.ENFORCE)
    made = await till.take()
    for seconds, status in ((597, 409), (601, 201)):
        await till.database.execute(
            "update implicit_intent set created_at = $2 where company_id = $1",
            till.company_id,
            utc_now() - timedelta(seconds=seconds),
        )
        reply = await till.ask(pix_body())
        assert reply.status == status, reply.json
        if status == 409:
            assert reply.json["error"]["details"] == {"existingId": made["id"]}


async def test_observed_protection_only_counts(till: Till) -> None:
    await protect(till, ImplicitProtection.OBSERVE)
    assert [(await till.ask(pix_body())).status for _ in range(2)] == [201, 201]
