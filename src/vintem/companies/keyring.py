"""Finding the caller of a key at once: known keys in memory, checked again every two seconds."""

import asyncio
import hashlib
import math
import secrets
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from vintem.companies import keys, store
from vintem.companies.model import Caller
from vintem.kit.clock import utc_now
from vintem.runtime.db import Database, DatabaseUnavailableError

log = structlog.get_logger()

TRUST_SECONDS_MAX: Final = 4.0
SWEEP_SECONDS: Final = 2.0
TOUCH_SECONDS: Final = 60.0
FORGET_SECONDS: Final = 600.0
KNOWN_KEYS_MAX: Final = 50_000


@dataclass(slots=True)
class _Known:
    digest: bytes
    caller: Caller
    checked_at: float
    used_at: float
    touched_at: float


class Keyring:
    """Who a key belongs to. Only working keys are remembered, and for at most 4 s unchecked."""

    def __init__(self, database: Database, *, pepper: bytes) -> None:
        self._database = database
        self._pepper = pepper
        # Under names of this process's own: they are made in a third of the time of a digest.
        self._known: dict[bytes, _Known] = {}
        self._naming_secret = secrets.token_bytes(32)
        self._lookups: dict[bytes, asyncio.Task[Caller | None]] = {}

    def find_known(self, key: bytes) -> Caller | None:
        """Find the caller of a key checked moments ago, without waiting for anything."""
        known = self._known.get(self._name_of(key))
        if known is None:
            return None
        now = time.monotonic()
        if now - known.checked_at > TRUST_SECONDS_MAX:
            return None
        known.used_at = now
        return known.caller

    async def find(self, key: bytes) -> Caller | None:
        """Find the caller of a key in the database; unknown, revoked and ended look the same."""
        name = self._name_of(key)
        # Calls that arrive together with a key nobody has seen lately ask the database once.
        lookup = self._lookups.get(name)
        if lookup is None:
            digest = keys.digest(key, pepper=self._pepper)
            lookup = self._lookups[name] = asyncio.create_task(self._look_up(name, digest))
            lookup.add_done_callback(lambda _: self._lookups.pop(name, None))
        return await asyncio.shield(lookup)

    async def _look_up(self, name: bytes, digest: bytes) -> Caller | None:
        asked_at = time.monotonic()
        found = await store.find_callers(self._database, [digest], now=utc_now())
        caller = found.get(digest)
        if caller is None:
            self._known.pop(name, None)
            return None
        if name in self._known or len(self._known) < KNOWN_KEYS_MAX:
            touched_at = self._known[name].touched_at if name in self._known else -math.inf
            self._known[name] = _Known(digest, caller, asked_at, asked_at, touched_at)
        return caller

    def _name_of(self, key: bytes) -> bytes:
        """What a key is remembered by, so that none stays in memory itself."""
        return hashlib.blake2b(key, key=self._naming_secret).digest()

    async def keep_fresh(self) -> None:
        """Until cancelled: check every known key again, and note which were used."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.sweep()
                await self.note_use()
            except DatabaseUnavailableError as away:
                log.warning("keys could not be checked again", cause=str(away))
            except Exception:
                # Whatever it was, keys must go on being checked: revoked ones would else work on.
                log.exception("keys could not be checked again")

    async def sweep(self) -> None:
        """Check all known keys with one statement and forget those that no longer work."""
        asked_at = time.monotonic()
        digests = [
            known.digest
            for known in self._known.values()
            if asked_at - known.used_at < FORGET_SECONDS
        ]
        found = await store.find_callers(self._database, digests, now=utc_now()) if digests else {}
        for name, known in list(self._known.items()):
            caller = found.get(known.digest)
            if caller is not None:
                known.caller, known.checked_at = caller, asked_at
            elif known.checked_at < asked_at:
                del self._known[name]

    async def note_use(self) -> None:
        """Write when keys were last used, at most once a minute a key."""
        now = time.monotonic()
        used = [
            known
            for known in self._known.values()
            if known.used_at > known.touched_at and now - known.touched_at >= TOUCH_SECONDS
        ]
        if used:
            await store.touch_keys(
                self._database,
                [known.caller.key_id for known in used],
                now=utc_now(),
                at_most_every=timedelta(seconds=TOUCH_SECONDS),
            )
            for known in used:
                known.touched_at = now
