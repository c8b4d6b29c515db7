"""The SQL of accounts, postings, holds and the schedule of releases."""

from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import Final

import msgspec

from vintem.ledger.model import (
    BALANCED,
    Account,
    Balances,
    Hold,
    HoldKind,
    Posting,
    Resolution,
    ScheduledRelease,
    Scope,
    Split,
    Taken,
)
from vintem.ledger.statements import BALANCED_CODES, WRITE_POSTINGS
from vintem.runtime.db import Connection, Row

POST: Final = f"""
with asked as (
    select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[],
        $6::bigint[]) as l (number, line, company_id, environment, code, amount)
),
needed as (
    select distinct company_id, environment, code from asked where code in ({BALANCED_CODES})
),
locked as materialized (
    select a.company_id, a.environment, a.code, a.balance, a.version
    from account a join needed n on n.company_id = a.company_id
        and n.environment = a.environment and n.code = a.code
    order by a.company_id, a.environment, a.code
    for update of a
),
leg as (
    select * from asked where (select count(*) from locked) = (select count(*) from needed)
),
head as (
    select number, kind, reference, $10::timestamptz as created_at
    from unnest($7::bigint[], $8::text[], $9::text[]) as f (number, kind, reference)
),
{WRITE_POSTINGS}
select count(*) from posted
"""  # noqa: S608 - the codes are constants

# What is scheduled has its day until all of that day is released, so the days tell who has any.
COMPANIES_WITH_DUE_DAYS: Final = "select distinct company_id from release_day where due_on <= $1"

# The index has what waits in one environment by its day: each is walked by itself, from the oldest
# day on and no further than is wanted. What was found is named twice, so that it is found again by
# its key and not among all that waits.
CLAIM_DUE_RELEASES: Final = """
with due as materialized (
    select d.* from unnest($5::text[]) as e (environment) cross join lateral (
        select transaction_id, account, part, open from release_schedule
        where company_id = $1 and environment = e.environment and released_at is null
            and due_on <= $2
        order by due_on limit $4 for update
    ) d
    limit $4
),
released as (
    update release_schedule r set released_at = $3, open = 0
    from due d
    where r.company_id = $1 and r.transaction_id = any(array(select transaction_id from due))
        and r.transaction_id = d.transaction_id and r.account = d.account and r.part = d.part
    returning r.environment, r.transaction_id, r.account, r.part, r.due_on, d.open
),
days as (
    update release_day d set waiting = d.waiting - r.released
    from (
        select environment, account, due_on, sum(open)::bigint as released
        from released group by environment, account, due_on
    ) r
    where d.company_id = $1 and d.environment = r.environment
        and d.account = r.account and d.due_on = r.due_on
)
select * from released order by environment, due_on, transaction_id, account, part
"""


async def insert_accounts(db: Connection, company_ids: Collection[int]) -> bool:
    """Open the accounts of companies in both environments; says whether any were not open yet."""
    opened = await db.fetch(
        """
        insert into account (company_id, environment, code)
        select c.company_id, e.environment, a.code
        from unnest($1::bigint[]) as c (company_id) cross join unnest($2::text[]) as e (environment)
        cross join unnest($3::text[]) as a (code)
        on conflict do nothing
        returning company_id
        """,
        sorted(company_ids),
        ["live", "test"],
        list(BALANCED),
    )
    return bool(opened)


async def post_and_lock_accounts(
    db: Connection, postings: Sequence[Posting], *, now: datetime
) -> bool:
    """Write postings in their order and move the balances, accounts locked by company and code.

    A balance that would fall below its limit, or a posting that exists, fails all of them. Writes
    nothing and says so when a company's accounts are not open yet.
    """
    legs = [
        (number, line, posting.scope, leg)
        for number, posting in enumerate(postings)
        for line, leg in enumerate(posting.legs)
    ]
    written = await db.fetchval(
        POST,
        [number for number, _, _, _ in legs],
        [line for _, line, _, _ in legs],
        [scope.company_id for _, _, scope, _ in legs],
        [scope.environment for _, _, scope, _ in legs],
        [leg.account for _, _, _, leg in legs],
        [leg.amount for _, _, _, leg in legs],
        list(range(len(postings))),
        [posting.kind for posting in postings],
        [posting.reference for posting in postings],
        now,
    )
    assert written in {0, len(postings)}, "all postings or none"
    return bool(written)


async def lock_balances(db: Connection, scope: Scope) -> Balances:
    """Read all balances and keep others from changing them until the block ends.

    There are none when the company's accounts are not open yet.
    """
    rows = await db.fetch(
        """
        select code, balance from account where company_id = $1 and environment = $2
        order by code for update
        """,
        scope.company_id,
        scope.environment,
    )
    return {Account(row["code"]): row["balance"] for row in rows}


async def lock_accounts(db: Connection, company_id: int) -> None:
    """Keep others from changing any balance of a company until the block ends."""
    await db.execute(
        "select from account where company_id = $1 order by environment, code for update",
        company_id,
    )


