"""Withdrawals: the list, each with its history, asking for one, calling one off."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.api.envelope import STATUS
from vintem.api.withdrawal_shapes import WithdrawalBody
from vintem.api.withdrawals import withdrawal_id_of
from vintem.companies import service as companies
from vintem.dashboard.actors import actor_names
from vintem.dashboard.answers import go, page
from vintem.dashboard.asked import cursor_of, period_of
from vintem.dashboard.csv_file import Cell, Export, Money, Source
from vintem.dashboard.exporting import exported
from vintem.dashboard.forms import Form
from vintem.dashboard.money_words import (
    HAPPENED,
    METHODS,
    STATUSES,
    destination_words,
    exact_destination,
    failure_words,
    option_words,
    reason_words,
)
from vintem.dashboard.page import Page, deny, sent, shown
from vintem.dashboard.visit import Visit
from vintem.dashboard.withdrawal_form import (
    KEY_TYPE_OPTIONS,
    NETWORK_OPTIONS,
    Errors,
    WithdrawalForm,
    errors_of,
    intent_of,
    new_intent,
    order_of,
    prepare_for,
)
from vintem.dashboard.withdrawal_mail import tell_owner
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.intent import Intent
from vintem.kit.paging import Cursor
from vintem.ledger import service as ledger
from vintem.ledger.model import Scope
from vintem.members.model import Permission, Role
from vintem.runtime.db import Connection
from vintem.trail import service as trail
from vintem.withdrawals import creation
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.model import (
    CANCELLABLE,
    Decision,
    DecisionKind,
    Entry,
    Filter,
    Method,
    Status,
    Withdrawal,
    quantity_text,
)
from vintem.withdrawals.record import masked_destination

ROWS_MAX: Final = 50
ROWS_AT_ONCE: Final = 500
UNPROCESSABLE: Final = 422
# Those who may call off what others have asked for.
CHIEFS: Final = frozenset({Role.OWNER, Role.ADMIN})


class Asked(msgspec.Struct, frozen=True):
    """Which withdrawals are shown."""

    status: str = ""
    method: str = ""
    since: str = ""
    until: str = ""
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A withdrawal as the list shows it."""

    withdrawal: Withdrawal
    status: tuple[str, str]
    destination: tuple[str, str]
    requested_by: str
    approved_by: str


async def list_withdrawals(visit: Visit) -> Answer:
    """List withdrawals, the newest first."""
    asked, database = visit.asked(Asked), visit.resources.database
    cursor = cursor_of(asked.cursor)
    found = await withdrawals.list_page(
        database, filter_of(visit.scope, asked), cursor=cursor, offset=0, rows_max=ROWS_MAX + 1
    )
    listed = found[:ROWS_MAX]
    decided = await withdrawals.decisions(database, listed)
    approvers = {each.withdrawal_id: _approver(decided[each.withdrawal_id]) for each in listed}
    names = await actor_names(
        visit, {each.requested_by for each in listed} | {by for by in approvers.values() if by}
    )
    rows = [
        Row(
            each,
            STATUSES[each.status],
            destination_words(each),
            names[each.requested_by],
            names.get(approvers[each.withdrawal_id], ""),
        )
        for each in listed
    ]
    filters = {name: getattr(asked, name) for name in ("status", "method", "since", "until")}
    older = ""
    if len(found) > len(listed):
        last = Cursor(listed[-1].created_at, listed[-1].withdrawal_id)
        older = visit.href("/withdrawals", **filters, cursor=last.encode())
    return page(
        visit,
        "withdrawals.html",
        title="Saques",
        asked=asked,
        filters=filters,
        statuses=option_words({key: words for key, (words, _) in STATUSES.items()}, "Todos"),
        methods=option_words(METHODS, "Todos"),
        rows=rows,
        newer="" if cursor is None else visit.href("/withdrawals", **filters),
        older=older,
    )


def filter_of(scope: Scope, asked: Asked) -> Filter:
    """Turn what an address asks for into what is looked for."""
    created_from, created_before = period_of(asked.since, asked.until)
    return Filter(
        scope=scope,
        statuses=(Status(asked.status),) if asked.status in list(Status) else None,
        method=Method(asked.method) if asked.method in list(Method) else None,
        created_from=created_from,
        created_before=created_before,
    )


async def show_withdrawal(visit: Visit) -> Answer:
    """Show a withdrawal, its receipt and all that happened to it."""
    database = visit.resources.database
    found = await withdrawals.get(database, visit.scope, withdrawal_id_of(visit.call))
    entries = await withdrawals.history(database, found)
    names = await actor_names(
        visit, {found.requested_by} | {entry.by for entry in entries if entry.by}
    )
    return page(
        visit,
        "withdrawal.html",
        title=f"Saque {found.withdrawal_id}",
        withdrawal=found,
        standing=STATUSES[found.status],
        method=METHODS[found.method],
        destination=destination_words(found),
        description=_description(found),
        quantity="" if found.bought is None else quantity_text(found.bought),
        failure=failure_words(found),
        requested_by=names[found.requested_by],
        entries=[_shown_entry(entry, names) for entry in entries],
        may_cancel=may_cancel(visit, found),
        may_decide=visit.can(Permission.APPROVE)
        and found.status is Status.PENDING_APPROVAL
        and found.requested_by != visit.member.person_id,
    )


