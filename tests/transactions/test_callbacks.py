"""What providers tell us: once, in any order, and no cent of it is lost."""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from conftest import running_api
from support.acquirer import (
    PATH,
    alarms,
    send,
    send_all,
    signed,
    simulator,
    state_of,
    tell,
    told,
)
from support.api import Api, Shop, assert_envelope, assert_refused, complaints, new_shop
from support.cards import charge, events_of, suspense
from vintem.api.body import BODY_BYTES_MAX
from vintem.companies import service as companies
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.providers.faults import Fault
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.transactions import service as transactions

REPEATS = 64
E2E = "E9999999920261115050012345678901"


@pytest.fixture(autouse=True)
async def _books(database: Database) -> AsyncIterator[None]:
    """Whatever a test did, the books agree when it is done."""
    yield
    assert await complaints(database) == {}


@pytest.fixture
async def shop(api: Api, database: Database) -> Shop:
    return await new_shop(api, database)


def received(shop: Shop, reference: str, **changed: object) -> dict[str, Any]:
    return told(shop, "payment.received", reference, **{"endToEndId": E2E, **changed})


async def sendings(shop: Shop) -> int:
    """How often the acquirer has sent a callback about a company, heard or not."""
    sent = await shop.database.fetchval(
        "select sum(attempts) from simulator_callback where company_id = $1", shop.scope.company_id
    )
    return int(sent)


# Who may tell us anything


@pytest.mark.parametrize("fault", ["none", "secret", "body", "old", "ahead", "time", "latin"])
async def test_a_callback_that_is_not_signed_as_it_should_be_is_refused(
    shop: Shop, fault: str
) -> None:
    made = await shop.create()
    body = json.dumps(received(shop, made["id"])).encode()
    headers = signed(body)
    match fault:
        case "none":
            headers = {"Content-Type": "application/json"}
        case "secret":
            headers = signed(body, secret=b"another")
        case "body":
            body = body.replace(b"10000", b"10001")
        case "old":
            headers = signed(body, at=utc_now() - timedelta(seconds=302))
        case "ahead":
            headers = signed(body, at=utc_now() + timedelta(seconds=302))
        case "time":
            headers["x-callback-timestamp"] = "now"
        case "latin":
            headers["x-callback-signature"] = "v1=é"
    reply = await shop.api.post(PATH, data=body, headers=headers)
    assert_refused(reply, ErrorCode.INVALID_API_KEY, status=401)
    assert_envelope(reply)
    assert (await shop.read(made["id"]))["status"] == "pending"


@pytest.mark.parametrize("minutes", [-4, 4])
async def test_a_clock_may_be_some_minutes_wrong(shop: Shop, minutes: int) -> None:
    made = await shop.create()
    body = json.dumps(received(shop, made["id"])).encode()
    headers = signed(body, at=utc_now() + timedelta(minutes=minutes))
    assert (await shop.api.post(PATH, data=body, headers=headers)).status == 200


async def test_an_unknown_provider_and_an_unknown_account_are_not_found(shop: Shop) -> None:
    made = await shop.create()
    body = json.dumps(received(shop, made["id"])).encode()
    reply = await shop.api.post("/callbacks/bank", data=body, headers=signed(body))
    assert_refused(reply, ErrorCode.NOT_FOUND, status=404)
    reply = await send(shop.api, {**received(shop, made["id"]), "account": "cmp_unknown"})
    assert_refused(reply, ErrorCode.NOT_FOUND, status=404)
    reply = await shop.api.get(PATH)
    assert_refused(reply, ErrorCode.METHOD_NOT_ALLOWED, status=405)


async def test_a_callback_of_the_wrong_form_is_refused_like_any_body(shop: Shop) -> None:
    async def post(body: bytes, **headers: str) -> Any:
        return await shop.api.post(PATH, data=body, headers={**signed(body), **headers})

    good = received(shop, "tx_1")
    reply = await post(b"{")
    assert_refused(reply, ErrorCode.INVALID_JSON, status=400)
    reply = await post(b" " * (BODY_BYTES_MAX + 1))
    assert_refused(reply, ErrorCode.PAYLOAD_TOO_LARGE, status=413)
    reply = await post(json.dumps(good).encode(), **{"Content-Type": "text/plain"})
    assert_refused(reply, ErrorCode.UNSUPPORTED_MEDIA_TYPE, status=415)
    for wrong in (
        {"kind": "payment.imagined"},
        {"amount": 0},
        {"amount": "100"},
        {"amount": None},
        {"callbackId": ""},
        {"sequence": 0},
        {"more": 1},
    ):
        reply = await send(shop.api, {**good, **wrong})
        assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert await suspense(shop) == 0


