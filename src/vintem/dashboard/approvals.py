"""What waits for a second person, and what that person decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.api.withdrawals import withdrawal_id_of
from vintem.dashboard.actors import actor_names
from vintem.dashboard.answers import go, page
from vintem.dashboard.asked import cursor_of
from vintem.dashboard.forms import Form
from vintem.dashboard.money_words import destination_words, exact_destination, reason_words
from vintem.dashboard.page import Page, deny, sent, shown
from vintem.dashboard.proof import code_errors
from vintem.dashboard.typed import cents_of
from vintem.dashboard.visit import Visit
from vintem.dashboard.withdrawal_mail import tell_owner
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix
from vintem.kit.money import Cents
from vintem.kit.paging import Cursor
from vintem.ledger import service as ledger
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.model import (
    Decision,
    DecisionKind,
    DestinationUse,
    Filter,
    Method,
    Status,
    Withdrawal,
)
from vintem.withdrawals.moves import Witness

ROWS_MAX: Final = 50
TYPED_FROM_CENTS: Final = 1_000_000
REASON_CHARACTERS_MAX: Final = 140
UNPROCESSABLE: Final = 422


class Asked(msgspec.Struct, frozen=True):
    """Which page of the queue is shown."""

    cursor: str = ""


class DecisionForm(Form, frozen=True):
    """What the second person types."""

    reason: str = ""
    amount: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A withdrawal that waits, with what its approver has to know."""

    withdrawal: Withdrawal
    destination: tuple[str, str]
    use: DestinationUse
    requested_by: str
    reasons: Sequence[str]
    flags: Sequence[str]
    balance_before: Cents
    balance_after: Cents
    is_own: bool


async def list_waiting(visit: Visit) -> Answer:
    """List what waits for a second person, the newest first."""
    database, asked = visit.resources.database, visit.asked(Asked)
    cursor = cursor_of(asked.cursor)
    wanted = Filter(scope=visit.scope, statuses=(Status.PENDING_APPROVAL,))
    found = await withdrawals.list_page(
        database, wanted, cursor=cursor, offset=0, rows_max=ROWS_MAX + 1
    )
    listed = found[:ROWS_MAX]
    older = ""
    if len(found) > len(listed):
        last = Cursor(listed[-1].created_at, listed[-1].withdrawal_id)
        older = visit.href("/approvals", cursor=last.encode())
    return page(
        visit,
        "approvals.html",
        title="Aprovações",
        rows=await _waiting(visit, listed),
        newer="" if cursor is None else visit.href("/approvals"),
        older=older,
    )


async def show_waiting(visit: Visit) -> Answer:
    """Show one that waits, with its destination whole, and the forms that decide about it."""
    return await _decision_page(visit, await _find(visit), DecisionForm(), {})


async def ask_to_reject(visit: Visit) -> Answer:
    """Show what rejecting a withdrawal means."""
    found = await _find(visit)
    if await _is_own(visit, found):
        return await _deny_own(visit, found)
    return await _reject_page(visit, found, DecisionForm(), {})


async def approve(visit: Visit) -> Answer:
    """Let a withdrawal go."""
    form, found = await visit.form(DecisionForm), await _find(visit)
    if await _is_own(visit, found):
        return await _deny_own(visit, found)
    errors = _form_errors(form)
    if found.amount >= TYPED_FROM_CENTS and cents_of(form.amount) != found.amount:
        errors["amount"] = "Digite exatamente o valor do saque."
    if errors := errors or await _proof_errors(visit, form):
        return await _decision_page(visit, found, form, errors, status=UNPROCESSABLE)
    decided = await withdrawals.approve(
        visit.resources.database,
        found.withdrawal_id,
        scope=visit.scope,
        decided_by=visit.member.person_id,
        reason=form.reason,
        now=visit.call.now,
        witness=_witness(visit, "withdrawal.approved", form.reason),
    )
    await tell_owner(visit, decided, "approved")
    return go(visit.href(f"/withdrawals/{decided.withdrawal_id}", said="withdrawal-approved"))


async def reject(visit: Visit) -> Answer:
    """Refuse a withdrawal; its money comes back."""
    form, found = await visit.form(DecisionForm), await _find(visit)
    if await _is_own(visit, found):
        return await _deny_own(visit, found)
    errors = _form_errors(form)
    if not form.reason:
        errors["reason"] = "Diga por que o saque é rejeitado."
    if errors := errors or await _proof_errors(visit, form):
        return await _reject_page(visit, found, form, errors, status=UNPROCESSABLE)
    await withdrawals.reject(
        visit.resources.database,
        found.withdrawal_id,
        scope=visit.scope,
        decided_by=visit.member.person_id,
        reason=form.reason,
        now=visit.call.now,
        witness=_witness(visit, "withdrawal.rejected", form.reason),
    )
    await tell_owner(visit, found, "rejected")
    return go(visit.href(f"/withdrawals/{found.withdrawal_id}", said="withdrawal-rejected"))