async def ask_for_withdrawal(visit: Visit) -> Answer:
    """Show the form of a new withdrawal."""
    asked = visit.asked(_NewAsked)
    return await _form_page(visit, WithdrawalForm(method=asked.method), {})


class _NewAsked(msgspec.Struct, frozen=True):
    method: str = ""


async def confirm_withdrawal(visit: Visit) -> Answer:
    """Show what would be done, to whom exactly, before anything is."""
    form = await visit.form(WithdrawalForm)
    order, errors = order_of(form)
    if order is None:
        return await _form_page(visit, form, errors, status=UNPROCESSABLE)
    token = new_intent()
    try:
        new, destination = await prepare_for(visit, order, intent_of(visit, order, token))
        reasons = await creation.foresee(visit.resources.database, new.withdrawal)
    except Refusal as refusal:
        errors = errors_of(refusal, form)
        return await _form_page(visit, form, errors, status=STATUS[refusal.code])
    bought = new.withdrawal.bought
    available = await ledger.available(visit.resources.database, visit.scope)
    return page(
        visit,
        "withdrawal_confirm.html",
        title="Confirmar saque",
        form=form,
        intent=token,
        withdrawal=new.withdrawal,
        destination=exact_destination(destination),
        quantity="" if bought is None else quantity_text(bought),
        reasons=[words for reason in reasons for words in reason_words(reason)],
        available=available,
        uses=(
            await withdrawals.destination_uses(
                visit.resources.database, visit.scope, [new.withdrawal]
            )
        )[new.withdrawal.destination_digest],
    )


async def create_withdrawal(visit: Visit) -> Answer:
    """Hold the money and write the withdrawal down, however often the form is sent."""
    form = await visit.form(WithdrawalForm)
    order, errors = order_of(form)
    if order is None:
        return await _form_page(visit, form, errors, status=UNPROCESSABLE)
    intent = intent_of(visit, order, form.intent)
    try:
        made = await _create_once(visit, order, intent)
    except Refusal as refusal:
        errors = errors_of(refusal, form)
        return await _form_page(visit, form, errors, status=STATUS[refusal.code])
    said = "withdrawal-waits" if made.status is Status.PENDING_APPROVAL else "withdrawal-made"
    return go(visit.href(f"/withdrawals/{made.withdrawal_id}", said=said))


async def _create_once(visit: Visit, order: WithdrawalBody, intent: Intent) -> Withdrawal:
    database = visit.resources.database

    async def witness(block: Connection, made: Withdrawal) -> None:
        after = {
            "status": made.status,
            "amount": made.amount,
            "fee": made.fee,
            "destination": masked_destination(made),
        }
        act = visit.act("withdrawal.requested", "withdrawal", made.withdrawal_id, after=after)
        await trail.record(block, act)

    try:
        new, _destination = await prepare_for(visit, order, intent)
        created = await creation.create(database, new, witness=witness)
    except Refusal:
        # What was confirmed once is there, whatever the checks say today.
        earlier = await creation.find_replay(database, visit.scope, intent)
        if earlier is None:
            raise
        return earlier
    if not created.is_replay:
        await tell_owner(visit, created.withdrawal, "requested")
    return created.withdrawal


async def ask_to_cancel(visit: Visit) -> Answer:
    """Show what calling a withdrawal off means."""
    found = await withdrawals.get(
        visit.resources.database, visit.scope, withdrawal_id_of(visit.call)
    )
    if found.status not in CANCELLABLE:
        raise Refusal(ErrorCode.WITHDRAWAL_NOT_CANCELLABLE)
    if not may_cancel(visit, found):
        return await _deny_others(visit, found)
    return page(
        visit,
        "withdrawal_cancel.html",
        title="Cancelar saque",
        withdrawal=found,
        destination=destination_words(found),
    )


async def cancel_withdrawal(visit: Visit) -> Answer:
    """Call a withdrawal off; its money comes back."""
    await visit.form(Form)
    database, withdrawal_id = visit.resources.database, withdrawal_id_of(visit.call)
    found = await withdrawals.get(database, visit.scope, withdrawal_id)
    if found.status in CANCELLABLE and not may_cancel(visit, found):
        return await _deny_others(visit, found)

    async def witness(block: Connection, cancelled: Withdrawal) -> None:
        act = visit.act(
            "withdrawal.cancelled",
            "withdrawal",
            withdrawal_id,
            before={"status": found.status},
            after={"status": cancelled.status},
        )
        await trail.record(block, act)

    await withdrawals.cancel(
        database, visit.scope, withdrawal_id, now=visit.call.now, witness=witness
    )
    await tell_owner(visit, found, "cancelled")
    return go(visit.href(f"/withdrawals/{withdrawal_id}", said="withdrawal-cancelled"))