async def test_callbacks_are_not_in_the_description(api: Api) -> None:
    described = (await api.get("/openapi.json")).json
    assert not [path for path in described["paths"] if "callback" in path]


# Payments


async def test_a_payment_is_found_by_its_id_and_by_its_txid(shop: Shop) -> None:
    by_id, by_txid = await shop.create(), await shop.create(2_000)
    await send_all(
        shop.api,
        [
            received(shop, by_id["id"]),
            received(shop, by_txid["pix"]["txid"], amount=2_000, endToEndId="E2"),
        ],
    )
    first, second = await shop.read(by_id["id"]), await shop.read(by_txid["id"])
    assert (first["status"], first["statusReason"], first["pix"]["endToEndId"]) == (
        "paid",
        None,
        E2E,
    )
    assert (second["status"], second["pix"]["endToEndId"]) == ("paid", "E2")
    assert await shop.balance() == {"available": 12_000}
    assert await events_of(shop, by_id["id"]) == ["pending", "paid"]


async def test_of_many_repeats_at_once_one_moves_the_payment(shop: Shop) -> None:
    made = await shop.create()
    same = received(shop, made["id"])
    replies = await asyncio.gather(*(send(shop.api, same) for _ in range(REPEATS)))
    assert Counter(reply.status for reply in replies) == {200: REPEATS}
    assert Counter(reply.data["isRepeat"] for reply in replies) == {False: 1, True: REPEATS - 1}
    assert await shop.balance() == {"available": 10_000}
    assert await events_of(shop, made["id"]) == ["pending", "paid"]
    assert await suspense(shop) == 0


async def test_one_transfer_told_under_many_ids_is_one_payment(shop: Shop) -> None:
    made = await shop.create()
    replies = await asyncio.gather(
        *(send(shop.api, received(shop, made["id"])) for _ in range(REPEATS))
    )
    assert Counter(reply.status for reply in replies) == {200: REPEATS}
    assert await shop.balance() == {"available": 10_000}
    assert await suspense(shop) == 0


@pytest.mark.parametrize("end", ["expired", "merchant"])
async def test_money_that_comes_too_late_pays_all_the_same(shop: Shop, end: str) -> None:
    made = await shop.create(pix={"expiresInSeconds": 60})
    if end == "expired":
        await transactions.move_due(shop.database, now=utc_now() + timedelta(seconds=61))
    else:
        path = f"/v1/transactions/{made['id']}/cancel"
        assert (await shop.api.post(path, key=shop.key)).status == 200
    assert (await shop.read(made["id"]))["statusReason"] == end
    await send_all(shop.api, [received(shop, made["id"])])
    paid = await shop.read(made["id"])
    assert (paid["status"], paid["statusReason"]) == ("paid", "late_payment")
    assert await shop.balance() == {"available": 10_000}
    assert await events_of(shop, made["id"]) == ["pending", "cancelled", "paid"]


async def test_a_boleto_is_paid_by_its_bank_s_word(shop: Shop) -> None:
    address = {
        "street": "Rua de Exemplo",
        "streetNumber": "123",
        "neighborhood": "Centro",
        "zipCode": "01310-100",
        "city": "São Paulo",
        "state": "SP",
    }
    customer = {
        "name": "Cliente de Teste",
        "email": "cliente@example.com",
        "document": {"type": "cpf", "number": "529.982.247-25"},
        "address": address,
    }
    made = await shop.create(paymentMethod="boleto", customer=customer)
    await send_all(shop.api, [received(shop, made["id"]), received(shop, made["id"])])
    assert (await shop.read(made["id"]))["status"] == "paid"
    assert await suspense(shop) == 0
    await send_all(shop.api, [received(shop, made["id"], endToEndId="E2")])
    assert await suspense(shop) == 10_000
    sources = await shop.database.fetchval(
        "select codes from posting where company_id = $1 and kind = 'suspense'",
        shop.scope.company_id,
    )
    assert set(sources) == {"receivable", "suspense"}


