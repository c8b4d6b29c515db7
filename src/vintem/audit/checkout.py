"""What must be true of sessions, their payments and their coupons."""

from collections.abc import Sequence
from typing import Final

from vintem.audit.invariant import Invariant

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "C1",
        "A session is completed by the payment that it is about, which was made; no other session"
        " has a payment that was made.",
        """
        select s.company_id, s.session_id, s.status, s.transaction_id, p.transaction_id as paid
        from checkout_session s left join checkout_payment p on p.company_id = s.company_id
            and p.session_id = s.session_id and p.paid_at is not null and not p.is_extra
        where (s.status = 'COMPLETED') <> (p.transaction_id is not null)
            or p.transaction_id <> s.transaction_id
        """,
    ),
    Invariant(
        "C2",
        "A payment of a session is written down as one, in the same environment, and was made when"
        " it says so; its session has counted it, and every one beyond the first.",
        """
        select company_id, transaction_id, t.session_id, p.session_id as written, t.paid_at,
            p.paid_at as taken
        from (
            select company_id, transaction_id, environment, checkout_session_id as session_id,
                paid_at
            from transaction where checkout_session_id is not null
        ) t full join checkout_payment p using (company_id, transaction_id)
        where t.session_id is distinct from p.session_id
            or t.environment is distinct from p.environment
            or (t.paid_at is null) <> (p.paid_at is null)
        union all
        select s.company_id, s.session_id, s.session_id, p.session_id, null, null
        from checkout_session s full join (
            select company_id, session_id, count(*) as tried,
                count(*) filter (where is_extra) as extra
            from checkout_payment group by company_id, session_id
        ) p on p.company_id = s.company_id and p.session_id = s.session_id
        where s.payments_tried is distinct from coalesce(p.tried, 0)
            or s.extra_payments is distinct from coalesce(p.extra, 0)
        """,
    ),
    Invariant(
        "C3",
        "The redemptions of a coupon are the payments that were made with it, and one for every"
        " session without such a one where somebody can still make one.",
        """
        with tried as (
            select p.company_id, p.session_id, p.coupon_id, p.holds_coupon,
                p.paid_at is not null as is_paid,
                p.paid_at is null and (t.status in ('pending', 'processing', 'blocked')
                    or (t.status_reason = 'superseded' and t.due_at is not null)) as is_living
            from checkout_payment p join transaction t on t.company_id = p.company_id
                and t.transaction_id = p.transaction_id
            where p.coupon_id is not null
        )
        select c.company_id, c.coupon_id, null as session_id, c.redemptions, p.held
        from checkout_coupon c left join (
            select company_id, coupon_id, count(*) filter (where holds_coupon) as held
            from tried group by company_id, coupon_id
        ) p on p.company_id = c.company_id and p.coupon_id = c.coupon_id
        where c.redemptions <> coalesce(p.held, 0)
        union all
        select company_id, coupon_id, session_id, null, count(*) filter (where holds_coupon)
        from tried group by company_id, coupon_id, session_id
        having bool_or(is_paid and not holds_coupon)
            or bool_or(holds_coupon and not is_paid and not is_living)
            or count(*) filter (where holds_coupon and not is_paid)
                <> (bool_or(is_living) and not bool_or(is_paid))::int
        """,
    ),
    Invariant(
        "C4",
        "A session has told every status that it has entered, and the last one is where it stands.",
        """
        select s.company_id, s.session_id, s.status, s.sequence, e.told, e.last
        from checkout_session s full join (
            select company_id, entity_id, count(*) as told,
                (array_agg(kind order by sequence desc))[1] as last
            from webhook_event where kind like 'checkout.session.%'
            group by company_id, entity_id
        ) e on e.company_id = s.company_id and e.entity_id = s.session_id
        where e.told is distinct from s.sequence
            or e.last is distinct from 'checkout.session.' || lower(s.status)
        """,
    ),
    Invariant(
        "C5",
        "A session that is not over has at most one payment that is alive, which it is about; a"
        " code that waits to be paid is for what the session shows.",
        """
        select s.company_id, s.session_id, s.transaction_id, t.transaction_id as living, t.amount,
            s.total_amount
        from checkout_session s join checkout_payment p on p.company_id = s.company_id
            and p.session_id = s.session_id
        join transaction t on t.company_id = p.company_id
            and t.transaction_id = p.transaction_id
        where s.status in ('OPEN', 'AWAITING_PAYMENT') and t.paid_at is null
            and t.status in ('pending', 'processing', 'blocked')
            and (t.transaction_id is distinct from s.transaction_id
                or (t.status = 'pending' and t.amount <> s.total_amount))
        """,
    ),
    Invariant(
        "C6",
        "A session is found by its token, and what it asks for is what its items add up to.",
        """
        select s.company_id, s.session_id, s.subtotal_amount, k.session_id as found
        from checkout_session s left join checkout_session_token k
            on k.token_digest = s.token_digest and k.company_id = s.company_id
        where k.session_id is distinct from s.session_id
            or s.subtotal_amount is distinct from (
                select sum((item ->> 'unit_amount')::bigint * (item ->> 'quantity')::bigint)
                from json_array_elements(s.line_items::json) as item
            )
        """,
    ),
    Invariant(
        "C7",
        "A completed session states what was paid: its total and the interest are the amount of the"
        " payment that completed it, and its coupon is the one of that payment.",
        """
        select s.company_id, s.session_id, s.total_amount, t.amount, s.coupon_id,
            p.coupon_id as paid_with
        from checkout_session s join checkout_payment p on p.company_id = s.company_id
            and p.transaction_id = s.transaction_id
        join transaction t on t.company_id = p.company_id
            and t.transaction_id = p.transaction_id
        where s.status = 'COMPLETED' and (s.coupon_id is distinct from p.coupon_id
            or t.amount <> s.total_amount
                + coalesce((t.details::json ->> 'interestAmount')::bigint, 0))
        """,
    ),
    Invariant(
        "C8",
        "A payment link has counted the sessions that were completed by it and what was paid for"
        " them; a place is held for one payment of a session at most, which can still be made.",
        """
        with places as (
            select s.company_id, s.link_id, s.session_id, count(*) as held,
                count(*) filter (where p.paid_at is not null
                    or not (t.status in ('pending', 'processing', 'blocked')
                        or (t.status_reason = 'superseded' and t.due_at is not null))) as idle
            from checkout_payment p
            join checkout_session s on s.company_id = p.company_id
                and s.session_id = p.session_id
            join transaction t on t.company_id = p.company_id
                and t.transaction_id = p.transaction_id
            where p.holds_place
            group by s.company_id, s.link_id, s.session_id
        ), made as (
            select s.company_id, s.link_id, count(*) as payments, sum(t.amount) as revenue
            from checkout_session s join transaction t on t.company_id = s.company_id
                and t.transaction_id = s.transaction_id
            where s.link_id is not null and s.status = 'COMPLETED'
            group by s.company_id, s.link_id
        )
        select l.company_id, l.link_id, null as session_id, l.payments_made, m.payments
        from checkout_link l
        left join made m on m.company_id = l.company_id and m.link_id = l.link_id
        left join (
            select company_id, link_id, sum(held) as held from places
            group by company_id, link_id
        ) p on p.company_id = l.company_id and p.link_id = l.link_id
        where l.payments_made <> coalesce(m.payments, 0) or l.revenue <> coalesce(m.revenue, 0)
            or l.payments_held <> coalesce(p.held, 0)
        union all
        select company_id, link_id, session_id, held, idle from places
        where held > 1 or idle > 0 or link_id is null
        """,
    ),
)
