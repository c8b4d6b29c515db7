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

FIND_READY: Final = f"""
code as (
    select 'debt' as code
    union select code from asked where code in ({BALANCED_CODES})
),
ready as (
    select a.company_id, a.environment
    from account a
    join (select distinct company_id, environment from credited) as s
        on s.company_id = a.company_id and s.environment = a.environment
    where a.code in (select code from code)
    group by a.company_id, a.environment
    having count(*) = (select count(*) from code)
        and sum(a.balance) filter (where a.code = 'debt') = 0
)
"""  # noqa: S608 - the codes are constants
"""What finds the companies in `credited` (company_id, environment) whose accounts for the legs in
`asked` (number, line, code, amount) are open and who owe us nothing: `ready`. What comes in for the
others is not only added to their balance."""

LOCK_READY: Final = """
held as materialized (
    select a.company_id, a.environment, a.code, a.balance, a.version
    from account a
    join (select distinct company_id, environment from leg) as s
        on s.company_id = a.company_id and s.environment = a.environment
    where a.code in (select code from code)
    order by a.company_id, a.environment, a.code
    for update of a
),
locked as materialized (
    select * from held where code <> 'debt' or owes_nothing(balance)
)
"""
"""What locks the accounts of those that were ready and are in `leg`; a debt that was made in
between is a conflict."""

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