async def test_a_suspended_company_still_gets_its_money(shop: Shop) -> None:
    made = await shop.create()
    public_id = shop.tenant.company.public_id
    await companies.set_suspended(shop.database, public_id, is_suspended=True)
    await send_all(shop.api, [received(shop, made["id"])])
    await companies.set_suspended(shop.database, public_id, is_suspended=False)
    paid = await shop.database.fetchval(
        "select status from transaction where company_id = $1", shop.scope.company_id
    )
    assert paid == "paid"


# Money that belongs to no payment


async def assert_unclaimed(shop: Shop, notice: dict[str, Any], cause: str) -> None:
    """Hold one callback, told many times, against one booking and one alarm."""
    before, counted = await suspense(shop), alarms(cause)
    await asyncio.gather(*(send(shop.api, notice) for _ in range(8)))
    assert await state_of(shop, notice["callbackId"]) == ("unclaimed", cause)
    assert await suspense(shop) == before + notice["amount"]
    assert alarms(cause) == counted + 1


@pytest.mark.parametrize("amount", [9_999, 10_001, 1])
async def test_another_amount_is_kept_in_suspense_and_the_payment_left_alone(
    shop: Shop, amount: int
) -> None:
    made = await shop.create()
    await assert_unclaimed(shop, received(shop, made["id"], amount=amount), "amount_mismatch")
    # The same transfer told under another id is not booked again.
    await send_all(shop.api, [received(shop, made["id"], amount=amount)])
    assert await suspense(shop) == amount
    assert (await shop.read(made["id"]))["status"] == "pending"
    assert await events_of(shop, made["id"]) == ["pending"]
    await send_all(shop.api, [received(shop, made["id"], endToEndId="E2")])
    assert (await shop.read(made["id"]))["status"] == "paid"


async def test_money_for_a_failed_payment_is_kept_in_suspense(shop: Shop) -> None:
    made = await shop.create()
    await shop.move(made["id"], "failed")
    await assert_unclaimed(shop, received(shop, made["id"]), "is_failed")
    assert (await shop.read(made["id"]))["status"] == "failed"


async def test_money_for_a_refunded_payment_is_kept_in_suspense(shop: Shop) -> None:
    transaction_id = await shop.paid()
    await shop.move(transaction_id, "refunded")
    await assert_unclaimed(shop, received(shop, transaction_id), "paid_before")
    assert (await shop.read(transaction_id))["status"] == "refunded"


async def test_a_second_payment_is_kept_in_suspense(shop: Shop) -> None:
    made = await shop.create()
    await send_all(shop.api, [received(shop, made["id"])])
    second = received(shop, made["id"], endToEndId="E2")
    await assert_unclaimed(shop, second, "paid_before")
    # The same transfer told once more is no third payment.
    await send_all(shop.api, [received(shop, made["id"], endToEndId="E2")])
    assert await suspense(shop) == 10_000
    assert await shop.balance() == {"available": 10_000}


@pytest.mark.parametrize("kind", ["payment.received", "charge.paid"])
async def test_money_for_an_unknown_reference_is_kept_in_suspense(shop: Shop, kind: str) -> None:
    for reference in ("tx_01jd0000000000000000000000", "1jd0000000000000000000000", "?"):
        await assert_unclaimed(shop, told(shop, kind, reference), "unknown_reference")
    assert await shop.balance() == {}


async def test_a_transfer_told_again_with_another_reference_is_booked_once(shop: Shop) -> None:
    made = await shop.create()
    await assert_unclaimed(shop, received(shop, "?"), "unknown_reference")
    for again in (received(shop, made["id"]), received(shop, "??"), received(shop, "?")):
        await send_all(shop.api, [again])
        assert (await state_of(shop, again["callbackId"]))[0] == "ignored"
    assert await suspense(shop) == 10_000
    assert await shop.balance() == {}


async def test_the_payment_of_another_company_is_unknown(shop: Shop) -> None:
    stranger = await new_shop(shop.api, shop.database)
    made = await stranger.create()
    await assert_unclaimed(shop, received(shop, made["id"]), "unknown_reference")
    assert (await stranger.read(made["id"]))["status"] == "pending"


