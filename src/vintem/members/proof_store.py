"""The statements about what proves who somebody is: tries, codes, links, invitations."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from vintem.members.model import TEAM_MAX, Invitation, Role
from vintem.runtime.db import Connection, Row


async def add_try(
    db: Connection,
    account: bytes,
    address: str,
    *,
    tries_max: int,
    window: timedelta,
    now: datetime,
) -> bool:
    """Count a try, unless there are as many as may be; of tries at once none slips through."""
    row = await db.fetchrow(
        """
        insert into sign_in_tries as kept (who, address, tried_at, last_at)
        values ($1, $2, array[$3::timestamptz], $3)
        on conflict (who, address) do update set last_at = $3, tried_at =
            array(select one from unnest(kept.tried_at) as one where one > $4) || $3
        where (select count(*) from unnest(kept.tried_at) as one where one > $4) < $5
        returning who
        """,
        account,
        address,
        now,
        now - window,
        tries_max,
    )
    return row is not None


async def forget_tries(db: Connection, account: bytes, address: str, *, at: datetime) -> None:
    """Forget the tries of one address, and the last of them among those of all."""
    await db.execute("delete from sign_in_tries where who = $1 and address = $2", account, address)
    await db.execute(
        """
        update sign_in_tries set tried_at = array_remove(tried_at, $2)
        where who = $1 and address = ''
        """,
        account,
        at,
    )


async def forget_all_tries(db: Connection, account: bytes) -> None:
    """Forget every try at an account."""
    await db.execute("delete from sign_in_tries where who = $1", account)


async def offer_totp(db: Connection, person_id: str, sealed: bytes, *, now: datetime) -> None:
    """Keep a secret that is being shown, until a code proves that it has arrived."""
    await db.execute(
        """
        update person set totp_offered_sealed = $2, totp_offered_at = $3 where person_id = $1
        """,
        person_id,
        sealed,
        now,
    )


async def find_offered_totp(db: Connection, person_id: str, *, since: datetime) -> bytes | None:
    """Find the secret that is being shown to a person."""
    sealed: bytes | None = await db.fetchval(
        "select totp_offered_sealed from person where person_id = $1 and totp_offered_at > $2",
        person_id,
        since,
    )
    return sealed


async def set_totp(
    db: Connection, person_id: str, sealed: bytes | None, *, step: int | None
) -> None:
    """Begin or end asking a person for codes; the first one is used up by proving the secret."""
    await db.execute(
        """
        update person set totp_sealed = $2, totp_last_step = $3, totp_offered_sealed = null,
            totp_offered_at = null
        where person_id = $1
        """,
        person_id,
        sealed,
        step,
    )


async def use_step(db: Connection, person_id: str, sealed: bytes, step: int) -> bool:
    """Use a code up; no, when it or a later one was used, or the secret was changed."""
    row = await db.fetchrow(
        """
        update person set totp_last_step = $3
        where person_id = $1 and totp_sealed = $2
            and (totp_last_step is null or totp_last_step < $3)
        returning person_id
        """,
        person_id,
        sealed,
        step,
    )
    return row is not None


async def replace_backup_codes(db: Connection, person_id: str, digests: Sequence[bytes]) -> None:
    """Forget a person's codes, and keep new ones."""
    await db.execute("delete from backup_code where person_id = $1", person_id)
    await db.execute(
        "insert into backup_code (person_id, digest) select $1, unnest($2::bytea[])",
        person_id,
        digests,
    )


async def use_backup_code(db: Connection, person_id: str, digest: bytes, *, now: datetime) -> bool:
    """Use a code up; no, when there is no such one, or it was used."""
    row = await db.fetchrow(
        """
        update backup_code set used_at = $3
        where person_id = $1 and digest = $2 and used_at is null
        returning person_id
        """,
        person_id,
        digest,
        now,
    )
    return row is not None


async def count_backup_codes(db: Connection, person_id: str) -> int:
    """Count the codes that a person has left."""
    count: int = await db.fetchval(
        "select count(*) from backup_code where person_id = $1 and used_at is null", person_id
    )
    return count


async def insert_link(
    db: Connection, digest: bytes, person_id: str, *, lifetime: timedelta, now: datetime
) -> None:
    """Write a link by which a person chooses a password; earlier ones end."""
    await end_links(db, person_id, now=now)
    await db.execute(
        """
        insert into password_link (digest, person_id, created_at, expires_at)
        values ($1, $2, $3, $4)
        """,
        digest,
        person_id,
        now,
        now + lifetime,
    )


async def end_links(db: Connection, person_id: str, *, now: datetime) -> None:
    """End the links by which a person could choose a password."""
    await db.execute(
        "update password_link set used_at = $2 where person_id = $1 and used_at is null",
        person_id,
        now,
    )


async def find_link(db: Connection, digest: bytes, *, now: datetime) -> str | None:
    """Find whose link this is, if it still works."""
    person_id: str | None = await db.fetchval(
        """
        select person_id from password_link
        where digest = $1 and used_at is null and expires_at > $2
        """,
        digest,
        now,
    )
    return person_id


