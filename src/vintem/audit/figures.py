"""What must be true of the figures that pages show."""

from collections.abc import Sequence
from typing import Final

from vintem.audit.invariant import Invariant
from vintem.kit.clock import BUSINESS_ZONE_NAME

# As long as something may still come late, only the days before it are whole.
_COUNTED: Final = f"""
    counted as (
        select c.company_id, c.environment, case when s.from_at is null then c.counted_until
            else date_trunc('day', least(s.from_at, c.counted_until)
                at time zone '{BUSINESS_ZONE_NAME}') at time zone '{BUSINESS_ZONE_NAME}'
            end as until_at, s.from_at is null as is_whole
        from figures_cursor c left join (
            select company_id, environment, min(from_at) as from_at from figures_stretch
            group by company_id, environment
        ) s using (company_id, environment)
    )
"""  # noqa: S608 - put together from constants

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "F1",
        "The figures of the days that are counted are those of the payments themselves.",
        f"""
        with {_COUNTED},
        entered as (
            select company_id, transaction_id, to_status,
                (array_agg(created_at order by sequence))[1] as at
            from transaction_history group by company_id, transaction_id, to_status
        ),
        fact as (
            select t.company_id, t.environment, t.payment_method, e.at, t.amount,
                case e.to_status when 'paid' then 'paid' when 'failed' then 'failed'
                    when 'chargeback' then 'disputed' end as what
            from entered e join transaction t using (company_id, transaction_id)
            where e.to_status in ('paid', 'failed', 'chargeback')
            union all
            select t.company_id, t.environment, t.payment_method, h.created_at, t.amount, 'created'
            from transaction_history h join transaction t using (company_id, transaction_id)
            where h.sequence = 1
            union all
            select t.company_id, t.environment, t.payment_method, r.completed_at, r.amount,
                'refunded'
            from refund r join transaction t using (company_id, transaction_id)
            where r.status = 'completed'
        ),
        truth as (
            select f.company_id, f.environment, f.payment_method, f.what,
                (f.at at time zone '{BUSINESS_ZONE_NAME}')::date as day,
                count(*) as number, sum(f.amount) as cents
            from fact f join counted c on c.company_id = f.company_id
                and c.environment = f.environment and f.at < c.until_at
            group by 1, 2, 3, 4, 5
        ),
        shown as (
            select f.company_id, f.environment, f.payment_method, v.what, f.day, v.number, v.cents
            from figures_day f join counted c on c.company_id = f.company_id
                and c.environment = f.environment
                and (c.is_whole or f.day < (c.until_at at time zone '{BUSINESS_ZONE_NAME}')::date)
            cross join lateral (values
                ('created', created_count, created_cents), ('paid', paid_count, paid_cents),
                ('failed', failed_count, failed_cents),
                ('refunded', refunded_count, refunded_cents),
                ('disputed', disputed_count, disputed_cents)
            ) as v (what, number, cents)
            where v.number <> 0 or v.cents <> 0
        )
        select company_id, environment, day, payment_method, what, t.number, s.number as shown,
            t.cents, s.cents as shown_cents
        from truth t full join shown s using (company_id, environment, payment_method, what, day)
        where (t.number, t.cents) is distinct from (s.number, s.cents)
        """,  # noqa: S608 - put together from constants
    ),
    Invariant(
        "F2",
        "Where everything is counted, what a buyer has bought is what their payments say.",
        f"""
        with {_COUNTED},
        quiet as (
            select company_id, environment from counted c
            where is_whole and not exists (
                select from webhook_event e where e.company_id = c.company_id
                    and e.environment = c.environment and e.created_at >= c.until_at
            )
        )
        select company_id, environment, encode(document_digest, 'hex') as customer,
            t.purchases, f.purchases as shown, t.paid_cents, f.paid_cents as shown_cents
        from (
            select t.company_id, t.environment, document_digest, count(*) as payments,
                count(paid_at) as purchases,
                coalesce(sum(amount) filter (where paid_at is not null), 0) as paid_cents,
                sum(refunded_amount) as refunded_cents
            from transaction t join quiet using (company_id, environment)
            where t.sequence > 0
            group by 1, 2, 3
        ) t full join (
            select f.* from figures_customer f join quiet using (company_id, environment)
        ) f using (company_id, environment, document_digest)
        where f.payments is null or (f.payments <= 1000
            and (t.purchases, t.paid_cents, t.refunded_cents)
                is distinct from (f.purchases, f.paid_cents, f.refunded_cents))
        """,  # noqa: S608 - put together from constants
    ),
)
