"""Parts of statements that change a record and keep its event, in one round trip."""

from typing import Final

POSTBACK: Final = "postback "
"""What the lane of postbacks begins with; their environment and origin follow."""

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
        '{POSTBACK}' || environment || ' ' || substring(postback_url from '^[A-Za-z]+://[^/?]+'),
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
    select company_id, new_delivery_id(created_at), environment, lane, entity_id, sequence, url,
        case when is_over then 'ended' else 'pending' end,
        case when is_over then null else created_at end, created_at, created_at,
        case when is_over then created_at end
    from (
        select a.*, url is not null and exists (
            select from webhook_delivery e where e.company_id = a.company_id
                and e.lane = a.lane and e.entity_id = a.entity_id and e.state = 'ended'
        ) as is_over
        from addressed a
    ) as each
)
"""  # noqa: S608 - put together from constants
"""What keeps events, and one delivery to each place that wants them, in a statement that has named
them `told` before, with the columns above and `postback_url`."""
