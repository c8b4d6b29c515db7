"""Parts of statements that change a record and keep its event, in one round trip."""

import re
from typing import Final

POSTBACK: Final = "postback "
"""What the lane of postbacks begins with; their environment and origin follow."""

_ORIGIN: Final = "^[A-Za-z]+://[^/?]+"


def postback_lane(environment: str, url: str) -> str:
    """Name the lane of postbacks to an address, as the statement below does."""
    origin = re.match(_ORIGIN, url)
    assert origin is not None, "an address that was accepted has an origin"
    return f"{POSTBACK}{environment} {origin[0]}"


KEEP_EVENTS: Final = f"""
event as (
    insert into webhook_event (
        company_id, entity_id, sequence, event_id, kind, environment, body, created_at
    )
    select company_id, entity_id, sequence, event_id, kind, environment, body, created_at
    from told
),
addressed as materialized (
    select t.company_id, t.environment, p.endpoint_id as lane, t.entity_id, t.sequence,
        null as url, t.created_at
    from told t join webhook_endpoint p on p.company_id = t.company_id
        and p.environment = t.environment and p.is_enabled
        and p.events && array['*', t.kind] collate "C"
    union all
    select company_id, environment,
        '{POSTBACK}' || environment || ' ' || substring(postback_url from '{_ORIGIN}'),
        entity_id, sequence, postback_url, created_at
    from told where postback_url is not null
),
lane as (
    insert into webhook_lane (company_id, lane, environment)
    select distinct company_id, lane, environment from addressed where url is not null
    order by company_id, lane
    on conflict do nothing
),
delivery as (
    insert into webhook_delivery (
        company_id, delivery_id, environment, lane, entity_id, sequence, url, state, due_at,
        created_at, asked_at, finished_at
    )
    select a.company_id, new_delivery_id(a.created_at), a.environment, a.lane, a.entity_id,
        a.sequence, a.url, coalesce(e.state, 'pending'),
        case when e.state is null then a.created_at end, a.created_at, a.created_at,
        case when e.state is not null then a.created_at end
    from addressed a
    -- In the order of its key, it is looked up by it: the planner would else read the whole lane.
    left join lateral (
        select d.state from webhook_delivery d
        where a.url is not null and d.company_id = a.company_id and d.lane = a.lane
            and d.entity_id = a.entity_id and d.state = 'ended'
        order by d.sequence limit 1
    ) as e on true
)
"""  # noqa: S608 - put together from constants
"""What keeps events, and one delivery to each place that wants them, in a statement that has named
them `told` before, with the columns above and `postback_url`."""
