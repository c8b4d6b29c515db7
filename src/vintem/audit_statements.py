"""The statements of the audit about what providers told us."""

from typing import Final

SUSPENSE: Final = """
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
"""

TOLD_REFUNDS: Final = """
    select c.company_id, c.environment, c.provider, c.callback_id, c.amount, r.amount as booked
    from provider_callback c left join refund r
        on r.company_id = c.company_id and r.refund_id = c.refund_id
        and r.transaction_id = c.transaction_id and r.environment = c.environment
    where c.kind = 'refund.done' and c.state = 'applied'
        and c.cause is distinct from 'dispute' and r.amount is distinct from c.amount
"""
