"""The statements about people, their companies and their browsers."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from vintem.members.model import TEAM_MAX, Browser, Member, Person, Role, SignedIn
from vintem.runtime.db import Connection, Row

BROWSERS_MAX: Final = 50
ADDRESSES_MAX: Final = 100


async def insert_person(
    db: Connection,
    *,
    person_id: str,
    email: str,
    name: str,
    password_hash: str | None,
    now: datetime,
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
    """Make a person a member of a company; one who is stays what they are."""
    await db.execute(
        """
        insert into member (company_id, person_id, role, created_at) values ($1, $2, $3, $4)
        on conflict (company_id, person_id) do nothing
        """,
        company_id,
        person_id,
        role,
        now,
    )


async def find_person(db: Connection, email: str) -> Person | None:
    """Find a person by e-mail."""
    row = await db.fetchrow(
        """
        select person_id, email, name, password_hash, totp_sealed, totp_last_step
        from person where email = $1
        """,
        email,
    )
    return None if row is None else _person(row)


async def find_person_by_id(db: Connection, person_id: str) -> Person | None:
    """Find a person by id."""
    row = await db.fetchrow(
        """
        select person_id, email, name, password_hash, totp_sealed, totp_last_step
        from person where person_id = $1
        """,
        person_id,
    )
    return None if row is None else _person(row)


async def set_password_hash(db: Connection, person_id: str, password_hash: str) -> None:
    """Write what a person's password is checked by from now on."""
    await db.execute(
        "update person set password_hash = $2 where person_id = $1", person_id, password_hash
    )


async def replace_password_hash(db: Connection, person_id: str, *, old: str, new: str) -> None:
    """Write the same password's hash anew, unless another was chosen meanwhile."""
    await db.execute(
        "update person set password_hash = $3 where person_id = $1 and password_hash = $2",
        person_id,
        old,
        new,
    )


async def company_to_enter(db: Connection, person_id: str) -> int | None:
    """Find the company that a person worked for last, or has joined first."""
    company_id: int | None = await db.fetchval(
        """
        select company_id from member where person_id = $1
        order by signed_in_at desc nulls last, created_at, company_id
        limit 1
        """,
        person_id,
    )
    return company_id


async def find_role(db: Connection, company_id: int, person_id: str) -> Role | None:
    """Find what a person is in a company."""
    role = await db.fetchval(
        "select role from member where company_id = $1 and person_id = $2", company_id, person_id
    )
    return None if role is None else Role(role)


async def lock_roles(db: Connection, company_id: int) -> dict[str, Role]:
    """Hold a company's team as it is until the end of the block; the role of each person."""
    rows = await db.fetch(
        "select person_id, role from member where company_id = $1 order by person_id for update",
        company_id,
    )
    return {row["person_id"]: Role(row["role"]) for row in rows}


async def set_role(db: Connection, company_id: int, person_id: str, role: Role) -> None:
    """Write what a person is from now on."""
    await db.execute(
        "update member set role = $3 where company_id = $1 and person_id = $2",
        company_id,
        person_id,
        role,
    )


async def delete_member(db: Connection, company_id: int, person_id: str) -> None:
    """Let a person be nothing in a company any more."""
    await db.execute(
        "delete from member where company_id = $1 and person_id = $2", company_id, person_id
    )


async def list_members(db: Connection, company_id: int) -> Sequence[Member]:
    """A company's team, the owner first."""
    rows = await db.fetch(
        """
        select person_id, email, name, role, totp_sealed is not null as has_totp,
            member.created_at, signed_in_at
        from member join person using (person_id)
        where company_id = $1
        order by role <> 'owner', name, person_id
        limit $2
        """,
        company_id,
        TEAM_MAX,
    )
    return [
        Member(
            person_id=row["person_id"],
            email=row["email"],
            name=row["name"],
            role=Role(row["role"]),
            has_totp=row["has_totp"],
            joined_at=row["created_at"],
            signed_in_at=row["signed_in_at"],
        )
        for row in rows
    ]


