"""What members write about a payment."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from vintem.ledger.model import Scope
from vintem.runtime.db import Connection

NOTE_CHARACTERS_MAX = 1_000
NOTES_SHOWN_MAX = 50


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A few words about a payment; only members read them."""

    note_id: str
    transaction_id: str
    text: str
    author: str
    created_at: datetime


async def add(db: Connection, scope: Scope, note: Note) -> None:
    """Keep a note."""
    await db.execute(
        """
        insert into transaction_note (
            company_id, note_id, environment, transaction_id, text, author, created_at
        ) values ($1, $2, $3, $4, $5, $6, $7)
        """,
        scope.company_id,
        note.note_id,
        scope.environment,
        note.transaction_id,
        note.text,
        note.author,
        note.created_at,
    )


async def list_of(db: Connection, scope: Scope, transaction_id: str) -> Sequence[Note]:
    """The last notes about a payment, the oldest first."""
    rows = await db.fetch(
        """
        select note_id, transaction_id, text, author, created_at from transaction_note
        where company_id = $1 and environment = $2 and transaction_id = $3
        order by created_at desc, note_id desc limit $4
        """,
        scope.company_id,
        scope.environment,
        transaction_id,
        NOTES_SHOWN_MAX,
    )
    return [
        Note(
            note_id=row["note_id"],
            transaction_id=row["transaction_id"],
            text=row["text"],
            author=row["author"],
            created_at=row["created_at"],
        )
        for row in reversed(rows)
    ]
