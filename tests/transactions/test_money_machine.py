"""Random lives of a company's payments against a model of its money."""

import os
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from support.api import complaints
from support.machine import PARTS, Machine, lives, machine
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.ledger import service as ledger
from vintem.ledger.model import Account, Scope
from vintem.providers.faults import Faults
from vintem.providers.port import Notice, NoticeKind
from vintem.providers.simulator import Simulator
from vintem.runtime.db import Database
from vintem.transactions.batches import Creation
from vintem.transactions.model import (
    NewTransaction,
    PaymentMethod,
    Status,
    Terms,
    Transaction,
)
from vintem.transactions.moves import generated_intent
from vintem.transactions.service import Transactions, move_due

T = TypeVar("T")

# More by a switch: PROOF_RUNS=10000.
RUNS = int(os.environ.get("PROOF_RUNS", "200"))
START = datetime(2026, 3, 10, 15, tzinfo=UTC)
RECORD = '{"pix":null,"customer":{"document":{"number":"*"}}}'

MOVES = {
    "pending": {"paid", "processing", "failed", "blocked", "cancelled"},
    "processing": {"paid", "failed", "blocked", "cancelled"},
    "paid": {"refunded", "blocked", "pre_chargeback", "chargeback"},
    "blocked": {"paid", "processing", "failed", "cancelled"},
    "held": {"paid", "refunded"},
    "pre_chargeback": {"paid", "refunded", "chargeback"},
    "chargeback": {"paid"},
    "cancelled": {"paid"},
    "failed": set(),
    "refunded": set(),
}


@dataclass
class Paying:
    """A payment as the model sees it: where it stands and how much of it was given back."""

    amount: int
    fee: int
    dispute_fee: int
    status: str = "pending"
    is_paid: bool = False
    refunded: int = 0
    paid_at: datetime = START
    fees_of_disputes: int = 0
    unconfirmed: list[int] = field(default_factory=list)

    @property
    def place(self) -> str:
        return "held" if self.status == "blocked" and self.is_paid else self.status

    @property
    def ours(self) -> int:
        """What the company has of it, wherever that stands: the model in one sentence."""
        if not self.is_paid:
            return 0
        lost = self.amount if self.status == "chargeback" else self.refunded
        return self.amount - lost - self.fee - self.fees_of_disputes

    @property
    def held(self) -> int:
        is_held = self.place in {"held", "pre_chargeback"}
        return self.amount - self.refunded if is_held else 0


@dataclass
class Model:
    payments: dict[str, Paying] = field(default_factory=dict)
    missing: int = 0
    """What providers gave back of nothing that could be given back."""

    @property
    def total(self) -> int:
        return sum(payment.ours for payment in self.payments.values())

    def held(self, place: str) -> int:
        return sum(each.held for each in self.payments.values() if each.place == place)


@dataclass(frozen=True)
class Bench:
    """What a life runs on, and the service that moves its payments."""

    machine: Machine
    transactions: Transactions

    @property
    def database(self) -> Database:
        return self.machine.database

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.machine.run(work)


