"""The SQL of cards that were tried in sessions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from vintem.ledger.model import Scope
from vintem.runtime.db import Connection

# A payment that nobody has decided about may still be refused, and so may one not yet written.
_MAY_BE_REFUSED: Final = """
    (t.transaction_id is null
        or (t.paid_at is null and t.status in ('failed', 'processing', 'blocked')))
"""


class CardTry(msgspec.Struct, frozen=True):
    """A card that is tried in a session, and from where; known only by digests."""

    company_id: int
    transaction_id: str
    environment: str
    card_digest: bytes
    address_digest: bytes
    tried_at: datetime


class Tried(msgspec.Struct, frozen=True):
    """What came of a company's newest tries, the newest first."""

    moments: Sequence[datetime]
    refused: int


async def insert(db: Connection, made: CardTry) -> None:
    """Write a try down, before it is made."""
    await db.execute(
        """
        insert into checkout_card_try (
            company_id, transaction_id, environment, card_digest, address_digest, tried_at
        ) values ($1, $2, $3, $4, $5, $6)
        """,
        made.company_id,
        made.transaction_id,
        made.environment,
        made.card_digest,
        made.address_digest,
        made.tried_at,
    )


async def delete(db: Connection, made: CardTry) -> None:
    """Forget a try that was not made."""
    await db.execute(
        "delete from checkout_card_try where company_id = $1 and transaction_id = $2",
        made.company_id,
        made.transaction_id,
    )


async def list_of_card(
    db: Connection, made: CardTry, *, since: datetime, rows_max: int
) -> Sequence[datetime]:
    """When the same card was refused before, or may be yet, in whichever session."""
    rows = await db.fetch(
        f"""
        select c.tried_at from checkout_card_try c
        left join transaction t
            on t.company_id = c.company_id and t.transaction_id = c.transaction_id
        where c.card_digest = $1 and c.environment = $2 and c.tried_at > $3
            and c.transaction_id <> $4 and {_MAY_BE_REFUSED}
        order by c.tried_at desc limit $5
        """,  # noqa: S608 - put together from constants
        made.card_digest,
        made.environment,
        since,
        made.transaction_id,
        rows_max,
    )
    return [row["tried_at"] for row in rows]


async def list_of_address(
    db: Connection, made: CardTry, *, since: datetime, rows_max: int
) -> Sequence[datetime]:
    """When cards of the same address were refused, or may be yet, in whichever session."""
    rows = await db.fetch(
        f"""
        select c.tried_at from checkout_card_try c
        left join transaction t
            on t.company_id = c.company_id and t.transaction_id = c.transaction_id
        where c.address_digest = $1 and c.tried_at > $2 and c.transaction_id <> $3
            and {_MAY_BE_REFUSED}
        order by c.tried_at desc limit $4
        """,  # noqa: S608 - put together from constants
        made.address_digest,
        since,
        made.transaction_id,
        rows_max,
    )
    return [row["tried_at"] for row in rows]


async def find_newest(db: Connection, scope: Scope, *, since: datetime, rows_max: int) -> Tried:
    """What came of the cards that were tried last in a company's sessions."""
    row = await db.fetchrow(
        """
        select coalesce(array_agg(c.tried_at order by c.tried_at desc), '{}') as moments,
            count(*) filter (where t.status = 'failed') as refused
        from (
            select company_id, transaction_id, tried_at from checkout_card_try
            where company_id = $1 and environment = $2 and tried_at > $3
            order by tried_at desc limit $4
        ) as c
        join transaction t on t.company_id = c.company_id and t.transaction_id = c.transaction_id
        """,
        scope.company_id,
        scope.environment,
        since,
        rows_max,
    )
    assert row is not None, "an aggregate has a row"
    return Tried(row["moments"], row["refused"])


async def delete_old(db: Connection, *, before: datetime) -> int:
    """Delete the tries that count no more."""
    deleted = await db.fetchval(
        """
        with gone as (delete from checkout_card_try where tried_at <= $1 returning company_id)
        select count(*) from gone
        """,
        before,
    )
    return int(deleted)
