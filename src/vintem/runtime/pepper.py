"""Whether the pepper is the one that this database was made with."""

import hmac
from typing import Final

from vintem.runtime.crypto import derive
from vintem.runtime.db import Connection

PURPOSE: Final = b"check"


class WrongPepperError(Exception):
    """Another pepper was used with this database before: no key and no document would open."""


async def check_pepper(db: Connection, pepper: bytes) -> None:
    """Remember the first pepper by its digest, and refuse any other."""
    digest = derive(pepper, PURPOSE)
    known = await _find_digest(db)
    if known is None:
        await _insert_digest(db, digest)
        known = await _find_digest(db)
    assert known is not None, "a digest that was inserted stays"
    if not hmac.compare_digest(known, digest):
        raise WrongPepperError(
            "The pepper is not the one that this database was made with, so no API key would be"
            " known and no document could be read. Set VINTEM_PEPPER to the one it was made with;"
            " with an embedded database that is in secrets.json of the data folder."
        )


async def _find_digest(db: Connection) -> bytes | None:
    digest: bytes | None = await db.fetchval("select digest from pepper_check")
    return digest


async def _insert_digest(db: Connection, digest: bytes) -> None:
    # Of several processes that start at once, the first one decides.
    await db.execute("insert into pepper_check (digest) values ($1) on conflict do nothing", digest)