async def _deny_others(visit: Visit, withdrawal: Withdrawal) -> Answer:
    path = f"/withdrawals/{withdrawal.withdrawal_id}/cancel"
    return await deny(visit, "page", path, reason="withdrawal of another person")


def may_cancel(visit: Visit, withdrawal: Withdrawal) -> bool:
    """Say whether the member may call a withdrawal off: their own, or any as a chief."""
    is_own = withdrawal.requested_by == visit.member.person_id
    return (
        withdrawal.status in CANCELLABLE
        and visit.can(Permission.WITHDRAW)
        and (is_own or visit.member.role in CHIEFS)
    )


async def _form_page(
    visit: Visit, form: WithdrawalForm, errors: Errors, *, status: int = 200
) -> Answer:
    database = visit.resources.database
    policy = await companies.withdrawal_policy(database, visit.member.company_id)
    plan = await companies.fee_plan(database, visit.member.company_id)
    is_crypto = form.method == Method.CRYPTO
    charged = "crypto_withdrawal" if is_crypto else "pix_withdrawal"
    return page(
        visit,
        "withdrawal_new.html",
        title="Novo saque",
        status=status,
        form=form,
        errors=errors,
        is_crypto=is_crypto,
        fees=[fee for fee in plan.fees if fee.method == charged],
        rules=policy.rules,
        is_paused=policy.is_paused,
        available=await ledger.available(database, visit.scope),
        key_types=KEY_TYPE_OPTIONS,
        networks=NETWORK_OPTIONS,
    )


def _approver(decided: Sequence[Decision]) -> str:
    return next((each.decided_by for each in decided if each.kind is DecisionKind.APPROVED), "")


class _Described(msgspec.Struct):
    description: str | None


def _description(withdrawal: Withdrawal) -> str:
    return msgspec.json.decode(withdrawal.details, type=_Described).description or ""


def _shown_entry(entry: Entry, names: Mapping[str, str]) -> Mapping[str, object]:
    is_rule = entry.what == DecisionKind.APPROVAL_REQUIRED
    return {
        "at": entry.at,
        "what": HAPPENED.get(entry.what, entry.what),
        "by": names.get(entry.by, ""),
        "note": "; ".join(reason_words(entry.note)) if is_rule else entry.note,
    }


async def _rows(source: Source, asked: Asked) -> AsyncIterator[Sequence[Cell]]:
    cursor: Cursor | None = None
    while True:
        found = await withdrawals.list_page(
            source.resources.database,
            filter_of(source.scope, asked),
            cursor=cursor,
            offset=0,
            rows_max=ROWS_AT_ONCE,
        )
        for each in found:
            yield (
                *(each.withdrawal_id, each.created_at, STATUSES[each.status][0], each.status),
                *(METHODS[each.method], *destination_words(each)),
                *(each.amount, each.fee, each.net_amount, each.total_debited),
                *(each.requested_by, each.processed_at, each.completed_at, each.cancelled_at),
                *(each.end_to_end_id or each.tx_hash, each.external_ref),
            )
        if len(found) < ROWS_AT_ONCE:
            return
        cursor = Cursor(found[-1].created_at, found[-1].withdrawal_id)


EXPORT: Final = Export(
    what="saques",
    label="Saques",
    header=(
        *("saque", "pedido_em", "situacao", "status", "metodo", "destino_tipo", "destino"),
        *(Money("valor"), Money("taxa"), Money("liquido"), Money("debitado")),
        *("pedido_por", "enviado_em", "concluido_em", "cancelado_em", "comprovante", "referencia"),
    ),
    asked=Asked,
    rows=_rows,
    permission=Permission.BALANCE_READ,
)

PAGES: Final[tuple[Page, ...]] = (
    shown("/withdrawals", list_withdrawals, Permission.BALANCE_READ, "Saques"),
    exported("/withdrawals.csv", EXPORT),
    shown("/withdrawals/new", ask_for_withdrawal, Permission.WITHDRAW, "Novo saque"),
    sent("/withdrawals/confirm", confirm_withdrawal, Permission.WITHDRAW, "Confirmar saque"),
    sent("/withdrawals", create_withdrawal, Permission.WITHDRAW, "Pedir saque"),
    shown("/withdrawals/{id}", show_withdrawal, Permission.BALANCE_READ, "Saque"),
    shown("/withdrawals/{id}/cancel", ask_to_cancel, Permission.WITHDRAW, "Cancelar saque"),
    sent("/withdrawals/{id}/cancel", cancel_withdrawal, Permission.WITHDRAW, "Cancelar saque"),
)