async def read_balances(
    db: Connection, scopes: Collection[Scope]
) -> dict[Scope, dict[Account, int]]:
    """Read all balances of some ledgers as they are."""
    rows = await db.fetch(
        """
        select a.company_id, a.environment, a.code, a.balance
        from unnest($1::bigint[], $2::text[]) as s (company_id, environment)
        join account a on a.company_id = s.company_id and a.environment = s.environment
        """,
        [scope.company_id for scope in scopes],
        [scope.environment for scope in scopes],
    )
    found: dict[Scope, dict[Account, int]] = {}
    for row in rows:
        scope = Scope(row["company_id"], row["environment"])
        found.setdefault(scope, {})[Account(row["code"])] = row["balance"]
    return found


async def list_debts(db: Connection, scopes: Sequence[Scope]) -> Sequence[tuple[Scope, int, int]]:
    """Of these, who owes us how much and has how much available; their accounts are locked."""
    rows = await db.fetch(
        """
        select d.company_id, d.environment, -d.balance as owed, a.balance as available
        from unnest($1::bigint[], $2::text[]) as s (company_id, environment)
        join account d on d.company_id = s.company_id and d.environment = s.environment
            and d.code = 'debt'
        join account a on a.company_id = s.company_id and a.environment = s.environment
            and a.code = 'available'
        where d.balance < 0 and a.balance > 0
        """,
        [scope.company_id for scope in scopes],
        [scope.environment for scope in scopes],
    )
    return [
        (Scope(row["company_id"], row["environment"]), row["owed"], row["available"])
        for row in rows
    ]


async def insert_releases(db: Connection, releases: Sequence[ScheduledRelease]) -> None:
    """Write down when waiting money becomes available; the accounts it waits in are locked."""
    await db.execute(
        """
        with added as (
            insert into release_schedule (
                company_id, environment, transaction_id, account, part, due_on, amount, open
            )
            select company_id, environment, transaction_id, account, part, due_on, amount, amount
            from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::date[],
                $7::bigint[]) as r (
                company_id, environment, transaction_id, account, part, due_on, amount
            )
            returning company_id, environment, account, due_on, amount
        )
        insert into release_day (company_id, environment, account, due_on, waiting)
        select company_id, environment, account, due_on, sum(amount) from added
        group by company_id, environment, account, due_on
        order by company_id, environment, account, due_on
        on conflict (company_id, environment, account, due_on)
            do update set waiting = release_day.waiting + excluded.waiting
        """,
        [release.scope.company_id for release in releases],
        [release.scope.environment for release in releases],
        [release.transaction_id for release in releases],
        [release.account for release in releases],
        [release.part for release in releases],
        [release.due_on for release in releases],
        [release.amount for release in releases],
    )


async def list_open_releases_of(
    db: Connection, scope: Scope, account: Account, transaction_id: str
) -> Sequence[Taken]:
    """What still waits of one payment in an account that is locked, the latest due first."""
    rows = await db.fetch(
        """
        select transaction_id, account, part, due_on, open from release_schedule
        where company_id = $1 and environment = $2 and account = $3 and transaction_id = $4
            and released_at is null and open > 0
        order by due_on desc, part
        """,
        scope.company_id,
        scope.environment,
        account,
        transaction_id,
    )
    return [_taken(row, row["open"]) for row in rows]


async def list_latest_releases(
    db: Connection, scope: Scope, account: Account, *, offset: int, rows_max: int
) -> Sequence[Taken]:
    """Some of what still waits in an account that is locked, the latest due first."""
    rows = await db.fetch(
        """
        select transaction_id, account, part, due_on, open from release_schedule
        where company_id = $1 and environment = $2 and account = $3
            and released_at is null and open > 0
        order by due_on desc, transaction_id, part limit $5 offset $4
        """,
        scope.company_id,
        scope.environment,
        account,
        offset,
        rows_max,
    )
    return [_taken(row, row["open"]) for row in rows]


async def change_open_releases(
    db: Connection, scope: Scope, changes: Sequence[Taken], *, sign: int
) -> Sequence[Taken]:
    """Take amounts out of scheduled releases (sign -1), or put them back (sign 1).

    Returns the changes that were made: a release that has run is not changed any more.
    """
    rows = await db.fetch(
        """
        with changed as (
            update release_schedule r set open = r.open + c.change
            from unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) as c (
                transaction_id, account, part, change
            )
            where r.company_id = $1 and r.transaction_id = c.transaction_id
                and r.account = c.account and r.part = c.part and r.released_at is null
            returning r.transaction_id, r.account, r.part, r.due_on, c.change
        ),
        days as (
            update release_day d set waiting = d.waiting + c.change
            from (
                select account, due_on, sum(change)::bigint as change
                from changed group by account, due_on
            ) c
            where d.company_id = $1 and d.environment = $6
                and d.account = c.account and d.due_on = c.due_on
        )
        select transaction_id, account, part, due_on, abs(change) as amount from changed
        """,
        scope.company_id,
        [change.transaction_id for change in changes],
        [change.account for change in changes],
        [change.part for change in changes],
        [sign * change.amount for change in changes],
        scope.environment,
    )
    return [_taken(row, row["amount"]) for row in rows]


