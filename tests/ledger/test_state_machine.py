"""The ledger against a model of it, over random lives of a company."""

import os
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import ClassVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ledger.books import TODAY, Books, complaints
from support.machine import PARTS, Machine, lives, machine
from vintem.ledger import store
from vintem.ledger.model import HoldKind, Scope

# More by a switch: PROOF_RUNS=10000.
RUNS = int(os.environ.get("PROOF_RUNS", "60"))
PLACES = ("available", "blocked", "debt", "dispute", "payout", "refund", "release", "reserve")
PLACE = {HoldKind.REFUND: "refund", HoldKind.BLOCK: "blocked", HoldKind.DISPUTE: "dispute"}


@dataclass
class Row:
    """Money of a payment that waits for a day."""

    tx: str
    place: str
    part: int
    due: date
    open: int


@dataclass
class Model:
    """What the books must say."""

    at: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLACES, 0))
    rows: list[Row] = field(default_factory=list)

    def receive(self, amount: int) -> None:
        """Debt is recovered before anything is available."""
        recovered = min(amount, -self.at["debt"])
        self.at["debt"] += recovered
        self.at["available"] += amount - recovered

    def capture(self, at_once: int, rows: list[Row]) -> None:
        self.rows += rows
        for row in rows:
            self.at[row.place] += row.open
        self.receive(at_once)

    def hold(self, place: str, amount: int, tx: str) -> list[tuple[str, Row | None, int]]:
        """Available, then what waits (the payment's own, then the latest due), then debt."""
        sources: list[tuple[str, Row | None, int]] = [("available", None, self.at["available"])]
        for waiting in ("release",) if place == "refund" else ("release", "reserve"):
            rows = [row for row in self.rows if row.place == waiting]
            rows.sort(key=lambda row: (row.tx != tx, -row.due.toordinal(), row.tx, row.part))
            sources += [(waiting, row, row.open) for row in rows]
        split: list[tuple[str, Row | None, int]] = []
        for source, row, most in [*sources, ("debt", None, amount)]:
            part = min(most, amount - sum(taken for _, _, taken in split))
            split.append((source, row, part))
            self.at[source] -= part
            if row:
                row.open -= part
        self.at[place] += amount
        return split

    def charge(self, fee: int) -> None:
        charged = min(fee, self.at["available"])
        self.at["available"] -= charged
        self.at["debt"] -= fee - charged

    def put_back(self, split: list[tuple[str, Row | None, int]], today: date) -> None:
        """Debt only as far as it is owed, waiting money only if its day is still to come."""
        free = 0
        for source, row, part in split:
            if row and row.due > today:
                row.open += part
                self.at[source] += part
            elif source == "debt":
                paid = min(part, -self.at["debt"])
                self.at["debt"] += paid
                free += part - paid
            else:
                free += part
        self.receive(free)

    def release(self, today: date) -> None:
        for row in self.rows:
            if row.due <= today:
                self.at[row.place] -= row.open
                self.receive(row.open)
                row.open = 0


@dataclass
class OpenHold:
    kind: HoldKind
    reference: str
    amount: int
    split: list[tuple[str, Row | None, int]]


cents = st.one_of(st.integers(0, 3), st.integers(0, 2_000))
some_cents = st.one_of(st.integers(1, 3), st.integers(1, 3_000))
# Few days, so that money often falls due on the very day on which something happens.
waiting = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 700)), max_size=3)