async def use_link(db: Connection, digest: bytes, *, now: datetime) -> str | None:
    """Use a link up, if it still works; whose it was."""
    person_id: str | None = await db.fetchval(
        """
        update password_link set used_at = $2
        where digest = $1 and used_at is null and expires_at > $2
        returning person_id
        """,
        digest,
        now,
    )
    return person_id


async def insert_invitation(
    db: Connection,
    *,
    invitation_id: str,
    digest: bytes,
    company_id: int,
    email: str,
    role: Role,
    invited_by: str | None,
    lifetime: timedelta,
    now: datetime,
) -> None:
    """Write that somebody is asked to join a company; an earlier invitation ends."""
    await db.execute(
        """
        update invitation set revoked_at = $3
        where company_id = $1 and email = $2 and accepted_at is null and revoked_at is null
        """,
        company_id,
        email,
        now,
    )
    await db.execute(
        """
        insert into invitation (invitation_id, digest, company_id, email, role, invited_by,
            created_at, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8)
        """,
        invitation_id,
        digest,
        company_id,
        email,
        role,
        invited_by,
        now,
        now + lifetime,
    )


async def find_invitation(db: Connection, digest: bytes, *, now: datetime) -> Invitation | None:
    """Find an invitation by its link, if it still works."""
    row = await db.fetchrow(
        """
        select invitation_id, company_id, company.name as company_name, invitation.email, role,
            coalesce(person.name, '') as invited_by, invitation.created_at, expires_at
        from invitation join company using (company_id)
        left join person on person_id = invited_by
        where digest = $1 and accepted_at is null and revoked_at is null and expires_at > $2
        """,
        digest,
        now,
    )
    return None if row is None else _invitation(row)


async def find_open_invitation(
    db: Connection, company_id: int, invitation_id: str
) -> Invitation | None:
    """Find an invitation of a company that was neither accepted nor revoked."""
    row = await db.fetchrow(
        """
        select invitation_id, company_id, company.name as company_name, invitation.email, role,
            coalesce(person.name, '') as invited_by, invitation.created_at, expires_at
        from invitation join company using (company_id)
        left join person on person_id = invited_by
        where company_id = $1 and invitation_id = $2 and accepted_at is null
            and revoked_at is null
        """,
        company_id,
        invitation_id,
    )
    return None if row is None else _invitation(row)


async def list_invitations(db: Connection, company_id: int) -> Sequence[Invitation]:
    """A company's invitations that nobody has answered, the newest first."""
    rows = await db.fetch(
        """
        select invitation_id, company_id, company.name as company_name, invitation.email, role,
            coalesce(person.name, '') as invited_by, invitation.created_at, expires_at
        from invitation join company using (company_id)
        left join person on person_id = invited_by
        where company_id = $1 and accepted_at is null and revoked_at is null
        order by invitation.created_at desc, invitation_id
        limit $2
        """,
        company_id,
        TEAM_MAX,
    )
    return [_invitation(row) for row in rows]


async def accept_invitation(db: Connection, digest: bytes, *, now: datetime) -> bool:
    """Use an invitation up; no, when it does not work any more."""
    row = await db.fetchrow(
        """
        update invitation set accepted_at = $2
        where digest = $1 and accepted_at is null and revoked_at is null and expires_at > $2
        returning invitation_id
        """,
        digest,
        now,
    )
    return row is not None


async def revoke_invitation(
    db: Connection, company_id: int, invitation_id: str, *, now: datetime
) -> bool:
    """End an invitation; no, when it was answered or ended."""
    row = await db.fetchrow(
        """
        update invitation set revoked_at = $3
        where company_id = $1 and invitation_id = $2 and accepted_at is null
            and revoked_at is null
        returning invitation_id
        """,
        company_id,
        invitation_id,
        now,
    )
    return row is not None


async def revoke_invitations_by(
    db: Connection, company_id: int, person_id: str, *, now: datetime
) -> None:
    """End the open invitations that a member has made."""
    await db.execute(
        """
        update invitation set revoked_at = $3
        where company_id = $1 and invited_by = $2 and accepted_at is null and revoked_at is null
        """,
        company_id,
        person_id,
        now,
    )


async def forget_old(
    db: Connection, *, tries_before: datetime, sign_ins_before: datetime, links_before: datetime
) -> int:
    """Delete tries, sign-ins and links that nobody asks about any more."""
    tags = [
        await db.execute("delete from sign_in_tries where last_at < $1", tries_before),
        await db.execute("delete from sign_in where created_at < $1", sign_ins_before),
        await db.execute("delete from password_link where expires_at < $1", links_before),
    ]
    return sum(int(tag.rpartition(" ")[2]) for tag in tags)


def _invitation(row: Row) -> Invitation:
    return Invitation(
        invitation_id=row["invitation_id"],
        company_id=row["company_id"],
        company_name=row["company_name"],
        email=row["email"],
        role=Role(row["role"]),
        invited_by=row["invited_by"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )
