"""What integrators, operators and providers can have done to withdrawals."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import msgspec
import structlog

from vintem.companies import service as companies
from vintem.companies.model import Environment, WithdrawalRules
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.paging import Cursor
from vintem.ledger.model import Scope
from vintem.providers.payouts import Destination, Paid, Rejected
from vintem.runtime import metrics
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection, Database
from vintem.withdrawals import decision_store, moves, store
from vintem.withdrawals.model import (
    CANCELLABLE,
    PLATFORM,
    Decision,
    DecisionKind,
    DestinationUse,
    Entry,
    Failure,
    Filter,
    NoticeOutcome,
    PayoutNotice,
    Status,
    Withdrawal,
    outcome_of,
)
from vintem.withdrawals.moves import Witness

log = structlog.get_logger()

DESTINATION_PURPOSE: Final = b"withdrawal destination"
WITHDRAWALS: Final = "withdrawals"
LISTED_MAX: Final = 1_000
COUNTED_USES_MAX: Final = 100

RulesWitness = Callable[[Connection], Awaitable[None]]
"""Writes down who changed the rules or used the switch, in the commit that does it."""

_destinations: Final[msgspec.json.Decoder[Destination]] = msgspec.json.Decoder(type=Destination)


class SelfApprovalError(Exception):
    """Whoever asked for a withdrawal cannot be the one who decides about it."""


async def get(db: Connection, scope: Scope, withdrawal_id: str) -> Withdrawal:
    """Find a withdrawal, or refuse."""
    withdrawal = await store.find(db, scope, withdrawal_id)
    if withdrawal is None:
        raise Refusal(ErrorCode.WITHDRAWAL_NOT_FOUND)
    return withdrawal


async def list_page(
    db: Connection, wanted: Filter, *, cursor: Cursor | None, offset: int, rows_max: int
) -> Sequence[Withdrawal]:
    """List withdrawals, the newest first."""
    return await store.list_page(db, wanted, cursor=cursor, offset=offset, rows_max=rows_max)


async def count(db: Connection, wanted: Filter) -> int:
    """Count withdrawals, as far as anybody wants to know."""
    return await store.count(db, wanted)


async def cancel(
    database: Database,
    scope: Scope,
    withdrawal_id: str,
    *,
    now: datetime,
    witness: Witness | None = None,
) -> Withdrawal:
    """Call a withdrawal off that nobody has sent."""

    async def cancel(block: Connection) -> Withdrawal:
        locked = await _lock(block, scope, withdrawal_id)
        if locked.status not in CANCELLABLE:
            raise Refusal(ErrorCode.WITHDRAWAL_NOT_CANCELLABLE, details={"status": locked.status})
        cancelled = await moves.cancel(block, locked, now=now)
        if witness is not None:
            await witness(block, cancelled)
        return cancelled

    return await database.atomically(cancel)


async def approve(
    database: Database,
    withdrawal_id: str,
    *,
    decided_by: str,
    reason: str,
    now: datetime,
    scope: Scope | None = None,
    witness: Witness | None = None,
) -> Withdrawal:
    """Let a withdrawal go that waits for a second person; it is sent next.

    Without a scope it may be of any company: only an operator decides so.
    """
    decision = _Decision(DecisionKind.APPROVED, decided_by, reason, now)
    return await _decide(database, withdrawal_id, decision, scope=scope, witness=witness)


async def reject(
    database: Database,
    withdrawal_id: str,
    *,
    decided_by: str,
    reason: str,
    now: datetime,
    scope: Scope | None = None,
    witness: Witness | None = None,
) -> Withdrawal:
    """Refuse a withdrawal that waits for a second person; its money is given back."""
    decision = _Decision(DecisionKind.REJECTED, decided_by, reason, now)
    return await _decide(database, withdrawal_id, decision, scope=scope, witness=witness)


async def is_own(db: Connection, withdrawal: Withdrawal, person_id: str) -> bool:
    """Say whether somebody asked for a withdrawal: themselves, or by a key that they made.

    Whoever made a key has seen it, and can call with it.
    """
    if withdrawal.requested_by == person_id:
        return True
    environment = Environment(withdrawal.environment)
    key = await companies.find_key(db, withdrawal.company_id, environment, withdrawal.requested_by)
    return key is not None and key.created_by == person_id


async def list_by_status(db: Connection, status: Status) -> Sequence[Withdrawal]:
    """Withdrawals of all companies in a status, the oldest first."""
    return await store.list_by_status(db, status, rows_max=LISTED_MAX)


async def find_anywhere(db: Connection, withdrawal_id: str) -> Withdrawal:
    """Find a withdrawal of any company, or refuse; for operators."""
    scope = await store.find_owner(db, withdrawal_id)
    if scope is None:
        raise Refusal(ErrorCode.WITHDRAWAL_NOT_FOUND)
    return await get(db, scope, withdrawal_id)


async def history(db: Connection, withdrawal: Withdrawal) -> Sequence[Entry]:
    """All that happened to a withdrawal: statuses, decisions and what its provider told."""
    return await decision_store.list_entries(db, withdrawal)


async def approval_reasons(
    db: Connection, listed: Sequence[Withdrawal]
) -> Mapping[tuple[int, str], str]:
    """Why withdrawals wait, or waited, for a second person, by company and id."""
    return await decision_store.find_approval_reasons(db, listed)


async def decisions(
    db: Connection, listed: Sequence[Withdrawal]
) -> Mapping[str, Sequence[Decision]]:
    """What was decided about withdrawals of one company, by id, the oldest decision first."""
    found: defaultdict[str, list[Decision]] = defaultdict(list)
    if listed:
        ids = [each.withdrawal_id for each in listed]
        for decision in await decision_store.list_decisions(db, listed[0].company_id, ids):
            found[decision.subject].append(decision)
    return found


async def destination_uses(
    db: Connection, scope: Scope, listed: Sequence[Withdrawal]
) -> Mapping[bytes, DestinationUse]:
    """How well the destinations of withdrawals are known, by their digests."""
    digests = {each.destination_digest for each in listed}
    return await store.find_destination_uses(
        db, scope, sorted(digests), counted_max=COUNTED_USES_MAX
    )


async def pause_of(db: Connection, company_id: int | None) -> Decision | None:
    """Who stopped the withdrawals of a company, or of all, and why; nothing while they go on."""
    owner = PLATFORM if company_id is None else company_id
    last = await decision_store.find_last_switch(db, owner, WITHDRAWALS)
    return last if last is not None and last.kind is DecisionKind.PAUSED else None


async def pause(
    database: Database,
    company_id: int | None,
    *,
    is_paused: bool,
    decided_by: str,
    reason: str,
    now: datetime,
    witness: RulesWitness | None = None,
) -> None:
    """Stop the withdrawals of a company, or of all when none is named; or let them go on."""

    async def switch(block: Connection) -> None:
        if company_id is None:
            await companies.pause_all_withdrawals(block, is_paused=is_paused)
        else:
            await companies.pause_withdrawals(block, company_id, is_paused=is_paused)
        kind = DecisionKind.PAUSED if is_paused else DecisionKind.RESUMED
        owner = PLATFORM if company_id is None else company_id
        decision = Decision(owner, WITHDRAWALS, kind, decided_by, reason, now)
        await decision_store.insert_decision(block, decision)
        if witness is not None:
            await witness(block)

    await database.atomically(switch)


async def set_rules(
    database: Database,
    company_id: int,
    rules: WithdrawalRules,
    *,
    decided_by: str,
    now: datetime,
    witness: RulesWitness | None = None,
) -> None:
    """Set what a company's withdrawals are held to, and write down who did."""

    async def change(block: Connection) -> None:
        await companies.set_withdrawal_rules(block, company_id, rules)
        kind, reason = DecisionKind.RULES_CHANGED, str(rules)
        await decision_store.insert_decision(
            block, Decision(company_id, WITHDRAWALS, kind, decided_by, reason, now)
        )
        if witness is not None:
            await witness(block)

    await database.atomically(change)


