"""What must be true of payments, their refunds and what providers told us."""

from collections.abc import Sequence
from typing import Final

from vintem.audit.invariant import Invariant

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "S1",
        "Each line of a statement is the balance of the line before it and its own amount.",
        """
        select company_id, environment, available_version, before, available_amount, available_after
        from (
            select company_id, environment, available_version, available_amount, available_after,
                lag(available_after, 1, 0::bigint) over (
                    partition by company_id, environment order by available_version
                ) as before
            from posting where available_version is not null
        ) line
        where available_after is distinct from before + available_amount
        """,
    ),
    Invariant(
        "S2",
        "A statement has a line for each leg of available, with its amount and its number.",
        """
        select company_id, environment, kind, reference, codes, amounts, versions,
            available_amount, available_version
        from posting
        where available_amount is distinct from amounts[array_position(codes, 'available')]
            or available_version is distinct from versions[array_position(codes, 'available')]
        """,
    ),
    Invariant(
        "I6",
        "A payment that was made has one capture of its amount and of what a boleto brought for"
        " being late; any other has none.",
        """
        select t.company_id, t.transaction_id, t.status, t.paid_at, t.amount, t.late_amount,
            c.captured
        from transaction t left join (
            select company_id, environment, reference as transaction_id,
                -sum(leg.amount) as captured
            from posting cross join lateral unnest(codes, amounts) as leg (code, amount)
            where kind = 'capture' and leg.code in ('bank', 'receivable')
            group by company_id, environment, reference
        ) c using (company_id, environment, transaction_id)
        where c.captured is distinct from
                case when t.paid_at is not null then t.amount + t.late_amount end
            or (t.late_amount <> 0 and (t.paid_at is null or t.payment_method <> 'boleto'))
            or (t.paid_at is null
                and t.status in ('paid', 'refunded', 'pre_chargeback', 'chargeback'))
        """,
    ),
    Invariant(
        "I7",
        "The refunds of a payment add up to what it says was given back, and never to more.",
        """
        select company_id, transaction_id, t.status, t.amount, t.refunded_amount, r.total
        from transaction t full join (
            select company_id, transaction_id, sum(amount) as total
            from refund where status <> 'failed'
            group by company_id, transaction_id
        ) r using (company_id, transaction_id)
        where t.refunded_amount is distinct from coalesce(r.total, 0)
            or t.refunded_amount > t.amount
            or (t.status = 'refunded') <> (t.refunded_amount = t.amount)
        """,
    ),
    Invariant(
        "I11",
        "Every status that a payment entered is one row of its history and one event, in a row;"
        " before its first answer there is neither.",
        """
        select company_id, transaction_id, t.status, t.sequence, h.entered, h.last, e.told
        from transaction t full join (
            select company_id, transaction_id, count(*) as entered, bool_and(is_next) as is_chain,
                (array_agg(to_status order by sequence desc))[1] as last
            from (
                select company_id, transaction_id, sequence, to_status,
                    sequence = row_number() over each_payment
                        and from_status is not distinct from lag(to_status) over each_payment
                        as is_next
                from transaction_history
                window each_payment as (
                    partition by company_id, transaction_id order by sequence
                )
            ) step
            group by company_id, transaction_id
        ) h using (company_id, transaction_id)
        full join (
            select e.company_id, e.entity_id as transaction_id, count(*) as told,
                bool_and(e.kind = 'transaction.' || coalesce(h.to_status, '')) as is_true
            from webhook_event e left join transaction_history h
                on h.company_id = e.company_id and h.transaction_id = e.entity_id
                and h.sequence = e.sequence
            where e.kind like 'transaction.%'
            group by e.company_id, e.entity_id
        ) e using (company_id, transaction_id)
        where case t.sequence when 0 then h.entered is not null or e.told is not null
            else t.sequence is null or h.entered is distinct from t.sequence
                or e.told is distinct from t.sequence or h.last <> t.status
                or not h.is_chain or not e.is_true
            end
        """,
    ),
    Invariant(
        "P1",
        "A payment that its provider has not answered is processing, and somebody will ask.",
        """
        select t.company_id, t.transaction_id, t.status, t.paid_at, r.ask_at
        from transaction t left join provider_request r
            on r.company_id = t.company_id and r.transaction_id = t.transaction_id
        where t.sequence = 0
            and (t.status <> 'processing' or t.paid_at is not null or t.answered_at is not null
                or r.ask_at is null)
        """,
    ),
    Invariant(
        "U1",
        "Money in suspense was brought, or taken, by one callback each, with its amount.",
        """
        select company_id, environment, reference, s.amount, c.amount as told
        from (
            select company_id, environment, reference,
                amounts[array_position(codes, 'suspense')] as amount
            from posting where kind = 'suspense' and 'suspense' = any(codes)
        ) s full join (
            select c.company_id, c.environment, c.provider || '/' || c.callback_id as reference,
                case c.kind when 'refund.done' then coalesce(r.amount, 0) - c.amount
                    else c.amount end as amount
            from provider_callback c left join refund r
                on r.company_id = c.company_id and r.refund_id = c.refund_id
            where c.state = 'unclaimed'
        ) c using (company_id, environment, reference)
        where s.amount is distinct from c.amount
        """,
    ),
    Invariant(
        "U2",
        "A refund that a provider told of is in the books, with the amount that was told.",
        """
        select c.company_id, c.environment, c.provider, c.callback_id, c.amount, r.amount as booked
        from provider_callback c left join refund r
            on r.company_id = c.company_id and r.refund_id = c.refund_id
            and r.transaction_id = c.transaction_id and r.environment = c.environment
        where c.kind = 'refund.done' and c.state = 'applied'
            and coalesce(c.cause, '') not in ('dispute', 'was_unclaimed')
            and r.amount is distinct from c.amount
        """,
    ),
    Invariant(
        "U3",
        "A payment that was returned over its company's head is a dispute that took what was told.",
        """
        select c.company_id, c.environment, c.provider, c.callback_id, c.transaction_id, c.amount
        from provider_callback c
        where c.kind = 'refund.done' and c.state = 'applied' and c.cause = 'dispute'
            and not exists (
                select from posting p
                where p.company_id = c.company_id and p.environment = c.environment
                    and p.kind = 'chargeback'
                    and split_part(p.reference, '/', 1) = c.transaction_id
                    and p.amounts[array_position(p.codes, 'dispute')] = -c.amount
            )
        """,
    ),
    Invariant(
        "I12",
        "An idempotency key stands for one payment or one withdrawal, and within a payment for one"
        " refund.",
        """
        select company_id, environment, idempotency_key, count(*) as entities
        from transaction group by company_id, environment, idempotency_key having count(*) > 1
        union all
        select company_id, transaction_id, idempotency_key, count(*)
        from refund group by company_id, transaction_id, idempotency_key having count(*) > 1
        union all
        select company_id, environment, idempotency_key, count(*)
        from withdrawal group by company_id, environment, idempotency_key having count(*) > 1
        """,
    ),
)
