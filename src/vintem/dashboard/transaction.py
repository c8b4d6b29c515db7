"""One payment: all that is known of it, and what a member may do to it."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.api.transaction_order import document_digest, unseal_document
from vintem.api.transactions import transaction_id_of
from vintem.brazil.documents import format_document
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.masks import HIDDEN, REVEALS_PER_MINUTE
from vintem.dashboard.page import Page, count_visit, sent, shown
from vintem.dashboard.payment_rows import rows_of
from vintem.dashboard.statuses import DELIVERY, METHOD, REASON, REFUND, TRANSACTION
from vintem.dashboard.typed import cents_of, typed_cents
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.kit.intent import Intent, IntentSource, fingerprint, is_client_key
from vintem.kit.money import AMOUNT_CENTS_MAX
from vintem.ledger import service as ledger
from vintem.ledger.model import Account
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail
from vintem.trail.model import ActFilter, Link
from vintem.transactions import browsing, notes
from vintem.transactions import service as transactions
from vintem.transactions.browsing import Step
from vintem.transactions.model import (
    PaymentMethod,
    Refund,
    Status,
    StatusReason,
    Transaction,
    check_refund,
)
from vintem.transactions.notes import NOTE_CHARACTERS_MAX, Note
from vintem.transactions.record import record_of
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import Delivery
from vintem.webhooks.service import Place

ACTS_SHOWN_MAX: Final = 50
REASON_CHARACTERS_MAX: Final = 140

_REFUSED: Final = {
    ErrorCode.TRANSACTION_NOT_REFUNDABLE: "Esta transação não pode ser reembolsada.",
    ErrorCode.TRANSACTION_UNDER_DISPUTE: "Esta transação está em disputa.",
    ErrorCode.REFUND_WINDOW_EXPIRED: "O prazo para reembolsar um Pix é de 90 dias.",
    ErrorCode.REFUND_EXCEEDS_AMOUNT: "O valor é maior do que o que resta reembolsar.",
}


class Moment(msgspec.Struct, frozen=True):
    """A line of the timeline."""

    label: str
    tone: str
    at: datetime
    who: str
    reason: str


async def show_transaction(visit: Visit) -> Answer:
    """Show a payment, its buyer as far as the member may see them."""
    return await _show(visit, await _find(visit), is_whole=visit.can("personal.read"))


async def reveal_buyer(visit: Visit) -> Answer:
    """Show a payment with its buyer this once, and write down who has looked."""
    await visit.form(Form)
    transaction = await _find(visit)
    count_visit(visit, "reveals", per_minute=REVEALS_PER_MINUTE)
    act = visit.act("personal.revealed", "transaction", transaction.transaction_id)
    async with visit.resources.database.atomic() as block:
        await trail.record(block, act)
    return await _show(visit, transaction, is_whole=True)


async def _show(visit: Visit, transaction: Transaction, *, is_whole: bool) -> Answer:
    database, scope = visit.resources.database, visit.scope
    [row] = await rows_of(visit, [transaction], is_masked=not is_whole)
    refunds = await transactions.refunds_of(database, [transaction])
    number = unseal_document(visit.resources.sealer, transaction)
    document = number if is_whole else None
    digest = document_digest(visit.resources.sealer, scope.company_id, number)
    parts = _parts(transaction)
    told = await webhooks.deliveries_of(
        database,
        Place(scope.company_id, scope.environment),
        [transaction.transaction_id, *(refund.refund_id for refund in refunds)],
        postback_url=row.postback_url,
    )
    acts = await trail.list_older(
        database,
        scope.company_id,
        ActFilter(environment=scope.environment, target=transaction.transaction_id),
        rows_max=ACTS_SHOWN_MAX,
    )
    releases = await ledger.releases_of(database, scope, transaction.transaction_id)
    return page(
        visit,
        "transaction.html",
        title="Transação",
        row=row,
        transaction=transaction,
        is_whole=is_whole,
        document=row.buyer.document if document is None else format_document(document),
        customer_id=digest.hex(),
        reason=REASON.get(transaction.status_reason) if transaction.status_reason else None,
        moments=_moments(await browsing.list_steps(database, transaction), acts),
        refunds=[(each, REFUND[each.status]) for each in refunds],
        releases=[(each, _release_word(each.account)) for each in releases],
        deliveries=[(each, DELIVERY[each.state]) for each in told],
        notes=await notes.list_of(database, scope, transaction.transaction_id),
        note_characters_max=NOTE_CHARACTERS_MAX,
        record=_written(transaction, refunds, document=document, is_whole=is_whole),
        shown=parts,
        due_date=None if parts.boleto is None else _due_date(parts.boleto),
        can_refund=visit.can("refund") and _is_refundable(visit, transaction),
        can_cancel=visit.can("transaction.cancel") and _is_cancellable(transaction),
    )


def _moments(steps: Sequence[Step], acts: Sequence[Link]) -> Sequence[Moment]:
    """What happened to a payment, by whom; a step that a member caused is told with their name."""
    by_moment = {act.at: act for act in acts}
    moments = []
    for step in steps:
        act = by_moment.get(step.at)
        who = "API ou checkout" if step is steps[0] else "Vintém"
        if step.provider is not None:
            who = f"Provedor ({step.provider})"
        if act is not None:
            who = act.actor_name
        why = REASON[StatusReason(step.reason)] if step.reason else ""
        said = TRANSACTION[step.status]
        moments.append(Moment(said.label, said.tone, step.at, who, why))
    return moments


def _release_word(account: Account) -> str:
    return "Reserva" if account is Account.RESERVE else "A liberar"


def _is_refundable(visit: Visit, transaction: Transaction) -> bool:
    try:
        check_refund(transaction, None, now=visit.call.now)
    except Refusal:
        return False
    return True


def _is_cancellable(transaction: Transaction) -> bool:
    return (
        transaction.status is Status.PENDING
        and transaction.payment_method is not PaymentMethod.CREDIT_CARD
    )


class _Parts(msgspec.Struct, frozen=True):
    pix: dict[str, object] | None = None
    boleto: dict[str, object] | None = None
    card: dict[str, object] | None = None
    refusedReason: dict[str, str] | None = None  # noqa: N815 - as the record has it


def _parts(transaction: Transaction) -> _Parts:
    return msgspec.json.decode(transaction.details, type=_Parts)


def _due_date(boleto: Mapping[str, object]) -> date:
    return date.fromisoformat(str(boleto["dueDate"]))


def _written(
    transaction: Transaction, refunds: Sequence[Refund], *, document: str | None, is_whole: bool
) -> str:
    """Write the record as the API gives it, without what the member may not see."""
    record = record_of(transaction, refunds, document=document)
    if not is_whole:
        shown = msgspec.json.decode(record)
        customer = shown["customer"]
        for name in ("name", "email", "phone", "address", "externalRef"):
            if customer.get(name) is not None:
                customer[name] = HIDDEN
        if shown.get("shipping"):
            shown["shipping"]["address"] = None
        if shown.get("card"):
            shown["card"]["holderName"] = HIDDEN
        if shown.get("boleto"):
            # The page of a boleto names its payer, document and address included.
            shown["boleto"]["url"] = shown["boletoUrl"] = HIDDEN
        if shown.get("metadata"):
            shown["metadata"] = HIDDEN
        record = msgspec.json.encode(shown)
    return msgspec.json.format(record, indent=2).decode()


class RefundForm(Form, frozen=True):
    """How much is given back, and why."""

    amount: str = ""
    reason: str = ""
    key: str = ""
    """Made with the form: sent twice, it is one refund."""


async def ask_refund(visit: Visit) -> Answer:
    """Show what a refund means before it is made."""
    transaction = await _find(visit)
    check_refund(transaction, None, now=visit.call.now)
    form = RefundForm(amount=typed_cents(transaction.left_to_refund), key=_new_key())
    return await _show_refund(visit, transaction, form, {})


async def make_refund(visit: Visit) -> Answer:
    """Give money back, once a form."""
    form = await visit.form(RefundForm)
    transaction = await _find(visit)
    amount, errors = cents_of(form.amount), dict[str, str]()
    if amount is None or not 1 <= amount <= AMOUNT_CENTS_MAX:
        errors["amount"] = "Escreva o valor assim: 1.234,56"
    if len(form.reason) > REASON_CHARACTERS_MAX:
        errors["reason"] = f"Use até {REASON_CHARACTERS_MAX} caracteres."
    if not is_client_key(form.key):
        errors[""] = "O formulário está incompleto. Abra a página de novo."
    if errors:
        return await _show_refund(visit, transaction, form, errors)

    async def note(block: Connection, made: Refund) -> None:
        act = visit.act(
            "transaction.refunded",
            "transaction",
            made.transaction_id,
            before={"refundedAmount": transaction.refunded_amount},
            after={"refund": made.refund_id, "amount": made.amount},
            reason=form.reason,
        )
        await trail.record(block, act)

    written = f"{amount} {form.reason}".encode()
    digest = fingerprint(
        pepper=visit.resources.pepper, method="POST", path=visit.call.path, body=written
    )
    try:
        await visit.resources.transactions.refund(
            visit.scope,
            transaction.transaction_id,
            Intent(form.key, IntentSource.CLIENT, digest),
            amount=amount,
            reason=form.reason or None,
            now=visit.call.now,
            also=note,
        )
    except Refusal as refusal:
        if refusal.code not in _REFUSED:
            raise
        return await _show_refund(visit, transaction, form, {"amount": _REFUSED[refusal.code]})
    return go(_href(visit, transaction, said="transaction-refunded"))


async def _show_refund(
    visit: Visit, transaction: Transaction, form: RefundForm, errors: dict[str, str]
) -> Answer:
    return page(
        visit,
        "transaction_refund.html",
        title="Reembolsar transação",
        status=422 if errors else 200,
        transaction=transaction,
        method=METHOD[transaction.payment_method],
        form=form,
        errors=errors,
    )


async def ask_cancel(visit: Visit) -> Answer:
    """Show what cancelling means before it is done."""
    transaction = await _find(visit)
    if not _is_cancellable(transaction):
        raise Refusal(ErrorCode.INVALID_STATE)
    return page(
        visit, "transaction_cancel.html", title="Cancelar transação", transaction=transaction
    )


async def cancel(visit: Visit) -> Answer:
    """Cancel a payment that nobody has made yet."""
    await visit.form(Form)
    transaction = await _find(visit)

    async def note(block: Connection) -> None:
        act = visit.act(
            "transaction.cancelled",
            "transaction",
            transaction.transaction_id,
            before={"status": transaction.status},
            after={"status": Status.CANCELLED},
        )
        await trail.record(block, act)

    await visit.resources.transactions.cancel(
        visit.scope, transaction.transaction_id, now=visit.call.now, also=note
    )
    return go(_href(visit, transaction, said="transaction-cancelled"))


class NoteForm(Form, frozen=True):
    """A note."""

    text: str = ""


async def add_note(visit: Visit) -> Answer:
    """Keep what a member writes about a payment."""
    form = await visit.form(NoteForm)
    transaction = await _find(visit)
    if not 1 <= len(form.text) <= NOTE_CHARACTERS_MAX:
        raise Refusal(ErrorCode.VALIDATION_ERROR)
    note = Note(
        note_id=new_id(Prefix.NOTE),
        transaction_id=transaction.transaction_id,
        text=form.text,
        author=visit.member.name,
        created_at=visit.call.now,
    )
    act = visit.act(
        "transaction.noted", "transaction", note.transaction_id, after={"note": note.note_id}
    )
    async with visit.resources.database.atomic() as block:
        await notes.add(block, visit.scope, note)
        await trail.record(block, act)
    return go(_href(visit, transaction, said="note-added") + "#notes")


class ResendForm(Form, frozen=True):
    """Which delivery is tried again."""

    delivery: str = ""


async def resend(visit: Visit) -> Answer:
    """Tell an endpoint once more of what happened to a payment."""
    form = await visit.form(ResendForm)
    transaction = await _find(visit)
    place = Place(visit.scope.company_id, visit.scope.environment)
    async with visit.resources.database.atomic() as block:
        delivery = await webhooks.resend(block, place, form.delivery, now=visit.call.now)
        if not await _tells_of(block, delivery, transaction):
            raise Refusal(ErrorCode.DELIVERY_NOT_FOUND)
        act = visit.act(
            "delivery.resent", "delivery", delivery.delivery_id, after={"event": delivery.event_id}
        )
        await trail.record(block, act)
    return go(_href(visit, transaction, said="delivery-resent") + "#webhooks")


async def _tells_of(db: Connection, delivery: Delivery, transaction: Transaction) -> bool:
    refunds = await transactions.refunds_of(db, [transaction])
    return delivery.entity_id in {
        transaction.transaction_id,
        *(refund.refund_id for refund in refunds),
    }


async def _find(visit: Visit) -> Transaction:
    transaction_id = transaction_id_of(visit.call)
    return await transactions.get(visit.resources.database, visit.scope, transaction_id)


def _href(visit: Visit, transaction: Transaction, *, said: str) -> str:
    return visit.href(f"/transactions/{transaction.transaction_id}", said=said)


def _new_key() -> str:
    return new_id(Prefix.IDEMPOTENCY)


_ONE: Final = "/transactions/{id}"

PAGES: Final[tuple[Page, ...]] = (
    shown(_ONE, show_transaction, Permission.SALES_READ, "Transação"),
    sent(f"{_ONE}/reveal", reveal_buyer, Permission.PERSONAL_REVEAL, "Revelar o cliente"),
    shown(f"{_ONE}/refund", ask_refund, Permission.REFUND, "Reembolsar transação"),
    sent(f"{_ONE}/refund", make_refund, Permission.REFUND, "Reembolsar transação"),
    shown(f"{_ONE}/cancel", ask_cancel, Permission.TRANSACTION_CANCEL, "Cancelar transação"),
    sent(f"{_ONE}/cancel", cancel, Permission.TRANSACTION_CANCEL, "Cancelar transação"),
    sent(f"{_ONE}/notes", add_note, Permission.SUPPORT, "Anotar na transação"),
    sent(f"{_ONE}/resend", resend, Permission.RESEND, "Reenviar webhook"),
)
