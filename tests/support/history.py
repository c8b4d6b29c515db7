"""Years of a company's payments and of its books, written at once.

Events and the history of each payment are left out: nothing that is measured reads them. So the
audit, which misses them, is not for a database with such payments.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import asyncpg

from support.api import Shop
from vintem.ledger import store
from vintem.runtime.db import Connection, Database
from vintem.webhooks.statements import POSTBACK

TABLES = ("transaction", "posting", "release_schedule", "release_day", "webhook_delivery")
DAYS = 40
"""How long ago the first payment was; the last one is of a minute ago."""
POPULAR_REF = "assinatura"
AMOUNT = 1_000
SHOWN = 200
"""How many of the newest carry their whole record; the others are short, to be written soon."""
POSTBACK_ORIGIN = "https://loja.example.com"
SHORT = '{"pix":null,"customer":{"document":{"number":"*"}}}'

# Payment n of a company: six in ten are pending, three were paid by card, one failed; the three
# oldest are blocked. Half of what was paid still waits for its day. The pending ones end, one a
# second, from the next hour on.
PAYMENTS = """
    create temporary table payment on commit drop as
    select n, 'tx_' || lpad(n::text, 26, '0') as id,
        now() - interval '1 minute' - ($1 - n) * (interval '1 day' * $2 / $1) as created_at,
        now() + interval '1 hour' + n * interval '1 second' as due_at,
        case when n <= 3 then 'blocked' when n % 10 < 3 then 'paid'
            when n % 10 < 9 then 'pending' else 'failed' end as status
    from generate_series(1, $1) as n
