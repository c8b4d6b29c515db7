"""What a provider's word does to a locked payment."""

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from vintem.ledger import service as ledger
from vintem.providers.port import (
    Authorised,
    Blocked,
    FirstAnswer,
    Processing,
    Refused,
    Unknown,
    Verdict,
)
from vintem.runtime.db import Connection
from vintem.transactions import following, moves, request_store
from vintem.transactions.model import Status, StatusReason, Transaction, capture_of
from vintem.transactions.record import details_with_answer, record_and_postback
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import Change


async def answer_first(
    block: Connection,
    transaction: Transaction,
    answer: FirstAnswer,
    *,
    correlation_id: str,
    now: datetime,
) -> Transaction:
    """Write the first word about a payment: its status, its money, its history and its event."""
    assert not transaction.is_answered, "the first word is said once"
    status, reason = _standing(answer)
    answered = replace(
        transaction,
        status=status,
        status_reason=reason,
        sequence=1,
        details=_details(transaction, answer),
        answered_at=now,
        updated_at=now,
        paid_at=now if status is Status.PAID else None,
    )
    await request_store.update_answered(block, answered)
    if status is Status.PAID:
        await ledger.capture_many(block, [capture_of(answered, now=now)], now=now)
    await webhooks.record(block, [_first_change(answered, correlation_id, now)])
    await following.tell(block, None, answered, now=now)
    return answered


async def settle(
    block: Connection, transaction: Transaction, verdict: Verdict, *, now: datetime
) -> Transaction:
    """Do what a later word means; the table of moves must allow it."""
    answered = replace(transaction, details=_details(transaction, verdict))
    if answered.details != transaction.details:
        await request_store.update_details(block, answered)
    match verdict:
        case Authorised():
            return await moves.pay(block, answered, end_to_end_id=None, now=now)
        case Processing():
            return answered
        case Blocked() | Refused():
            status, reason = _standing(verdict)
            # Somebody decides about it: its time is not up any more.
            decided = replace(answered, due_at=None)
            return await moves.move(block, decided, status, reason, now=now)


def _standing(answer: FirstAnswer) -> tuple[Status, StatusReason | None]:
    match answer:
        case Authorised():
            return Status.PAID, None
        case Processing() | Unknown():
            return Status.PROCESSING, None
        case Blocked():
            return Status.BLOCKED, StatusReason.RISK
        case Refused():
            return Status.FAILED, StatusReason.PROVIDER


def _details(transaction: Transaction, answer: FirstAnswer) -> str:
    code = (
        answer.authorization_code if isinstance(answer, Authorised | Processing | Blocked) else None
    )
    return details_with_answer(
        transaction.details, authorization_code=code, refused_reason=_refused_reason(answer)
    )


def _refused_reason(answer: FirstAnswer) -> Mapping[str, str] | None:
    if not isinstance(answer, Refused):
        return None
    return {"code": answer.code, "message": answer.message}


def _first_change(transaction: Transaction, correlation_id: str, now: datetime) -> Change:
    record, postback_url = record_and_postback(transaction, ())
    return Change(
        company_id=transaction.company_id,
        environment=transaction.environment,
        entity_id=transaction.transaction_id,
        sequence=transaction.sequence,
        group="transaction",
        status=transaction.status,
        previous_status=None,
        is_first_time=True,
        data=record,
        at=now,
        correlation_id=correlation_id,
        idempotency_key=transaction.idempotency_key,
        postback_url=postback_url,
    )