async def apply_payout_notice(
    database: Database, notice: PayoutNotice, *, now: datetime
) -> NoticeOutcome:
    """Do what a provider tells of a payout, once a notice; it may come before the answer does."""
    withdrawal_id = await store.find_request(database, notice.scope, notice.request_id)
    if withdrawal_id is None:
        # Request ids are committed before the provider hears of them: this one is not ours.
        log.error("payout notice of an unknown request", notice=notice.notice_id)
        return NoticeOutcome.UNKNOWN_REQUEST

    async def apply(block: Connection) -> NoticeOutcome:
        locked = await _lock(block, notice.scope, withdrawal_id)
        outcome = outcome_of(notice, locked)
        if not await decision_store.insert_notice(block, notice, outcome, now=now):
            return NoticeOutcome.REPEATED
        if outcome is NoticeOutcome.APPLIED:
            await moves.settle(block, locked, notice.answer, now=now)
        return outcome

    outcome = await database.atomically(apply)
    if outcome is NoticeOutcome.CONTRADICTS:
        metrics.PAYOUT_CONTRADICTIONS.inc()
        log.error(
            "payout notice contradicts the record",
            withdrawal=withdrawal_id,
            notice=notice.notice_id,
            told=notice.told,
            amount=notice.amount,
        )
    return outcome


def note_contradiction(withdrawal: Withdrawal, answer: Paid | Rejected) -> bool:
    """Raise the alarm when a final word is not what the record says."""
    told = Status.FAILED if isinstance(answer, Rejected) else Status.COMPLETED
    if withdrawal.status is told:
        return False
    metrics.PAYOUT_CONTRADICTIONS.inc()
    log.error("payout contradicts the record", withdrawal=withdrawal.withdrawal_id, told=told)
    return True


