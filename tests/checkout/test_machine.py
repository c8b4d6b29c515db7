"""Random lives of sessions against a small model: who pays what, and who holds the coupon."""

import os
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
from msgspec.structs import replace

from support.api import complaints
from support.cards import VISA, number_ending_in
from support.machine import Machine, machine
from vintem.brazil.cards import CardNumber
from vintem.checkout import catalogue, ending, moves, store
from vintem.checkout import service as checkout
from vintem.checkout.model import DiscountType, Session
from vintem.checkout.service import NewSession, WantedItem
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.ledger.model import Scope
from vintem.providers.faults import Faults
from vintem.providers.port import Card, Charge
from vintem.providers.simulator import Simulator
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.transactions import following
from vintem.transactions.batches import Created, Creation
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
RUNS = int(os.environ.get("PROOF_RUNS", "15"))
STEPS = 60
# Ahead of the clock, so that no charge seems to have waited.
START = datetime(2040, 3, 10, 15, tzinfo=UTC)
PRICE, CHEAPER, REDEMPTIONS_MAX = 1_000, 900, 2
PIX_LIFE, BOLETO_LIFE, SESSION_LIFE = (
    *(timedelta(hours=1), timedelta(days=6), timedelta(hours=48)),
)
RECORD = '{"pix":null,"card":{},"refusedReason":null,"customer":{"document":{"number":"*"}}}'
CARDS = {"paid": VISA, "failed": number_ending_in("0002"), "processing": number_ending_in("0119")}
WAYS = ["pix", "boleto", *CARDS]
CODE = "TEN"
TABLES = (
    *("posting", "account", "hold", "release_schedule", "release_day", "transaction"),
    *(
        "transaction_history",
        "webhook_event",
        "provider_request",
        "simulator_charge",
        "simulator_callback",
    ),
    *("checkout_session", "checkout_session_token", "checkout_payment", "checkout_coupon"),
)


@dataclass
class Try:
    """A payment as the model sees it."""

    basket: "Cart"
    method: str
    status: str
    expires_at: datetime | None
    has_coupon: bool
    is_paid: bool = False
    is_watched: bool = False
    """Superseded, and its time not seen to be over."""

    @property
    def is_unpaid_alive(self) -> bool:
        is_alive = self.is_watched or self.status in {"pending", "processing"}
        return not self.is_paid and is_alive

    def is_payable(self, now: datetime) -> bool:
        is_over = self.expires_at is not None and self.expires_at <= now
        return self.status == "pending" and not is_over


@dataclass
class Cart:
    """A session as the model sees it."""

    expires_at: datetime
    status: str = "OPEN"
    has_coupon: bool = False
    current: str | None = None
    pix_made: int = 0
    slips_made: int = 0
    cards_refused: int = 0
    extra: int = 0

    def at(self, now: datetime) -> str:
        is_open = self.status in {"OPEN", "AWAITING_PAYMENT"}
        return "EXPIRED" if is_open and self.expires_at <= now else self.status


@dataclass
class Model:
    carts: dict[str, Cart] = field(default_factory=dict)
    tries: dict[str, Try] = field(default_factory=dict)

    @property
    def redemptions(self) -> int:
        paid = sum(each.has_coupon and each.is_paid for each in self.tries.values())
        return paid + sum(self.holds(cart) for cart in self.carts.values())

    def holds(self, cart: Cart) -> bool:
        """Whether a session holds a redemption that nobody has paid with yet."""
        its = [each for each in self.tries.values() if each.basket is cart and each.has_coupon]
        return any(each.is_unpaid_alive for each in its) and not any(each.is_paid for each in its)

    def end(self, transaction_id: str, now: datetime) -> None:
        """Another takes its place."""
        one = self.tries[transaction_id]
        if one.status == "pending":
            is_alive = one.is_payable(now)
            one.status, one.is_watched = "cancelled", is_alive
            if is_alive and one.basket.current == transaction_id:
                one.basket.current = None


@dataclass(frozen=True)
class Bench:
    """What a life runs on."""

    machine: Machine
    transactions: Transactions

    @property
    def database(self) -> Database:
        return self.machine.database

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.machine.run(work)