class Company(RuleBasedStateMachine):
    """Payments, refunds, blocks, disputes, expiries and releases in any order, on any day."""

    bench: ClassVar[Bench]
    scope: Scope
    terms: Terms

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.now = START

    @initialize(
        reserve=st.sampled_from([0, 0, 1_000, 10_000]),
        reserve_days=st.integers(1, 40),
        release_days=st.sampled_from([0, 0, 1, 14]),
        dispute_fee=st.sampled_from([0, 0, 1, 500]),
    )
    def begin(self, reserve: int, reserve_days: int, release_days: int, dispute_fee: int) -> None:
        self.scope = Scope(self.bench.machine.company_id, "test")
        self.terms = Terms(reserve, reserve_days, release_days, dispute_fee)

    @rule(
        amount=st.one_of(st.integers(100, 110), st.integers(100, 5_000)),
        fee=st.one_of(st.just(0), st.integers(0, 5_000)),
        is_paid=st.booleans(),
    )
    def create(self, amount: int, fee: int, is_paid: bool) -> None:
        fee = min(fee, amount)
        payment = Paying(amount, fee, self.terms.dispute_fee_cents)
        transaction = self.transaction(payment)
        intent = replace(generated_intent(), key=transaction.idempotency_key)
        creation = Creation(NewTransaction(transaction, None, b""), RECORD.encode(), "")
        self.bench.run(self.bench.transactions.create(creation, intent))
        self.model.payments[transaction.transaction_id] = payment
        if is_paid:
            self.move_one(transaction.transaction_id, "paid")

    @precondition(lambda self: self.model.payments)
    @rule(data=st.data(), status=st.sampled_from(sorted({*MOVES} - {"held"})))
    def move(self, data: st.DataObject, status: str) -> None:
        self.move_one(self.choose(data), status)

    @precondition(lambda self: any(MOVES[each.place] for each in self.model.payments.values()))
    @rule(data=st.data())
    def move_legally(self, data: st.DataObject) -> None:
        movable = [key for key, each in self.model.payments.items() if MOVES[each.place]]
        transaction_id = data.draw(st.sampled_from(movable))
        place = self.model.payments[transaction_id].place
        self.move_one(transaction_id, data.draw(st.sampled_from(sorted(MOVES[place]))))

    @precondition(lambda self: self.model.payments)
    @rule(data=st.data(), share=st.integers(0, 12))
    def refund(self, data: st.DataObject, share: int) -> None:
        transaction_id = self.choose(data)
        payment = self.model.payments[transaction_id]
        left = payment.amount - payment.refunded
        # From one cent over a part to one cent too much, and all that is left.
        amount = {0: 1, 11: left + 1, 12: None}.get(share, max(1, left * share // 10))
        refusal = self.why_not_refund(payment, amount)
        refused = self.attempt(
            self.bench.transactions.refund(
                self.scope,
                transaction_id,
                generated_intent(),
                amount=amount,
                reason=None,
                now=self.now,
            )
        )
        assert refused is refusal
        if refused is not None:
            return
        self.give_back(payment, left if amount is None else amount)
        payment.unconfirmed.append(left if amount is None else amount)

    @precondition(lambda self: any(each.is_paid for each in self.model.payments.values()))
    @rule(data=st.data(), share=st.integers(0, 11))
    def hear_of_refund(self, data: st.DataObject, share: int) -> None:
        """The provider tells of a refund: one of ours, or its own, or one that cannot be."""
        paid = [key for key, each in self.model.payments.items() if each.is_paid]
        transaction_id = data.draw(st.sampled_from(paid))
        payment = self.model.payments[transaction_id]
        left = payment.amount - payment.refunded
        amount = {0: 1, 11: left + 1}.get(share, max(1, left * share // 10))
        self.bench.run(
            self.bench.transactions.receive(
                Notice(
                    company_id=self.scope.company_id,
                    environment="test",
                    provider="simulator",
                    callback_id=new_id(Prefix.IDEMPOTENCY),
                    kind=NoticeKind.REFUND_DONE,
                    reference=transaction_id,
                    amount=amount,
                ),
                now=self.now,
            )
        )
        if amount in payment.unconfirmed:
            payment.unconfirmed.remove(amount)
        elif payment.place in {"paid", "held", "pre_chargeback"} and amount <= left:
            self.give_back(payment, amount)
        else:
            self.model.missing += amount

    def give_back(self, payment: Paying, amount: int) -> None:
        payment.refunded += amount
        if payment.refunded == payment.amount:
            payment.status = "refunded"

    @rule(days=st.integers(0, 20))
    def work(self, days: int) -> None:
        """The worker comes by some days later: codes expire, and money becomes free."""
        self.now += timedelta(days=days)
        self.bench.run(move_due(self.bench.database, now=self.now))
        self.bench.run(ledger.release_due(self.bench.database, now=self.now))
        for payment in self.model.payments.values():
            if days and payment.status == "pending":
                payment.status = "cancelled"

    @invariant()
    def the_money_is_where_the_model_says(self) -> None:
        if not hasattr(self, "scope"):
            return
        at = self.balances()
        assert sum(at.values()) == self.model.total - self.model.missing
        assert at[Account.SUSPENSE] == -self.model.missing
        assert at[Account.BLOCKED] == self.model.held("held")
        assert at[Account.DISPUTE] == self.model.held("pre_chargeback")
        assert at[Account.REFUND] == at[Account.PAYOUT] == 0
        # Whoever owes has nothing free.
        assert not (at[Account.DEBT] and at[Account.AVAILABLE])

    def teardown(self) -> None:
        if not hasattr(self, "scope"):
            return
        rows = self.bench.run(
            self.bench.database.fetch(
                "select transaction_id, status, refunded_amount from transaction"
                " where company_id = $1",
                self.scope.company_id,
            )
        )
        assert {row["transaction_id"]: (row["status"], row["refunded_amount"]) for row in rows} == {
            key: (each.status, each.refunded) for key, each in self.model.payments.items()
        }
        # When every day has come, all that waits is free, or has paid what was owed.
        self.bench.run(
            ledger.release_due(self.bench.database, now=self.now + timedelta(days=4_000))
        )
        at = self.balances()
        assert at[Account.RELEASE] == at[Account.RESERVE] == 0
        assert self.bench.run(complaints(self.bench.database)) == {}
        self.bench.machine.forget(
            "posting",
            "account",
            "hold",
            "release_schedule",
            "release_day",
            "transaction",
            "transaction_history",
            "refund",
            "provider_callback",
            "webhook_event",
        )

    def attempt(self, work: Coroutine[object, object, object]) -> ErrorCode | None:
        try:
            self.bench.run(work)
        except Refusal as refusal:
            return refusal.code
        return None

    def balances(self) -> Counter[str]:
        """What each account holds, from the postings alone."""
        rows = self.bench.run(
            self.bench.machine.reader.fetch(
                """
                select code, sum(amount)::bigint as total
                from posting cross join lateral unnest(codes, amounts) as leg (code, amount)
                where company_id = $1 and code <> all('{fee,bank,receivable}')
                group by code
                """,
                self.scope.company_id,
            )
        )
        return Counter({row["code"]: row["total"] for row in rows})

    def choose(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(list(self.model.payments)))

    def move_one(self, transaction_id: str, status: str) -> None:
        payment = self.model.payments[transaction_id]
        is_legal = status in MOVES[payment.place]
        refusal = None if is_legal else ErrorCode.INVALID_STATE
        if is_legal and (payment.place, status) == ("paid", "refunded"):
            refusal = self.why_not_refund(payment, None)
        refused = self.attempt(
            self.bench.transactions.move(self.scope, transaction_id, Status(status), now=self.now)
        )
        assert refused is refusal
        if refused is not None:
            return
        if status == "paid" and not payment.is_paid:
            payment.is_paid, payment.paid_at = True, self.now
        if status == "refunded":
            payment.unconfirmed.append(payment.amount - payment.refunded)
            payment.refunded = payment.amount
        if status == "chargeback":
            payment.fees_of_disputes += payment.dispute_fee
        payment.status = status

    def why_not_refund(self, payment: Paying, amount: int | None) -> ErrorCode | None:
        if payment.status in {"pre_chargeback", "chargeback"}:
            return ErrorCode.TRANSACTION_UNDER_DISPUTE
        if payment.status != "paid":
            return ErrorCode.TRANSACTION_NOT_REFUNDABLE
        if self.now > payment.paid_at + timedelta(days=90):
            return ErrorCode.REFUND_WINDOW_EXPIRED
        if amount is not None and amount > payment.amount - payment.refunded:
            return ErrorCode.REFUND_EXCEEDS_AMOUNT
        return None

    def transaction(self, payment: Paying) -> Transaction:
        return Transaction(
            company_id=self.scope.company_id,
            transaction_id=new_id(Prefix.TRANSACTION),
            environment="test",
            status=Status.PENDING,
            status_reason=None,
            payment_method=PaymentMethod.PIX,
            amount=payment.amount,
            fee=payment.fee,
            installments=1,
            refunded_amount=0,
            idempotency_key=new_id(Prefix.IDEMPOTENCY),
            fingerprint=b"",
            sequence=1,
            hold_reference=None,
            document_sealed=b"",
            details=RECORD,
            terms=self.terms,
            end_to_end_id=None,
            created_at=self.now,
            updated_at=self.now,
            paid_at=None,
            expires_at=self.now + timedelta(hours=1),
            cancelled_at=None,
            refunded_at=None,
            due_at=self.now + timedelta(hours=1),
        )


@pytest.fixture
def bench() -> Iterator[Bench]:
    with machine() as made:
        transactions = made.run(_open(made.database))
        yield Bench(made, transactions)
        made.run(transactions.close())


async def _open(database: Database) -> Transactions:
    return Transactions(database, Simulator(database, secret=b"", faults=Faults()))


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_company_s_money_agrees_with_the_model_whatever_happens(bench: Bench, part: int) -> None:
    Company.bench = bench
    run_state_machine_as_test(Company, settings=lives(RUNS))
