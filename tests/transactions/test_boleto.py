"""A payment by boleto: what is asked and answered, when it ends, and where its money goes."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec.structs import replace

from support.api import Api, HttpReply, Shop, assert_refused, complaints, new_shop, pix_order
from vintem.api import openapi
from vintem.api.boleto_order import due_date_of, expiry_of, our_number_of
from vintem.api.routes import TABLE
from vintem.api.transaction_shapes import BoletoBody
from vintem.brazil.boleto import parse_boleto, sandbox_our_number
from vintem.brazil.br_code import parse_br_code
from vintem.brazil.calendar import add_business_days, is_business_day
from vintem.companies import service as companies
from vintem.companies.model import Fee, Method
from vintem.kit.clock import business_day, public_time, start_of_business_day, utc_now
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.ledger import service as ledger
from vintem.runtime.db import Database
from vintem.transactions import service as transactions
from vintem.transactions.batches import Payment, confirm_many
from vintem.transactions.model import check_refund
from vintem.transactions.rehearsal import sandbox_transfer

ADDRESS = {
    "street": "Rua de Exemplo",
    "streetNumber": "123",
    "complement": "Sala 4",
    "neighborhood": "Centro",
    "zipCode": "01310-100",
    "city": "São Paulo",
    "state": "SP",
}
ONE_DAY = timedelta(days=1)
FAR_AHEAD = timedelta(days=120)


def boleto_order(amount: int = 10_000, **changed: object) -> dict[str, Any]:
    """The body of a boleto, with what a test wants otherwise."""
    order = pix_order(amount, paymentMethod="boleto")
    order["customer"]["address"] = ADDRESS
    return {**order, **changed}


@pytest.fixture
async def shop(api: Api, database: Database) -> AsyncIterator[Shop]:
    yield await new_shop(api, database)
    assert await complaints(database) == {}


async def created(shop: Shop, amount: int = 10_000, **changed: object) -> Any:
    reply = await shop.order(boleto_order(amount, **changed))
    assert reply.status == 201, reply.json
    return reply.data


def day_of(public: str) -> date:
    """The Brasilia day of a public time."""
    return date.fromisoformat(public[:10])


def assert_fault(reply: HttpReply, field: str) -> None:
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert [fault["field"] for fault in reply.json["error"]["details"]["errors"]] == [field]


def weekday_from(day: date, weekday: int) -> date:
    return day + timedelta(days=(weekday - day.weekday()) % 7)


async def test_a_boleto_is_answered_with_every_field_of_its_description(shop: Shop) -> None:
    data = await created(shop)
    description = openapi.describe(TABLE, public_url="https://pay.example.com")
    Draft202012Validator(
        {
            "$ref": "#/components/schemas/TransactionReply",
            "components": description["components"],
        }
    ).validate(data)
    assert (data["status"], data["statusReason"]) == ("pending", None)
    assert (data["paymentMethod"], data["installments"]) == ("boleto", 1)
    assert (data["pix"], data["card"], data["pixQrCode"], data["pixQrCodeImage"]) == (None,) * 4
    assert data["customer"]["address"] == {**ADDRESS, "country": "BR"}
    assert data["boletoUrl"] == data["boleto"]["url"]
    assert "/v1/boletos/" in data["boletoUrl"]
    assert data["boletoUrl"].endswith(".pdf")
    assert await shop.read(data["id"]) == data


async def test_a_pix_has_no_boleto(shop: Shop) -> None:
    data = await shop.create()
    assert (data["boleto"], data["boletoUrl"]) == (None, None)


@pytest.mark.parametrize("amount", [100, 10_001, 9_999_999_999])
async def test_both_codes_read_back_with_amount_date_and_number(shop: Shop, amount: int) -> None:
    data = await created(shop, amount, boleto={"expiresInDays": 60})
    boleto, today = data["boleto"], day_of(data["createdAt"])
    assert (len(boleto["barcode"]), len(boleto["digitableLine"])) == (44, 47)
    for code in (boleto["barcode"], boleto["digitableLine"]):
        found = parse_boleto(code, reference=today)
        assert found is not None
        assert (found.bank, found.amount_cents) == ("999", amount)
        assert found.due_date == today + timedelta(days=60)
        assert found.due_date.isoformat() == boleto["dueDate"]
        assert sandbox_our_number(found) == our_number_of(data["id"])


async def test_the_code_for_pix_asks_for_the_same_amount_under_the_same_id(shop: Shop) -> None:
    data = await created(shop, 12_345)
    code = parse_br_code(data["boleto"]["pixQrCode"])
    assert code is not None
    assert (code.amount_cents, code.txid) == (12_345, data["id"].removeprefix("tx_")[1:])


def test_numbers_of_ids_made_one_after_the_other_differ() -> None:
    numbers = {our_number_of(new_id(Prefix.TRANSACTION)) for _ in range(20_000)}
    assert len(numbers) == 20_000
    assert our_number_of("tx_" + "0" * 26) == 0
    assert our_number_of("tx_7" + "z" * 25) == (2**80 - 1) % 10**17


@pytest.mark.parametrize(
    ("boleto", "days"), [(None, 3), ({}, 3), ({"expiresInDays": 1}, 1), ({"expiresInDays": 60}, 60)]
)
async def test_a_boleto_is_due_after_the_days_that_were_asked_for(
    shop: Shop, boleto: object, days: int
) -> None:
    data = await created(shop, boleto=boleto)
    due_date = day_of(data["createdAt"]) + timedelta(days=days)
    assert data["boleto"]["dueDate"] == due_date.isoformat()
    assert data["expiresAt"] == public_time(expiry_of(due_date))


@pytest.mark.parametrize("days", [0, 1, 3_649])
async def test_a_due_date_can_be_today_or_later(shop: Shop, days: int) -> None:
    due_date = (business_day(utc_now()) + timedelta(days=days)).isoformat()
    data = await created(shop, boleto={"dueDate": due_date})
    assert data["boleto"]["dueDate"] == due_date
    found = parse_boleto(data["boleto"]["barcode"], reference=day_of(data["createdAt"]))
    assert found is not None
    assert found.due_date == date.fromisoformat(due_date)


@pytest.mark.parametrize("days", [-1, -9_000, 3_652])
async def test_a_due_date_that_is_over_or_too_far_away_is_refused(shop: Shop, days: int) -> None:
    due_date = (business_day(utc_now()) + timedelta(days=days)).isoformat()
    reply = await shop.order(boleto_order(boleto={"dueDate": due_date}))
    assert_refused(reply, ErrorCode.INVALID_DUE_DATE, status=422)
    assert set(reply.json["error"]["details"]) == {"minimum", "maximum"}


@pytest.mark.parametrize("due_date", ["0001-01-01", "9999-12-31"])
async def test_the_ends_of_the_calendar_are_refused(shop: Shop, due_date: str) -> None:
    reply = await shop.order(boleto_order(boleto={"dueDate": due_date}))
    assert_refused(reply, ErrorCode.INVALID_DUE_DATE, status=422)


def test_today_is_the_day_in_brasilia() -> None:
    # Half past two in the morning of the 20th in UTC is still the 19th in Brasilia.
    today = business_day(datetime(2026, 3, 20, 2, 30, tzinfo=UTC))
    assert due_date_of(BoletoBody(due_date=date(2026, 3, 19)), today=today) == date(2026, 3, 19)
    with pytest.raises(Refusal):
        due_date_of(BoletoBody(due_date=date(2026, 3, 18)), today=today)


async def test_a_weekend_is_a_due_date_of_its_own(shop: Shop) -> None:
    saturday = weekday_from(business_day(utc_now()) + ONE_DAY, 5)
    data = await created(shop, boleto={"dueDate": saturday.isoformat()})
    assert data["boleto"]["dueDate"] == saturday.isoformat()
    monday = expiry_of(saturday + timedelta(days=2))
    assert data["expiresAt"] == public_time(monday)


@pytest.mark.parametrize(
    ("due_date", "last_day"),
    [
        (date(2026, 3, 9), date(2026, 3, 12)),  # Monday to Thursday
        (date(2026, 3, 13), date(2026, 3, 18)),  # Friday: over the weekend
        (date(2026, 3, 14), date(2026, 3, 19)),  # Saturday counts as Monday
        (date(2026, 3, 15), date(2026, 3, 19)),  # and so does Sunday
        (date(2026, 2, 13), date(2026, 2, 20)),  # Friday before Carnival
        (date(2026, 2, 17), date(2026, 2, 23)),  # Carnival counts as Ash Wednesday
        (date(2026, 12, 31), date(2027, 1, 6)),
    ],
)
def test_a_boleto_ends_with_the_third_banking_day_after_it_is_due(
    due_date: date, last_day: date
) -> None:
    end = expiry_of(due_date)
    assert public_time(end) == f"{last_day}T23:59:59.999Z"
    assert business_day(end + timedelta(milliseconds=1)) == last_day + ONE_DAY


async def test_what_a_late_payment_adds_is_kept_as_it_was_said(shop: Shop) -> None:
    said = {
        "instructions": "Não receber em cheque.",
        "fine": {"type": "PERCENTAGE", "value": 200},
        "interest": {"value": 100},
    }
    data = await created(shop, boleto=said)
    assert {name: data["boleto"][name] for name in said} == said
    silent = (await created(shop))["boleto"]
    assert [silent[name] for name in said] == [None, None, None]


@pytest.mark.parametrize(
    ("boleto", "field"),
    [
        ({"dueDate": "2999-01-01", "expiresInDays": 3}, "boleto.expiresInDays"),
        ({"dueDate": "20/12/2026"}, "boleto.dueDate"),
        ({"dueDate": "2026-13-01"}, "boleto.dueDate"),
        ({"dueDate": "2026-02-30"}, "boleto.dueDate"),
        ({"dueDate": "2026-12-20T00:00:00Z"}, "boleto.dueDate"),
        ({"dueDate": 20_261_220}, "boleto.dueDate"),
        ({"expiresInDays": 0}, "boleto.expiresInDays"),
        ({"expiresInDays": 61}, "boleto.expiresInDays"),
        ({"expiresInDays": "3"}, "boleto.expiresInDays"),
        ({"instructions": "x" * 256}, "boleto.instructions"),
        ({"fine": {"value": 200}}, "boleto.fine.type"),
        ({"fine": {"type": "percentage", "value": 200}}, "boleto.fine.type"),
        ({"fine": {"type": "PERCENTAGE", "value": 0}}, "boleto.fine.value"),
        ({"fine": {"type": "PERCENTAGE", "value": 10_001}}, "boleto.fine.value"),
        ({"fine": {"type": "FIXED", "value": 10_000_000_000}}, "boleto.fine.value"),
        ({"interest": {"value": -1}}, "boleto.interest.value"),
        ({"interest": {"value": 10_001}}, "boleto.interest.value"),
        ({"interest": {}}, "boleto.interest.value"),
        ({"days": 3}, "boleto.days"),
        (3, "boleto"),
    ],
)
async def test_a_wrong_field_is_named(shop: Shop, boleto: object, field: str) -> None:
    assert_fault(await shop.order(boleto_order(boleto=boleto)), field)


async def test_a_boleto_needs_the_address_of_its_payer(shop: Shop) -> None:
    order = pix_order(paymentMethod="boleto")
    assert_fault(await shop.order(order), "customer.address")
    order["customer"]["address"] = {name: ADDRESS[name] for name in ADDRESS if name != "city"}
    assert_fault(await shop.order(order), "customer.address.city")


async def test_what_is_for_boleto_is_refused_elsewhere_and_the_other_way_round(shop: Shop) -> None:
    assert_fault(await shop.order(pix_order(boleto={})), "boleto")
    assert_fault(await shop.order(boleto_order(pix={})), "pix")


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"installments": 2}, ErrorCode.INVALID_INSTALLMENTS),
        ({"installments": 0}, ErrorCode.INVALID_INSTALLMENTS),
        ({"amount": 99}, ErrorCode.AMOUNT_BELOW_MINIMUM),
        ({"amount": 10_000_000_000}, ErrorCode.AMOUNT_ABOVE_MAXIMUM),
    ],
)
async def test_what_no_boleto_can_be_is_refused(
    shop: Shop, changed: dict[str, object], code: ErrorCode
) -> None:
    assert_refused(await shop.order({**boleto_order(), **changed}), code, status=422)


async def test_the_live_environment_has_no_bank_yet(shop: Shop) -> None:
    reply = await shop.api.post("/v1/transactions", key=shop.tenant.sk_live, json=boleto_order())
    assert_refused(reply, ErrorCode.PROVIDER_NOT_CONFIGURED, status=503)


async def test_a_repeated_key_answers_the_same_boleto(shop: Shop) -> None:
    first = await shop.order(boleto_order(), idempotency_key="boleto-1")
    again = await shop.order(boleto_order(), idempotency_key="boleto-1")
    assert (first.status, again.status) == (201, 200)
    assert again.headers["X-Idempotency-Replayed"] == "true"
    assert again.data == first.data


async def test_a_pending_boleto_can_be_cancelled_once(shop: Shop) -> None:
    data = await created(shop)
    path = f"/v1/transactions/{data['id']}/cancel"
    reply = await shop.api.post(path, key=shop.key)
    assert (reply.status, reply.data["status"]) == (200, "cancelled")
    assert reply.data["statusReason"] == "merchant"
    again = await shop.api.post(path, key=shop.key)
    assert_refused(again, ErrorCode.INVALID_STATE, status=409)


async def test_a_boleto_lives_to_its_last_moment_and_no_longer(shop: Shop) -> None:
    data = await created(shop)
    end = expiry_of(date.fromisoformat(data["boleto"]["dueDate"]))
    await transactions.move_due(shop.database, now=end - timedelta(milliseconds=1))
    assert (await shop.read(data["id"]))["status"] == "pending"
    await transactions.move_due(shop.database, now=end)
    ended = await shop.read(data["id"])
    assert (ended["status"], ended["statusReason"]) == ("cancelled", "expired")
    assert ended["cancelledAt"] == public_time(end)
    assert ended["expiresAt"] == data["expiresAt"]


async def test_money_that_comes_after_the_end_is_a_late_payment(shop: Shop) -> None:
    data = await created(shop)
    await transactions.move_due(shop.database, now=utc_now() + FAR_AHEAD)
    assert (await shop.read(data["id"]))["status"] == "cancelled"
    paid = await shop.move(data["id"], "paid")
    assert (paid["status"], paid["statusReason"]) == ("paid", "late_payment")
    assert await shop.balance() == {"waitingFunds": 10_000}


async def test_a_payment_waits_for_the_next_banking_day(shop: Shop) -> None:
    await companies.set_fee(
        shop.database,
        shop.tenant.company.public_id,
        Fee(Method.BOLETO, fixed_cents=200, percent_basis_points=100),
    )
    data = await created(shop)
    assert (data["fee"], data["netAmount"]) == (300, 9_700)
    paid = await shop.move(data["id"], "paid")
    assert (paid["status"], paid["statusReason"]) == ("paid", None)
    due_on = add_business_days(day_of(paid["paidAt"]), 1)
    assert due_on > day_of(paid["paidAt"])
    assert is_business_day(due_on)
    reply = await shop.api.get("/v1/balance", key=shop.key)
    assert reply.data["nextReleases"] == [{"date": due_on.isoformat(), "amount": 9_700}]
    assert await shop.balance() == {"waitingFunds": 9_700}

    start = start_of_business_day(due_on)
    await ledger.release_due(shop.database, now=start - timedelta(milliseconds=1))
    assert await shop.balance() == {"waitingFunds": 9_700}
    await ledger.release_due(shop.database, now=start)
    assert await shop.balance() == {"available": 9_700}


async def test_a_paid_boleto_no_longer_ends(shop: Shop) -> None:
    data = await created(shop)
    await shop.move(data["id"], "paid")
    await transactions.move_due(shop.database, now=utc_now() + FAR_AHEAD)
    assert (await shop.read(data["id"]))["status"] == "paid"


async def sums_of(shop: Shop) -> dict[str, int]:
    """What all postings of the company have added up to, account by account."""
    rows = await shop.database.fetch(
        """
        select leg.code, sum(leg.amount)::bigint as total
        from posting, unnest(codes, amounts) as leg (code, amount)
        where company_id = $1 and environment = 'test'
        group by leg.code having sum(leg.amount) <> 0
        """,
        shop.scope.company_id,
    )
    return {row["code"]: row["total"] for row in rows}


async def test_a_boleto_is_given_back_in_the_sandbox_only(shop: Shop) -> None:
    data = await created(shop)
    await shop.move(data["id"], "paid")
    paid = await transactions.get(shop.database, shop.scope, data["id"])
    assert check_refund(paid, None, now=utc_now()) == paid.amount
    with pytest.raises(Refusal) as refused:
        check_refund(replace(paid, environment="live"), None, now=utc_now())
    assert refused.value.code is ErrorCode.TRANSACTION_NOT_REFUNDABLE


async def test_the_bank_of_a_boleto_owes_what_was_paid_until_it_is_refunded(shop: Shop) -> None:
    data = await created(shop)
    await shop.move(data["id"], "paid")
    assert await sums_of(shop) == {"release": 10_000, "receivable": -10_000}

    part = await shop.refund(data["id"], 4_000)
    assert (part.status, part.data["amount"]) == (201, 4_000)
    read = await shop.read(data["id"])
    assert (read["status"], read["refundedAmount"]) == ("paid", 4_000)
    assert await shop.balance() == {"waitingFunds": 6_000}
    rest = await shop.refund(data["id"])
    assert (rest.status, rest.data["amount"]) == (201, 6_000)
    assert (await shop.read(data["id"]))["status"] == "refunded"
    assert await sums_of(shop) == {}
    await ledger.release_due(shop.database, now=utc_now() + FAR_AHEAD)
    assert await shop.balance() == {}


async def test_more_than_was_paid_is_not_refunded(shop: Shop) -> None:
    data = await created(shop)
    pending = await shop.refund(data["id"])
    assert_refused(pending, ErrorCode.TRANSACTION_NOT_REFUNDABLE, status=409)
    await shop.move(data["id"], "paid")
    reply = await shop.refund(data["id"], 10_001)
    assert_refused(reply, ErrorCode.REFUND_EXCEEDS_AMOUNT, status=422)


async def test_boletos_are_listed_by_their_method(shop: Shop) -> None:
    await shop.create()
    data = await created(shop)
    found = (await shop.list("?paymentMethod=boleto"))["transactions"]
    assert [each["id"] for each in found] == [data["id"]]
    assert found[0]["boleto"] == data["boleto"]
    assert found[0]["customer"]["document"]["number"] == "***.982.247-**"


async def test_a_boleto_confirmed_by_a_group_that_is_written_twice_knows_who_paid_it(
    shop: Shop, database: Database
) -> None:
    """A connection may break after its commit: whoever asked is known by the transfer's name."""
    transaction_id = (await shop.order(boleto_order())).data["id"]
    name = sandbox_transfer(utc_now())
    word = Payment(shop.scope, transaction_id, name, utc_now())
    connection = await database.connect()
    try:
        [first] = await confirm_many(connection, [word])
        [again] = await confirm_many(connection, [word])
    finally:
        await connection.close()
    assert first is not None
    assert again is not None
    assert (first.is_moved, again.is_moved) == (True, False)
    assert again.transaction.end_to_end_id == name
    assert (await shop.read(transaction_id))["status"] == "paid"
