"""What must be true of withdrawals."""

from collections.abc import Sequence
from typing import Final

from vintem.audit.invariant import Invariant

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "I8",
        "A withdrawal has one hold of what it debits, open while it may still come to nothing, and"
        " ended as it ended; what left is booked once, what came back too.",
        """
        select company_id, environment, reference, w.status, w.total_debited, h.amount,
            h.resolution, p.paid, p.given
        from (
            select company_id, environment, withdrawal_id as reference, status, total_debited
            from withdrawal
        ) w full join (
            select company_id, environment, reference, amount, resolution
            from hold where kind = 'withdrawal'
        ) h using (company_id, environment, reference)
        full join (
            select company_id, environment, reference,
                -sum(amounts[array_position(codes, 'payout')])
                    filter (where kind = 'withdrawal_paid') as paid,
                -sum(amounts[array_position(codes, 'payout')])
                    filter (where kind = 'withdrawal_returned') as given
            from posting where kind in ('withdrawal_paid', 'withdrawal_returned')
            group by company_id, environment, reference
        ) p using (company_id, environment, reference)
        where w.total_debited is distinct from h.amount
            or h.resolution is distinct from case w.status
                when 'completed' then 'paid_out'
                when 'failed' then 'restored'
                when 'cancelled' then 'restored' end
            or p.paid is distinct from case w.status when 'completed' then w.total_debited end
            or p.given is distinct from case
                when w.status in ('failed', 'cancelled') then w.total_debited end
        """,
    ),
    Invariant(
        "I8a",
        "What a completed crypto withdrawal bought is booked once, in its own unit, for what left"
        " in reais; nothing else is.",
        """
        select company_id, environment, reference, w.asset, w.asset_units, w.net_amount,
            a.asset as booked_asset, a.units, p.changed
        from (
            select company_id, environment, withdrawal_id as reference, asset, asset_units,
                net_amount
            from withdrawal where status = 'completed' and asset is not null
        ) w full join (
            select company_id, environment, reference, asset,
                amounts[array_position(codes, 'crypto')] as units,
                (select sum(amount) from unnest(amounts) as amount) as total
            from asset_posting where kind = 'withdrawal_paid'
        ) a using (company_id, environment, reference)
        full join (
            select company_id, environment, reference,
                amounts[array_position(codes, 'fx')] as changed
            from posting where 'fx' = any(codes)
        ) p using (company_id, environment, reference)
        where w.asset is distinct from a.asset or w.asset_units is distinct from a.units
            or w.net_amount is distinct from p.changed or a.total <> 0
        """,
    ),
    Invariant(
        "W1",
        "A day's total is what the withdrawals made on it debit, those that came to nothing aside.",
        """
        select company_id, environment, day, d.total, w.debited
        from withdrawal_day d full join (
            select company_id, environment,
                (created_at at time zone 'America/Sao_Paulo')::date as day,
                sum(total_debited) as debited
            from withdrawal where status not in ('failed', 'cancelled')
            group by 1, 2, 3
        ) w using (company_id, environment, day)
        where coalesce(d.total, 0) <> coalesce(w.debited, 0)
        """,
    ),
    Invariant(
        "W2",
        "A withdrawal that waited for a second person has one decision, by another than asked.",
        """
        select w.company_id, w.withdrawal_id, w.status, w.requested_by, d.decisions
        from withdrawal w left join (
            select company_id, subject, count(*) as decisions,
                array_agg(decided_by) as deciders
            from decision_log where decision in ('approved', 'rejected')
            group by company_id, subject
        ) d on d.company_id = w.company_id and d.subject = w.withdrawal_id
        where d.decisions > 1 or w.requested_by = any(d.deciders)
            or (w.status = 'pending_approval' and d.decisions is not null)
            or (w.status <> 'pending_approval' and w.status <> 'cancelled' and d.decisions is null
                and exists (
                    select from withdrawal_history h
                    where h.company_id = w.company_id and h.withdrawal_id = w.withdrawal_id
                        and h.to_status = 'pending_approval'
                ))
        """,
    ),
    Invariant(
        "I11w",
        "Every status that a withdrawal entered is one row of its history and one event, in a row.",
        """
        select company_id, withdrawal_id, t.status, t.sequence, h.entered, h.last, e.told
        from withdrawal t full join (
            select company_id, withdrawal_id, count(*) as entered, bool_and(is_next) as is_chain,
                (array_agg(to_status order by sequence desc))[1] as last
            from (
                select company_id, withdrawal_id, sequence, to_status,
                    sequence = row_number() over each_withdrawal
                        and from_status is not distinct from lag(to_status) over each_withdrawal
                        as is_next
                from withdrawal_history
                window each_withdrawal as (
                    partition by company_id, withdrawal_id order by sequence
                )
            ) step
            group by company_id, withdrawal_id
        ) h using (company_id, withdrawal_id)
        full join (
            select e.company_id, e.entity_id as withdrawal_id, count(*) as told,
                bool_and(e.kind = 'withdrawal.' || coalesce(h.to_status, '')) as is_true
            from webhook_event e left join withdrawal_history h
                on h.company_id = e.company_id and h.withdrawal_id = e.entity_id
                and h.sequence = e.sequence
            where e.kind like 'withdrawal.%'
            group by e.company_id, e.entity_id
        ) e using (company_id, withdrawal_id)
        where t.sequence is null or h.entered is distinct from t.sequence
            or e.told is distinct from t.sequence or h.last <> t.status
            or not h.is_chain or not e.is_true
        """,
    ),
)
