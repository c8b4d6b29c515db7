"""What must be true of money that left for a payment, is held because of it, or is nobody's."""

from collections.abc import Sequence
from typing import Final

from vintem.audit.invariant import Invariant

# What leaves for a payment is booked under one of its refunds or under its hold, whose reference
# begins with the payment's id.
_LEFT: Final = """
    select p.company_id, p.environment,
        coalesce(r.transaction_id, split_part(p.reference, '/', 1)) as transaction_id,
        sum(leg.amount) as total
    from posting p cross join lateral unnest(p.codes, p.amounts) as leg (code, amount)
    left join refund r on r.company_id = p.company_id and r.refund_id = p.reference
    where p.kind in (
        'refund_paid', 'block_refunded', 'dispute_refunded', 'chargeback', 'chargeback_won'
    ) and leg.code in ('bank', 'receivable')
    group by 1, 2, 3
"""

_CAPTURED: Final = """
    select company_id, environment, reference as transaction_id, -sum(leg.amount) as total
    from posting cross join lateral unnest(codes, amounts) as leg (code, amount)
    where kind = 'capture' and leg.code in ('bank', 'receivable')
    group by company_id, environment, reference
"""

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "I7a",
        "What left for a payment is what it says was given back and, when it is charged back, what"
        " was held of it; never more than came in.",
        f"""
        select t.company_id, t.transaction_id, t.status, t.amount, t.refunded_amount,
            c.total as captured, l.total as has_left
        from transaction t left join ({_LEFT}) l using (company_id, environment, transaction_id)
        left join ({_CAPTURED}) c using (company_id, environment, transaction_id)
        left join hold h on h.company_id = t.company_id and h.kind = 'dispute'
            and h.reference = t.hold_reference and t.status = 'chargeback'
        where coalesce(l.total, 0) <> t.refunded_amount + coalesce(h.amount, 0)
            or coalesce(l.total, 0) > coalesce(c.total, 0)
        """,  # noqa: S608 - constants
    ),
    Invariant(
        "H1",
        "A payment that was made and is blocked or disputed has an open hold of what is left of it,"
        " a payment charged back one that was paid out, of that or of a part; no other has one.",
        """
        select company_id, environment, t.transaction_id, t.status, t.is_paid, t.is_left,
            reference, kind, h.amount, h.resolution
        from (
            select company_id, environment, transaction_id, status, paid_at is not null as is_paid,
                amount - refunded_amount as is_left,
                coalesce(hold_reference, transaction_id) as reference,
                case status when 'blocked' then 'block' else 'dispute' end as kind
            from transaction
            where hold_reference is not null or paid_at is not null
                and status in ('blocked', 'pre_chargeback', 'chargeback')
        ) t full join (
            select company_id, environment, reference, kind, amount, resolution
            from hold where kind in ('block', 'dispute')
        ) h using (company_id, environment, reference, kind)
        where case when t.transaction_id is null
            then h.resolution is null and h.reference like 'tx\\_%/%'
            else not t.is_paid or t.status not in ('blocked', 'pre_chargeback', 'chargeback')
                or h.amount is null or h.amount > t.is_left
                or (h.amount < t.is_left and t.status <> 'chargeback')
                or h.resolution is distinct from case t.status when 'chargeback' then 'paid_out' end
            end
        """,
    ),
    Invariant(
        "U4",
        "What left suspense by somebody's decision was there before, with the same amount.",
        """
        select e.company_id, e.environment, e.reference, e.codes, e.amounts, s.amounts as brought
        from posting e left join posting s on s.company_id = e.company_id and s.kind = 'suspense'
            and s.reference = e.reference and s.environment = e.environment
        where e.kind = 'suspense_ended'
            and e.amounts[array_position(e.codes, 'suspense')]
                is distinct from -s.amounts[array_position(s.codes, 'suspense')]
        """,
    ),
    Invariant(
        "I14",
        "Real money has stood in suspense for no more than two days, unless the same amount went"
        " the other way.",
        """
        with suspense as (
            select *, row_number() over (
                partition by company_id, amount order by created_at, reference
            ) as place
            from (
                select company_id, reference, amounts[array_position(codes, 'suspense')] as amount,
                    created_at
                from posting where environment = 'live' and 'suspense' = any(codes)
            ) s
        )
        select s.company_id, s.reference, s.amount, s.created_at
        from suspense s left join suspense o
            on o.company_id = s.company_id and o.amount = -s.amount and o.place = s.place
        where o.company_id is null and s.created_at < now() - interval '2 days'
        order by s.created_at
        """,
    ),
)