async def note_signed_in(db: Connection, company_id: int, person_id: str, *, now: datetime) -> None:
    """Write when a member came in last."""
    await db.execute(
        "update member set signed_in_at = $3 where company_id = $1 and person_id = $2",
        company_id,
        person_id,
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
            person.totp_sealed is not null as has_totp,
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


async def change_company(
    db: Connection, session_id: str, *, person_id: str, public_id: str
) -> int | None:
    """Take a browser to another company of its person; nothing where they are no member."""
    company_id: int | None = await db.fetchval(
        """
        update sign_in set company_id = company.company_id, kept_for_next_page = null
        from company join member using (company_id)
        where session_id = $1 and company.public_id = $2
            and member.person_id = $3 and sign_in.person_id = $3
        returning company.company_id
        """,
        session_id,
        public_id,
        person_id,
    )
    return company_id


async def set_company(db: Connection, session_id: str, company_id: int) -> None:
    """Take a browser to a company."""
    await db.execute(
        """
        update sign_in set company_id = $2, kept_for_next_page = null where session_id = $1
        """,
        session_id,
        company_id,
    )


async def end_sign_in(db: Connection, digest: bytes, *, now: datetime) -> None:
    """Sign a browser out, which is known by its cookie alone."""
    await db.execute(
        """
        update sign_in set ended_at = $2, kept_for_next_page = null
        where digest = $1 and ended_at is null
        """,
        digest,
        now,
    )


async def end_sign_in_of(db: Connection, person_id: str, session_id: str, *, now: datetime) -> bool:
    """Sign out one of a person's browsers; no, when it is not theirs or was out already."""
    row = await db.fetchrow(
        """
        update sign_in set ended_at = $3, kept_for_next_page = null
        where person_id = $1 and session_id = $2 and ended_at is null
        returning session_id
        """,
        person_id,
        session_id,
        now,
    )
    return row is not None


async def end_sign_ins(
    db: Connection, person_id: str, *, but: str = "", company_id: int | None = None, now: datetime
) -> None:
    """Sign out all browsers of a person, perhaps but one, perhaps those in one company."""
    await db.execute(
        """
        update sign_in set ended_at = $4, kept_for_next_page = null
        where person_id = $1 and session_id <> $2 and ($3::bigint is null or company_id = $3)
            and ended_at is null
        """,
        person_id,
        but,
        company_id,
        now,
    )


async def list_browsers(
    db: Connection, person_id: str, *, now: datetime, idle_max: timedelta, age_max: timedelta
) -> Sequence[Browser]:
    """Where a person is signed in, the last seen first."""
    rows = await db.fetch(
        """
        select session_id, company.name as company_name, ip, user_agent, sign_in.created_at,
            last_seen_at
        from sign_in join company using (company_id)
        where person_id = $1 and ended_at is null and last_seen_at > $2
            and sign_in.created_at > $3
        order by last_seen_at desc, session_id
        limit $4
        """,
        person_id,
        now - idle_max,
        now - age_max,
        BROWSERS_MAX,
    )
    return [
        Browser(
            session_id=row["session_id"],
            company_name=row["company_name"],
            ip=row["ip"],
            user_agent=row["user_agent"],
            created_at=row["created_at"],
            last_seen_at=row["last_seen_at"],
        )
        for row in rows
    ]


async def list_addresses(db: Connection, person_id: str, *, since: datetime) -> Sequence[str]:
    """The addresses that a person has signed in from lately."""
    rows = await db.fetch(
        """
        select ip from sign_in where person_id = $1 and created_at > $2
        group by ip order by max(created_at) desc
        limit $3
        """,
        person_id,
        since,
        ADDRESSES_MAX,
    )
    return [row["ip"] for row in rows]


async def keep_for_next_page(db: Connection, session_id: str, sealed: bytes) -> None:
    """Write what the next page of a browser shows."""
    await db.execute(
        "update sign_in set kept_for_next_page = $2 where session_id = $1", session_id, sealed
    )


async def find_for_next_page(db: Connection, session_id: str) -> bytes | None:
    """Read what is kept for a browser's next page."""
    sealed: bytes | None = await db.fetchval(
        "select kept_for_next_page from sign_in where session_id = $1", session_id
    )
    return sealed


async def forget_for_next_page(db: Connection, session_id: str, sealed: bytes) -> bool:
    """Forget what was kept; no, when another page has taken it meanwhile."""
    row = await db.fetchrow(
        """
        update sign_in set kept_for_next_page = null
        where session_id = $1 and kept_for_next_page = $2
        returning session_id
        """,
        session_id,
        sealed,
    )
    return row is not None


def _person(row: Row) -> Person:
    return Person(
        person_id=row["person_id"],
        email=row["email"],
        name=row["name"],
        password_hash=row["password_hash"],
        totp_sealed=row["totp_sealed"],
        totp_last_step=row["totp_last_step"],
    )


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
        has_totp=row["has_totp"],
        signed_in_at=row["created_at"],
        companies=tuple((public_id, name) for public_id, _, name in companies),
    )
