"""The second step: an authenticator's codes, and those on paper that stand in for it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from vintem.members import proof_store, store, totp, tries
from vintem.members.model import Person, SignedIn, Verdict
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection

OFFER_LIFETIME: Final = timedelta(minutes=15)
AT_WORK: Final = "at work"
"""Stands for the address of somebody who is signed in: their browser is known."""


async def prove(
    db: Connection, sealer: Sealer, member: SignedIn, code: str, *, now: datetime
) -> bool:
    """Check a code of somebody who is signed in and does something that matters; each counts once.

    No also for whoever has no second step, and after too many wrong codes.
    """
    person = await store.find_person_by_id(db, member.person_id)
    if person is None or not person.has_totp:
        return False
    verdict = await check_code(db, sealer, person, code, address=AT_WORK, now=now)
    return verdict is Verdict.RIGHT


async def check_code(
    db: Connection, sealer: Sealer, person: Person, code: str, *, address: str, now: datetime
) -> Verdict:
    """Use up a code of the authenticator, or one on paper; each works once, and tries are few."""
    account = tries.account_of(sealer, tries.CODES, person.person_id)
    is_admitted = await tries.admit(
        db,
        account,
        tries.CODES,
        address=address,
        is_known_address=address == AT_WORK,
        now=now,
    )
    if not is_admitted:
        return Verdict.TOO_MANY
    if not await _use_code(db, sealer, person, code, now=now):
        return Verdict.WRONG
    await tries.forgive(db, account, address=address, at=now)
    return Verdict.RIGHT


async def _use_code(
    db: Connection, sealer: Sealer, person: Person, code: str, *, now: datetime
) -> bool:
    if person.totp_sealed is None:
        return False
    secret = _open(sealer, person.person_id, person.totp_sealed)
    step = totp.step_of(secret, code, now=now, after=person.totp_last_step)
    if step is not None:
        return await proof_store.use_step(db, person.person_id, person.totp_sealed, step)
    digest = _backup_digest(sealer, person.person_id, code)
    return await proof_store.use_backup_code(db, person.person_id, digest, now=now)


async def offer(db: Connection, sealer: Sealer, person_id: str, *, now: datetime) -> str:
    """Make a secret to be shown, and taken once a code proves that an authenticator has it."""
    secret = totp.new_secret()
    sealed = sealer.seal(secret.encode(), purpose=_purpose(person_id))
    await proof_store.offer_totp(db, person_id, sealed, now=now)
    return secret


async def find_offered(
    db: Connection, sealer: Sealer, person_id: str, *, now: datetime
) -> str | None:
    """Find the secret that is being shown."""
    sealed = await proof_store.find_offered_totp(db, person_id, since=now - OFFER_LIFETIME)
    return None if sealed is None else _open(sealer, person_id, sealed)


async def enrol(
    db: Connection, sealer: Sealer, person_id: str, code: str, *, now: datetime
) -> Sequence[str] | None:
    """Ask for codes from now on, if the code fits what was shown; the codes to keep on paper."""
    sealed = await proof_store.find_offered_totp(db, person_id, since=now - OFFER_LIFETIME)
    if sealed is None:
        return None
    step = totp.step_of(_open(sealer, person_id, sealed), code, now=now, after=None)
    if step is None:
        return None
    await proof_store.set_totp(db, person_id, sealed, step=step)
    return await renew_backup_codes(db, sealer, person_id)


async def renew_backup_codes(db: Connection, sealer: Sealer, person_id: str) -> Sequence[str]:
    """Make new codes to keep on paper; the old ones end."""
    codes = totp.new_backup_codes()
    digests = [_backup_digest(sealer, person_id, code) for code in codes]
    await proof_store.replace_backup_codes(db, person_id, digests)
    return codes


async def count_backup_codes(db: Connection, person_id: str) -> int:
    """Count the codes that a person has left."""
    return await proof_store.count_backup_codes(db, person_id)


async def end(db: Connection, person_id: str) -> None:
    """Ask for no code any more."""
    await proof_store.set_totp(db, person_id, None, step=None)
    await proof_store.replace_backup_codes(db, person_id, [])


def _open(sealer: Sealer, person_id: str, sealed: bytes) -> str:
    secret = sealer.open(sealed, purpose=_purpose(person_id))
    assert secret is not None, "the secret was sealed for this person with this pepper"
    return secret.decode()


def _purpose(person_id: str) -> bytes:
    return b"authenticator of " + person_id.encode()


def _backup_digest(sealer: Sealer, person_id: str, code: str) -> bytes:
    return sealer.digest(totp.plain(code).encode(), purpose=b"backup code of " + person_id.encode())
