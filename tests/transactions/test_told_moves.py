"""What a provider's word does beyond the plain cases: late boletos, blocks, returns, disputes."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from support.acquirer import send, send_all, state_of, told
from support.api import Api, Shop, assert_refused, complaints, new_shop
from support.cards import events_of, suspense
from support.team import sign_in
from vintem.brazil.calendar import is_business_day, next_business_day
from vintem.companies import service as companies
from vintem.companies.model import Fee, Method
from vintem.kit.clock import business_day, start_of_business_day, utc_now
from vintem.kit.errors import ErrorCode
from vintem.ledger import unclaimed
from vintem.members.model import Role
from vintem.providers.port import Notice, NoticeKind
from vintem.runtime.db import Database
from vintem.transactions import arrivals, callback_store
from vintem.transactions import service as transactions

ADDRESS = {
    "street": "Rua de Exemplo",
    "streetNumber": "123",
    "neighborhood": "Centro",
    "zipCode": "01310-100",
    "city": "São Paulo",
    "state": "SP",
}
CHARGES = {"fine": {"type": "PERCENTAGE", "value": 200}, "interest": {"value": 300}}
ONE_DAY = timedelta(days=1)
FAR_AHEAD = timedelta(days=120)


@pytest.fixture(autouse=True)
async def _books(database: Database) -> AsyncIterator[None]:
    """Whatever a test did, the books agree when it is done."""
    yield
    assert await complaints(database) == {}


@pytest.fixture
async def shop(api: Api, database: Database) -> Shop:
    return await new_shop(api, database)


# Boletos that are paid late


async def new_boleto(shop: Shop, **boleto: object) -> Any:
    """A pending boleto of 10,000 cents."""
    customer = {
        "name": "Cliente de Teste",
        "email": "cliente@example.com",
        "document": {"type": "cpf", "number": "529.982.247-25"},
        "address": ADDRESS,
    }
    return await shop.create(paymentMethod="boleto", customer=customer, boleto=boleto)


async def late_boleto(shop: Shop, *, days: int, **boleto: object) -> str:
    """The id of a boleto that has been due for so many days, as if time had passed."""
    made = await new_boleto(shop, **boleto)
    due_date = business_day(utc_now()) - timedelta(days=days)
    await shop.database.execute(
        """
        update transaction set details = replace(details, $3, $4)
        where company_id = $1 and transaction_id = $2
        """,
        shop.scope.company_id,
        made["id"],
        f'"dueDate":"{made["boleto"]["dueDate"]}"',
        f'"dueDate":"{due_date}"',
    )
    return str(made["id"])


def received(shop: Shop, reference: str, amount: int, **changed: object) -> dict[str, Any]:
    return told(shop, "payment.received", reference, amount=amount, **changed)


def days_late(days: int) -> int:
    """How many days late a payment of today is, for a boleto due so many days ago."""
    today = business_day(utc_now())
    return (today - next_business_day(today - timedelta(days=days))).days


@pytest.mark.parametrize("share", ["all", "fine"])
async def test_a_boleto_paid_late_with_its_charges_is_paid_and_the_company_gets_them(
    shop: Shop, share: str
) -> None:
    await companies.set_fee(
        shop.database,
        shop.tenant.company.public_id,
        Fee(Method.BOLETO, fixed_cents=200, percent_basis_points=100),
    )
    await shop.agree(reserve_basis_points=1_000)
    boleto = await late_boleto(shop, days=20, **CHARGES)
    # 2 % once, and 0.1 % a day.
    late = 200 + (10 * days_late(20) if share == "all" else 0)
    notice = received(shop, boleto, 10_000 + late)
    await send_all(shop.api, [notice, notice])
    paid = await shop.read(boleto)
    assert (paid["status"], paid["amount"], paid["boleto"]["lateAmount"]) == ("paid", 10_000, late)
    assert (paid["fee"], paid["netAmount"]) == (300, 9_700)
    assert await state_of(shop, notice["callbackId"]) == ("applied", None)
    assert await shop.balance() == {"waitingFunds": 8_700 + late, "reserve": 1_000}
    assert await suspense(shop) == 0
    assert_refused(await shop.refund(boleto, 10_001), ErrorCode.REFUND_EXCEEDS_AMOUNT, status=422)
    await shop.move(boleto, "refunded")
    assert (await shop.read(boleto))["refundedAmount"] == 10_000
    assert await events_of(shop, boleto) == ["pending", "paid", "refunded"]


async def test_the_page_of_a_boleto_paid_late_says_what_that_brought(shop: Shop) -> None:
    boleto = await late_boleto(shop, days=20, fine={"type": "FIXED", "value": 250})
    await send_all(shop.api, [received(shop, boleto, 10_250)])
    owner = await sign_in(shop.api, shop.database, shop.tenant, Role.OWNER)
    page = (await owner.get(f"/dashboard/test/transactions/{boleto}")).body.decode()
    shown = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page))
    assert shown["Bruto"].endswith("100,00")
    assert shown["Multa e juros por atraso"].endswith("2,50")
    assert shown["Líquido"].endswith("102,50")
    file = (await owner.get("/dashboard/test/transactions.csv")).body.decode("utf-8-sig")
    heads, line = (each.split(";") for each in file.split("\r\n")[:2])
    exported = dict(zip(heads, line, strict=True))
    assert (exported["valor"], exported["liquido"]) == ("100,00", "102,50")


async def test_what_a_boleto_does_not_owe_is_kept_in_suspense(shop: Shop) -> None:
    boleto = await late_boleto(shop, days=20, **CHARGES)
    owed = 10_000 + 200 + 10 * days_late(20)
    for number, amount in enumerate((9_999, owed + 1), 1):
        notice = received(shop, boleto, amount, endToEndId=f"E{number}")
        await send_all(shop.api, [notice])
        assert await state_of(shop, notice["callbackId"]) == ("unclaimed", "amount_mismatch")
    plain = await late_boleto(shop, days=20)
    in_time = (await new_boleto(shop, **CHARGES))["id"]
    for each in (plain, in_time):
        notice = received(shop, each, 10_200)
        await send_all(shop.api, [notice])
        assert await state_of(shop, notice["callbackId"]) == ("unclaimed", "amount_mismatch")
        assert (await shop.read(each))["status"] == "pending"
    await send_all(shop.api, [received(shop, boleto, 10_000, endToEndId="E3")])
    paid = await shop.read(boleto)
    assert (paid["status"], paid["boleto"]["lateAmount"]) == ("paid", 0)


async def test_a_boleto_s_late_day_is_one_of_the_banks_of_brazil(shop: Shop) -> None:
    due_date = business_day(utc_now()) + ONE_DAY
    while is_business_day(due_date):
        due_date += ONE_DAY
    next_day = next_business_day(due_date)
    for paid_on, late in ((next_day, 0), (next_day + ONE_DAY, 210)):
        boleto = await new_boleto(shop, dueDate=due_date.isoformat(), **CHARGES)
        # Late in the evening in Brazil it is the next day elsewhere.
        evening = start_of_business_day(paid_on + ONE_DAY) - timedelta(minutes=1)
        for amount in (10_000 + late + 1, 10_000 + late):
            notice = Notice(
                company_id=shop.scope.company_id,
                environment="test",
                provider="bank",
                callback_id=f"{boleto['id']}/{amount}",
                kind=NoticeKind.PAYMENT_RECEIVED,
                reference=boleto["id"],
                amount=amount,
            )
            await arrivals.receive(shop.database, notice, now=evening)
        paid = await shop.read(boleto["id"])
        assert (paid["status"], paid["boleto"]["lateAmount"]) == ("paid", late)
        assert await state_of(shop, f"{boleto['id']}/{10_001 + late}") == (
            "unclaimed",
            "amount_mismatch",
        )


async def test_a_late_boleto_that_had_ended_is_paid_with_its_charges(shop: Shop) -> None:
    boleto = await late_boleto(shop, days=20, fine={"type": "FIXED", "value": 500})
    await shop.api.post(f"/v1/transactions/{boleto}/cancel", key=shop.key)
    await send_all(shop.api, [received(shop, boleto, 10_500)])
    paid = await shop.read(boleto)
    assert (paid["status"], paid["statusReason"]) == ("paid", "late_payment")
    assert paid["boleto"]["lateAmount"] == 500


# Payments that an analyst looks at


@pytest.mark.parametrize("method", ["pix", "boleto"])
async def test_what_is_blocked_before_it_is_paid_waits_for_its_analyst_and_never_ends(
    shop: Shop, method: str
) -> None:
    made = await shop.create() if method == "pix" else await new_boleto(shop)
    notice = told(shop, "charge.blocked", made["id"], code="RISK-7")
    await send_all(shop.api, [notice, notice])
    blocked = await shop.read(made["id"])
    assert (blocked["status"], blocked["statusReason"]) == ("blocked", "risk")
    assert blocked["card"] is None
    await transactions.move_due(shop.database, now=utc_now() + FAR_AHEAD)
    assert (await shop.read(made["id"]))["status"] == "blocked"
    # Money that comes meanwhile is not lost.
    await send_all(shop.api, [received(shop, made["id"], 10_000)])
    assert await events_of(shop, made["id"]) == ["pending", "blocked", "paid"]


async def test_what_was_blocked_and_is_still_due_is_not_ended(shop: Shop) -> None:
    made = await shop.create()
    await send_all(shop.api, [told(shop, "charge.blocked", made["id"])])
    await shop.database.execute(
        "update transaction set due_at = expires_at where company_id = $1", shop.scope.company_id
    )
    await transactions.move_due(shop.database, now=utc_now() + FAR_AHEAD)
    assert (await shop.read(made["id"]))["status"] == "blocked"
    assert await transactions.move_due(shop.database, now=utc_now() + FAR_AHEAD) == 0


async def test_a_refused_pix_says_why(shop: Shop) -> None:
    made = await shop.create()
    await send_all(shop.api, [told(shop, "charge.refused", made["id"], code="AB03")])
    failed = await shop.read(made["id"])
    assert (failed["status"], failed["refusedReason"]["code"]) == ("failed", "AB03")
    assert await transactions.move_due(shop.database, now=utc_now() + FAR_AHEAD) == 0


# PIX that is returned over the company's head


def returned(shop: Shop, reference: str, amount: int, **changed: object) -> dict[str, Any]:
    return told(shop, "refund.done", reference, amount=amount, code="FR01", **changed)


async def test_a_return_by_dispute_is_not_taken_for_the_company_s_own_refund(shop: Shop) -> None:
    await shop.agree(dispute_fee_cents=500)
    made = await shop.paid()
    refund = (await shop.refund(made, 5_000)).data
    notice = returned(shop, made, 5_000)
    await send_all(shop.api, [notice, notice])
    assert await state_of(shop, notice["callbackId"]) == ("applied", "dispute")
    shown = await shop.read(made)
    assert (shown["status"], shown["refundedAmount"]) == ("chargeback", 5_000)
    assert await shop.balance() == {"debt": 500}
    # Word of the refund itself still finds it.
    confirmation = told(shop, "refund.done", made, amount=5_000)
    await send_all(shop.api, [confirmation])
    assert await state_of(shop, confirmation["callbackId"]) == ("applied", "confirmed")
    assert [each["id"] for each in (await shop.read(made))["refunds"]] == [refund["id"]]


@pytest.mark.parametrize("status", ["paid", "pre_chargeback", "blocked"])
async def test_a_dispute_takes_what_was_returned_and_leaves_the_rest(
    shop: Shop, status: str
) -> None:
    await shop.agree(dispute_fee_cents=500, reserve_basis_points=1_000)
    made = await shop.paid()
    before = await shop.balance()
    if status != "paid":
        await shop.move(made, status)
    notice = returned(shop, made, 3_000)
    await send_all(shop.api, [notice, notice])
    assert await state_of(shop, notice["callbackId"]) == ("applied", "dispute")
    shown = await shop.read(made)
    assert (shown["status"], shown["refundedAmount"], shown["refunds"]) == ("chargeback", 0, [])
    assert await shop.balance() == {**before, "available": before["available"] - 3_500}
    reply = await shop.refund(made, 1_000)
    assert_refused(reply, ErrorCode.TRANSACTION_UNDER_DISPUTE, status=409)
    again = returned(shop, made, 1_000)
    await send_all(shop.api, [again])
    assert await state_of(shop, again["callbackId"]) == ("unclaimed", "is_chargeback")
    # Won after all, it brings back what it took; its fee stays.
    await send_all(shop.api, [told(shop, "dispute.won", made)])
    assert (await shop.read(made))["status"] == "paid"
    assert await shop.balance() == {**before, "available": before["available"] - 500}


async def test_a_blocked_pix_that_was_returned_whole_is_a_lost_dispute(shop: Shop) -> None:
    made = await shop.paid()
    await shop.move(made, "blocked")
    await send_all(shop.api, [returned(shop, made, 10_000)])
    assert await events_of(shop, made) == ["pending", "paid", "blocked", "paid", "chargeback"]
    assert await shop.balance() == {}


# Disputes that have a name


async def test_a_dispute_told_again_under_another_id_is_opened_once(shop: Shop) -> None:
    made = await shop.paid()

    def opened(dispute_id: str | None) -> dict[str, Any]:
        return told(shop, "dispute.opened", made, disputeId=dispute_id)

    won = told(shop, "dispute.won", made, disputeId="dp_1")
    await send_all(shop.api, [opened("dp_1"), won])
    again = opened("dp_1")
    reply = await send(shop.api, again)
    assert (reply.status, reply.data["isRepeat"]) == (200, True)
    assert await state_of(shop, again["callbackId"]) == ("ignored", "repeated")
    assert await events_of(shop, made) == ["pending", "paid", "pre_chargeback", "paid"]
    reply = await send(shop.api, opened("dp_2"))
    assert (reply.status, reply.data["isRepeat"]) == (200, False)
    assert (await shop.read(made))["status"] == "pre_chargeback"
    # What is told of another dispute, or of another end of it, is news.
    await send_all(shop.api, [told(shop, "dispute.lost", made, disputeId="dp_2")])
    assert (await shop.read(made))["status"] == "chargeback"


async def test_a_dispute_that_is_won_undoes_no_other(shop: Shop) -> None:
    made = await shop.paid()
    for kind, dispute_id in (
        ("dispute.won", "dp_3"),
        ("dispute.opened", "dp_1"),
        ("dispute.opened", "dp_2"),
        ("dispute.lost", "dp_1"),
        ("dispute.won", "dp_2"),
    ):
        await send_all(shop.api, [told(shop, kind, made, disputeId=dispute_id)])
    assert (await shop.read(made))["status"] == "chargeback"
    assert await shop.balance() == {}
    await send_all(shop.api, [told(shop, "dispute.won", made, disputeId="dp_1")])
    assert (await shop.read(made))["status"] == "paid"
    assert await shop.balance() == {"available": 10_000}


async def test_a_dispute_that_is_lost_again_is_news_where_its_provider_counts(shop: Shop) -> None:
    made = await shop.paid()
    for sequence, kind in enumerate(("opened", "lost", "won", "lost"), 1):
        notice = told(shop, f"dispute.{kind}", made, disputeId="dp_1", sequence=sequence)
        await send_all(shop.api, [notice])
    assert (await shop.read(made))["status"] == "chargeback"
    assert await shop.balance() == {}


async def test_what_waited_for_an_analyst_is_looked_at_once_he_has_decided(shop: Shop) -> None:
    made = await shop.paid()
    await shop.move(made, "blocked")
    await send_all(shop.api, [told(shop, "dispute.opened", made)])
    await transactions.look_again(shop.database, now=utc_now() + timedelta(days=2))
    assert await look_at_of(shop) > utc_now() + timedelta(days=1)
    await shop.move(made, "paid")
    await transactions.look_again(shop.database, now=utc_now())
    assert (await shop.read(made))["status"] == "pre_chargeback"


# Money that is nobody's


async def test_a_return_of_what_was_paid_twice_leaves_the_payment_as_it_is(shop: Shop) -> None:
    made = await shop.paid()
    await send_all(shop.api, [received(shop, made, 10_000, endToEndId="E2")])
    assert await suspense(shop) == 10_000
    back = told(shop, "refund.done", made)
    await send_all(shop.api, [back, back])
    assert await state_of(shop, back["callbackId"]) == ("applied", "was_unclaimed")
    assert ((await shop.read(made))["status"], await shop.balance()) == (
        "paid",
        {"available": 10_000},
    )
    assert await unclaimed.list_unclaimed(shop.database, [shop.scope.company_id]) == []
    # Another one is of the payment itself.
    await send_all(shop.api, [told(shop, "refund.done", made)])
    assert ((await shop.read(made))["status"], await shop.balance()) == ("refunded", {})


async def test_more_than_anything_is_sold_for_is_kept_all_the_same(shop: Shop) -> None:
    made = (await shop.create())["id"]
    await send_all(shop.api, [received(shop, made, 10_000_000_000)])
    assert await suspense(shop) == 10_000_000_000


async def test_of_a_dispute_told_many_times_before_its_payment_one_is_opened(shop: Shop) -> None:
    made = await shop.create()
    early = [told(shop, "dispute.opened", made["id"], disputeId="dp_1") for _ in range(4)]
    await asyncio.gather(*(send(shop.api, each) for each in early))
    await send_all(shop.api, [received(shop, made["id"], 10_000)])
    assert await events_of(shop, made["id"]) == ["pending", "paid", "pre_chargeback"]
    states = Counter([(await state_of(shop, each["callbackId"]))[0] for each in early])
    assert states == {"applied": 1, "ignored": 3}


# What waits


async def look_at_of(shop: Shop) -> datetime:
    """When a company's only waiting callback is looked at."""
    look_at = await shop.database.fetchval(
        "select look_at from provider_callback where company_id = $1 and state = 'waiting'",
        shop.scope.company_id,
    )
    assert isinstance(look_at, datetime)
    return look_at


