"""What happens to people and their browsers."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from vintem.kit.ids import Prefix, new_id, new_token
from vintem.members import proof_store, second_factor, store
from vintem.members.model import AGE_MAX, IDLE_MAX, Browser, Member, Person, Role, SignedIn
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection

USER_AGENT_CHARACTERS_MAX: Final = 200
TRIES_KEPT: Final = timedelta(days=1)
SIGN_INS_KEPT: Final = timedelta(days=90)
LINKS_KEPT: Final = timedelta(days=30)

prove = second_factor.prove


class EmailTakenError(Exception):
    """Somebody signs in with that e-mail already."""


async def create_person(
    db: Connection,
    company_id: int,
    *,
    email: str,
    name: str,
    password_hash: str | None,
    role: Role,
    now: datetime,
) -> str:
    """Add a person to a company, or raise EmailTakenError; to be called in an atomic block.

    One without a password cannot sign in until a link lets them choose it.
    """
    person_id = new_id(Prefix.PERSON)
    is_new = await store.insert_person(
        db,
        person_id=person_id,
        email=email.strip().lower(),
        name=name,
        password_hash=password_hash,
        now=now,
    )
    if not is_new:
        raise EmailTakenError(email)
    await store.insert_member(db, company_id=company_id, person_id=person_id, role=role, now=now)
    return person_id


async def add_member(
    db: Connection, company_id: int, person_id: str, role: Role, *, now: datetime
) -> None:
    """Let a person that signs in already be a member of one more company."""
    await store.insert_member(db, company_id=company_id, person_id=person_id, role=role, now=now)


async def list_members(db: Connection, company_id: int) -> Sequence[Member]:
    """A company's team, the owner first."""
    return await store.list_members(db, company_id)


async def find_person(db: Connection, email: str) -> Person | None:
    """Find a person by e-mail."""
    return await store.find_person(db, email.strip().lower())


async def find_person_by_id(db: Connection, person_id: str) -> Person | None:
    """Find a person by id."""
    return await store.find_person_by_id(db, person_id)


async def company_to_enter(db: Connection, person_id: str) -> int | None:
    """Find the company that a person worked for last, or has joined first."""
    return await store.company_to_enter(db, person_id)


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
        user_agent=user_agent[:USER_AGENT_CHARACTERS_MAX],
        now=now,
    )
    await store.note_signed_in(db, company_id, person_id, now=now)
    return token


async def find_signed_in(db: Connection, token: str, *, now: datetime) -> SignedIn | None:
    """Find who is at a browser, unless it was left alone for too long."""
    return await store.find_signed_in(
        db, _digest(token), now=now, idle_max=IDLE_MAX, age_max=AGE_MAX
    )


async def change_company(
    db: Connection, member: SignedIn, public_id: str, *, now: datetime
) -> int | None:
    """Take a browser to another company of its person; nothing where they are no member."""
    company_id = await store.change_company(
        db, member.session_id, person_id=member.person_id, public_id=public_id
    )
    if company_id is not None:
        await store.note_signed_in(db, company_id, member.person_id, now=now)
    return company_id


async def enter_company(
    db: Connection, member: SignedIn, company_id: int, *, now: datetime
) -> None:
    """Take a browser to a company that its person has just joined."""
    await store.set_company(db, member.session_id, company_id)
    await store.note_signed_in(db, company_id, member.person_id, now=now)


async def find_role(db: Connection, company_id: int, person_id: str) -> Role | None:
    """Find what a person is in a company."""
    return await store.find_role(db, company_id, person_id)


async def end(db: Connection, token: str, *, now: datetime) -> None:
    """Sign a browser out by its cookie; one that is not known changes nothing."""
    await store.end_sign_in(db, _digest(token), now=now)


async def end_browser(db: Connection, person_id: str, session_id: str, *, now: datetime) -> bool:
    """Sign out one of a person's browsers; no, when it is not theirs."""
    return await store.end_sign_in_of(db, person_id, session_id, now=now)


async def end_other_browsers(db: Connection, member: SignedIn, *, now: datetime) -> None:
    """Sign out all of a person's browsers but this one."""
    await store.end_sign_ins(db, member.person_id, but=member.session_id, now=now)


async def list_browsers(db: Connection, person_id: str, *, now: datetime) -> Sequence[Browser]:
    """Where a person is signed in, the last seen first."""
    return await store.list_browsers(db, person_id, now=now, idle_max=IDLE_MAX, age_max=AGE_MAX)


async def keep_for_next_page(
    db: Connection, sealer: Sealer, member: SignedIn, text: str, *, place: str
) -> None:
    """Keep a text, sealed, for the next page of a browser that asks for it under the same place."""
    purpose = _next_page_purpose(member, place)
    sealed = sealer.seal(text.encode(), purpose=purpose)
    await store.keep_for_next_page(db, member.session_id, sealed)


async def take_for_next_page(
    db: Connection, sealer: Sealer, member: SignedIn, *, place: str
) -> str | None:
    """Read what was kept for this page, and forget it: it is shown once."""
    sealed = await store.find_for_next_page(db, member.session_id)
    text = None
    if sealed is not None:
        text = sealer.open(sealed, purpose=_next_page_purpose(member, place))
    if sealed is None or text is None:
        return None
    is_ours = await store.forget_for_next_page(db, member.session_id, sealed)
    return text.decode() if is_ours else None


async def forget_old(db: Connection, *, now: datetime) -> int:
    """Delete tries, sign-ins and links that nobody asks about any more."""
    return await proof_store.forget_old(
        db,
        tries_before=now - TRIES_KEPT,
        sign_ins_before=now - SIGN_INS_KEPT,
        links_before=now - LINKS_KEPT,
    )


def _next_page_purpose(member: SignedIn, place: str) -> bytes:
    return f"next page {member.session_id} {member.company_id} {place}".encode()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
