"""Guards against those who try out stolen cards: by address, by card, and by company."""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
import structlog

from vintem.brazil.cards import CardNumber
from vintem.checkout import card_try_store as store
from vintem.checkout.card_try_store import CardTry
from vintem.kit.errors import ErrorCode, Refusal
from vintem.ledger.model import Scope
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection
from vintem.transactions.model import Transaction

log = structlog.get_logger()

CARD_PURPOSE: Final = b"tried card"
ADDRESS_PURPOSE: Final = b"address of a tried card"
REMEMBERED: Final = timedelta(hours=1)

WATCHED: Final = timedelta(minutes=10)
WATCHED_TRIES_MIN: Final = 50
WATCHED_TRIES_MAX: Final = 200
"""Of a company with many buyers the newest say enough, and are soon counted."""
REFUSED_PERCENT_MAX: Final = 40


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How many cards may be refused within the hour."""

    of_address: int
    of_card: int


def card_try(
    sealer: Sealer, payment: Transaction, number: CardNumber, address: str, *, now: datetime
) -> CardTry:
    """Name the try of a card without its number."""
    return CardTry(
        company_id=payment.company_id,
        transaction_id=payment.transaction_id,
        environment=payment.environment,
        card_digest=sealer.digest(number.reveal().encode(), purpose=CARD_PURPOSE),
        address_digest=sealer.digest(address.encode(), purpose=ADDRESS_PURPOSE),
        tried_at=now,
    )


async def begin(db: Connection, made: CardTry, limits: Limits) -> None:
    """Write a try down, or refuse to make it.

    It is written before the others are counted: of many at once none is overlooked.
    """
    await store.insert(db, made)
    try:
        await _refuse_too_many(db, made, limits)
    except BaseException:
        await store.delete(db, made)
        raise


async def forget(db: Connection, made: CardTry) -> None:
    """Forget a try that no payment came of."""
    await store.delete(db, made)


async def forget_old(db: Connection, *, now: datetime) -> int:
    """Delete the tries that count no more."""
    return await store.delete_old(db, before=now - REMEMBERED)


async def _refuse_too_many(db: Connection, made: CardTry, limits: Limits) -> None:
    now = made.tried_at
    since = now - REMEMBERED
    of_address = await store.list_of_address(db, made, since=since, rows_max=limits.of_address)
    _refuse_full(of_address, limits.of_address, REMEMBERED, now=now)
    of_card = await store.list_of_card(db, made, since=since, rows_max=limits.of_card)
    _refuse_full(of_card, limits.of_card, REMEMBERED, now=now)
    scope = Scope(made.company_id, made.environment)
    tried = await store.find_newest(db, scope, since=now - WATCHED, rows_max=WATCHED_TRIES_MAX)
    if tried.refused * 100 > REFUSED_PERCENT_MAX * len(tried.moments):
        if len(tried.moments) >= WATCHED_TRIES_MIN:
            log.warning("cards are being tried out", company_id=made.company_id)
        _refuse_full(tried.moments, WATCHED_TRIES_MIN, WATCHED, now=now)


def _refuse_full(
    moments: Sequence[datetime], limit: int, window: timedelta, *, now: datetime
) -> None:
    """Refuse while so many moments, of which the newest come first, lie inside a window."""
    if len(moments) < limit:
        return
    left = moments[limit - 1] + window - now
    raise Refusal(
        ErrorCode.CARD_ATTEMPTS_EXCEEDED,
        retry_after_seconds=max(1, math.ceil(left.total_seconds())),
    )