async def test_the_longer_something_waits_the_more_rarely_it_is_looked_at(shop: Shop) -> None:
    made = await shop.create()
    await shop.api.post(f"/v1/transactions/{made['id']}/cancel", key=shop.key)
    await send_all(shop.api, [told(shop, "dispute.opened", made["id"])])
    began = utc_now()
    pauses = []
    for _ in range(40):
        now = await look_at_of(shop)
        await transactions.look_again(shop.database, now=now)
        pauses.append(await look_at_of(shop) - now)
    assert pauses == sorted(pauses)
    assert pauses[0] == timedelta(seconds=30)
    assert pauses[-1] > timedelta(minutes=2)
    await transactions.look_again(shop.database, now=began + timedelta(days=90))
    assert await look_at_of(shop) == began + timedelta(days=90, minutes=5)
    # Should the money come all the same, it is not waited for.
    await send_all(shop.api, [received(shop, made["id"], 10_000)])
    assert (await shop.read(made["id"]))["status"] == "pre_chargeback"


async def test_what_has_waited_longest_is_looked_at_first(shop: Shop) -> None:
    made = [await shop.create() for _ in range(3)]
    for each in made:
        await send_all(shop.api, [told(shop, "dispute.opened", each["id"])])
    long_ago = utc_now() - timedelta(days=1_000)
    for days, each in enumerate(reversed(made)):
        await shop.database.execute(
            "update provider_callback set look_at = $3 where company_id = $1 and reference = $2",
            shop.scope.company_id,
            each["id"],
            long_ago + timedelta(days=days),
        )
    now = long_ago + timedelta(days=10)
    first = await callback_store.list_to_look_at(shop.database, now=now, rows_max=2)
    assert [reference for _, reference in first] == [made[2]["id"], made[1]["id"]]


