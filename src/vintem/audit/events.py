"""What must be true of events and their deliveries."""

from collections.abc import Sequence
from typing import Final

from vintem.audit.invariant import Invariant

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "E1",
        "Every event that an endpoint wants has its delivery.",
        # Whoever wrote in the very moment of a registration may not have seen it.
        """
        select e.company_id, e.event_id, p.endpoint_id
        from webhook_endpoint p join webhook_event e on e.company_id = p.company_id
            and e.environment = p.environment and e.kind <> 'ping'
            and p.events && array['*', e.kind] collate "C"
            and e.created_at > p.subscribed_at + interval '10 seconds'
            and e.created_at > now() - interval '89 days'
        left join webhook_delivery d on d.company_id = e.company_id and d.lane = p.endpoint_id
            and d.entity_id = e.entity_id and d.sequence = e.sequence
        where p.is_enabled and d.delivery_id is null
        """,
    ),
    Invariant(
        "E2",
        "The events of every other record, too, are numbered from 1 without a gap.",
        """
        select company_id, entity_id, count(*) as events, max(sequence) as last
        from webhook_event
        where kind not like 'transaction.%' and kind not like 'withdrawal.%'
        group by company_id, entity_id
        having count(*) <> max(sequence) or min(sequence) <> 1
        """,
    ),
    Invariant(
        "E3",
        "A delivery has an event, and a lane to go on, and was tried as often as its log says.",
        """
        select d.company_id, d.delivery_id, d.state, d.attempts, a.tried, a.last_status
        from webhook_delivery d
        left join webhook_event e on e.company_id = d.company_id and e.entity_id = d.entity_id
            and e.sequence = d.sequence and e.environment = d.environment
        left join webhook_lane l on l.company_id = d.company_id and l.lane = d.lane
            and l.environment = d.environment
        left join (
            select company_id, delivery_id, count(*) as tried,
                (array_agg(status order by attempt desc))[1] as last_status
            from webhook_attempt group by company_id, delivery_id
        ) a on a.company_id = d.company_id and a.delivery_id = d.delivery_id
        where e.event_id is null or d.attempts <> coalesce(a.tried, 0)
            or (l.lane is null and (d.url is null or d.state = 'pending'))
            or (d.state = 'delivered' and coalesce(a.last_status, 0) not between 200 and 299)
        """,
    ),
)
