"""The statements about people, their companies and their browsers."""

from datetime import datetime, timedelta

from vintem.members.model import Role, SignedIn
from vintem.runtime.db import Connection, Row


async def insert_person(
    db: Connection, *, person_id: str, email: str, name: str, password_hash: str, now: datetime
) -> bool:
    """Write a person; no, when somebody has the e-mail already."""
    row = await db.fetchrow(
        """
        insert into person (person_id, email, name, password_hash, created_at)
        values ($1, $2, $3, $4, $5)
        on conflict (email) do nothing
        returning person_id
        """,
        person_id,
        email,
        name,
        password_hash,
        now,
    )
    return row is not None


async def insert_member(
    db: Connection, *, company_id: int, person_id: str, role: Role, now: datetime
) -> None:
    """Make a person a member of a company."""
    await db.execute(
        "insert into member (company_id, person_id, role, created_at) values ($1, $2, $3, $4)",
        company_id,
        person_id,
        role,
        now,
    )


async def insert_sign_in(
    db: Connection,
    *,
    session_id: str,
    digest: bytes,
    person_id: str,
    company_id: int,
    ip: str,
    user_agent: str,
    now: datetime,
) -> None:
    """Write that a browser is signed in."""
    await db.execute(
        """
        insert into sign_in
            (session_id, digest, person_id, company_id, ip, user_agent, created_at, last_seen_at)
        values ($1, $2, $3, $4, $5, $6, $7, $7)
        """,
        session_id,
        digest,
        person_id,
        company_id,
        ip,
        user_agent,
        now,
    )


async def find_signed_in(
    db: Connection, digest: bytes, *, now: datetime, idle_max: timedelta, age_max: timedelta
) -> SignedIn | None:
    """Find who is at a browser, and note that they were seen."""
    row = await db.fetchrow(
        """
        with seen as (
            update sign_in set last_seen_at = $2
            where digest = $1 and ended_at is null and last_seen_at > $3 and created_at > $4
            returning session_id, person_id, company_id, created_at
        )
        select seen.session_id, seen.created_at, person.person_id, person.email, person.name,
            company.company_id, company.public_id, company.name as company_name,
            company.status = 'suspended' as is_company_suspended, member.role,
            array(
                select other.public_id || ' ' || other.name
                from member as also
                join company as other using (company_id)
                where also.person_id = person.person_id
                order by other.name, other.public_id
            ) as companies
        from seen
        join person using (person_id)
        join company using (company_id)
        join member using (company_id, person_id)
        """,
        digest,
        now,
        now - idle_max,
        now - age_max,
    )
    return None if row is None else _signed_in(row)


def _signed_in(row: Row) -> SignedIn:
    companies = [text.partition(" ") for text in row["companies"]]
    return SignedIn(
        session_id=row["session_id"],
        person_id=row["person_id"],
        email=row["email"],
        name=row["name"],
        company_id=row["company_id"],
        company_public_id=row["public_id"],
        company_name=row["company_name"],
        is_company_suspended=row["is_company_suspended"],
        role=Role(row["role"]),
        has_totp=False,
        signed_in_at=row["created_at"],
        companies=tuple((public_id, name) for public_id, _, name in companies),
    )
