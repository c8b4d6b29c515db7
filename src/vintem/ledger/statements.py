"""Parts of statements that move money together with other things, in one round trip."""

from typing import Final

from vintem.ledger.model import BALANCED

BALANCED_CODES: Final = ", ".join(f"'{account}'" for account in BALANCED)

WRITE_POSTINGS: Final = f"""
delta as (
    select company_id, environment, code, sum(amount)::bigint as total, count(*) as legs
    from leg where code in ({BALANCED_CODES})
    group by company_id, environment, code
),
moved_account as (
    update account a set balance = k.balance + d.total, version = k.version + d.legs
    from locked k join delta d on d.company_id = k.company_id
        and d.environment = k.environment and d.code = k.code
    where a.company_id = k.company_id and a.environment = k.environment and a.code = k.code
),
numbered as (
    select l.number, l.line, l.company_id, l.environment, l.code, l.amount,
        k.version + row_number() over each_account as version,
        (k.balance + sum(l.amount) over each_account)::bigint as after
    from leg l left join locked k on k.company_id = l.company_id
        and k.environment = l.environment and k.code = l.code
    window each_account as (
        partition by l.company_id, l.environment, l.code order by l.number, l.line
    )
),
posted as (
    insert into posting (
        company_id, environment, kind, reference, codes, amounts, versions,
        available_amount, available_version, available_after, created_at
    )
    select n.company_id, n.environment, h.kind, h.reference,
        array_agg(n.code order by n.line), array_agg(n.amount order by n.line),
        array_agg(coalesce(n.version, 0) order by n.line),
        max(n.amount) filter (where n.code = 'available'),
        max(n.version) filter (where n.code = 'available'),
        max(n.after) filter (where n.code = 'available'),
        h.created_at
    from head h join numbered n on n.number = h.number
    group by h.number, h.kind, h.reference, h.created_at, n.company_id, n.environment
    returning company_id
)
"""  # noqa: S608 - the codes are constants
"""What writes postings in a statement that has named these before: `head` (number, kind, reference,
created_at), `leg` (number, line, company_id, environment, code, amount), and `locked`, the accounts
of the legs as they stand under a lock taken in the order of company, environment and code."""

WRITE_CAPTURES: Final = """
credit as materialized (
    select g.number, g.company_id, g.environment, c.code, c.total, c.legs
    from gain g cross join lateral (values
        ('available', g.available, g.available_legs),
        ('release', g.release, g.release_legs),
        ('reserve', g.reserve, g.reserve_legs)
    ) as c (code, total, legs)
    -- Who owes us is told by the first, credited or not.
    where c.legs > 0 or c.code = 'available'
),
locked as materialized (
    select c.number, a.company_id, a.environment, a.code, a.balance, a.version, c.total, c.legs
    from credit c join account a on a.company_id = c.company_id
        and a.environment = c.environment and a.code = c.code
    where not a.owes
        and (select is_whole((select count(*) from captured), (select count(*) from asked)))
    order by a.company_id, a.environment, a.code
    for update of a
),
moved_account as (
    update account a set balance = k.balance + k.total, version = k.version + k.legs
    from locked k
    where a.company_id = k.company_id and a.environment = k.environment and a.code = k.code
        and k.legs > 0
),
base as (
    select number, max(balance) filter (where code = 'available') as balance,
        max(version) filter (where code = 'available') as available,
        max(version) filter (where code = 'release') as release,
        max(version) filter (where code = 'reserve') as reserve
    from locked group by number
),
posted as (
    insert into posting (
        company_id, environment, kind, reference, codes, amounts, versions,
        available_amount, available_version, available_after, created_at
    )
    select c.company_id, c.environment, 'capture', c.reference,
        array_remove(array[c.source, case when c.available > 0 then 'available' end,
            case when c.fee > 0 then 'fee' end, case when c.release > 0 then 'release' end,
            case when c.reserve > 0 then 'reserve' end], null),
        array_remove(array[c.total, nullif(c.available, 0), nullif(c.fee, 0),
            nullif(c.release, 0), nullif(c.reserve, 0)], null),
        array_remove(array[0, case when c.available > 0 then b.available + c.available_at end,
            case when c.fee > 0 then 0 end,
            case when c.release > 0 then b.release + c.release_at end,
            case when c.reserve > 0 then b.reserve + c.reserve_at end], null),
        nullif(c.available, 0),
        case when c.available > 0 then b.available + c.available_at end,
        case when c.available > 0 then b.balance + c.available_after end,
        c.created_at
    from captured c left join base b on b.number = c.gain
    where (select is_whole((select count(available) from base), (select count(*) from gain)))
)
"""
"""What books payments that came in, in a statement that has named these before: `captured`, with
the parts of each posting and their places in the order of its ledger's (`gain` is the number of
that one), `asked`, as many rows as are to be captured, and `gain`, what each ledger gains in all,
in the order of company and environment. All are booked, or the statement fails: when fewer were
captured than asked for, when a company owes us, when its accounts are not open."""

SCHEDULE_RELEASES: Final = """
scheduled as (
    insert into release_schedule (
        company_id, environment, transaction_id, account, part, due_on, amount, open
    )
    select company_id, environment, transaction_id, account, part, due_on, amount, amount
    from waiting
    returning company_id, environment, account, due_on, amount
),
scheduled_day as (
    insert into release_day (company_id, environment, account, due_on, waiting)
    select company_id, environment, account, due_on, sum(amount) from scheduled
    group by company_id, environment, account, due_on
    order by company_id, environment, account, due_on
    on conflict (company_id, environment, account, due_on)
        do update set waiting = release_day.waiting + excluded.waiting
)
"""
"""What schedules the releases in `waiting`, which has all columns but the last, and adds them to
their days; the accounts they wait in are locked."""
