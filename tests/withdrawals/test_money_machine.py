"""Random lives of a company that takes money out, against a model of its money."""

import asyncio
import os
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from conftest import new_database
from support.api import TEST_PEPPER, complaints, new_tenant
from vintem.brazil.wallets import Coin, Network
from vintem.companies.model import Environment, WithdrawalRules
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.kit.intent import Intent, IntentSource
from vintem.ledger import service as ledger
from vintem.ledger.model import Account, Capture, HoldKind, Kind, Scope
from vintem.providers.payout_simulator import PayoutSimulator, answer_of
from vintem.providers.payouts import Destination, Paid, PixDestination, Rejected, WalletDestination
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.runtime.migrations import migrate
from vintem.withdrawals import creation, service
from vintem.withdrawals.creation import NewWithdrawal
from vintem.withdrawals.dispatch import Dispatcher
from vintem.withdrawals.model import (
    MOVES,
    Method,
    PayoutNotice,
    Status,
    Withdrawal,
    purchase,
    request_id_of,
)
from withdrawals.till import disagreements

T = TypeVar("T")

# `PROOF_RUNS=200` is the long proof.
RUNS = int(os.environ.get("PROOF_RUNS", "25"))
STEPS = 40
START = datetime(2026, 3, 10, 15, tzinfo=UTC)
PIX = PixDestination("cliente@example.com", "email")
WALLET = WalletDestination(Coin.USDT, Network.TRC20, "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8")
OPEN = {"pending", "pending_approval", "processing"}


@dataclass
class Taking:
    """A withdrawal as the model sees it."""

    total: int
    status: str


@dataclass
class Model:
    """The whole of a company's money: what is free, owed, disputed and on its way out."""

    available: int = 0
    debt: int = 0
    disputes: dict[str, tuple[int, int]] = field(default_factory=dict)
    takings: dict[str, Taking] = field(default_factory=dict)

    @property
    def on_its_way(self) -> int:
        return sum(each.total for each in self.takings.values() if each.status in OPEN)

    @property
    def disputed(self) -> int:
        return sum(free + owed for free, owed in self.disputes.values())

    def gain(self, amount: int) -> None:
        """What comes in pays debt first."""
        paid = min(self.debt, amount)
        self.debt -= paid
        self.available += amount - paid

    def dispute(self, reference: str, amount: int) -> None:
        free = min(self.available, amount)
        self.available -= free
        self.debt += amount - free
        self.disputes[reference] = (free, amount - free)

    def move(self, withdrawal_id: str, status: str) -> None:
        taking = self.takings[withdrawal_id]
        taking.status = status
        if status in {"failed", "cancelled"}:
            self.gain(taking.total)


@dataclass(frozen=True)
class Bench:
    """A database of its own and the loop that it lives in."""

    runner: asyncio.Runner
    database: Database
    sealer: Sealer

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.runner.run(work)


async def empty(database: Database) -> None:
    """Forget a life, for the next one; nobody but a test may do that to the books."""
    async with database.atomic() as block:
        await block.execute("set local session_replication_role = replica")
        await block.execute(
            "truncate posting, account, hold, withdrawal, withdrawal_history, withdrawal_day,"
            " decision_log, payout_notice, simulated_payout, asset_posting, webhook_event"
        )


