"""A card is charged once, whatever is lost on the way, and nobody is told what is not known."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from conftest import client, serving
from support.acquirer import alarms, callback, send_all, simulator
from support.api import Api, HttpReply, Shop, assert_refused, complaints, new_shop
from support.cards import card_order, charge, events_of, number_ending_in, suspense
from support.platform import promised
from vintem.brazil.cards import CardNumber
from vintem.kit.clock import public_time, utc_now
from vintem.kit.errors import ErrorCode
from vintem.providers.faults import Fault
from vintem.providers.port import (
    Authorised,
    Blocked,
    Card,
    CardAcquirer,
    Charge,
    FirstAnswer,
    LaterAnswer,
    NeverSeen,
    Processing,
    Unknown,
)
from vintem.resources import Resources, open_resources
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.transactions import phases
from vintem.transactions.service import Transactions

NUMBERS = {
    "0002": "failed",
    "9995": "failed",
    "0127": "failed",
    "0119": "processing",
    "0069": "blocked",
    "0259": "paid",
    "1111": "paid",
}


@pytest.fixture(autouse=True)
async def _books(database: Database) -> AsyncIterator[None]:
    """Whatever a test did, the books agree when it is done."""
    yield
    assert await complaints(database) == {}


@asynccontextmanager
async def faulty(
    settings: Settings, database: Database, *faults: Fault
) -> AsyncIterator[tuple[Shop, Resources]]:
    """A company on a server whose acquirer disappoints, and what a worker would hold."""
    changed = replace(settings, simulator_faults=tuple((fault, 100) for fault in faults))
    async with (
        open_resources(changed, shared_limits=False) as resources,
        serving(resources) as base_url,
        client() as session,
    ):
        yield await new_shop(Api(base_url, session), database), resources


def ask_instead(patch: pytest.MonkeyPatch, resources: Resources, acquirer: CardAcquirer) -> None:
    """Charge cards with another acquirer from now on."""
    desk = replace(resources.transactions._desk, acquirer=acquirer)
    patch.setattr(resources.transactions, "_desk", desk)


async def finish(resources: Resources, seconds: float) -> None:
    """Let a worker ask about everything that is due so many seconds from now."""
    await resources.transactions.finish(now=utc_now() + timedelta(seconds=seconds))


async def in_flight(shop: Shop) -> str:
    """The id of a company's only payment, once it is remembered."""
    async with asyncio.timeout(10):
        while True:
            listed = (await shop.list())["transactions"]
            if listed:
                assert (listed[0]["status"], listed[0]["statusReason"]) == ("processing", None)
                return str(listed[0]["id"])
            await asyncio.sleep(0.01)


@asynccontextmanager
async def held(
    settings: Settings, database: Database, last: str = "1111"
) -> AsyncIterator[tuple[Shop, Resources, str, "asyncio.Task[HttpReply]"]]:
    """A first call that waits for a slow acquirer, and the payment that it has remembered."""
    async with faulty(settings, database, Fault.SLOW_ANSWERS) as (shop, resources):
        first = asyncio.create_task(shop.order(card_order(last), idempotency_key="k-1"))
        transaction_id = await in_flight(shop)
        yield shop, resources, transaction_id, first
        assert (await first).status == 201


async def book_of(shop: Shop) -> list[Any]:
    return list(
        await shop.database.fetch(
            "select * from simulator_charge where company_id = $1", shop.scope.company_id
        )
    )


# While the acquirer has not answered


