"""Choosing a password: anew by a one-time link, or as somebody who is signed in."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from vintem.kit.ids import new_token
from vintem.members import proof_store, store, tries
from vintem.members.model import Person, SignedIn
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection, Database

LINK_LIFETIME: Final = timedelta(hours=1)
FIRST_LINK_LIFETIME: Final = timedelta(days=7)
"""Of a link that an operator hands over to somebody who has no password yet."""


@dataclass(frozen=True, slots=True)
class NewLink:
    """A link just made: whose it is, and its secret part, which is not known here afterwards."""

    person: Person
    token: str


async def make_link(db: Connection, person_id: str, *, lifetime: timedelta, now: datetime) -> str:
    """Make the secret part of a link by which a person chooses a password; earlier ones end."""
    token = new_token()
    await proof_store.insert_link(db, _digest(token), person_id, lifetime=lifetime, now=now)
    return token


async def ask_link(
    database: Database, sealer: Sealer, email: str, *, address: str, now: datetime
) -> NewLink | None:
    """Make a link for whoever has an e-mail; nothing when nobody has, or it was asked too often."""
    account = tries.account_of(sealer, tries.RESETS, email)
    is_admitted = await tries.admit(
        database, account, tries.RESETS, address=address, is_known_address=False, now=now
    )
    person = await store.find_person(database, email)
    if person is None or not is_admitted:
        return None
    async with database.atomic() as block:
        token = await make_link(block, person.person_id, lifetime=LINK_LIFETIME, now=now)
    return NewLink(person, token)


async def find_by_link(db: Connection, token: str, *, now: datetime) -> Person | None:
    """Find whose link this is, if it still works."""
    person_id = await proof_store.find_link(db, _digest(token), now=now)
    return None if person_id is None else await store.find_person_by_id(db, person_id)


async def choose_by_link(
    block: Connection, sealer: Sealer, token: str, password_hash: str, *, now: datetime
) -> Person | None:
    """Use a link up: set the password and sign out every browser; nothing when it is of no use."""
    person_id = await proof_store.use_link(block, _digest(token), now=now)
    if person_id is None:
        return None
    await store.set_password_hash(block, person_id, password_hash)
    await store.end_sign_ins(block, person_id, now=now)
    person = await store.find_person_by_id(block, person_id)
    assert person is not None, "a link is somebody's"
    account = tries.account_of(sealer, tries.PASSWORDS, person.email)
    await proof_store.forget_all_tries(block, account)
    return person


async def change_password(
    block: Connection, member: SignedIn, password_hash: str, *, now: datetime
) -> None:
    """Set another password: every other browser is signed out, and links end."""
    await store.set_password_hash(block, member.person_id, password_hash)
    await store.end_sign_ins(block, member.person_id, but=member.session_id, now=now)
    await proof_store.end_links(block, member.person_id, now=now)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
