"""What happens to people and their browsers."""

import hashlib
from datetime import datetime, timedelta
from typing import Final

import argon2

from vintem.kit.ids import Prefix, new_id, new_token
from vintem.members import store
from vintem.members.model import Role, SignedIn
from vintem.runtime.db import Connection, Database

IDLE_MAX: Final = timedelta(minutes=30)
AGE_MAX: Final = timedelta(hours=12)

_hasher: Final = argon2.PasswordHasher()


class EmailTakenError(Exception):
    """Somebody signs in with that e-mail already."""


async def create_person(
    database: Database,
    company_id: int,
    *,
    email: str,
    name: str,
    password: str,
    role: Role,
    now: datetime,
) -> str:
    """Add a person to a company, or raise EmailTakenError."""
    person_id = new_id(Prefix.PERSON)
    async with database.atomic() as block:
        is_new = await store.insert_person(
            block,
            person_id=person_id,
            email=email.strip().lower(),
            name=name,
            password_hash=_hasher.hash(password),
            now=now,
        )
        if not is_new:
            raise EmailTakenError(email)
        await store.insert_member(
            block, company_id=company_id, person_id=person_id, role=role, now=now
        )
    return person_id


async def begin(
    db: Connection, *, person_id: str, company_id: int, ip: str, user_agent: str, now: datetime
) -> str:
    """Sign a browser in; the answer is what its cookie holds, and is not known here afterwards."""
    token = new_token()
    await store.insert_sign_in(
        db,
        session_id=new_id(Prefix.SIGN_IN),
        digest=_digest(token),
        person_id=person_id,
        company_id=company_id,
        ip=ip,
        user_agent=user_agent[:200],
        now=now,
    )
    return token


async def find_signed_in(db: Connection, token: str, *, now: datetime) -> SignedIn | None:
    """Find who is at a browser, unless it was left alone for too long."""
    return await store.find_signed_in(
        db, _digest(token), now=now, idle_max=IDLE_MAX, age_max=AGE_MAX
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
