"""The door: a password, perhaps a code, and how often either may be wrong."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from vintem.members import second_factor, store, tries
from vintem.members.model import Person, SignedIn, Verdict
from vintem.members.passwords import hashing
from vintem.runtime.crypto import NONCE_BYTES, Sealer
from vintem.runtime.db import Connection, Database

KNOWN_FOR: Final = timedelta(days=90)
PROMISE_LIFETIME: Final = timedelta(minutes=5)
AT_WORK: Final = second_factor.AT_WORK

_PURPOSE: Final = b"second step"


@dataclass(frozen=True, slots=True)
class Knock:
    """A try to sign in: what became of it, and whose account it was at, if anybody's."""

    verdict: Verdict
    person: Person | None


class Promise(msgspec.Struct, frozen=True):
    """What a browser carries from the password to the code; sealed, so that nobody makes one."""

    person_id: str
    password_mark: str
    expires_at: datetime


async def knock(
    database: Database,
    sealer: Sealer,
    *,
    email: str,
    password: str,
    address: str,
    block_of: Callable[[str], str],
    now: datetime,
) -> Knock:
    """Check an e-mail and a password; an unknown e-mail takes as long, and counts as a wrong one.

    `address` is the block that tries are counted by, `block_of` finds that of an IP address.
    """
    person = await store.find_person(database, email)
    account = tries.account_of(sealer, tries.PASSWORDS, email)
    is_known = False
    if person is not None:
        since = now - KNOWN_FOR
        seen = await store.list_addresses(database, person.person_id, since=since)
        is_known = address in {block_of(ip) for ip in seen}
    is_admitted = await tries.admit(
        database,
        account,
        tries.PASSWORDS,
        address=address,
        is_known_address=is_known,
        now=now,
    )
    if not is_admitted:
        return Knock(Verdict.TOO_MANY, person)
    password_hash = None if person is None else person.password_hash
    if not await hashing.is_right(password, password_hash):
        return Knock(Verdict.WRONG, person)
    assert person is not None
    assert password_hash is not None, "nobody's hash fits a password"
    await tries.forgive(database, account, address=address, at=now)
    await _refresh(database, person.person_id, password, password_hash)
    return Knock(Verdict.RIGHT, person)


async def _refresh(database: Database, person_id: str, password: str, password_hash: str) -> None:
    """Hash a right password anew where the old hash was made with other costs."""
    if hashing.is_outdated(password_hash):
        fresh = await hashing.hash(password)
        await store.replace_password_hash(database, person_id, old=password_hash, new=fresh)


async def is_own_password(
    database: Database, sealer: Sealer, member: SignedIn, password: str, *, now: datetime
) -> Verdict:
    """Check the password of somebody who is signed in, before something that matters."""
    person = await store.find_person_by_id(database, member.person_id)
    account = tries.account_of(sealer, tries.PASSWORDS, member.email)
    is_admitted = await tries.admit(
        database, account, tries.PASSWORDS, address=AT_WORK, is_known_address=True, now=now
    )
    if not is_admitted or person is None:
        return Verdict.TOO_MANY
    if not await hashing.is_right(password, person.password_hash):
        return Verdict.WRONG
    await tries.forgive(database, account, address=AT_WORK, at=now)
    return Verdict.RIGHT


def promise(sealer: Sealer, person: Person, *, now: datetime) -> str:
    """Write down that somebody's password was right, for as long as it takes to type a code."""
    kept = Promise(person.person_id, _mark(person), now + PROMISE_LIFETIME)
    return sealer.seal(msgspec.msgpack.encode(kept), purpose=_PURPOSE).hex()


async def keep_promise(
    db: Connection, sealer: Sealer, text: str, *, now: datetime
) -> Person | None:
    """Find whose password was right; nobody's, when that was long ago or it was changed since."""
    try:
        sealed = bytes.fromhex(text)
    except ValueError:
        return None
    plain = None if len(sealed) < NONCE_BYTES else sealer.open(sealed, purpose=_PURPOSE)
    if plain is None:
        return None
    kept = msgspec.msgpack.decode(plain, type=Promise)
    person = await store.find_person_by_id(db, kept.person_id)
    if person is None or kept.expires_at <= now or _mark(person) != kept.password_mark:
        return None
    return person


def _mark(person: Person) -> str:
    return hashlib.sha256((person.password_hash or "").encode()).hexdigest()
