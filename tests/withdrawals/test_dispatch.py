"""Sending: first the commit, then the provider; what is not known is asked about, never guessed."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from support.api import TEST_PEPPER, Api
from vintem.brazil.br_code import is_end_to_end_id
from vintem.brazil.wallets import Coin
from vintem.companies.model import Environment
from vintem.kit.clock import utc_now
from vintem.ledger.model import Scope
from vintem.providers.payout_simulator import PayoutSimulator
from vintem.providers.payouts import Paid, PayoutAnswer, PayoutOrder, Quote, Rejected
from vintem.runtime import metrics
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.withdrawals import dispatch
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.dispatch import Dispatcher
from vintem.withdrawals.model import NoticeOutcome, PayoutNotice, ask_again_after
from withdrawals.till import Clock, Till, new_till


async def row(till: Till, withdrawal_id: str) -> Any:
    return await till.database.fetchrow(
        "select * from withdrawal where company_id = $1 and withdrawal_id = $2",
        till.company_id,
        withdrawal_id,
    )


async def test_a_withdrawal_is_sent_and_completed_after_two_seconds(till: Till) -> None:
    made = await till.take()
    await till.work()
    sent = await till.read(made["id"])
    assert (sent["status"], sent["processedAt"] is not None) == ("processing", True)
    assert await till.balance() == {"available": 99_000, "inTransit": 1_000}
    await till.work(after=1)
    assert await till.status(made["id"]) == "processing"
    await till.work(after=1.5)
    done = await till.read(made["id"])
    assert (done["status"], done["completedAt"] is not None) == ("completed", True)
    assert is_end_to_end_id(done["endToEndId"])
    assert done["endToEndId"].startswith("E99999999")
    assert await till.balance() == {"available": 99_000}
    assert await till.events(made["id"]) == ["PENDING", "PROCESSING", "COMPLETED"]
    await till.check()


async def test_an_amount_that_ends_in_01_fails_and_comes_back(till: Till) -> None:
    made = await till.take(1_001)
    await till.work()
    failed = await till.read(made["id"])
    assert (failed["status"], failed["failureCode"]) == ("failed", "PIX_KEY_NOT_FOUND")
    assert failed["failureReason"]
    assert await till.balance() == {"available": 100_000}
    assert await till.events(made["id"]) == ["PENDING", "PROCESSING", "FAILED"]
    entries = (await till.api.get("/v1/balance/entries", key=till.key)).data["entries"]
    assert [entry["kind"] for entry in entries[:2]] == ["withdrawal_returned", "withdrawal"]
    await till.check()


@pytest.mark.parametrize(("amount", "status"), [(1_002, "completed"), (1_003, "failed")])
async def test_an_unknown_outcome_is_asked_about_until_it_is_known(
    till: Till, amount: int, status: str
) -> None:
    made = await till.take(amount)
    await till.work()
    assert await till.status(made["id"]) == "processing"
    await till.work(after=2.1)
    assert (await row(till, made["id"]))["asked"] == 1
    assert await till.status(made["id"]) == "processing"
    await till.work(after=4)
    assert (await row(till, made["id"]))["asked"] == 1
    await till.work(after=1.5)
    assert await till.status(made["id"]) == status
    expected = {"available": 98_998} if status == "completed" else {"available": 100_000}
    assert await till.balance() == expected
    await till.check()


def test_the_questions_come_further_and_further_apart() -> None:
    waits = [ask_again_after(asked).total_seconds() for asked in range(7)]
    assert waits == [2, 5, 15, 60, 300, 300, 300]


class Silent:
    """A provider that never answers; it counts what it was asked for."""

    def __init__(self, inner: PayoutSimulator, *, hangs: bool = False) -> None:
        self._inner = inner
        self._hangs = hangs
        self.sent: list[str] = []

    async def send(self, order: PayoutOrder) -> PayoutAnswer:
        self.sent.append(order.request_id)
        if self._hangs:
            await asyncio.sleep(3_600)
        raise ConnectionResetError("the provider hung up")

    async def query(self, company_id: int, request_id: str) -> PayoutAnswer:
        del company_id, request_id
        raise TimeoutError

    async def quote(self, coin: Coin) -> Quote:
        return await self._inner.quote(coin)


def dispatcher(till: Till, provider: Any, clock: Callable[[], Any] | None = None) -> Dispatcher:
    sealer = Sealer(TEST_PEPPER.encode())
    return Dispatcher(till.database, provider, sealer, Environment.TEST, clock=clock or till.clock)


async def test_a_provider_that_never_answers_makes_nothing_fail(till: Till) -> None:
    made = await till.take()
    silent = Silent(till.simulator)
    worker = dispatcher(till, silent)
    for seconds in (0, 3, 6, 16, 61, 301, 301, 301):
        till.clock.wait(seconds)
        await worker.run()
        await worker.close()
    found = await row(till, made["id"])
    assert (found["status"], found["asked"]) == ("processing", 7)
    assert silent.sent == [found["request_id"]]
    assert await till.balance() == {"available": 99_000, "inTransit": 1_000}
    # When it can be asked again, and has never heard of it, the same request is sent once more.
    await till.work(after=301)
    await till.work(after=301)
    assert await till.status(made["id"]) == "completed"
    assert (await row(till, made["id"]))["request_id"] == found["request_id"]
    await till.check()


async def test_the_request_id_is_committed_before_the_provider_is_called(till: Till) -> None:
    made = await till.take()
    seen: list[tuple[str, str]] = []

    class Watching(Silent):
        async def send(self, order: PayoutOrder) -> PayoutAnswer:
            found = await row(till, made["id"])
            seen.append((found["status"], found["request_id"]))
            return await super().send(order)

    worker = dispatcher(till, Watching(till.simulator))
    await worker.run()
    await worker.close()
    assert seen == [("processing", made["id"].replace("_", ""))]


async def test_half_an_hour_of_silence_raises_the_alarm(till: Till) -> None:
    await till.take()
    worker = dispatcher(till, Silent(till.simulator))
    await worker.run()
    await worker.close()
    before = await dispatch.count_overdue(till.database, now=utc_now())
    later = utc_now() + timedelta(minutes=31)
    assert await dispatch.count_overdue(till.database, now=later) >= before + 1
    assert metrics.WITHDRAWALS_OVERDUE._value.get() >= 1
    await till.work(after=30)
    await till.work(after=30)


async def test_eight_workers_send_each_withdrawal_once(till: Till) -> None:
    made = [await till.take(1_000 + number * 10) for number in range(20)]
    sent: list[str] = []

    class Counting(PayoutSimulator):
        async def send(self, order: PayoutOrder) -> PayoutAnswer:
            sent.append(order.request_id)
            return await super().send(order)

    workers = [dispatcher(till, Counting(till.database, clock=till.clock)) for _ in range(8)]
    await asyncio.gather(*(worker.run() for worker in workers))
    await asyncio.gather(*(worker.close() for worker in workers))
    ours = {each["id"].replace("_", "") for each in made}
    assert sorted(name for name in sent if name in ours) == sorted(ours)
    till.clock.wait(3)
    await asyncio.gather(*(worker.run() for worker in workers))
    await asyncio.gather(*(worker.close() for worker in workers))
    assert {await till.status(each["id"]) for each in made} == {"completed"}
    await till.check()


async def test_a_worker_that_lost_its_turn_writes_nothing_but_what_is_certain(till: Till) -> None:
    """The first worker hangs in its call; a second one takes over when the turn is over."""
    made = await till.take(1_002)
    first = dispatcher(till, Silent(till.simulator, hangs=True), clock=Clock())
    await first.run()
    assert (await row(till, made["id"]))["fence"] == 1
    await till.work(after=16)
    taken_over = await row(till, made["id"])
    assert (taken_over["fence"], taken_over["asked"]) == (2, 1)
    # The first worker's call ends without an answer: the second one's plan stands.
    await first.close()
    now = await row(till, made["id"])
    assert (now["fence"], now["due_at"]) == (2, taken_over["due_at"])
    await till.work(after=6)
    await till.work(after=16)
    assert await till.status(made["id"]) == "completed"
    await till.check()


async def test_one_company_s_trouble_does_not_stop_the_others(
    till: Till, api: Api, database: Database
) -> None:
    other = await new_till(api, database, funds=5_000)
    broken, healthy = await till.take(), await other.take()
    await database.execute(
        "update withdrawal set destination_sealed = 'x' where withdrawal_id = $1", broken["id"]
    )
    await till.work()
    assert await other.status(healthy["id"]) == "processing"
    await till.work(after=3)
    assert await other.status(healthy["id"]) == "completed"
    # Its own call could not be made; it is not known to have failed.
    assert (await row(till, broken["id"]))["status"] == "processing"
    await repair(till, broken["id"], healthy["id"])
    await till.work(after=61)
    await till.work(after=61)
    assert await till.status(broken["id"]) == "completed"
    await till.check()


async def repair(till: Till, broken_id: str, healthy_id: str) -> None:
    await till.database.execute(
        "update withdrawal b set destination_sealed = h.destination_sealed from withdrawal h"
        " where b.withdrawal_id = $1 and h.withdrawal_id = $2",
        broken_id,
        healthy_id,
    )


async def test_a_slow_company_is_not_waited_for(
    till: Till, api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "ROUND_SECONDS_MAX", 0.2)
    monkeypatch.setattr(dispatch, "CALL_SECONDS_MAX", 60.0)
    other = await new_till(api, database, funds=5_000)
    slow, quick = await till.take(), await other.take()
    asked, let_go = asyncio.Event(), asyncio.Event()

    class SlowForOne(PayoutSimulator):
        async def send(self, order: PayoutOrder) -> PayoutAnswer:
            if order.company_id == till.company_id:
                asked.set()
                await let_go.wait()
            return await super().send(order)

    worker = dispatcher(till, SlowForOne(database, clock=till.clock))
    async with asyncio.timeout(30):
        while await other.status(quick["id"]) != "completed":
            await worker.run()
            till.clock.wait(3)
        await asked.wait()
    assert await till.status(slow["id"]) == "processing"
    let_go.set()
    await worker.close()
    await till.work(after=6)
    assert await till.status(slow["id"]) == "completed"
    await till.check()


async def test_lost_answers_pay_once_and_complete(till: Till) -> None:
    made = [await till.take(1_000 + number) for number in range(4, 12)]
    await till.work(loses_answers=True)
    assert {await till.status(each["id"]) for each in made} == {"processing"}
    executed = await till.database.fetchval(
        "select count(*) from simulated_payout where company_id = $1 and outcome = 'executed'",
        till.company_id,
    )
    assert executed == len(made)
    await till.work(after=3)
    assert {await till.status(each["id"]) for each in made} == {"completed"}
    await till.check()


async def test_a_rejection_whose_answer_was_lost_is_found_out(till: Till) -> None:
    made = await till.take(1_001)
    await till.work(loses_answers=True)
    assert await till.status(made["id"]) == "processing"
    await till.work(after=3)
    assert await till.status(made["id"]) == "failed"
    assert await till.balance() == {"available": 100_000}
    await till.check()


async def test_a_worker_carries_out_what_is_of_its_environment(till: Till) -> None:
    made = await till.take()
    sealer = Sealer(TEST_PEPPER.encode())
    other = Dispatcher(till.database, till.simulator, sealer, Environment.LIVE, clock=till.clock)
    assert await other.run() == 0
    await other.close()
    assert await till.status(made["id"]) == "pending"
    await till.work()
    assert await till.status(made["id"]) == "processing"


def notice(till: Till, made: Any, answer: Paid | Rejected, name: str = "n-1") -> PayoutNotice:
    return PayoutNotice(till.shop.scope, name, made["id"].replace("_", ""), answer)


PAID = Paid(end_to_end_id="E99999999202601011200abcdefghijk")
REJECTED = Rejected("AC03", "The account is not valid.")


async def tell(till: Till, told: PayoutNotice) -> NoticeOutcome:
    return await withdrawals.apply_payout_notice(till.database, told, now=till.clock())


async def test_a_notice_completes_what_is_on_its_way_once(till: Till) -> None:
    made = await till.take()
    await till.work()
    till.clock.wait(3)
    await till.simulator.query(till.company_id, made["id"].replace("_", ""))
    outcomes = await asyncio.gather(*(tell(till, notice(till, made, PAID)) for _ in range(8)))
    assert sorted(outcomes) == sorted([NoticeOutcome.APPLIED] + [NoticeOutcome.REPEATED] * 7)
    done = await till.read(made["id"])
    assert (done["status"], done["endToEndId"]) == ("completed", PAID.end_to_end_id)
    assert await tell(till, notice(till, made, PAID, "n-2")) is NoticeOutcome.UNCHANGED
    await till.work(after=3)
    assert await till.balance() == {"available": 99_000}
    assert await till.events(made["id"]) == ["PENDING", "PROCESSING", "COMPLETED"]
    await till.check()


async def test_a_notice_may_come_before_the_answer(till: Till) -> None:
    made = await till.take()

    class Notifying(PayoutSimulator):
        async def send(self, order: PayoutOrder) -> PayoutAnswer:
            answer = await self.force(order, failure_code=None)
            assert isinstance(answer, Paid)
            assert await tell(till, notice(till, made, answer)) is NoticeOutcome.APPLIED
            return answer

    worker = dispatcher(till, Notifying(till.database, clock=till.clock))
    await worker.run()
    await worker.close()
    assert await till.status(made["id"]) == "completed"
    assert await till.balance() == {"available": 99_000}
    await till.check()


async def test_a_notice_of_a_failure_gives_the_money_back_once(till: Till) -> None:
    made = await till.take()
    await till.simulate(made["id"], "processing")
    assert await tell(till, notice(till, made, REJECTED)) is NoticeOutcome.APPLIED
    assert await tell(till, notice(till, made, REJECTED, "n-2")) is NoticeOutcome.UNCHANGED
    assert await till.balance() == {"available": 100_000}
    shown = await till.read(made["id"])
    assert (shown["failureCode"], shown["failureReason"]) == ("AC03", REJECTED.reason)
    await till.check()


async def test_a_notice_that_contradicts_moves_nothing_and_raises_the_alarm(till: Till) -> None:
    made = await till.take()
    await till.work()
    await till.work(after=3)
    before = metrics.PAYOUT_CONTRADICTIONS._value.get()
    assert await tell(till, notice(till, made, REJECTED)) is NoticeOutcome.CONTRADICTS
    assert metrics.PAYOUT_CONTRADICTIONS._value.get() == before + 1
    assert await till.status(made["id"]) == "completed"
    await till.check()


async def test_a_notice_of_nothing_of_ours_is_left_alone(till: Till) -> None:
    stranger = PayoutNotice(till.shop.scope, "n-1", "wd00000000000000000000000000", PAID)
    assert await tell(till, stranger) is NoticeOutcome.UNKNOWN_REQUEST
    sent = await till.take()
    await till.simulate(sent["id"], "processing")
    live = replace(notice(till, sent, PAID), scope=Scope(till.company_id, "live"))
    assert await tell(till, live) is NoticeOutcome.UNKNOWN_REQUEST
    assert await till.status(sent["id"]) == "processing"
    unsent = await till.take()
    assert await tell(till, notice(till, unsent, PAID)) is NoticeOutcome.UNKNOWN_REQUEST
    assert await till.status(unsent["id"]) == "pending"