"""


async def write_histories(database: Database, histories: Mapping[Shop, int]) -> None:
    """Write so many payments of each company, and leave the database as it is on a quiet day."""
    async with without_indexes(database):
        for shop, rows in histories.items():
            # Gives the others their form.
            await shop.create(AMOUNT)
            async with database.patient() as block:
                await write_history(block, shop.scope.company_id, rows)
    connection = await asyncpg.connect(database.url)
    try:
        await connection.execute(f"vacuum (analyze) {', '.join(TABLES)}")
        await connection.execute("checkpoint")
    finally:
        await connection.close()


async def write_history(block: Connection, company_id: int, rows: int) -> None:
    """Write so many payments of a company, in the form of its one payment."""
    await block.execute(PAYMENTS.replace("$1", str(rows)).replace("$2", str(DAYS)))
    kept = ", ".join(await _kept_columns(block))
    await block.execute(
        f"""
        insert into transaction ({kept}, transaction_id, status, payment_method, amount,
            external_ref, document_digest, idempotency_key, details, created_at, updated_at,
            paid_at, expires_at, due_at)
        select {kept}, p.id, p.status,
            case p.status when 'pending' then 'pix' else 'credit_card' end, {AMOUNT},
            case when n % 5 = 3 then '{POPULAR_REF}' else 'pedido ' || n end,
            case when n % ({rows} / 5) = 0 then document_digest
                else sha256((n % 200000)::text::bytea) end,
            'k' || n, case when n <= 3 or n > {rows} - {SHOWN} or n % ({rows} / 5) = 0
                then replace(details, t.transaction_id, p.id) else '{SHORT}' end,
            p.created_at, p.created_at,
            case p.status when 'paid' then p.created_at end,
            p.created_at + interval '1 hour',
            case p.status when 'pending' then p.due_at end
        from payment p cross join (
            select * from transaction where company_id = $1 limit 1
        ) t order by n
        """,
        company_id,
    )
    await store.insert_accounts(block, [company_id])
    await _book(block, company_id)
    await _tell(block, company_id)


async def write_waiting_days(database: Database, companies: int) -> None:
    """Give so many other companies a month of days on which something becomes available."""
    async with database.patient() as block:
        await block.execute(
            """
            insert into release_day (company_id, environment, account, due_on, waiting)
            select 1000000 + company, 'live', 'release', current_date + 1 + day, $2
            from generate_series(1, $1::bigint) as company cross join generate_series(0, 29) as day
            """,
            companies,
            AMOUNT,
        )
        await block.execute("analyze release_day")


async def write_figures(database: Database, company_id: int) -> None:
    """Write what the worker would have counted of a history that has no events."""
    async with database.patient() as block:
        await block.execute(
            """
            insert into figures_day (company_id, environment, day, payment_method, created_count,
                created_cents, paid_count, paid_cents)
            select company_id, environment, (created_at at time zone 'America/Sao_Paulo')::date,
                payment_method, count(*), sum(amount), count(paid_at),
                coalesce(sum(amount) filter (where paid_at is not null), 0)
            from transaction where company_id = $1 group by 1, 2, 3, 4
            """,
            company_id,
        )
        await block.execute(
            """
            insert into figures_customer (company_id, environment, document_digest,
                last_transaction_id, seen_at, payments, purchases, paid_cents, refunded_cents,
                first_paid_at, last_paid_at)
            select company_id, environment, document_digest, max(transaction_id), max(created_at),
                count(*), count(paid_at), count(paid_at) * $2::bigint, 0, min(paid_at),
                max(paid_at)
            from transaction where company_id = $1 group by 1, 2, 3
            """,
            company_id,
            AMOUNT,
        )


async def _tell(block: Connection, company_id: int) -> None:
    """Deliver an event of every third payment to one address; every tenth was ended there."""
    await block.execute(
        """
        insert into webhook_lane (company_id, lane, environment)
        values ($1, $2, 'test') on conflict do nothing
        """,
        company_id,
        f"{POSTBACK}test {POSTBACK_ORIGIN}",
    )
    await block.execute(
        """
        insert into webhook_delivery (
            company_id, delivery_id, environment, lane, entity_id, sequence, url, state, attempts,
            tries, created_at, asked_at, finished_at)
        select $1, 'dlv_' || lpad(n::text, 26, '0'), 'test', $2, id, 1, $3,
            case n % 10 when 0 then 'ended' else 'delivered' end, 1, 1, created_at, created_at,
            created_at
        from payment where n % 3 = 0 order by n
        """,
        company_id,
        f"{POSTBACK}test {POSTBACK_ORIGIN}",
        f"{POSTBACK_ORIGIN}/pedidos",
    )


async def _book(block: Connection, company_id: int) -> None:
    """Post what was paid: every other payment is available, the rest waits."""
    await block.execute(
        f"""
        insert into posting (
            company_id, environment, kind, reference, codes, amounts, versions,
            available_amount, available_version, available_after, created_at)
        select $1, 'test', 'capture', id, array['receivable', code],
            array[{-AMOUNT}, {AMOUNT}], array[0, version],
            case code when 'available' then {AMOUNT} end,
            case code when 'available' then version end,
            case code when 'available' then version * {AMOUNT} end, created_at
        from (
            select id, code, created_at, row_number() over (partition by code order by n) as version
            from (
                select *, case n % 2 when 0 then 'available' else 'release' end as code
                from payment where status = 'paid'
            ) coded
        ) numbered
        """,
        company_id,
    )
    await block.execute(
        f"""
        insert into release_schedule (
            company_id, environment, transaction_id, account, part, due_on, amount, open)
        select $1, 'test', id, 'release', 1, current_date + 1 + (n / 2 % 30)::int,
            {AMOUNT}, {AMOUNT}
        from payment where status = 'paid' and n % 2 = 1
        """,
        company_id,
    )
    await block.execute(
        """
        insert into release_day (company_id, environment, account, due_on, waiting)
        select company_id, environment, account, due_on, sum(open) from release_schedule
        where company_id = $1 group by company_id, environment, account, due_on
        """,
        company_id,
    )
    await block.execute(
        """
        update account a set balance = p.total, version = p.legs
        from (
            select case n % 2 when 0 then 'available' else 'release' end as code,
                count(*) as legs, count(*) * $2::bigint as total
            from payment where status = 'paid' group by 1
        ) p
        where a.company_id = $1 and a.environment = 'test' and a.code = p.code
        """,
        company_id,
        AMOUNT,
    )


async def _kept_columns(block: Connection) -> Sequence[str]:
    rows = await block.fetch(
        """
        select column_name from information_schema.columns
        where table_name = 'transaction' and column_name <> all(array[
            'transaction_id', 'status', 'payment_method', 'amount', 'external_ref',
            'document_digest', 'idempotency_key', 'details', 'created_at', 'updated_at',
            'paid_at', 'expires_at', 'due_at'
        ])
        """
    )
    return [row["column_name"] for row in rows]


@asynccontextmanager
async def without_indexes(database: Database) -> AsyncIterator[None]:
    """Drop the indexes that no key needs, and build them again afterwards, which is quicker."""
    rows = await database.fetch(
        """
        select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as made
        from pg_index where indrelid = any($1::regclass[]) and not indisunique
        """,
        list(TABLES),
    )
    for row in rows:
        await database.execute(f"drop index {row['name']}")
    yield
    async with database.patient() as block:
        await block.execute("set local maintenance_work_mem = '256MB'")
        for row in rows:
            await block.execute(row["made"])