class Shopping(RuleBasedStateMachine):
    """Sessions, coupons, payments, expiry, cancelling and late money in any order."""

    bench: ClassVar[Bench]
    scope: Scope
    product_id: str

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.now = START
        self.sealer = Sealer(b"pepper")

    @initialize()
    def begin(self) -> None:
        database = self.bench.database
        self.scope = Scope(self.bench.machine.company_id, "test")
        product = self.bench.run(
            catalogue.create_product(
                database, self.scope, name="Thing", unit_amount=PRICE, now=self.now
            )
        )
        self.product_id = product.product_id
        self.bench.run(
            catalogue.create_coupon(
                database,
                self.scope,
                CODE,
                DiscountType.PERCENTAGE,
                1_000,
                redemptions_max=REDEMPTIONS_MAX,
                now=self.now,
            )
        )
        for is_wanted in (True, True, True, False):
            self.open_one(is_wanted)

    @precondition(lambda self: len(self.model.carts) < 8)
    @rule(is_wanted=st.booleans())
    def open(self, is_wanted: bool) -> None:
        self.open_one(is_wanted)

    def open_one(self, is_wanted: bool) -> None:
        has_coupon = is_wanted and self.model.redemptions < REDEMPTIONS_MAX
        wanted = NewSession(
            scope=self.scope,
            items=[WantedItem(self.product_id)],
            coupon_code=CODE if has_coupon else None,
        )
        opened = self.bench.run(
            checkout.create_session(
                self.bench.database, self.sealer, wanted, generated_intent(), now=self.now
            )
        )
        cart = Cart(self.now + SESSION_LIFE, has_coupon=has_coupon)
        self.model.carts[opened.session.session_id] = cart

    @precondition(lambda self: self.model.carts)
    @rule(data=st.data(), is_applied=st.booleans())
    def price(self, data: st.DataObject, is_applied: bool) -> None:
        session_id, cart = self.choose(data)
        refusal = self.why_not_price(cart)
        is_left = self.model.redemptions - self.model.holds(cart) < REDEMPTIONS_MAX
        is_left = is_left or cart.has_coupon
        if refusal is None and is_applied and not is_left:
            refusal = ErrorCode.COUPON_INVALID
        database, session = self.bench.database, self.found(session_id)
        # What is locked by wrong codes is proven elsewhere.
        self.bench.run(
            database.execute(
                "update checkout_session set wrong_codes = 0 where company_id = $1",
                self.scope.company_id,
            )
        )
        refused = self.attempt(
            checkout.apply_coupon(database, session, CODE, now=self.now)
            if is_applied
            else checkout.remove_coupon(database, session, now=self.now)
        )
        assert refused is refusal
        if refused is None and cart.has_coupon is not is_applied:
            if cart.current is not None:
                self.model.end(cart.current, self.now)
            cart.has_coupon = is_applied

    @precondition(lambda self: self.model.carts)
    @rule(data=st.data())
    def choose_again(self, data: st.DataObject) -> None:
        session_id, cart = self.choose(data)
        refusal = self.why_not_price(cart)
        refused = self.attempt(
            checkout.choose_another_way(self.bench.database, self.found(session_id), now=self.now)
        )
        assert refused is refusal
        if refused is None and cart.current is not None:
            self.model.end(cart.current, self.now)
            cart.current = None

    @precondition(lambda self: self.model.carts)
    @rule(data=st.data(), way=st.sampled_from(WAYS))
    def pay(self, data: st.DataObject, way: str) -> None:
        session_id, cart = self.choose(data)
        method = way if way in {"pix", "boleto"} else "credit_card"
        refusal, standing = self.before_paying(cart, method)
        session = self.found(session_id)
        transaction, charge = self.payment(session, way, method)
        creation = Creation(
            NewTransaction(transaction, None, b""), RECORD.encode(), "", charge=charge
        )
        created: list[Created] = []

        async def pay() -> None:
            made = await checkout.pay(
                self.bench.transactions,
                session,
                creation,
                generated_intent(),
                b"sealed",
                now=self.now,
            )
            created.append(made)

        assert self.attempt(pay()) is refusal
        if refusal is not None:
            return
        shown = created[0].transaction.transaction_id
        assert created[0].is_replay is (standing is not None)
        assert shown == (standing or transaction.transaction_id)
        if standing is None:
            self.after_paying(cart, transaction, way, method)

    def before_paying(self, cart: Cart, method: str) -> tuple[ErrorCode | None, str | None]:
        """Why nothing is paid, or the payment that is shown instead of a new one."""
        if cart.at(self.now) not in {"OPEN", "AWAITING_PAYMENT"}:
            return ErrorCode(f"SESSION_{cart.at(self.now)}"), None
        current = None if cart.current is None else self.model.tries[cart.current]
        is_under_way = current is not None and current.status == "processing"
        is_same = current is not None and current.method == method
        if is_under_way or (current is not None and is_same and current.is_payable(self.now)):
            return None, cart.current
        if method == "pix" and cart.pix_made == 6:
            return ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE, None
        if method == "boleto" and cart.slips_made == 3:
            return ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE, None
        if method == "credit_card" and cart.cards_refused == 5:
            return ErrorCode.CARD_ATTEMPTS_EXCEEDED, None
        others = self.model.redemptions - self.model.holds(cart)
        if cart.has_coupon and others >= REDEMPTIONS_MAX:
            return ErrorCode.COUPON_INVALID, None
        return None, None

    def after_paying(self, cart: Cart, made: Transaction, way: str, method: str) -> None:
        if cart.current is not None:
            self.model.end(cart.current, self.now)
        status = "pending" if way in {"pix", "boleto"} else way
        one = Try(cart, method, status, made.expires_at, cart.has_coupon, status == "paid")
        self.model.tries[made.transaction_id] = one
        cart.current = made.transaction_id
        cart.status = "COMPLETED" if one.is_paid else "AWAITING_PAYMENT"
        cart.pix_made += method == "pix"
        cart.cards_refused += status == "failed"
        cart.slips_made += method == "boleto"
        if method == "boleto":
            assert made.expires_at is not None
            cart.expires_at = max(cart.expires_at, made.expires_at)

    @precondition(lambda self: self.model.tries)
    @rule(data=st.data())
    def be_paid(self, data: st.DataObject) -> None:
        transaction_id = data.draw(st.sampled_from(list(self.model.tries)))
        one = self.model.tries[transaction_id]
        is_legal = not one.is_paid and one.status != "failed"
        refused = self.attempt(
            self.bench.transactions.move(self.scope, transaction_id, Status.PAID, now=self.now)
        )
        assert refused is (None if is_legal else ErrorCode.INVALID_STATE)
        if refused is not None:
            return
        one.status, one.is_paid = "paid", True
        cart = one.basket
        if cart.status == "COMPLETED":
            cart.extra += 1
        else:
            cart.status, cart.current = "COMPLETED", transaction_id
            cart.has_coupon = one.has_coupon

    @precondition(lambda self: any(one.status == "processing" for one in self.model.tries.values()))
    @rule(data=st.data())
    def be_refused(self, data: st.DataObject) -> None:
        under_way = [key for key, one in self.model.tries.items() if one.status == "processing"]
        transaction_id = data.draw(st.sampled_from(under_way))
        self.bench.run(
            self.bench.transactions.move(self.scope, transaction_id, Status.FAILED, now=self.now)
        )
        one = self.model.tries[transaction_id]
        one.status = "failed"
        one.basket.cards_refused += 1

    @rule(data=st.data(), is_meant=st.sampled_from([False, False, True]))
    def cancel(self, data: st.DataObject, is_meant: bool) -> None:
        if not is_meant:
            return
        session_id, cart = self.choose(data)
        is_over = cart.at(self.now) not in {"OPEN", "AWAITING_PAYMENT"}
        refused = self.attempt(
            checkout.cancel_session(self.bench.database, self.scope, session_id, now=self.now)
        )
        assert refused is (ErrorCode(f"SESSION_{cart.at(self.now)}") if is_over else None)
        if refused is None:
            cart.status = "CANCELLED"
            current = None if cart.current is None else self.model.tries[cart.current]
            if current is not None and current.status == "pending":
                current.status = "cancelled"

    @rule(hours=st.sampled_from([0, 0, 0, 0, 1, 1, 1, 49]), is_worked=st.booleans())
    def wait(self, hours: int, is_worked: bool) -> None:
        self.now += timedelta(hours=hours, minutes=1)
        if not is_worked:
            return
        self.bench.run(move_due(self.bench.database, now=self.now))
        self.bench.run(ending.expire_due(self.bench.database, now=self.now))
        for one in self.model.tries.values():
            is_over = one.expires_at is not None and one.expires_at <= self.now
            is_left_over = one.basket.status == "COMPLETED"
            one.is_watched = one.is_watched and not is_over
            if one.status == "pending" and (is_over or is_left_over):
                one.status, one.is_watched = "cancelled", not is_over
        for cart in self.model.carts.values():
            cart.status = cart.at(self.now)

    @invariant()
    def agrees(self) -> None:
        if not self.model.carts:
            return
        rows = self.bench.run(
            self.bench.machine.reader.fetch(
                """
                select session_id, status, transaction_id, extra_payments, total_amount
                from checkout_session where company_id = $1
                """,
                self.scope.company_id,
            )
        )
        assert {row["session_id"]: tuple(row.values())[1:] for row in rows} == {  # type: ignore[attr-defined]
            key: (cart.status, cart.current, cart.extra, CHEAPER if cart.has_coupon else PRICE)
            for key, cart in self.model.carts.items()
        }
        rows = self.bench.run(
            self.bench.machine.reader.fetch(
                "select transaction_id, status from transaction where company_id = $1",
                self.scope.company_id,
            )
        )
        assert {row["transaction_id"]: row["status"] for row in rows} == {
            key: one.status for key, one in self.model.tries.items()
        }
        coupon = self.bench.run(catalogue.find_coupon(self.bench.database, self.scope, CODE))
        assert coupon is not None
        assert coupon.redemptions == self.model.redemptions

    def teardown(self) -> None:
        if not hasattr(self, "scope"):
            return
        assert self.bench.run(complaints(self.bench.database)) == {}
        self.bench.machine.forget(*TABLES)

    def choose(self, data: st.DataObject) -> tuple[str, Cart]:
        return data.draw(st.sampled_from(list(self.model.carts.items())))

    def found(self, session_id: str) -> Session:
        session = self.bench.run(store.find(self.bench.database, self.scope, session_id))
        assert session is not None
        return session

    def attempt(self, work: Coroutine[object, object, object]) -> ErrorCode | None:
        try:
            self.bench.run(work)
        except Refusal as refusal:
            return refusal.code
        return None

    def why_not_price(self, cart: Cart) -> ErrorCode | None:
        if cart.at(self.now) not in {"OPEN", "AWAITING_PAYMENT"}:
            return ErrorCode(f"SESSION_{cart.at(self.now)}")
        current = None if cart.current is None else self.model.tries[cart.current]
        is_under_way = current is not None and current.status == "processing"
        return ErrorCode.INVALID_STATE if is_under_way else None

    def payment(self, session: Session, way: str, method: str) -> tuple[Transaction, Charge | None]:
        is_card = method == "credit_card"
        life = {"pix": PIX_LIFE, "boleto": BOLETO_LIFE}.get(method)
        expires_at = None if life is None else self.now + life
        if method == "pix" and expires_at is not None:
            expires_at = min(expires_at, session.expires_at)
        transaction = Transaction(
            company_id=self.scope.company_id,
            transaction_id=new_id(Prefix.TRANSACTION),
            environment="test",
            status=Status.PROCESSING if is_card else Status.PENDING,
            status_reason=None,
            payment_method=PaymentMethod(method),
            amount=session.amounts.total,
            fee=0,
            installments=1,
            refunded_amount=0,
            idempotency_key=new_id(Prefix.IDEMPOTENCY),
            fingerprint=b"",
            sequence=0 if is_card else 1,
            hold_reference=None,
            document_sealed=b"",
            details=RECORD,
            terms=Terms(),
            end_to_end_id=None,
            created_at=self.now,
            updated_at=self.now,
            paid_at=None,
            expires_at=expires_at,
            cancelled_at=None,
            refunded_at=None,
            due_at=expires_at,
            checkout_session_id=session.session_id,
        )
        if not is_card:
            return transaction, None
        card = Card(CardNumber(CARDS[way]), "HOLDER", 12, 2_045, "123")
        charge = Charge(
            company_id=self.scope.company_id,
            account="cmp_x",
            reference=transaction.transaction_id,
            card=card,
            amount=transaction.amount,
            installments=1,
        )
        return replace(transaction, due_at=None), charge


@pytest.fixture
def bench() -> Iterator[Bench]:
    following.follow_with(moves.follow)
    with machine() as made:
        transactions = made.run(_open(made.database))
        yield Bench(made, transactions)
        made.run(transactions.close())


async def _open(database: Database) -> Transactions:
    return Transactions(database, Simulator(database, secret=b"", faults=Faults()))


@pytest.mark.timeout(1_800)
def test_sessions_agree_with_the_model_whatever_happens(bench: Bench) -> None:
    Shopping.bench = bench
    run_state_machine_as_test(
        Shopping,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
