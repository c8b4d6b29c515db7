"""Simulators, where no money is real: what buyers, banks, disputes and time would do."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.api.withdrawal_sandbox import FAILURE_CODE, failure_of, provider_s_word
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.money_words import STATUSES
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.statuses import METHOD, REASON, TRANSACTION
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id
from vintem.kit.paging import PageRequest
from vintem.ledger import service as ledger
from vintem.ledger.model import Scope
from vintem.members.model import Permission
from vintem.providers.simulator import SIMULATOR
from vintem.runtime.db import Connection
from vintem.trail import service as trail
from vintem.transactions import arrivals, moves, rehearsal
from vintem.transactions import service as transactions
from vintem.transactions.arrivals import Outcome
from vintem.transactions.callback_store import State
from vintem.transactions.model import Filter, PaymentMethod, Status, Transaction
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.model import Filter as WithdrawalFilter
from vintem.withdrawals.model import Status as WithdrawalStatus
from vintem.withdrawals.model import Withdrawal

LISTED_MAX: Final = 10
RELEASED_AT_ONCE_MAX: Final = 1_000

MOVE_WORDS: Final[Mapping[Status, str]] = {
    Status.PENDING: "Deixar pendente",
    Status.PROCESSING: "Colocar em processamento",
    Status.PAID: "Marcar como paga",
    Status.FAILED: "Marcar como recusada",
    Status.CANCELLED: "Cancelar",
    Status.BLOCKED: "Bloquear para análise",
    Status.REFUNDED: "Reembolsar",
    Status.PRE_CHARGEBACK: "Abrir pré-chargeback",
    Status.CHARGEBACK: "Registrar chargeback",
}
WITHDRAWAL_MOVE_WORDS: Final[Mapping[WithdrawalStatus, str]] = {
    WithdrawalStatus.PENDING: "Aprovar",
    WithdrawalStatus.PENDING_APPROVAL: "Pedir aprovação",
    WithdrawalStatus.PROCESSING: "Enviar ao provedor",
    WithdrawalStatus.COMPLETED: "Concluir",
    WithdrawalStatus.FAILED: "Falhar e devolver o dinheiro",
    WithdrawalStatus.CANCELLED: "Cancelar",
}


class SimulateForm(Form, frozen=True):
    """What shall happen."""

    what: str = ""


class Asked(msgspec.Struct, frozen=True):
    """Which record is sought."""

    id: str = ""


class ListedPayment(msgspec.Struct, rename="camel"):
    """What a list shows of a payment."""

    id: str
    status: str
    amount: int
    payment_method: str


_decode_payment: Final = msgspec.json.Decoder(type=ListedPayment).decode

Callbacks = Callable[..., Awaitable[Sequence[Outcome]]]


async def show_simulators(visit: Visit) -> Answer:
    """Show everything that can be tried out."""
    asked = visit.asked(Asked)
    if is_id(asked.id, Prefix.TRANSACTION):
        return go(visit.href(f"/simulators/transactions/{asked.id}"))
    if is_id(asked.id, Prefix.WITHDRAWAL):
        return go(visit.href(f"/simulators/withdrawals/{asked.id}"))
    first = PageRequest(page=1, page_size=LISTED_MAX, cursor=None)
    listed = await visit.resources.transactions.list(Filter(visit.scope), first, now=visit.call.now)
    database = visit.resources.database
    return page(
        visit,
        "simulators.html",
        title="Simuladores",
        asked=asked,
        payments=[_decode_payment(record) for record in listed.records],
        withdrawals=await withdrawals.list_page(
            database, WithdrawalFilter(visit.scope), cursor=None, offset=0, rows_max=LISTED_MAX
        ),
        releases=await ledger.next_releases(database, visit.scope, rows_max=LISTED_MAX),
        status_words=TRANSACTION,
        withdrawal_words=STATUSES,
        method_words=METHOD,
        has_sink=visit.resources.allows_loopback_webhooks,
    )


async def show_payment(visit: Visit) -> Answer:
    """Show what can happen to a payment."""
    return _payment_page(visit, await _payment(visit))


async def simulate_payment(visit: Visit) -> Answer:
    """Let it happen, on the way of a provider's word."""
    payment = await _payment(visit)
    what = (await visit.form(SimulateForm)).what
    offered = {name for name, _ in offers(payment)}
    if what not in offered:
        return _payment_page(visit, payment, "A transação já mudou: escolha de novo.")
    scope, now = visit.scope, visit.call.now

    async def write(block: Connection) -> Sequence[Outcome]:
        outcomes = await _play(block, scope, payment.transaction_id, what, now)
        await trail.record(
            block,
            visit.act(
                "simulator.used",
                "transaction",
                payment.transaction_id,
                before={"status": payment.status},
                after={"simulated": what},
            ),
        )
        return outcomes

    try:
        outcomes = await visit.resources.database.atomically(write)
    except Refusal as refusal:
        if refusal.code is not ErrorCode.INVALID_STATE:
            raise
        return _payment_page(visit, await _payment(visit), "A transação já mudou: escolha de novo.")
    arrivals.report(outcomes)
    if payment.payment_method is PaymentMethod.CREDIT_CARD:
        # The acquirer had plans of its own for it: somebody else has decided now.
        await visit.resources.simulator.forget(payment.company_id, payment.transaction_id)
    said = "simulated"
    if any(outcome.state is State.UNCLAIMED for outcome in outcomes):
        said = "simulated-unclaimed"
    elif what == DUPLICATE:
        said = "simulated-nothing"
    return go(visit.href(f"/simulators/transactions/{payment.transaction_id}", said=said))