class Company(RuleBasedStateMachine):
    """Payments, disputes, withdrawals, second persons, workers and notices in any order."""

    bench: ClassVar[Bench]
    scope: Scope
    held_to: WithdrawalRules

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.now = START
        self.number = 0

    @initialize(
        automatic=st.sampled_from([None, None, 0, 500]),
        daily=st.sampled_from([None, None, 6_000]),
        crypto=st.booleans(),
    )
    def begin(self, automatic: int | None, daily: int | None, crypto: bool) -> None:
        tenant = self.bench.run(new_tenant(self.bench.database))
        self.scope = Scope(tenant.company.company_id, "test")
        self.held_to = WithdrawalRules(
            daily_cents_max=daily, automatic_cents_max=automatic, approves_crypto=crypto
        )
        self.bench.run(
            service.set_rules(
                self.bench.database,
                self.scope.company_id,
                self.held_to,
                decided_by="operator:model",
                now=self.now,
            )
        )

    @rule(amount=st.integers(1, 3_000))
    def receive(self, amount: int) -> None:
        payment = Capture(self.scope, self.next_name("tx"), Account.BANK, amount, 0)
        self.bench.run(self.in_block_capture(payment))
        self.model.gain(amount)

    @rule(amount=st.integers(1, 2_500))
    def dispute(self, amount: int) -> None:
        reference = self.next_name("dp")
        self.bench.run(self.in_block_hold(reference, amount))
        self.model.dispute(reference, amount)

    @precondition(lambda self: self.model.disputes)
    @rule(data=st.data(), is_won=st.booleans())
    def end_dispute(self, data: st.DataObject, is_won: bool) -> None:
        reference = data.draw(st.sampled_from(sorted(self.model.disputes)))
        self.bench.run(self.in_block_end(reference, is_won=is_won))
        free, owed = self.model.disputes.pop(reference)
        if is_won:
            self.model.gain(free + owed)

    @rule(
        cents=st.integers(1, 25),
        ending=st.sampled_from([0, 1, 2, 3, 50]),
        fee=st.sampled_from([0, 0, 7]),
        is_crypto=st.booleans(),
    )
    def withdraw(self, cents: int, ending: int, fee: int, is_crypto: bool) -> None:
        amount = cents * 100 + ending
        new = self.withdrawal(amount, fee, WALLET if is_crypto else PIX)
        made = new.withdrawal
        refusal = self.why_not(made.total_debited)
        assert self.attempt(creation.create(self.bench.database, new)) is refusal
        if refusal is None:
            limit = self.held_to.automatic_cents_max
            waits = limit is not None and made.total_debited > limit
            waits = waits or (self.held_to.approves_crypto and is_crypto)
            status = "pending_approval" if waits else "pending"
            self.model.available -= made.total_debited
            self.model.takings[made.withdrawal_id] = Taking(made.total_debited, status)

    @precondition(lambda self: self.model.takings)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        chosen = self.choose(data)
        may = self.model.takings[chosen].status in {"pending", "pending_approval"}
        work = service.cancel(self.bench.database, self.scope, chosen, now=self.now)
        expected = None if may else ErrorCode.WITHDRAWAL_NOT_CANCELLABLE
        assert self.attempt(work) is expected
        if may:
            self.model.move(chosen, "cancelled")

    @precondition(lambda self: self.model.takings)
    @rule(data=st.data(), is_approved=st.booleans())
    def decide(self, data: st.DataObject, is_approved: bool) -> None:
        chosen = self.choose(data)
        may = self.model.takings[chosen].status == "pending_approval"
        decide = service.approve if is_approved else service.reject
        work = decide(
            self.bench.database, chosen, decided_by="operator:model", reason="x", now=self.now
        )
        assert self.attempt(work) is (None if may else ErrorCode.INVALID_STATE)
        if may:
            self.model.move(chosen, "pending" if is_approved else "cancelled")

    @rule(seconds=st.sampled_from([0, 1, 3, 10, 70, 400]), loses_answers=st.booleans())
    def work(self, seconds: int, loses_answers: bool) -> None:
        """The worker comes by; what it did is what the provider's books say."""
        self.now += timedelta(seconds=seconds)
        self.bench.run(self.dispatched(loses_answers=loses_answers))
        self.follow()

    @rule(is_repeated=st.booleans())
    def notify(self, is_repeated: bool) -> None:
        """The provider tells of all outcomes by itself, some of them for the second time."""
        rows = self.bench.run(
            self.bench.database.fetch(
                "select * from simulated_payout where company_id = $1 and outcome is not null",
                self.scope.company_id,
            )
        )
        for row in rows:
            answer = answer_of(row)
            assert isinstance(answer, Paid | Rejected)
            name = "again" if is_repeated else self.next_name("n")
            notice = PayoutNotice(
                self.scope, f"{name}/{row['request_id']}", row["request_id"], answer
            )
            self.bench.run(service.apply_payout_notice(self.bench.database, notice, now=self.now))
        self.follow()

    @invariant()
    def the_money_is_where_the_model_says(self) -> None:
        if not hasattr(self, "scope"):
            return
        at = self.balances()
        assert at[Account.AVAILABLE] == self.model.available
        assert -at[Account.DEBT] == self.model.debt
        assert at[Account.DISPUTE] == self.model.disputed
        assert at[Account.PAYOUT] == self.model.on_its_way
        assert not (self.model.debt and self.model.available)

    def teardown(self) -> None:
        if not hasattr(self, "scope"):
            return
        # In the end everything that was sent is known.
        for _ in range(8):
            self.now += timedelta(seconds=400)
            self.bench.run(self.dispatched(loses_answers=False))
        self.follow()
        self.the_money_is_where_the_model_says()
        statuses = {each.status for each in self.model.takings.values()}
        assert statuses <= {"completed", "failed", "cancelled", "pending_approval"}
        assert self.bench.run(complaints(self.bench.database)) == {}
        assert self.bench.run(disagreements(self.bench.database, self.scope.company_id)) == []
        self.bench.run(empty(self.bench.database))

    def follow(self) -> None:
        """Take over where withdrawals stand, if the way there is a legal one."""
        rows = self.bench.run(
            self.bench.database.fetch(
                "select withdrawal_id, status from withdrawal where company_id = $1",
                self.scope.company_id,
            )
        )
        for row in rows:
            was = Status(self.model.takings[row["withdrawal_id"]].status)
            now = Status(row["status"])
            if now is not was:
                between = {after for step in MOVES[was] for after in MOVES[step]}
                assert now in MOVES[was] | between, (was, now)
                self.model.move(row["withdrawal_id"], now)

    def why_not(self, total: int) -> ErrorCode | None:
        limit = self.held_to.daily_cents_max
        gone = {"failed", "cancelled"}
        today = sum(each.total for each in self.model.takings.values() if each.status not in gone)
        if limit is not None and today + total > limit:
            return ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED
        return ErrorCode.INSUFFICIENT_BALANCE if total > self.model.available else None

    def attempt(self, work: Coroutine[object, object, object]) -> ErrorCode | None:
        try:
            self.bench.run(work)
        except Refusal as refusal:
            return refusal.code
        return None

    def choose(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(list(self.model.takings)))

    def next_name(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}_{self.number}"

    def clock(self) -> datetime:
        return self.now

    async def dispatched(self, *, loses_answers: bool) -> None:
        provider = PayoutSimulator(
            self.bench.database, clock=self.clock, loses_answers=loses_answers
        )
        worker = Dispatcher(
            self.bench.database,
            provider,
            self.bench.sealer,
            Environment.TEST,
            clock=self.clock,
        )
        await worker.run()
        await worker.close()

    async def in_block_capture(self, payment: Capture) -> None:
        async with self.bench.database.atomic() as block:
            await ledger.capture_many(block, [payment], now=self.now)

    async def in_block_hold(self, reference: str, amount: int) -> None:
        async with self.bench.database.atomic() as block:
            await ledger.hold(
                block,
                self.scope,
                HoldKind.DISPUTE,
                reference,
                transaction_id="tx_0",
                amount=amount,
                now=self.now,
            )

    async def in_block_end(self, reference: str, *, is_won: bool) -> None:
        async with self.bench.database.atomic() as block:
            if is_won:
                await ledger.restore(
                    block,
                    self.scope,
                    HoldKind.DISPUTE,
                    reference,
                    posting_kind=Kind.DISPUTE_WON,
                    now=self.now,
                )
            else:
                await ledger.pay_out(
                    block,
                    self.scope,
                    HoldKind.DISPUTE,
                    reference,
                    posting_kind=Kind.CHARGEBACK,
                    to=Account.BANK,
                    now=self.now,
                )

    def balances(self) -> Counter[str]:
        """What each account holds, from the postings alone."""
        rows = self.bench.run(
            self.bench.database.fetch(
                """
                select code, sum(amount)::bigint as total
                from posting cross join lateral unnest(codes, amounts) as leg (code, amount)
                where company_id = $1 group by code
                """,
                self.scope.company_id,
            )
        )
        return Counter({row["code"]: row["total"] for row in rows})

    def withdrawal(self, amount: int, fee: int, destination: Destination) -> NewWithdrawal:
        bought = None
        if isinstance(destination, WalletDestination):
            quote = self.bench.run(
                PayoutSimulator(self.bench.database, clock=self.clock).quote(destination.coin)
            )
            bought = purchase(destination.network, quote, net_amount=amount)
        intent = Intent(new_id(Prefix.IDEMPOTENCY), IntentSource.GENERATED, b"")
        made = Withdrawal(
            company_id=self.scope.company_id,
            withdrawal_id=new_id(Prefix.WITHDRAWAL),
            environment="test",
            status=Status.PENDING,
            method=Method.PIX if bought is None else Method.CRYPTO,
            amount=amount,
            fee=fee,
            net_amount=amount,
            external_ref=None,
            destination_sealed=service.seal_destination(self.bench.sealer, destination),
            destination_digest=b"",
            requested_by="key_model",
            idempotency_key=intent.key,
            fingerprint=b"",
            sequence=1,
            details='{"description":null}',
            bought=bought,
            created_at=self.now,
            updated_at=self.now,
            due_at=self.now,
        )
        assert len(request_id_of(made.withdrawal_id)) <= 35
        return NewWithdrawal(made, intent, b"")


@pytest.fixture
def bench(worker_id: str) -> Iterator[Bench]:
    # A loop of its own: Hypothesis calls the rules from outside of any.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        database = Database(runner.run(new_database(f"payout_machine_{worker_id}")))
        runner.run(database.open())
        runner.run(migrate(database))
        yield Bench(runner, database, Sealer(TEST_PEPPER.encode()))
        runner.run(database.close())


@pytest.mark.timeout(1_800)
def test_money_that_leaves_agrees_with_the_model_whatever_happens(bench: Bench) -> None:
    Company.bench = bench
    run_state_machine_as_test(
        Company,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
