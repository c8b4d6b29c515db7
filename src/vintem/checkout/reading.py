"""Sessions as their buyers see them, read by many at once: pages ask for them all the time."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from vintem.checkout import public_store
from vintem.checkout.model import PublicSession, digest_of
from vintem.kit.clock import utc_now
from vintem.runtime.db import Connection, Database, row_values
from vintem.runtime.group_commit import GroupCommit

READS_AT_ONCE_MAX: Final = 64
KEPT_MAX: Final = 2_000

Kept = OrderedDict[bytes, tuple[tuple[object, ...], PublicSession]]


class SessionReader:
    """Reads sessions; calls that arrive together share one statement.

    Every call is answered from the database. A row that comes back as it was is not read into
    records again, so that whoever keeps something for such a record knows it by its identity.
    """

    def __init__(self, database: Database) -> None:
        self._reads = GroupCommit[bytes, PublicSession | None](
            database,
            self._read_many,
            sort_key=bytes,
            # One reader with large groups: a second would only make them smaller.
            flushers=1,
            rows_max=READS_AT_ONCE_MAX,
        )
        self._kept: Kept = OrderedDict()

    async def read(self, token: str, now: datetime) -> PublicSession | None:
        """Read all that is shown of a session at some moment after the call."""
        found = await self._reads.write(digest_of(token))
        return None if found is None else replace(found, now=now)

    async def close(self) -> None:
        """Answer what is waiting, then stop."""
        await self._reads.close()

    async def _read_many(
        self, db: Connection, digests: Sequence[bytes]
    ) -> Sequence[PublicSession | None]:
        asked = set(digests)
        keys = [
            (kept[1].session.company_id, kept[1].session.session_id)
            for digest in asked
            if (kept := self._kept.get(digest)) is not None
        ]
        if len(keys) < len(asked):
            unknown = [digest for digest in asked if digest not in self._kept]
            keys += (await public_store.find_sessions(db, unknown)).values()
        rows = await public_store.find_public_rows(db, keys)
        found: dict[bytes, PublicSession] = {}
        for digest, row in rows.items():
            values = row_values(row)
            kept = self._kept.get(digest)
            if kept is None or kept[0] != values:
                kept = self._kept[digest] = values, public_store.public_of(row, now=utc_now())
            self._kept.move_to_end(digest)
            found[digest] = kept[1]
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return [found.get(digest) for digest in digests]