def seal_destination(sealer: Sealer, destination: Destination) -> bytes:
    """Make a destination unreadable at rest."""
    return sealer.seal(msgspec.json.encode(destination), purpose=DESTINATION_PURPOSE)


def open_destination(sealer: Sealer, withdrawal: Withdrawal) -> Destination:
    """Read whom a withdrawal goes to."""
    plain = sealer.open(withdrawal.destination_sealed, purpose=DESTINATION_PURPOSE)
    assert plain is not None, "sealed with another pepper"
    return _destinations.decode(plain)


def refuse_illegal(withdrawal: Withdrawal, status: Status) -> None:
    """Refuse a move that the table of moves does not have."""
    if not withdrawal.may_become(status):
        raise Refusal(
            ErrorCode.INVALID_STATE,
            f"A {withdrawal.status} withdrawal cannot become {status}.",
            details={"status": withdrawal.status},
        )


async def force(
    database: Database,
    scope: Scope,
    withdrawal_id: str,
    status: Status,
    *,
    answer: Paid | Rejected | None,
    failure: Failure,
    now: datetime,
) -> Withdrawal:
    """Force a legal move, as an operator or the provider would; the sandbox's own."""
    return await database.atomically(
        lambda block: force_within(
            block, scope, withdrawal_id, status, answer=answer, failure=failure, now=now
        )
    )


async def force_within(
    block: Connection,
    scope: Scope,
    withdrawal_id: str,
    status: Status,
    *,
    answer: Paid | Rejected | None,
    failure: Failure,
    now: datetime,
) -> Withdrawal:
    """Force a legal move, in the caller's atomic block."""
    locked = await _lock(block, scope, withdrawal_id)
    if answer is not None and locked.status is status:
        # The worker has heard the provider's word in the meantime.
        return locked
    refuse_illegal(locked, status)
    if locked.status is Status.PROCESSING:
        assert answer is not None, "the provider decides about what is on its way"
        return await moves.settle(block, locked, answer, now=now)
    return await FORCED[status](block, locked, failure, now)


async def _force_pending(
    block: Connection, locked: Withdrawal, _failure: Failure, now: datetime
) -> Withdrawal:
    decision = _Decision(DecisionKind.APPROVED, "sandbox", "simulated", now)
    return await _enter_decision(block, locked, decision)


async def _force_processing(
    block: Connection, locked: Withdrawal, _failure: Failure, now: datetime
) -> Withdrawal:
    # Who moves it by hand decides by hand how it goes on: the worker leaves it alone.
    return await moves.begin(block, locked, due_at=None, now=now)


async def _force_failed(
    block: Connection, locked: Withdrawal, failure: Failure, now: datetime
) -> Withdrawal:
    return await moves.fail(block, locked, failure, now=now)


async def _force_cancelled(
    block: Connection, locked: Withdrawal, _failure: Failure, now: datetime
) -> Withdrawal:
    return await moves.cancel(block, locked, now=now)


ForcedMove = Callable[[Connection, Withdrawal, Failure, datetime], Awaitable[Withdrawal]]
FORCED: Final[dict[Status, ForcedMove]] = {
    Status.PENDING: _force_pending,
    Status.PROCESSING: _force_processing,
    Status.FAILED: _force_failed,
    Status.CANCELLED: _force_cancelled,
}


async def _lock(block: Connection, scope: Scope, withdrawal_id: str) -> Withdrawal:
    locked = await store.lock(block, scope.company_id, withdrawal_id)
    if locked is None or locked.environment != scope.environment:
        raise Refusal(ErrorCode.WITHDRAWAL_NOT_FOUND)
    return locked


@dataclass(frozen=True, slots=True)
class _Decision:
    kind: DecisionKind
    decided_by: str
    reason: str
    at: datetime


async def _decide(
    database: Database,
    withdrawal_id: str,
    decision: _Decision,
    *,
    scope: Scope | None,
    witness: Witness | None,
) -> Withdrawal:
    owner = scope or (await find_anywhere(database, withdrawal_id)).scope

    async def decide(block: Connection) -> Withdrawal:
        locked = await _lock(block, owner, withdrawal_id)
        if await is_own(block, locked, decision.decided_by):
            raise SelfApprovalError(withdrawal_id)
        if locked.status is not Status.PENDING_APPROVAL:
            raise Refusal(ErrorCode.INVALID_STATE, details={"status": locked.status})
        decided = await _enter_decision(block, locked, decision)
        if witness is not None:
            await witness(block, decided)
        return decided

    return await database.atomically(decide)


async def _enter_decision(block: Connection, locked: Withdrawal, decision: _Decision) -> Withdrawal:
    kind, now = decision.kind, decision.at
    entry = Decision(
        locked.company_id, locked.withdrawal_id, kind, decision.decided_by, decision.reason, now
    )
    await decision_store.insert_decision(block, entry)
    if kind is DecisionKind.REJECTED:
        return await moves.cancel(block, locked, now=now)
    approved = replace(locked, status=Status.PENDING, due_at=now)
    return await moves.move(block, locked, approved, now=now)