async def claim_due_releases(
    db: Connection,
    company_id: int,
    *,
    today: date,
    now: datetime,
    rows_max: int,
    environment: str | None = None,
) -> Sequence[ScheduledRelease]:
    """Mark releases that are due as released, and return them with what was still in them.

    The company's accounts are locked before: nobody changes its schedule without that lock.
    """
    environments = ["live", "test"] if environment is None else [environment]
    rows = await db.fetch(CLAIM_DUE_RELEASES, company_id, today, now, rows_max, environments)
    return [
        ScheduledRelease(
            scope=Scope(company_id, row["environment"]),
            transaction_id=row["transaction_id"],
            account=Account(row["account"]),
            part=row["part"],
            due_on=row["due_on"],
            amount=row["open"],
        )
        for row in rows
    ]


async def delete_past_days(db: Connection, company_id: int, *, today: date) -> None:
    """Forget the days of which nothing waits any more; the company's accounts are locked."""
    await db.execute(
        "delete from release_day where company_id = $1 and due_on <= $2 and waiting = 0",
        company_id,
        today,
    )


async def list_companies_with_due_releases(db: Connection, *, today: date) -> Sequence[int]:
    """Companies for which a release is due."""
    rows = await db.fetch(COMPANIES_WITH_DUE_DAYS, today)
    return [row["company_id"] for row in rows]


async def list_next_releases(
    db: Connection, scope: Scope, *, rows_max: int
) -> Sequence[tuple[date, int]]:
    """The next days on which something becomes available, and how much."""
    rows = await db.fetch(
        """
        select due_on, sum(waiting)::bigint as amount from (
            (select due_on, waiting from release_day
            where company_id = $1 and environment = $2 and account = 'release' and waiting > 0
            order by due_on limit $3)
            union all
            (select due_on, waiting from release_day
            where company_id = $1 and environment = $2 and account = 'reserve' and waiting > 0
            order by due_on limit $3)
        ) as next
        group by due_on order by due_on limit $3
        """,
        scope.company_id,
        scope.environment,
        rows_max,
    )
    return [(row["due_on"], row["amount"]) for row in rows]


async def insert_hold(db: Connection, hold: Hold) -> None:
    """Write down what was taken from where."""
    await db.execute(
        """
        insert into hold (company_id, environment, kind, reference, amount, split, opened_at)
        values ($1, $2, $3, $4, $5, $6, $7)
        """,
        hold.scope.company_id,
        hold.scope.environment,
        hold.kind,
        hold.reference,
        hold.split.amount,
        msgspec.json.encode(hold.split).decode(),
        hold.opened_at,
    )


async def lock_open_hold(
    db: Connection, scope: Scope, kind: HoldKind, reference: str
) -> Split | None:
    """Find where held money came from, and keep others from ending the hold."""
    text = await db.fetchval(
        """
        select split from hold
        where company_id = $1 and environment = $4 and kind = $2 and reference = $3
            and resolution is null
        for update
        """,
        scope.company_id,
        kind,
        reference,
        scope.environment,
    )
    return None if text is None else msgspec.json.decode(text, type=Split)


async def update_hold(
    db: Connection, scope: Scope, kind: HoldKind, reference: str, split: Split
) -> None:
    """Write down what a locked hold still holds, and where that came from."""
    await db.execute(
        """
        update hold set amount = $5, split = $6
        where company_id = $1 and environment = $4 and kind = $2 and reference = $3
        """,
        scope.company_id,
        kind,
        reference,
        scope.environment,
        split.amount,
        msgspec.json.encode(split).decode(),
    )


async def resolve_hold(
    db: Connection,
    scope: Scope,
    kind: HoldKind,
    reference: str,
    *,
    resolution: Resolution,
    was: Resolution | None,
    now: datetime,
) -> Split | None:
    """End a hold that is still as expected and return where its money came from."""
    text = await db.fetchval(
        """
        update hold set resolved_at = $5, resolution = $4
        where company_id = $1 and environment = $7 and kind = $2 and reference = $3
            and resolution is not distinct from $6
        returning split
        """,
        scope.company_id,
        kind,
        reference,
        resolution,
        now,
        was,
        scope.environment,
    )
    return None if text is None else msgspec.json.decode(text, type=Split)


def _taken(row: Row, amount: int) -> Taken:
    return Taken(
        transaction_id=row["transaction_id"],
        account=Account(row["account"]),
        part=row["part"],
        due_on=row["due_on"],
        amount=amount,
    )