class Company(RuleBasedStateMachine):
    """Captures, refunds, blocks, disputes and releases in any order, on any day."""

    machine: ClassVar[Machine]
    books: Books

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.today = TODAY
        self.count = 0
        self.held: list[OpenHold] = []
        self.charged_back: list[OpenHold] = []

    @initialize(environment=st.sampled_from(["live", "test"]))
    def begin(self, environment: str) -> None:
        scope = Scope(self.machine.company_id, environment)
        self.books = Books(self.machine.database, scope)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Make one of the moves that are possible now.

        One rule for all, because Hypothesis leaves rules out of whole runs, and money that only
        comes in, or only waits, proves little.
        """
        moves = [self.capture, self.capture, self.hold, self.hold, self.release, self.wait]
        if self.held:
            moves += [self.restore, self.pay_out]
        if self.charged_back:
            moves += [self.take_back]
        move = data.draw(st.sampled_from(moves))
        note(f"{self.today} {move.__name__}")
        move(data)

    def capture(self, data: st.DataObject) -> None:
        fee, at_once = data.draw(cents), data.draw(cents)
        days = {
            place: [(self.today + timedelta(days), amount) for days, amount in data.draw(waiting)]
            for place in ("release", "reserve")
        }
        amount = fee + at_once + sum(part for parts in days.values() for _, part in parts)
        if not amount:
            return
        tx = self.next("tx")
        self.machine.run(
            self.books.capture(
                tx,
                amount,
                fee=fee,
                release=days["release"],
                reserve=days["reserve"],
                on=self.today,
            )
        )
        rows = [
            Row(tx, place, part, due, waits)
            for place, parts in days.items()
            for part, (due, waits) in enumerate(parts, start=1)
        ]
        self.model.capture(at_once, rows)

    def hold(self, data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(HoldKind))
        reference, amount = self.next(kind), data.draw(some_cents)
        tx = f"tx_{data.draw(st.integers(1, self.count)):03}"
        self.machine.run(self.books.hold(kind, reference, amount, transaction_id=tx, on=self.today))
        split = self.model.hold(PLACE[kind], amount, tx)
        self.held.append(OpenHold(kind, reference, amount, split))

    def restore(self, data: st.DataObject) -> None:
        hold = self.one_of(data, self.held)
        self.machine.run(self.books.restore(hold.kind, hold.reference, on=self.today))
        self.model.at[PLACE[hold.kind]] -= hold.amount
        self.model.put_back(hold.split, self.today)

    def pay_out(self, data: st.DataObject) -> None:
        hold = self.one_of(data, self.held)
        self.machine.run(self.books.pay_out(hold.kind, hold.reference, on=self.today))
        self.model.at[PLACE[hold.kind]] -= hold.amount
        if hold.kind is HoldKind.DISPUTE:
            self.charged_back.append(hold)
            fee = data.draw(st.integers(0, 90))
            self.machine.run(self.books.charge_dispute_fee(hold.reference, fee, on=self.today))
            self.model.charge(fee)

    def take_back(self, data: st.DataObject) -> None:
        hold = self.one_of(data, self.charged_back)
        self.machine.run(self.books.take_back(hold.reference, on=self.today))
        self.model.put_back(hold.split, self.today)

    def release(self, data: st.DataObject) -> None:
        self.today += timedelta(data.draw(st.integers(0, 5)))
        self.machine.run(self.books.release_due(self.today))
        self.model.release(self.today)

    def wait(self, data: st.DataObject) -> None:
        self.today += timedelta(data.draw(st.integers(1, 4)))

    @invariant()
    def the_books_say_what_the_model_says(self) -> None:
        if not hasattr(self, "books"):
            return
        reader, scope = self.machine.reader, self.books.scope
        found = self.machine.run(store.read_balances(reader, {scope})).get(scope, {})
        balances = {str(account): cents for account, cents in found.items() if cents}
        assert balances == {place: cents for place, cents in self.model.at.items() if cents}
        days: dict[date, int] = {}
        for row in self.model.rows:
            if row.open:
                days[row.due] = days.get(row.due, 0) + row.open
        shown = self.machine.run(store.list_next_releases(reader, scope, rows_max=200))
        assert shown == sorted(days.items())

    def teardown(self) -> None:
        assert self.machine.run(complaints(self.machine.database)) == {}
        self.machine.forget("posting", "account", "hold", "release_schedule", "release_day")

    def next(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.count:03}"

    def one_of(self, data: st.DataObject, holds: list[OpenHold]) -> OpenHold:
        return holds.pop(data.draw(st.integers(0, len(holds) - 1)))


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_company_s_books_agree_with_the_model_whatever_happens(part: int) -> None:
    with machine() as made:
        Company.machine = made
        run_state_machine_as_test(Company, settings=lives(RUNS))
