"""Making withdrawals: every check, the record and the hold of its money, in one commit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import structlog

from vintem.companies import service as companies
from vintem.companies.model import ImplicitProtection, WithdrawalPolicy, WithdrawalRules
from vintem.intents import service as intents
from vintem.intents.model import ImplicitIntent
from vintem.kit.clock import business_day
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.intent import Intent, IntentReused, IntentSource
from vintem.kit.money import Cents
from vintem.ledger import service as ledger
from vintem.ledger.model import Scope
from vintem.runtime import metrics
from vintem.runtime.db import Connection, Database
from vintem.runtime.failpoints import Failpoint, die_at
from vintem.withdrawals import decision_store, moves, store
from vintem.withdrawals.model import (
    Decision,
    DecisionKind,
    Status,
    Withdrawal,
    approval_reasons,
)

log = structlog.get_logger()

RULES_NAME: Final = "rules"
REPETITION_OPERATION: Final = "withdrawal"
REPETITION_WINDOW: Final = timedelta(seconds=600)


@dataclass(frozen=True, slots=True)
class Created:
    """The withdrawal that holds the key: just made, or made by an earlier call."""

    withdrawal: Withdrawal
    is_replay: bool


@dataclass(frozen=True, slots=True)
class NewWithdrawal:
    """A withdrawal to be made, and the words that came with the call."""

    withdrawal: Withdrawal
    intent: Intent
    repetition_digest: bytes
    """What a second one of the same amount to the same destination has too."""
    correlation_id: str = ""


async def create(
    database: Database, new: NewWithdrawal, *, witness: moves.Witness | None = None
) -> Created:
    """Hold the money of a withdrawal and write it down, once an intent."""
    made, intent = new.withdrawal, new.intent

    async def create(block: Connection) -> Created:
        policy = await companies.withdrawal_policy(block, made.company_id)
        _refuse_by_policy(policy, made)
        reasons = await _approval_reasons(block, made, policy)
        decided = made
        if reasons:
            decided = replace(made, status=Status.PENDING_APPROVAL, due_at=None)
        if not await store.insert(block, decided):
            holder = await store.find_by_key(block, made.scope, intent.key)
            assert holder is not None, "the key is taken"
            refuse_other_intent(holder, intent)
            return Created(holder, is_replay=True)
        if reasons:
            await _note_approval_required(block, decided, reasons)
        await moves.tell_new(block, decided, correlation_id=new.correlation_id)
        await _refuse_repetition(block, new, policy.implicit_protection)
        await _hold(block, decided, policy.rules)
        if witness is not None:
            await witness(block, decided)
        die_at(Failpoint.HELD)
        return Created(decided, is_replay=False)

    created = await database.atomically(create)
    die_at(Failpoint.CREATED)
    return created


async def foresee(db: Connection, made: Withdrawal) -> Sequence[str]:
    """Say why a second person would have to agree, or refuse what cannot be; nothing is held."""
    policy = await companies.withdrawal_policy(db, made.company_id)
    _refuse_by_policy(policy, made)
    available = await ledger.available(db, made.scope)
    if available < made.total_debited:
        raise _not_covered(available)
    return await _approval_reasons(db, made, policy)


async def find_replay(db: Connection, scope: Scope, intent: Intent) -> Withdrawal | None:
    """Find what an intent made before; refuse the key of another intent."""
    withdrawal = await store.find_by_key(db, scope, intent.key)
    if withdrawal is not None:
        refuse_other_intent(withdrawal, intent)
    return withdrawal


def refuse_other_intent(withdrawal: Withdrawal, intent: Intent) -> None:
    """Refuse a key that stands for another request."""
    if withdrawal.fingerprint != intent.fingerprint:
        raise IntentReused(withdrawal.created_at)


def _refuse_by_policy(policy: WithdrawalPolicy, made: Withdrawal) -> None:
    if policy.is_paused:
        raise Refusal(ErrorCode.WITHDRAWALS_PAUSED)
    limit = policy.rules.cents_max
    if limit is not None and made.total_debited > limit:
        raise Refusal(
            ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED, details={"limit": "withdrawal", "maximum": limit}
        )


async def _refuse_repetition(
    block: Connection, new: NewWithdrawal, protection: ImplicitProtection
) -> None:
    """Refuse, or only note, what was asked for moments ago; a key of the caller's own wins."""
    if protection is ImplicitProtection.OFF or new.intent.source is IntentSource.CLIENT:
        return
    made = new.withdrawal
    implicit = ImplicitIntent(
        company_id=made.company_id,
        environment=made.environment,
        operation=REPETITION_OPERATION,
        fingerprint=new.repetition_digest,
        now=made.created_at,
        window=REPETITION_WINDOW,
    )
    earlier_id = await intents.claim(block, implicit, made.withdrawal_id)
    if earlier_id is None:
        return
    metrics.IMPLICIT_REPETITIONS.labels(REPETITION_OPERATION, protection).inc()
    log.info("withdrawal repeated without a key", protection=protection, earlier=earlier_id)
    if protection is ImplicitProtection.ENFORCE:
        raise Refusal(ErrorCode.DUPLICATE_SUSPECTED, details={"existingId": earlier_id})


async def _approval_reasons(
    db: Connection, made: Withdrawal, policy: WithdrawalPolicy
) -> Sequence[str]:
    rules = policy.rules
    is_new = rules.approves_new_destinations and not await store.is_known_destination(
        db, made.scope, made.destination_digest
    )
    return approval_reasons(
        rules, total_debited=made.total_debited, method=made.method, is_new_destination=is_new
    )


async def _note_approval_required(
    block: Connection, made: Withdrawal, reasons: Sequence[str]
) -> None:
    decision = Decision(
        made.company_id,
        made.withdrawal_id,
        DecisionKind.APPROVAL_REQUIRED,
        RULES_NAME,
        "; ".join(reasons),
        made.created_at,
    )
    await decision_store.insert_decision(block, decision)


async def _hold(block: Connection, made: Withdrawal, rules: WithdrawalRules) -> None:
    day = business_day(made.created_at)
    limit = rules.daily_cents_max
    if not await store.add_to_day(
        block, made.scope, day, cents=made.total_debited, cents_max=limit
    ):
        raise Refusal(
            ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED, details={"limit": "day", "maximum": limit}
        )
    if not await ledger.hold_payout(block, made.payout, now=made.created_at):
        raise _not_covered(await ledger.available(block, made.scope))


def _not_covered(available: Cents) -> Refusal:
    return Refusal(ErrorCode.INSUFFICIENT_BALANCE, details={"available": available})