# One transfer told in many ways at once


async def deadlocks(database: Database) -> int:
    count = await database.fetchval(
        "select deadlocks from pg_stat_database where datname = current_database()"
    )
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("known", [0, 2])
async def test_a_transfer_told_at_once_of_many_references_is_booked_once(
    shop: Shop, known: int
) -> None:
    before = await deadlocks(shop.database)
    for number in range(8):
        made = [(await shop.create())["id"] for _ in range(known)]
        references = [*made, "tx_unknown", "?"] * 3
        notices = [
            received(shop, reference, 10_000, endToEndId=f"E{number}") for reference in references
        ]
        replies = await asyncio.gather(*(send(shop.api, notice) for notice in notices))
        assert Counter(reply.status for reply in replies) == {200: len(notices)}
        states = Counter([(await state_of(shop, each["callbackId"]))[0] for each in notices])
        assert states["applied"] + states["unclaimed"] == 1
    balance = await shop.balance()
    assert balance.get("available", 0) + await suspense(shop) == 80_000
    assert await deadlocks(shop.database) == before


async def test_a_return_that_waits_and_is_told_of_nothing_known_is_booked_once(shop: Shop) -> None:
    for number in range(8):
        made = (await shop.create())["id"]
        early = told(shop, "refund.done", made, amount=4_000, endToEndId=f"D{number}")
        await send_all(shop.api, [early])
        stray = told(shop, "refund.done", "?", amount=4_000, endToEndId=f"D{number}")
        await asyncio.gather(
            send(shop.api, received(shop, made, 10_000, endToEndId=f"E{number}")),
            send(shop.api, stray),
        )
        states = [(await state_of(shop, each["callbackId"]))[0] for each in (early, stray)]
        assert sorted(states) in (["applied", "ignored"], ["ignored", "unclaimed"])
