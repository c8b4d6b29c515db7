"""Parts of statements that change a record and keep its event, in one round trip."""

from typing import Final

KEEP_EVENTS: Final = """
event as (
    insert into webhook_event (
        company_id, entity_id, sequence, event_id, kind, environment, body, created_at
    )
    select company_id, entity_id, sequence, event_id, kind, environment, body, created_at
    from told
)
"""
"""What keeps events in a statement that has named them `told` before, with the columns above."""