async def _find(visit: Visit) -> Withdrawal:
    """Find the withdrawal, or refuse what nobody has to decide about."""
    found = await withdrawals.get(
        visit.resources.database, visit.scope, withdrawal_id_of(visit.call)
    )
    if found.status is not Status.PENDING_APPROVAL:
        raise Refusal(ErrorCode.INVALID_STATE, details={"status": found.status})
    return found


async def _is_own(visit: Visit, withdrawal: Withdrawal) -> bool:
    return await withdrawals.is_own(visit.resources.database, withdrawal, visit.member.person_id)


async def _deny_own(visit: Visit, withdrawal: Withdrawal) -> Answer:
    return await deny(
        visit, "page", f"/approvals/{withdrawal.withdrawal_id}", reason="own withdrawal"
    )


async def _proof_errors(visit: Visit, form: DecisionForm) -> dict[str, str]:
    """Ask for the code once all else is right: it works once."""
    if not visit.member.has_totp:
        return {"": "Ative antes a verificação em duas etapas em Segurança."}
    return await code_errors(visit, form.code)


def _form_errors(form: DecisionForm) -> dict[str, str]:
    if len(form.reason) > REASON_CHARACTERS_MAX:
        return {"reason": f"Use até {REASON_CHARACTERS_MAX} caracteres."}
    return {}


def _witness(visit: Visit, action: str, reason: str) -> Witness:
    async def witness(block: Connection, decided: Withdrawal) -> None:
        act = visit.act(
            action,
            "withdrawal",
            decided.withdrawal_id,
            before={"status": Status.PENDING_APPROVAL},
            after={"status": decided.status, "amount": decided.amount},
            reason=reason,
        )
        await trail.record(block, act)

    return witness


async def _decision_page(
    visit: Visit,
    found: Withdrawal,
    form: DecisionForm,
    errors: Mapping[str, str],
    *,
    status: int = 200,
) -> Answer:
    [waiting] = await _waiting(visit, [found])
    destination = withdrawals.open_destination(visit.resources.sealer, found)
    return page(
        visit,
        "approval.html",
        title="Decidir sobre um saque",
        status=status,
        waiting=waiting,
        withdrawal=found,
        exact=exact_destination(destination),
        form=form,
        errors=errors,
        is_typed=found.amount >= TYPED_FROM_CENTS,
    )


async def _reject_page(
    visit: Visit,
    found: Withdrawal,
    form: DecisionForm,
    errors: Mapping[str, str],
    *,
    status: int = 200,
) -> Answer:
    [waiting] = await _waiting(visit, [found])
    return page(
        visit,
        "approval_reject.html",
        title="Rejeitar saque",
        status=status,
        waiting=waiting,
        withdrawal=found,
        form=form,
        errors=errors,
    )


async def _waiting(visit: Visit, listed: Sequence[Withdrawal]) -> Sequence[Waiting]:
    database = visit.resources.database
    available = await ledger.available(database, visit.scope)
    uses = await withdrawals.destination_uses(database, visit.scope, listed)
    decided = await withdrawals.decisions(database, listed)
    names = await actor_names(visit, {each.requested_by for each in listed})
    # One look at each requester, however many withdrawals they asked for.
    is_own = {
        requested_by: await _is_own(visit, each)
        for requested_by, each in {each.requested_by: each for each in listed}.items()
    }
    rows = []
    for each in listed:
        use, before = uses[each.destination_digest], available + each.total_debited
        rows.append(
            Waiting(
                each,
                destination_words(each),
                use,
                names[each.requested_by],
                _reasons(decided[each.withdrawal_id]),
                _flags(each, use, before),
                before,
                available,
                is_own[each.requested_by],
            )
        )
    return rows


def _reasons(decided: Sequence[Decision]) -> Sequence[str]:
    return [
        words
        for each in decided
        if each.kind is DecisionKind.APPROVAL_REQUIRED
        for words in reason_words(each.reason)
    ]


def _flags(withdrawal: Withdrawal, use: DestinationUse, balance_before: Cents) -> Sequence[str]:
    """What an approver should look at twice."""
    flags = []
    if not use.completions:
        flags.append("Chave nova, 1º uso" if withdrawal.method is Method.PIX else "Carteira nova")
    if withdrawal.method is Method.CRYPTO:
        flags.append("Cripto não volta")
    if withdrawal.total_debited * 2 > balance_before:
        flags.append("Mais da metade do saldo")
    if withdrawal.requested_by.startswith(f"{Prefix.API_KEY}_"):
        flags.append("Pedido pela API")
    return flags


PAGES: Final[tuple[Page, ...]] = (
    shown("/approvals", list_waiting, Permission.APPROVE, "Aprovações"),
    shown("/approvals/{id}", show_waiting, Permission.APPROVE, "Decidir sobre um saque"),
    sent("/approvals/{id}/approve", approve, Permission.APPROVE, "Aprovar saque"),
    shown("/approvals/{id}/reject", ask_to_reject, Permission.APPROVE, "Rejeitar saque"),
    sent("/approvals/{id}/reject", reject, Permission.APPROVE, "Rejeitar saque"),
)