async def test_money_by_another_way_than_the_payment_s_is_kept_in_suspense(shop: Shop) -> None:
    made = await shop.create()
    await assert_unclaimed(shop, told(shop, "charge.paid", made["id"]), "other_method")
    card = (await charge(shop, "0119")).data
    await assert_unclaimed(shop, received(shop, card["id"]), "other_method")


async def test_a_dispute_about_nothing_moves_no_money(shop: Shop) -> None:
    notice = told(shop, "dispute.opened", "tx_unknown")
    await send_all(shop.api, [notice])
    assert await state_of(shop, notice["callbackId"]) == ("ignored", "unknown_reference")
    assert await suspense(shop) == 0


# Cards, in any order


def numbered(shop: Shop, reference: str, kinds: Sequence[str]) -> list[dict[str, Any]]:
    return [told(shop, kind, reference, sequence=number) for number, kind in enumerate(kinds, 1)]


LIFE = ("charge.paid", "dispute.opened", "dispute.lost", "dispute.won")


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
async def test_the_order_of_callbacks_makes_no_difference(shop: Shop, order: Sequence[int]) -> None:
    made = (await charge(shop, "0119")).data
    notices = numbered(shop, made["id"], LIFE)
    for place in order:
        await send_all(shop.api, [notices[place], notices[place]])
    assert (await shop.read(made["id"]))["status"] == "paid"
    assert await events_of(shop, made["id"]) == [
        "processing",
        "paid",
        "pre_chargeback",
        "chargeback",
        "paid",
    ]
    assert await shop.balance() == {"waitingFunds": 10_000}


async def test_all_callbacks_at_once_end_in_the_right_state(shop: Shop) -> None:
    made = (await charge(shop, "0119")).data
    notices = numbered(shop, made["id"], LIFE[:3]) * 8
    replies = await asyncio.gather(*(send(shop.api, notice) for notice in notices))
    assert Counter(reply.status for reply in replies) == {200: 24}
    assert (await shop.read(made["id"]))["status"] == "chargeback"
    assert len(await events_of(shop, made["id"])) == 4


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_a_provider_that_does_not_count_is_followed_by_the_table_of_moves(
    shop: Shop, order: Sequence[int]
) -> None:
    made = (await charge(shop, "0119")).data
    notices = [
        told(shop, kind, made["id"]) for kind in ("charge.paid", "dispute.opened", "dispute.won")
    ]
    await send_all(shop.api, [notices[place] for place in order])
    assert (await shop.read(made["id"]))["status"] == "paid"
    assert await shop.balance() == {"waitingFunds": 10_000}
    assert len(await events_of(shop, made["id"])) == 4


async def test_nothing_waits_for_ever_for_a_callback_that_never_comes(shop: Shop) -> None:
    made = (await charge(shop)).data
    opened, lost = numbered(shop, made["id"], LIFE[1:3])
    await send_all(shop.api, [lost])
    assert await state_of(shop, lost["callbackId"]) == ("waiting", None)
    await transactions.look_again(shop.database, now=utc_now() + timedelta(minutes=9))
    assert (await shop.read(made["id"]))["status"] == "paid"
    await transactions.look_again(shop.database, now=utc_now() + timedelta(minutes=11))
    assert (await shop.read(made["id"]))["status"] == "chargeback"
    await send_all(shop.api, [opened])
    assert await state_of(shop, opened["callbackId"]) == ("ignored", "obsolete")
    assert (await shop.read(made["id"]))["status"] == "chargeback"


async def test_a_dispute_of_a_payment_under_analysis_waits_for_its_end(shop: Shop) -> None:
    paid = await shop.paid()
    await shop.move(paid, "blocked")
    opened = told(shop, "dispute.opened", paid)
    await send_all(shop.api, [opened])
    assert await state_of(shop, opened["callbackId"]) == ("waiting", None)
    await shop.move(paid, "paid")
    await transactions.look_again(shop.database, now=utc_now() + timedelta(hours=2))
    assert (await shop.read(paid))["status"] == "pre_chargeback"


