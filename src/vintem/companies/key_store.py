"""The SQL of keys as their company sees them."""

from collections.abc import Sequence
from datetime import datetime
from ipaddress import ip_network

from vintem.companies.model import ApiKey, Environment, KeyType, Network
from vintem.runtime.db import Connection, Row


async def insert_key(db: Connection, key: ApiKey, *, digest: bytes) -> None:
    """Add a key by its digest."""
    await db.execute(
        """
        insert into api_key (
            key_id, company_id, type, environment, digest, last_four, label, allowed_networks,
            created_at, expires_at, created_by
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        """,
        key.key_id,
        key.company_id,
        key.type,
        key.environment,
        digest,
        key.last_four,
        key.label,
        [str(network) for network in key.allowed_networks],
        key.created_at,
        key.expires_at,
        key.created_by,
    )


async def lock_key(db: Connection, key_id: str) -> ApiKey | None:
    """Read a key and keep others from changing it until the block ends."""
    row = await db.fetchrow("select * from api_key where key_id = $1 for update", key_id)
    return None if row is None else _key(row)


async def list_keys(db: Connection, company_id: int) -> Sequence[ApiKey]:
    """All keys of a company, the oldest first."""
    rows = await db.fetch(
        "select * from api_key where company_id = $1 order by created_at, key_id", company_id
    )
    return [_key(row) for row in rows]


async def list_keys_of(
    db: Connection, company_id: int, environment: Environment, *, rows_max: int
) -> Sequence[ApiKey]:
    """The keys of a company in an environment, the newest first."""
    rows = await db.fetch(
        """
        select * from api_key where company_id = $1 and environment = $2
        order by created_at desc, key_id desc limit $3
        """,
        company_id,
        environment,
        rows_max,
    )
    return [_key(row) for row in rows]


async def find_key(
    db: Connection, company_id: int, environment: Environment, key_id: str
) -> ApiKey | None:
    """Find a key of a company in an environment."""
    row = await db.fetchrow(
        "select * from api_key where company_id = $1 and environment = $2 and key_id = $3",
        company_id,
        environment,
        key_id,
    )
    return None if row is None else _key(row)


async def update_key(
    db: Connection, key_id: str, *, label: str, allowed_networks: Sequence[Network]
) -> ApiKey | None:
    """Set what a key is called, and from where it may call."""
    row = await db.fetchrow(
        "update api_key set label = $2, allowed_networks = $3 where key_id = $1 returning *",
        key_id,
        label,
        [str(network) for network in allowed_networks],
    )
    return None if row is None else _key(row)


async def replace_key(
    db: Connection, key_id: str, *, replaced_by: str, expires_at: datetime
) -> None:
    """Let a key end because another took its place; an earlier end stays."""
    await db.execute(
        """
        update api_key set replaced_by = $2, expires_at = least(expires_at, $3::timestamptz)
        where key_id = $1
        """,
        key_id,
        replaced_by,
        expires_at,
    )


async def revoke_key(db: Connection, key_id: str, *, now: datetime) -> ApiKey | None:
    """End a key now; the first revocation counts."""
    row = await db.fetchrow(
        """
        update api_key set revoked_at = coalesce(revoked_at, $2) where key_id = $1 returning *
        """,
        key_id,
        now,
    )
    return None if row is None else _key(row)


def _key(row: Row) -> ApiKey:
    return ApiKey(
        key_id=row["key_id"],
        company_id=row["company_id"],
        type=KeyType(row["type"]),
        environment=Environment(row["environment"]),
        last_four=row["last_four"],
        label=row["label"],
        allowed_networks=tuple(ip_network(text) for text in row["allowed_networks"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
        replaced_by=row["replaced_by"],
        created_by=row["created_by"],
    )
