"""What must be true of accounts, postings, holds and releases."""

from collections.abc import Sequence
from typing import Final

from vintem.audit.invariant import Invariant

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "I1",
        "A posting adds up to zero.",
        """
        select company_id, environment, kind, reference, amounts from posting
        where (select sum(amount) from unnest(amounts) as amount) <> 0
        """,
    ),
    Invariant(
        "I2",
        "The balance of an account is the sum of its legs over all postings.",
        """
        select company_id, environment, code, a.balance, l.total
        from account a full join (
            select company_id, environment, code, sum(amount) as total
            from posting cross join lateral unnest(codes, amounts) as leg (code, amount)
            where code not in ('fee', 'bank', 'receivable', 'suspense', 'fx')
            group by company_id, environment, code
        ) l using (company_id, environment, code)
        where a.balance is null or a.balance <> coalesce(l.total, 0)
        """,
    ),
    Invariant(
        "I3",
        "No balance is below zero but that of debt, never above it; who has one is known to owe.",
        """
        select a.company_id, a.environment, a.code, a.balance, a.owes, d.balance as debt
        from account a join account d using (company_id, environment) where d.code = 'debt' and (
            a.owes <> (a.code = 'available' and d.balance <> 0) or d.balance > 0
            or a.code <> 'debt' and a.balance < 0)
        """,
    ),
    Invariant(
        "I4",
        "All legs of a company add up to zero in each environment.",
        """
        select company_id, environment, sum(amount) as total from posting
        cross join unnest(amounts) as amount group by 1, 2 having sum(amount) <> 0
        """,
    ),
    Invariant(
        "I5",
        "The legs of an account are numbered from 1 to its version, without gap or repeat.",
        """
        select company_id, environment, code, a.version, l.legs, l.different, l.first, l.last
        from account a full join (
            select company_id, environment, code, count(*) as legs,
                count(distinct version) as different, min(version) as first, max(version) as last
            from posting cross join lateral unnest(codes, versions) as leg (code, version)
            where code not in ('fee', 'bank', 'receivable', 'suspense', 'fx')
            group by company_id, environment, code
        ) l using (company_id, environment, code)
        where a.version is distinct from coalesce(l.legs, 0)
            or l.different <> l.legs or l.first <> 1 or l.last <> l.legs
        """,
    ),
    Invariant(
        "I9",
        "What stands in release and in reserve is what the schedule has yet to release.",
        """
        select company_id, environment, account, a.balance, r.waiting
        from (
            select company_id, environment, code as account, balance
            from account where code in ('release', 'reserve')
        ) a full join (
            select company_id, environment, account, sum(open) as waiting
            from release_schedule where released_at is null
            group by company_id, environment, account
        ) r using (company_id, environment, account)
        where coalesce(a.balance, 0) <> coalesce(r.waiting, 0)
        """,
    ),
    Invariant(
        "R1",
        "What waits for a day is what the schedule has yet to release on it.",
        """
        select company_id, environment, account, due_on, d.waiting, r.open
        from release_day d full join (
            select company_id, environment, account, due_on, sum(open) as open
            from release_schedule where released_at is null
            group by company_id, environment, account, due_on
        ) r using (company_id, environment, account, due_on)
        where coalesce(d.waiting, 0) <> coalesce(r.open, 0)
        """,
    ),
    Invariant(
        "I10",
        "What stands in dispute, blocked, refund and payout is the sum of the open holds of that"
        " kind.",
        """
        select company_id, environment, account, a.balance, h.held
        from (
            select company_id, environment, code as account, balance
            from account where code in ('dispute', 'blocked', 'refund', 'payout')
        ) a full join (
            select company_id, environment,
                case kind when 'block' then 'blocked' when 'withdrawal' then 'payout'
                    else kind end as account,
                sum(amount) as held
            from hold where resolution is null
            group by company_id, environment, kind
        ) h using (company_id, environment, account)
        where coalesce(a.balance, 0) <> coalesce(h.held, 0)
        """,
    ),
)
