"""Card tokens: a card kept sealed for minutes, to be used once."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from vintem.brazil.cards import CardNumber
from vintem.kit.ids import Prefix, new_secret_id
from vintem.ledger.model import Scope
from vintem.providers.port import Card
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection

TOKEN_LIFETIME: Final = timedelta(minutes=15)
DIGEST_PURPOSE: Final = b"card token"
CARD_PURPOSE: Final = b"card"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made, shown this once."""

    token: str
    expires_at: datetime


class SealedCard(msgspec.Struct, frozen=True, array_like=True):
    """What is inside the seal."""

    number: str
    holder_name: str
    expiration_month: int
    expiration_year: int
    cvv: str


async def keep(db: Connection, sealer: Sealer, scope: Scope, card: Card, now: datetime) -> NewToken:
    """Seal a card and give the token that it can be used by."""
    # It looks like every id, but those of one millisecond follow each other. This one must not be
    # guessed, and so is random in all of its 128 bits.
    made = NewToken(new_secret_id(Prefix.CARD), now + TOKEN_LIFETIME)
    digest = digest_of(sealer, made.token)
    content = SealedCard(
        card.number.reveal(),
        card.holder_name,
        card.expiration_month,
        card.expiration_year,
        card.cvv,
    )
    sealed = sealer.seal(msgspec.json.encode(content), purpose=_purpose(scope, digest))
    await insert(db, scope, digest, sealed, expires_at=made.expires_at)
    return made


async def read(
    db: Connection, sealer: Sealer, scope: Scope, token: str, *, now: datetime
) -> Card | None:
    """Read the card of a token that was not used yet; this does not use it."""
    digest = digest_of(sealer, token)
    sealed = await find(db, scope, digest, now=now)
    plain = None if sealed is None else sealer.open(sealed, purpose=_purpose(scope, digest))
    if plain is None:
        return None
    content = msgspec.json.decode(plain, type=SealedCard)
    return Card(
        number=CardNumber(content.number),
        holder_name=content.holder_name,
        expiration_month=content.expiration_month,
        expiration_year=content.expiration_year,
        cvv=content.cvv,
    )


async def forget(db: Connection, sealer: Sealer, scope: Scope, token: str, now: datetime) -> None:
    """Delete a card that will not be used, unless it was."""
    await spend(db, scope, digest_of(sealer, token), now=now)


def digest_of(sealer: Sealer, token: str) -> bytes:
    """Make what a token is found by."""
    return sealer.digest(token.encode(), purpose=DIGEST_PURPOSE)


def _purpose(scope: Scope, digest: bytes) -> bytes:
    # A row that is moved to another company, environment or token does not open.
    return b"%b %d %b %b" % (CARD_PURPOSE, scope.company_id, scope.environment.encode(), digest)


async def insert(
    db: Connection, scope: Scope, digest: bytes, sealed: bytes, *, expires_at: datetime
) -> None:
    """Add a sealed card."""
    await db.execute(
        """
        insert into card_token (company_id, environment, token_digest, card_sealed, expires_at)
        values ($1, $2, $3, $4, $5)
        """,
        scope.company_id,
        scope.environment,
        digest,
        sealed,
        expires_at,
    )


async def find(db: Connection, scope: Scope, digest: bytes, *, now: datetime) -> bytes | None:
    """Find a sealed card that may still be used."""
    sealed: bytes | None = await db.fetchval(
        """
        select card_sealed from card_token
        where company_id = $1 and environment = $2 and token_digest = $3 and expires_at > $4
        """,
        scope.company_id,
        scope.environment,
        digest,
        now,
    )
    return sealed


async def spend(block: Connection, scope: Scope, digest: bytes, *, now: datetime) -> bool:
    """Delete a card that is used in this block; false when another was faster or it is too old."""
    found = await block.fetchval(
        """
        delete from card_token
        where company_id = $1 and environment = $2 and token_digest = $3 and expires_at > $4
        returning true
        """,
        scope.company_id,
        scope.environment,
        digest,
        now,
    )
    return bool(found)


async def forget_expired(db: Connection, *, now: datetime) -> int:
    """Delete every card that nobody used in time, passing over those that another deletes."""
    forgotten = await db.fetchval(
        """
        with expired as (
            select company_id, token_digest from card_token where expires_at <= $1
            for update skip locked
        ),
        gone as (
            delete from card_token c using expired e
            where c.company_id = e.company_id and c.token_digest = e.token_digest
            returning c.company_id
        )
        select count(*) from gone
        """,
        now,
    )
    return int(forgotten)