async def test_a_repeat_in_flight_waits_a_second_and_is_told_to_come_back(
    settings: Settings, database: Database
) -> None:
    async with held(settings, database) as (shop, _, transaction_id, first):
        began = time.monotonic()
        again = await shop.order(card_order(), idempotency_key="k-1")
        assert 0.9 < time.monotonic() - began < promised(2.5)
        assert_refused(again, ErrorCode.IDEMPOTENCY_IN_PROGRESS, status=409)
        assert again.headers["Retry-After"] == "1"
        assert again.headers["X-Idempotency-Key"] == "k-1"
        assert "X-Idempotency-Replayed" not in again.headers
        other = await shop.order(card_order(amount=20_000), idempotency_key="k-1")
        assert_refused(other, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
        made = await first
        assert (made.status, made.data["id"]) == (201, transaction_id)
        assert made.headers["X-Idempotency-Processed-At"] == made.data["paidAt"]
        assert made.data["paidAt"] > made.data["createdAt"]
        after = await shop.order(card_order(), idempotency_key="k-1")
        assert (after.status, after.data) == (200, made.data)
        assert after.headers["X-Idempotency-Processed-At"] == made.data["paidAt"]
        assert len(await book_of(shop)) == 1


async def test_a_repeat_that_comes_just_before_the_answer_gets_it(
    settings: Settings, database: Database
) -> None:
    async with held(settings, database) as (shop, _, transaction_id, first):
        repeats = []
        while not first.done():
            repeats.append(asyncio.create_task(shop.order(card_order(), idempotency_key="k-1")))
            await asyncio.sleep(0.25)
        replies = await asyncio.gather(*repeats)
        counted = Counter(reply.status for reply in replies)
        assert set(counted) == {200, 409}
        answered = [reply.data for reply in replies if reply.status == 200]
        made = (await first).data
        assert made["id"] == transaction_id
        assert [each for each in answered if each != made] == []


async def test_nobody_is_told_of_a_payment_in_flight_and_nobody_moves_it(
    settings: Settings, database: Database
) -> None:
    async with held(settings, database) as (shop, _, transaction_id, first):
        assert await events_of(shop, transaction_id) == []
        assert await shop.balance() == {}
        for status in ("paid", "failed", "cancelled", "blocked"):
            reply = await shop.simulate(transaction_id, status)
            assert_refused(reply, ErrorCode.INVALID_STATE, status=409)
        reply = await shop.refund(transaction_id)
        assert_refused(reply, ErrorCode.TRANSACTION_NOT_REFUNDABLE, status=409)
        reply = await shop.api.post(f"/v1/transactions/{transaction_id}/cancel", key=shop.key)
        assert_refused(reply, ErrorCode.INVALID_STATE, status=409)
        assert await complaints(database) == {}
        assert (await first).data["status"] == "paid"
        assert await events_of(shop, transaction_id) == ["paid"]


async def test_a_first_call_that_was_cut_off_long_ago_is_replayed_as_it_is(
    settings: Settings, database: Database
) -> None:
    async with held(settings, database) as (shop, _, transaction_id, first):
        long_ago = utc_now() - timedelta(seconds=31)
        await database.execute(
            "update transaction set created_at = $3 where company_id = $1 and transaction_id = $2",
            shop.scope.company_id,
            transaction_id,
            long_ago,
        )
        began = time.monotonic()
        again = await shop.order(card_order(), idempotency_key="k-1")
        assert time.monotonic() - began < promised(0.9)
        assert (again.status, again.data["status"]) == (200, "processing")
        assert again.headers["X-Idempotency-Replayed"] == "true"
        assert again.headers["X-Idempotency-Processed-At"] == public_time(long_ago)
        await first


async def test_a_worker_that_answers_first_leaves_nothing_to_answer(
    settings: Settings, database: Database
) -> None:
    async with held(settings, database) as (shop, resources, transaction_id, first):
        await finish(resources, 5)
        assert await events_of(shop, transaction_id) == []
        await asyncio.gather(*(finish(resources, 7) for _ in range(4)))
        assert not first.done()
        paid = await shop.read(transaction_id)
        assert paid["status"] == "paid"
        assert (await first).data == paid
        assert await events_of(shop, transaction_id) == ["paid"]
        assert await shop.balance() == {"waitingFunds": 10_000}


async def test_a_callback_that_is_faster_than_the_answer_waits_for_it(
    settings: Settings, database: Database
) -> None:
    async with held(settings, database, "0119") as (shop, _, transaction_id, first):
        account = shop.tenant.company.public_id
        await send_all(shop.api, [callback(account, "charge.paid", transaction_id, sequence=1)])
        assert (await shop.read(transaction_id))["status"] == "processing"
        assert (await first).data["status"] == "paid"
        assert await events_of(shop, transaction_id) == ["processing", "paid"]


# Answers that are lost


async def test_an_acquirer_that_takes_too_long_is_not_waited_for(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "ANSWER_SECONDS_MAX", 0.5)
    async with faulty(settings, database, Fault.SLOW_ANSWERS) as (shop, resources):
        began = time.monotonic()
        made = (await charge(shop)).data
        assert time.monotonic() - began < promised(2.5)
        assert made["status"] == "processing"
        await finish(resources, 3)
        assert (await shop.read(made["id"]))["status"] == "paid"
        assert len(await book_of(shop)) == 1


async def test_an_acquirer_that_cannot_be_reached_does_not_hide_the_payment(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faulty(settings, database) as (shop, resources):
        with monkeypatch.context() as line:
            ask_instead(line, resources, Unreachable())
            made = (await charge(shop)).data
        assert made["status"] == "processing"
        await finish(resources, 3)
        assert (await shop.read(made["id"]))["status"] == "processing"
        await finish(resources, 11)
        assert (await shop.read(made["id"]))["refusedReason"]["code"] == "NOT_RECEIVED"


@pytest.mark.parametrize(("last", "status"), NUMBERS.items())
async def test_an_answer_that_is_lost_is_asked_for_until_it_is_known(
    settings: Settings, database: Database, last: str, status: str
) -> None:
    async with faulty(settings, database, Fault.LOST_ANSWERS) as (shop, resources):
        known = (await charge(await new_shop(shop.api, database), last)).data
        made = await charge(shop, last, key="k-1")
        assert made.data["status"] == "processing"
        assert made.data["card"]["authorizationCode"] is None
        assert await events_of(shop, made.data["id"]) == ["processing"]
        await finish(resources, 1)
        assert (await shop.read(made.data["id"]))["status"] == "processing"
        await asyncio.gather(*(finish(resources, 3) for _ in range(4)))
        decided = await shop.read(made.data["id"])
        assert decided["status"] == status
        assert (decided["refusedReason"] is not None) == (status == "failed")
        assert (decided["card"]["authorizationCode"] is None) == (status == "failed")
        expected = ["processing"] if status == "processing" else ["processing", status]
        assert await events_of(shop, made.data["id"]) == expected
        again = await shop.order(card_order(last), idempotency_key="k-1")
        assert (again.status, again.data) == (200, decided)
        assert (
            again.headers["X-Idempotency-Processed-At"]
            == made.headers["X-Idempotency-Processed-At"]
        )
        assert len(await book_of(shop)) == 1
        assert known["status"] == "processing"
        # What is not decided yet is asked about again.
        assert (await due(shop) is None) == (status != "processing")


async def due(shop: Shop) -> float | None:
    """In how many seconds from its creation a company's only payment is asked about."""
    seconds = await shop.database.fetchval(
        """
        select extract(epoch from ask_at - asked_at) from provider_request where company_id = $1
        """,
        shop.scope.company_id,
    )
    return None if seconds is None else float(seconds)


class Unreachable:
    """An acquirer whose line is down."""

    name = "simulator"
    arrives_within = timedelta(seconds=10)

    async def authorise(self, charge: Charge) -> FirstAnswer:
        raise OSError("the line is down")

    async def query(self, company_id: int, reference: str) -> LaterAnswer:
        raise OSError("the line is down")


async def test_the_worker_asks_more_and_more_rarely_and_never_gives_up(
    settings: Settings, database: Database
) -> None:
    async with faulty(settings, database, Fault.LOST_ANSWERS) as (shop, resources):
        made = (await charge(shop)).data
        asked_at = await database.fetchval(
            "select asked_at from provider_request where company_id = $1", shop.scope.company_id
        )
        unreachable = Transactions(database, Unreachable())
        moments = [await due(shop)]
        for _ in range(6):
            await unreachable.finish(now=asked_at + timedelta(seconds=(moments[-1] or 0) - 0.001))
            assert await due(shop) == moments[-1]
            await unreachable.finish(now=asked_at + timedelta(seconds=moments[-1] or 0))
            moments.append(await due(shop))
        await unreachable.close()
        pauses = [round((b or 0) - (a or 0)) for a, b in itertools.pairwise([0, *moments])]
        # The first one begins when the charge was given up, which a busy machine delays.
        assert 2 <= pauses[0] <= 4
        assert pauses[1:] == [5, 15, 60, 300, 300, 300]
        assert (await shop.read(made["id"]))["status"] == "processing"
        assert await events_of(shop, made["id"]) == ["processing"]
        await finish(resources, 3_600)
        assert (await shop.read(made["id"]))["status"] == "paid"


async def test_a_query_that_is_lost_is_asked_again(settings: Settings, database: Database) -> None:
    faults = (Fault.LOST_ANSWERS, Fault.LOST_QUERIES)
    async with faulty(settings, database, *faults) as (shop, resources):
        made = (await charge(shop)).data
        await finish(resources, 3)
        assert (await shop.read(made["id"]))["status"] == "processing"
        await finish(resources, 7)
        assert (await shop.read(made["id"]))["status"] == "processing"
        await finish(resources, 9)
        assert (await shop.read(made["id"]))["status"] == "paid"
        assert await events_of(shop, made["id"]) == ["processing", "paid"]


async def test_a_charge_that_never_arrived_fails_once_it_cannot_arrive_any_more(
    settings: Settings, database: Database
) -> None:
    async with faulty(settings, database, Fault.LOST_REQUESTS) as (shop, resources):
        made = (await charge(shop)).data
        await finish(resources, 3)
        assert (await shop.read(made["id"]))["status"] == "processing"
        await finish(resources, 11)
        failed = await shop.read(made["id"])
        assert (failed["status"], failed["refusedReason"]["code"]) == ("failed", "NOT_RECEIVED")
        assert await events_of(shop, made["id"]) == ["processing", "failed"]
        # Should it have been charged all the same, the money is not lost.
        account = shop.tenant.company.public_id
        await send_all(shop.api, [callback(account, "charge.paid", made["id"])])
        assert await suspense(shop) == 10_000
        assert (await shop.read(made["id"]))["status"] == "failed"


class Late:
    """An acquirer that a charge reaches after a long way: until then it has never seen it."""

    name = "simulator"

    def __init__(
        self, acquirer: CardAcquirer, *, arrives_within: timedelta = timedelta(seconds=10)
    ) -> None:
        self._acquirer = acquirer
        self.arrives_within = arrives_within
        self.arrives = asyncio.Event()

    async def authorise(self, charge: Charge) -> FirstAnswer:
        await self.arrives.wait()
        return await self._acquirer.authorise(charge)

    async def query(self, company_id: int, reference: str) -> LaterAnswer:
        return await self._acquirer.query(company_id, reference)


@pytest.mark.parametrize(
    ("last", "money"), [("1111", 10_000), ("0002", 0), ("0119", 10_000), ("0069", 0)]
)
async def test_an_answer_that_comes_after_the_worker_gave_up_is_not_lost(
    settings: Settings,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    last: str,
    money: int,
) -> None:
    async with faulty(settings, database) as (shop, resources):
        late = Late(resources.transactions._desk.acquirer)
        ask_instead(monkeypatch, resources, late)
        first = asyncio.create_task(shop.order(card_order(last), idempotency_key="k-1"))
        transaction_id = await in_flight(shop)
        await finish(resources, 11)
        failed = await shop.read(transaction_id)
        assert (failed["status"], failed["refusedReason"]["code"]) == ("failed", "NOT_RECEIVED")
        counted = alarms("is_failed")
        late.arrives.set()
        reply = await first
        assert (reply.status, reply.data["status"]) == (201, "failed")
        # What the acquirer tells by itself is the same money, told again.
        account = shop.tenant.company.public_id
        if money:
            for _ in range(2):
                told = callback(account, "charge.paid", transaction_id)
                await send_all(shop.api, [told])
        assert await suspense(shop) == money
        assert alarms("is_failed") == counted + bool(money)
        assert await events_of(shop, transaction_id) == ["failed"]
        assert await shop.balance() == {}
        again = await shop.order(card_order(last), idempotency_key="k-1")
        assert (again.status, again.data["status"]) == (200, "failed")
        assert len(await book_of(shop)) == 1


async def test_a_worker_that_hears_something_else_than_the_one_before_it_is_heard_too(
    settings: Settings, database: Database
) -> None:
    async with faulty(settings, database, Fault.LOST_REQUESTS) as (shop, resources):
        made = (await charge(shop)).data
        await finish(resources, 11)
        assert (await shop.read(made["id"]))["refusedReason"]["code"] == "NOT_RECEIVED"
        # It was under way all the time; another worker had asked later, and is slower.
        await simulator(database).authorise(wanted(shop, made["id"], "1111"))
        await database.execute(
            "update provider_request set ask_at = asked_at where company_id = $1",
            shop.scope.company_id,
        )
        await finish(resources, 12)
        assert (await shop.read(made["id"]))["status"] == "failed"
        assert await suspense(shop) == 10_000


async def test_an_answer_for_a_payment_that_was_failed_by_hand_is_kept_in_suspense(
    settings: Settings, database: Database
) -> None:
    async with faulty(settings, database, Fault.LOST_ANSWERS) as (shop, resources):
        made = (await charge(shop)).data
        await shop.move(made["id"], "failed")
        await asyncio.gather(*(finish(resources, 3) for _ in range(4)))
        assert (await shop.read(made["id"]))["status"] == "failed"
        assert await suspense(shop) == 10_000


async def test_a_callback_decides_what_was_not_known(
    settings: Settings, database: Database
) -> None:
    async with faulty(settings, database, Fault.LOST_ANSWERS) as (shop, resources):
        made = (await charge(shop)).data
        account = shop.tenant.company.public_id
        await send_all(shop.api, [callback(account, "charge.paid", made["id"], code="123456")])
        paid = await shop.read(made["id"])
        assert (paid["status"], paid["card"]["authorizationCode"]) == ("paid", "123456")
        await finish(resources, 3)
        assert await events_of(shop, made["id"]) == ["processing", "paid"]
        assert await suspense(shop) == 0
        assert await due(shop) is None


# Charges that take their time


class Undecided:
    """An acquirer that has a charge in process, tells nothing by itself, and can be asked."""

    name = "simulator"
    arrives_within = timedelta(seconds=10)

    def __init__(self) -> None:
        self.later: LaterAnswer = Processing("123456")

    async def authorise(self, charge: Charge) -> FirstAnswer:
        return Processing("123456")

    async def query(self, company_id: int, reference: str) -> LaterAnswer:
        return self.later


async def test_a_charge_in_process_is_asked_about_more_and_more_rarely_until_it_is_decided(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faulty(settings, database) as (shop, resources):
        acquirer = Undecided()
        ask_instead(monkeypatch, resources, acquirer)
        made = (await charge(shop)).data
        assert made["status"] == "processing"
        moments = [await due(shop) or 0]
        for _ in range(8):
            await finish_at(resources, shop, moments[-1])
            moments.append(await due(shop) or 0)
        pauses = [b - a for a, b in itertools.pairwise([0, *moments])]
        # The first one begins with the answer, which a busy machine delays.
        for pause, expected in zip(
            pauses, [60, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600], strict=True
        ):
            assert expected * 0.999 <= pause <= expected * 1.05, pauses
        # One that was seen is not forgotten because a later answer does not know it.
        acquirer.later = NeverSeen()
        await finish_at(resources, shop, moments[-1])
        assert (await shop.read(made["id"]))["status"] == "processing"
        acquirer.later = Authorised("123456")
        await finish_at(resources, shop, await due(shop) or 0)
        assert (await shop.read(made["id"]))["status"] == "paid"
        assert await events_of(shop, made["id"]) == ["processing", "paid"]
        assert await due(shop) is None


async def finish_at(resources: Resources, shop: Shop, seconds: float) -> None:
    """Let a worker ask about a company's only payment so many seconds after its creation."""
    asked_at = await shop.database.fetchval(
        "select asked_at from provider_request where company_id = $1", shop.scope.company_id
    )
    await resources.transactions.finish(now=asked_at + timedelta(seconds=seconds))


async def test_a_charge_in_process_that_a_callback_decided_is_asked_about_once_more_at_most(
    settings: Settings, database: Database
) -> None:
    async with faulty(settings, database) as (shop, resources):
        made = (await charge(shop, "0119")).data
        account = shop.tenant.company.public_id
        await send_all(shop.api, [callback(account, "charge.paid", made["id"])])
        await finish(resources, 120)
        assert await due(shop) is None
        assert await events_of(shop, made["id"]) == ["processing", "paid"]


async def test_an_acquirer_says_how_long_a_charge_may_be_under_way(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faulty(settings, database) as (shop, resources):
        acquirer = resources.transactions._desk.acquirer
        slow = Late(acquirer, arrives_within=timedelta(minutes=5))
        ask_instead(monkeypatch, resources, slow)
        first = asyncio.create_task(shop.order(card_order(), idempotency_key="k-1"))
        transaction_id = await in_flight(shop)
        await finish(resources, 11)
        await finish(resources, 290)
        assert (await shop.read(transaction_id))["status"] == "processing"
        await finish(resources, 660)
        failed = await shop.read(transaction_id)
        assert (failed["status"], failed["refusedReason"]["code"]) == ("failed", "NOT_RECEIVED")
        first.cancel()


class LateAndSilent(Late):
    """One that cannot be asked while the charge is under way."""

    later: LaterAnswer = Unknown()

    async def query(self, company_id: int, reference: str) -> LaterAnswer:
        return self.later


async def test_whoever_asked_first_is_told_what_the_late_answer_has_done(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faulty(settings, database) as (shop, resources):
        late = LateAndSilent(resources.transactions._desk.acquirer)
        ask_instead(monkeypatch, resources, late)
        first = asyncio.create_task(shop.order(card_order(), idempotency_key="k-1"))
        transaction_id = await in_flight(shop)
        await finish(resources, 7)
        assert await events_of(shop, transaction_id) == ["processing"]
        late.arrives.set()
        reply = await first
        assert (reply.status, reply.data["status"]) == (201, "paid")
        assert reply.data == await shop.read(transaction_id)
        assert await events_of(shop, transaction_id) == ["processing", "paid"]


async def test_what_an_acquirer_has_is_never_taken_for_lost_though_a_worker_was_faster(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faulty(settings, database) as (shop, resources):
        late = LateAndSilent(resources.transactions._desk.acquirer)
        ask_instead(monkeypatch, resources, late)
        first = asyncio.create_task(shop.order(card_order("0119"), idempotency_key="k-1"))
        transaction_id = await in_flight(shop)
        await finish(resources, 7)
        late.arrives.set()
        assert (await first).data["status"] == "processing"
        late.later = NeverSeen()
        await finish(resources, 7_200)
        assert await events_of(shop, transaction_id) == ["processing"]


class Overtaken(Undecided):
    """An acquirer whose answer to a question is older than what it has told meanwhile."""

    def __init__(self, shop: Shop) -> None:
        super().__init__()
        self.shop = shop

    async def query(self, company_id: int, reference: str) -> LaterAnswer:
        account = self.shop.tenant.company.public_id
        await send_all(self.shop.api, [callback(account, "charge.paid", reference)])
        return Blocked("123456")


async def test_an_answer_that_a_callback_has_overtaken_blocks_nothing(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faulty(settings, database) as (shop, resources):
        ask_instead(monkeypatch, resources, Overtaken(shop))
        made = (await charge(shop)).data
        await finish(resources, 120)
        assert await events_of(shop, made["id"]) == ["processing", "paid"]
        assert await shop.balance() == {"waitingFunds": 10_000}


# The acquirer itself


def wanted(shop: Shop, reference: str, last: str) -> Charge:
    number = CardNumber.parse(number_ending_in(last))
    assert number is not None
    return Charge(
        company_id=shop.scope.company_id,
        account=shop.tenant.company.public_id,
        reference=reference,
        card=Card(number, "CLIENTE DE TESTE", 12, utc_now().year + 1, "123"),
        amount=10_000,
        installments=1,
    )


async def test_an_acquirer_charges_once_under_one_id(api: Api, database: Database) -> None:
    shop, one = await new_shop(api, database), simulator(database)
    assert await one.query(shop.scope.company_id, "tx_x") == NeverSeen()
    answers = await asyncio.gather(
        *(one.authorise(wanted(shop, "tx_x", "7777")) for _ in range(16)),
    )
    assert len(set(answers)) == 1
    assert isinstance(answers[0], Authorised)
    # Whatever is asked under the same id later, the first charge is the one that was made.
    assert await one.authorise(wanted(shop, "tx_x", "0002")) == answers[0]
    assert await one.query(shop.scope.company_id, "tx_x") == answers[0]
    assert len(await book_of(shop)) == 1


async def test_faults_happen_to_a_share_of_the_charges_and_to_the_same_ones(
    settings: Settings, database: Database
) -> None:
    changed = replace(settings, simulator_faults=((Fault.LOST_ANSWERS, 50),), simulator_seed=7)
    async with (
        open_resources(changed, shared_limits=False) as resources,
        serving(resources) as base_url,
        client() as session,
    ):
        shop = await new_shop(Api(base_url, session), database)
        made = await asyncio.gather(*(charge(shop) for _ in range(40)))
        counted = Counter(reply.data["status"] for reply in made)
        assert min(counted["processing"], counted["paid"]) >= 5
        await finish(resources, 3)
        for reply in made:
            assert (await shop.read(reply.data["id"]))["status"] == "paid"
        assert await shop.balance() == {"waitingFunds": 400_000}


async def test_whatever_goes_wrong_every_charge_ends_where_the_acquirer_s_book_says(
    settings: Settings, database: Database
) -> None:
    changed = replace(
        settings,
        simulator_seed=11,
        simulator_faults=(
            (Fault.LOST_REQUESTS, 10),
            (Fault.LOST_ANSWERS, 30),
            (Fault.LOST_QUERIES, 50),
            (Fault.REPEAT_CALLBACKS, 50),
            (Fault.SHUFFLE_CALLBACKS, 50),
        ),
    )
    ends = {**NUMBERS, "0119": "paid", "0259": "chargeback"}
    async with (
        open_resources(changed, shared_limits=False) as resources,
        serving(resources) as base_url,
        client() as session,
    ):
        shop = await new_shop(Api(base_url, session), database)
        cards = list(NUMBERS) * 12
        made = await asyncio.gather(*(charge(shop, last) for last in cards))
        for seconds in (3, 5, 9, 12, 25, 30, 90, 400, 800):
            now = utc_now() + timedelta(seconds=seconds)
            # Two workers that get in each other's way.
            await asyncio.gather(
                *(resources.transactions.finish(now=now) for _ in range(2)),
                *(resources.simulator.tell_due(base_url, now=now) for _ in range(2)),
            )
        charged = {row["reference"] for row in await book_of(shop)}
        assert 0 < len(charged) < len(made), "the faults must have struck some and not others"
        for last, reply in zip(cards, made, strict=True):
            shown = await shop.read(reply.data["id"])
            if reply.data["id"] in charged:
                assert shown["status"] == ends[last], (last, shown)
            else:
                assert shown["refusedReason"]["code"] == "NOT_RECEIVED"
        assert await suspense(shop) == 0