DUPLICATE: Final = "duplicate"
PARTIAL: Final = "partial"
LATE: Final = "late"
SHUFFLED: Final = "shuffled"
CALLBACKS: Final[Mapping[str, Callbacks]] = {
    DUPLICATE: rehearsal.pay_twice_told,
    PARTIAL: rehearsal.pay_in_part,
    SHUFFLED: rehearsal.dispute_out_of_order,
}


def offers(payment: Transaction) -> Sequence[tuple[str, str]]:
    """What can happen to a payment now, and how it is called."""
    offered: list[tuple[str, str]] = []
    for status in rehearsal.legal_moves(payment):
        words = MOVE_WORDS[status]
        if status is Status.PAID and payment.paid_at is not None:
            words = "Devolver ao status de paga"
        elif status is Status.PAID and payment.status is Status.CANCELLED:
            words = "Marcar como paga, com atraso"
        offered.append((status, words))
    if moves.is_payable(payment):
        is_card = payment.payment_method is PaymentMethod.CREDIT_CARD
        if not is_card and payment.may_become(Status.CANCELLED):
            offered.append((LATE, "Vencer e depois pagar, com atraso"))
        if not is_card:
            offered.append((PARTIAL, "Pagar só metade do valor"))
        offered.append((DUPLICATE, "Pagar, com o aviso do provedor repetido"))
    if payment.status is Status.PAID:
        offered.append((SHUFFLED, "Disputa com avisos fora de ordem"))
    return offered


async def _play(
    block: Connection, scope: Scope, transaction_id: str, what: str, now: datetime
) -> Sequence[Outcome]:
    if what in CALLBACKS:
        return await CALLBACKS[what](block, scope, transaction_id, SIMULATOR, now=now)
    if what == LATE:
        await rehearsal.pay_late(block, scope, transaction_id, now=now)
    else:
        await rehearsal.move(block, scope, transaction_id, Status(what), now=now)
    return ()


async def show_withdrawal(visit: Visit) -> Answer:
    """Show what can happen to a withdrawal."""
    return _withdrawal_page(visit, await _withdrawal(visit))


