"""The SQL of buyers: what each has bought, and by what they are found."""

from collections.abc import Sequence

from vintem.figures.model import PAYMENTS_OF_CUSTOMER_MAX, Customer
from vintem.kit.paging import Cursor
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection, Row


async def sum_customers(
    db: Connection, scope: Scope, digests: Sequence[bytes]
) -> Sequence[tuple[Customer, str]]:
    """What buyers have bought by their newest payments, each with the record of the last one."""
    rows = await db.fetch(
        """
        select d.document_digest, s.*, last.details
        from unnest($3::bytea[]) as d (document_digest) cross join lateral (
            select count(*) as payments, count(paid_at) as purchases,
                coalesce(sum(amount) filter (where paid_at is not null), 0)::bigint as paid_cents,
                coalesce(sum(refunded_amount), 0)::bigint as refunded_cents,
                min(paid_at) as first_paid_at, max(paid_at) as last_paid_at,
                max(created_at) as seen_at,
                (array_agg(transaction_id order by created_at desc, transaction_id desc))[1]
                    as last_transaction_id
            from (
                select transaction_id, amount, refunded_amount, paid_at, created_at
                from transaction
                -- A range of one, in the order of the index that has buyers: no other will do.
                where company_id = $1 and environment = $2
                    and document_digest >= d.document_digest
                    and document_digest <= d.document_digest
                order by document_digest, created_at desc, transaction_id desc limit $4
            ) as newest
        ) s cross join lateral (
            select details from transaction
            where company_id = $1 and transaction_id = s.last_transaction_id
            order by transaction_id limit 1
        ) last
        """,
        scope.company_id,
        scope.environment,
        list(digests),
        PAYMENTS_OF_CUSTOMER_MAX + 1,
    )
    return [(_customer(row), row["details"]) for row in rows]


async def upsert_customers(db: Connection, scope: Scope, customers: Sequence[Customer]) -> None:
    """Write buyers as they were counted; the first purchase that was ever known stays the first."""
    await db.execute(
        """
        insert into figures_customer as f (
            company_id, environment, document_digest, last_transaction_id, seen_at, payments,
            purchases, paid_cents, refunded_cents, first_paid_at, last_paid_at)
        select $1, $2, d.* from unnest($3::bytea[], $4::text[], $5::timestamptz[], $6::bigint[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::timestamptz[], $11::timestamptz[]) as d
        on conflict (company_id, environment, document_digest) do update
        set last_transaction_id = excluded.last_transaction_id, seen_at = excluded.seen_at,
            payments = excluded.payments, purchases = excluded.purchases,
            paid_cents = excluded.paid_cents, refunded_cents = excluded.refunded_cents,
            first_paid_at = least(f.first_paid_at, excluded.first_paid_at),
            last_paid_at = excluded.last_paid_at
        """,
        scope.company_id,
        scope.environment,
        [each.document_digest for each in customers],
        [each.last_transaction_id for each in customers],
        [each.seen_at for each in customers],
        [each.payments for each in customers],
        [each.purchases for each in customers],
        [each.paid_cents for each in customers],
        [each.refunded_cents for each in customers],
        [each.first_paid_at for each in customers],
        [each.last_paid_at for each in customers],
    )


async def insert_emails(
    db: Connection, scope: Scope, emails: Sequence[tuple[bytes, bytes]]
) -> None:
    """Remember which buyers have given which addresses."""
    await db.execute(
        """
        insert into figures_customer_email (
            company_id, environment, email_digest, document_digest)
        select $1, $2, e.* from unnest($3::bytea[], $4::bytea[]) as e on conflict do nothing
        """,
        scope.company_id,
        scope.environment,
        [email for email, _ in emails],
        [document for _, document in emails],
    )


async def list_customers(
    db: Connection, scope: Scope, *, before: Cursor | None, rows_max: int
) -> Sequence[Customer]:
    """Buyers, those who bought last first."""
    rows = await db.fetch(
        """
        select * from figures_customer
        where company_id = $1 and environment = $2
            and ($3::timestamptz is null or (seen_at, document_digest) < ($3, $4::bytea))
        order by seen_at desc, document_digest desc limit $5
        """,
        scope.company_id,
        scope.environment,
        None if before is None else before.created_at,
        b"" if before is None else bytes.fromhex(before.id),
        rows_max,
    )
    return [_customer(row) for row in rows]


async def list_customers_after(
    db: Connection, scope: Scope, *, after: Cursor, rows_max: int
) -> Sequence[Customer]:
    """The buyers just before a page of the list, the last one first."""
    rows = await db.fetch(
        """
        select * from figures_customer
        where company_id = $1 and environment = $2 and (seen_at, document_digest) > ($3, $4)
        order by seen_at, document_digest limit $5
        """,
        scope.company_id,
        scope.environment,
        after.created_at,
        bytes.fromhex(after.id),
        rows_max,
    )
    return [_customer(row) for row in rows]


async def find_customers(
    db: Connection, scope: Scope, digests: Sequence[bytes]
) -> Sequence[Customer]:
    """The buyers of documents."""
    rows = await db.fetch(
        """
        select * from figures_customer
        where company_id = $1 and environment = $2 and document_digest = any($3::bytea[])
        order by seen_at desc, document_digest desc
        """,
        scope.company_id,
        scope.environment,
        list(digests),
    )
    return [_customer(row) for row in rows]


async def list_documents_of_email(
    db: Connection, scope: Scope, email_digest: bytes, *, rows_max: int
) -> Sequence[bytes]:
    """Whose address it is."""
    rows = await db.fetch(
        """
        select document_digest from figures_customer_email
        where company_id = $1 and environment = $2 and email_digest = $3
        order by document_digest limit $4
        """,
        scope.company_id,
        scope.environment,
        email_digest,
        rows_max,
    )
    return [row["document_digest"] for row in rows]


def _customer(row: Row) -> Customer:
    return Customer(
        document_digest=row["document_digest"],
        last_transaction_id=row["last_transaction_id"],
        seen_at=row["seen_at"],
        payments=row["payments"],
        purchases=row["purchases"],
        paid_cents=row["paid_cents"],
        refunded_cents=row["refunded_cents"],
        first_paid_at=row["first_paid_at"],
        last_paid_at=row["last_paid_at"],
    )
