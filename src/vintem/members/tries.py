"""How often somebody may try to prove who they are."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from vintem.members import proof_store
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection

EVERYWHERE: Final = ""
"""Stands for all addresses together."""


class Allowance(NamedTuple):
    """How many tries in how long: from one address, and from all of them."""

    purpose: bytes
    per_address_max: int
    everywhere_max: int
    window: timedelta


PASSWORDS: Final = Allowance(b"passwords", 10, 50, timedelta(minutes=15))
CODES: Final = Allowance(b"codes", 10, 20, timedelta(minutes=15))
RESETS: Final = Allowance(b"resets", 3, 5, timedelta(hours=1))


def account_of(sealer: Sealer, allowance: Allowance, who: str) -> bytes:
    """Name an account so that nobody reads from the tries who has one."""
    return sealer.digest(who.encode(), purpose=b"tries of " + allowance.purpose)


async def admit(
    db: Connection,
    account: bytes,
    allowance: Allowance,
    *,
    address: str,
    is_known_address: bool,
    now: datetime,
) -> bool:
    """Count a try before it is made; an address the person is known at is not locked by others."""
    is_within = await proof_store.add_try(
        db,
        account,
        address,
        tries_max=allowance.per_address_max,
        window=allowance.window,
        now=now,
    )
    if not is_within:
        return False
    is_calm = await proof_store.add_try(
        db,
        account,
        EVERYWHERE,
        tries_max=allowance.everywhere_max,
        window=allowance.window,
        now=now,
    )
    return is_calm or is_known_address


async def forgive(db: Connection, account: bytes, *, address: str, at: datetime) -> None:
    """Forget the tries of an address that has proved itself."""
    await proof_store.forget_tries(db, account, address, at=at)
