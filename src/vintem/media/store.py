"""The SQL of pictures."""

from datetime import datetime

from vintem.media.model import Drawn
from vintem.runtime.db import Connection


async def insert_picture(
    db: Connection,
    *,
    company_id: int,
    environment: str,
    digest: bytes,
    drawn: Drawn,
    now: datetime,
) -> None:
    """Keep a picture; one that is there already stays as it is, and so does its place."""
    await db.execute(
        """
        with kept as (
            insert into media_picture (
                company_id, environment, digest, width, height, content, created_at
            ) values ($1, $2, $3, $4, $5, $6, $7)
            on conflict do nothing
        )
        insert into media_place (digest, company_id, environment) values ($3, $1, $2)
        on conflict do nothing
        """,
        company_id,
        environment,
        digest,
        drawn.width,
        drawn.height,
        drawn.content,
        now,
    )


async def copy_picture(
    db: Connection, *, company_id: int, digest: bytes, source: str, target: str, now: datetime
) -> None:
    """Keep a picture of one environment in another one, too."""
    await db.execute(
        """
        insert into media_picture (
            company_id, environment, digest, width, height, content, created_at
        )
        select company_id, $4::text, digest, width, height, content, $5::timestamptz
        from media_picture where company_id = $1 and digest = $2 and environment = $3
        on conflict do nothing
        """,
        company_id,
        digest,
        source,
        target,
        now,
    )


async def read_content(db: Connection, digest: bytes) -> bytes | None:
    """The bytes of a picture, whosever it is."""
    content: bytes | None = await db.fetchval(
        """
        select content from media_picture
        join media_place using (company_id, environment, digest)
        where digest = $1
        """,
        digest,
    )
    return content
