"""The SQL of payments that a provider is asked about: remembered, asked again, answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from vintem.runtime.db import Connection
from vintem.transactions.model import NewTransaction, Transaction


@dataclass(frozen=True, slots=True)
class Question:
    """A payment whose provider must be asked what became of it."""

    company_id: int
    transaction_id: str
    environment: str
    provider: str
    correlation_id: str
    asked_at: datetime
    is_seen: bool = False
    """Whether its provider has said that it has it."""


async def insert_unanswered(db: Connection, new: NewTransaction) -> bool:
    """Add a payment that nobody has answered yet, without history; false when its key is taken."""
    made = new.transaction
    found = await db.fetchval(
        """
        insert into transaction (
            company_id, transaction_id, environment, status, payment_method, amount, fee,
            installments, external_ref, document_digest, document_sealed, idempotency_key,
            fingerprint, sequence, details, terms, created_at, updated_at, checkout_session_id
        ) values (
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19
        )
        on conflict do nothing returning true
        """,
        made.company_id,
        made.transaction_id,
        made.environment,
        made.status,
        made.payment_method,
        made.amount,
        made.fee,
        made.installments,
        new.external_ref,
        new.document_digest,
        made.document_sealed,
        made.idempotency_key,
        made.fingerprint,
        made.sequence,
        made.details,
        msgspec.json.encode(made.terms).decode(),
        made.created_at,
        made.updated_at,
        made.checkout_session_id,
    )
    return bool(found)


async def insert_request(db: Connection, question: Question, *, ask_at: datetime) -> None:
    """Write down that a provider will be asked, and when the worker must ask if nobody answers."""
    await db.execute(
        """
        insert into provider_request (
            company_id, transaction_id, environment, provider, correlation_id, asked_at, ask_at
        ) values ($1, $2, $3, $4, $5, $6, $7)
        """,
        question.company_id,
        question.transaction_id,
        question.environment,
        question.provider,
        question.correlation_id,
        question.asked_at,
        ask_at,
    )


async def update_ask_at(
    db: Connection, transaction: Transaction, *, ask_at: datetime | None, is_seen: bool
) -> None:
    """Write down when a provider must be asked again, or never, and whether it has the payment."""
    await db.execute(
        """
        update provider_request set ask_at = $3, is_seen = is_seen or $4
        where company_id = $1 and transaction_id = $2
        """,
        transaction.company_id,
        transaction.transaction_id,
        ask_at,
        is_seen,
    )


async def list_companies_with_questions(db: Connection, *, now: datetime) -> Sequence[int]:
    """Companies with a payment whose provider must be asked by now."""
    rows = await db.fetch(
        "select distinct company_id from provider_request where ask_at <= $1", now
    )
    return [row["company_id"] for row in rows]


async def claim_questions(
    db: Connection,
    company_id: int,
    *,
    pauses_seconds: Sequence[int],
    now: datetime,
    rows_max: int,
) -> Sequence[Question]:
    """Take the questions that are due, passing over those that another worker holds.

    Each is due again after the pause of its attempt, whatever becomes of the worker.
    """
    rows = await db.fetch(
        """
        with due as materialized (
            select transaction_id from provider_request
            where company_id = $1 and ask_at <= $2
            order by ask_at, transaction_id limit $3
            for update skip locked
        )
        update provider_request r set attempts = r.attempts + 1,
            ask_at = $2 + make_interval(
                secs => ($4::bigint[])[least(r.attempts + 1, cardinality($4::bigint[]))]
            )
        from due d
        where r.company_id = $1 and r.transaction_id = d.transaction_id
        returning r.transaction_id, r.environment, r.provider, r.correlation_id, r.asked_at,
            r.is_seen
        """,
        company_id,
        now,
        rows_max,
        list(pauses_seconds),
    )
    return [
        Question(
            company_id=company_id,
            transaction_id=row["transaction_id"],
            environment=row["environment"],
            provider=row["provider"],
            correlation_id=row["correlation_id"],
            asked_at=row["asked_at"],
            is_seen=row["is_seen"],
        )
        for row in rows
    ]


async def update_answered(db: Connection, transaction: Transaction) -> None:
    """Write a locked payment as its provider's first word leaves it, with its first history row."""
    await db.execute(
        """
        with t as (
            update transaction set status = $3, status_reason = $4, sequence = $5, details = $6,
                answered_at = $7, updated_at = $7, paid_at = $8
            where company_id = $1 and transaction_id = $2
        )
        insert into transaction_history (
            company_id, transaction_id, sequence, to_status, reason, created_at
        ) values ($1, $2, $5, $3, $4, $7)
        """,
        transaction.company_id,
        transaction.transaction_id,
        transaction.status,
        transaction.status_reason,
        transaction.sequence,
        transaction.details,
        transaction.answered_at,
        transaction.paid_at,
    )


async def update_details(db: Connection, transaction: Transaction) -> None:
    """Write what a locked payment's provider has added to its record."""
    await db.execute(
        "update transaction set details = $3 where company_id = $1 and transaction_id = $2",
        transaction.company_id,
        transaction.transaction_id,
        transaction.details,
    )