async def simulate_withdrawal(visit: Visit) -> Answer:
    """Let it happen, as a second person or the provider would."""
    withdrawal = await _withdrawal(visit)
    what = (await visit.form(SimulateForm)).what
    status = next((each for each in WithdrawalStatus if each == what), None)
    if status is None or not withdrawal.may_become(status):
        return _withdrawal_page(visit, withdrawal, "O saque já mudou: escolha de novo.")
    resources, scope, now = visit.resources, visit.scope, visit.call.now

    async def write(block: Connection) -> None:
        await withdrawals.force_within(
            block,
            scope,
            withdrawal.withdrawal_id,
            status,
            answer=answer,
            failure=failure_of(FAILURE_CODE),
            now=now,
        )
        await trail.record(
            block,
            visit.act(
                "simulator.used",
                "withdrawal",
                withdrawal.withdrawal_id,
                before={"status": withdrawal.status},
                after={"status": status},
            ),
        )

    try:
        answer = await provider_s_word(resources, withdrawal, status, FAILURE_CODE)
        await resources.database.atomically(write)
    except Refusal as refusal:
        if refusal.code is not ErrorCode.INVALID_STATE:
            raise
        changed = await _withdrawal(visit)
        return _withdrawal_page(visit, changed, "O saque já mudou: escolha de novo.")
    return go(visit.href(f"/simulators/withdrawals/{withdrawal.withdrawal_id}", said="simulated"))


async def release(visit: Visit) -> Answer:
    """Make available at once what waits for its day."""
    await visit.form(Form)

    async def write(block: Connection) -> int:
        amount = await ledger.release_early(
            block, visit.scope, rows_max=RELEASED_AT_ONCE_MAX, now=visit.call.now
        )
        after = {"released": amount}
        await trail.record(
            block, visit.act("simulator.released", "balance", visit.environment, after=after)
        )
        return amount

    amount = await visit.resources.database.atomically(write)
    return go(visit.href("/simulators", said="released" if amount else "released-nothing"))


async def _payment(visit: Visit) -> Transaction:
    transaction_id = visit.call.params["id"]
    if not is_id(transaction_id, Prefix.TRANSACTION):
        raise Refusal(ErrorCode.TRANSACTION_NOT_FOUND)
    return await transactions.get(visit.resources.database, visit.scope, transaction_id)


async def _withdrawal(visit: Visit) -> Withdrawal:
    withdrawal_id = visit.call.params["id"]
    if not is_id(withdrawal_id, Prefix.WITHDRAWAL):
        raise Refusal(ErrorCode.WITHDRAWAL_NOT_FOUND)
    return await withdrawals.get(visit.resources.database, visit.scope, withdrawal_id)


def _payment_page(visit: Visit, payment: Transaction, why: str = "") -> Answer:
    return page(
        visit,
        "simulator_record.html",
        title="Simular transação",
        status=409 if why else 200,
        why=why,
        record_id=payment.transaction_id,
        details=(
            ("Situação", TRANSACTION[payment.status].label),
            ("Motivo", REASON[payment.status_reason] if payment.status_reason else "—"),
            ("Método", METHOD[payment.payment_method]),
        ),
        amount=payment.amount,
        offers=offers(payment),
        record_path=f"/transactions/{payment.transaction_id}",
    )


def _withdrawal_page(visit: Visit, withdrawal: Withdrawal, why: str = "") -> Answer:
    return page(
        visit,
        "simulator_record.html",
        title="Simular saque",
        status=409 if why else 200,
        why=why,
        record_id=withdrawal.withdrawal_id,
        details=(("Situação", STATUSES[withdrawal.status][0]),),
        amount=withdrawal.amount,
        offers=[
            (status, WITHDRAWAL_MOVE_WORDS[status])
            for status in WithdrawalStatus
            if withdrawal.may_become(status)
        ],
        record_path=f"/withdrawals/{withdrawal.withdrawal_id}",
    )


_USE: Final = Permission.SIMULATE

PAGES: Final[tuple[Page, ...]] = (
    shown("/simulators", show_simulators, _USE, "Simuladores"),
    shown("/simulators/transactions/{id}", show_payment, _USE, "Simular transação"),
    sent("/simulators/transactions/{id}", simulate_payment, _USE, "Simular transação"),
    shown("/simulators/withdrawals/{id}", show_withdrawal, _USE, "Simular saque"),
    sent("/simulators/withdrawals/{id}", simulate_withdrawal, _USE, "Simular saque"),
    sent("/simulators/release", release, _USE, "Liberar saldo agora"),
)