async def test_what_was_told_before_the_payment_is_done_once_it_is_made(shop: Shop) -> None:
    made = await shop.create()
    early = told(shop, "dispute.opened", made["id"])
    await send_all(shop.api, [early])
    await transactions.look_again(shop.database, now=utc_now() + timedelta(hours=1))
    assert await state_of(shop, early["callbackId"]) == ("waiting", None)
    # By hand, and so by another door than that of callbacks.
    await shop.move(made["id"], "paid")
    await transactions.look_again(shop.database, now=utc_now() + timedelta(hours=2))
    assert (await shop.read(made["id"]))["status"] == "pre_chargeback"
    assert await state_of(shop, early["callbackId"]) == ("applied", None)


async def test_what_can_never_apply_is_recorded_and_ignored(shop: Shop) -> None:
    made = (await charge(shop, "0002")).data
    for kind in ("dispute.opened", "dispute.won", "dispute.lost", "charge.blocked"):
        notice = told(shop, kind, made["id"])
        await send_all(shop.api, [notice])
        assert await state_of(shop, notice["callbackId"]) == ("ignored", "is_failed")
    assert await events_of(shop, made["id"]) == ["failed"]


async def test_a_charge_in_process_may_be_refused_or_blocked_later(shop: Shop) -> None:
    refused, blocked = (await charge(shop, "0119")).data, (await charge(shop, "0119")).data
    await send_all(
        shop.api,
        [
            told(shop, "charge.refused", refused["id"], code="STOLEN", message="Stolen."),
            told(shop, "charge.blocked", blocked["id"]),
        ],
    )
    shown = await shop.read(refused["id"])
    assert (shown["status"], shown["statusReason"]) == ("failed", "provider")
    assert shown["refusedReason"] == {"code": "STOLEN", "message": "Stolen."}
    shown = await shop.read(blocked["id"])
    assert (shown["status"], shown["statusReason"]) == ("blocked", "risk")
    assert shown["card"]["authorizationCode"] == blocked["card"]["authorizationCode"]


async def test_a_charge_that_was_confirmed_is_not_confirmed_twice(shop: Shop) -> None:
    made = (await charge(shop)).data
    notice = told(shop, "charge.paid", made["id"])
    await send_all(shop.api, [notice])
    assert await state_of(shop, notice["callbackId"]) == ("ignored", "repeated")
    assert await shop.balance() == {"waitingFunds": 10_000}


# The sandbox's acquirer


async def test_an_acquirer_that_repeats_and_shuffles_ends_where_it_should(
    settings: Settings, database: Database
) -> None:
    faults = ((Fault.REPEAT_CALLBACKS, 100), (Fault.SHUFFLE_CALLBACKS, 100))
    async with running_api(replace(settings, simulator_faults=faults)) as api:
        shop = await new_shop(api, database)
        made = (await charge(shop, "0259")).data
        now = utc_now()
        sent = []
        for seconds in (1, 3, 5, 7, 3_600):
            await tell(api, database, now=now + timedelta(seconds=seconds))
            sent.append((await sendings(shop), (await shop.read(made["id"]))["status"]))
        lost = "chargeback"
        assert sent == [(0, "paid"), (1, "paid"), (3, lost), (4, lost), (4, lost)]
        assert await events_of(shop, made["id"]) == ["paid", "pre_chargeback", "chargeback"]


async def test_callbacks_that_nobody_hears_are_told_again(shop: Shop) -> None:
    made = (await charge(shop, "0119")).data
    now = utc_now() + timedelta(seconds=3)
    deaf = replace(shop.api, base_url="http://127.0.0.1:1")
    await tell(deaf, shop.database, now=now)
    assert (await shop.read(made["id"]))["status"] == "processing"
    await tell(shop.api, shop.database, now=now)
    assert await sendings(shop) == 1
    await tell(shop.api, shop.database, now=now + timedelta(seconds=2))
    assert (await shop.read(made["id"]))["status"] == "paid"


async def test_several_workers_tell_each_thing_once(shop: Shop) -> None:
    made = [(await charge(shop, "0119")).data["id"] for _ in range(8)]
    now = utc_now() + timedelta(seconds=3)
    one = simulator(shop.database)
    await asyncio.gather(*(one.tell_due(shop.api.base_url, now=now) for _ in range(4)))
    assert await sendings(shop) == len(made)
    for transaction_id in made:
        assert await events_of(shop, transaction_id) == ["processing", "paid"]
