"""What happens when a record changes: an event, in the same commit."""

from collections.abc import Sequence

from vintem.runtime.db import Connection
from vintem.webhooks import store
from vintem.webhooks.model import Change, event_of


async def record(block: Connection, changes: Sequence[Change]) -> None:
    """Keep the events of changes inside the caller's atomic block."""
    await store.insert_events(block, [event_of(change) for change in changes])
