"""API keys: their form, what is kept of them, how they end, and who remembers them."""

import asyncio
import re
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.api import TEST_PEPPER, Tenant, new_key
from vintem.audit import audit
from vintem.companies import keyring, keys
from vintem.companies import service as companies
from vintem.companies.keyring import Keyring
from vintem.companies.keys import BASE62, KeyForm, digest, read_form
from vintem.companies.model import ApiKey, Environment, KeyType
from vintem.kit.clock import utc_now
from vintem.runtime.db import Database, DatabaseUnavailableError

PEPPER = TEST_PEPPER.encode()
FORM = re.compile(r"(sk|ck)_(live|test)_[0-9A-Za-z]{38}")

kinds = st.tuples(st.sampled_from(KeyType), st.sampled_from(Environment))
made_keys = kinds.map(lambda kind: keys.new_key(*kind))


# The form


@given(kinds)
def test_a_new_key_says_its_type_and_environment(kind: tuple[KeyType, Environment]) -> None:
    key = keys.new_key(*kind)
    assert FORM.fullmatch(key)
    assert key.startswith(f"{kind[0]}_{kind[1]}_")
    assert read_form(key) == KeyForm(*kind)


def test_new_keys_are_all_different_and_use_the_whole_alphabet() -> None:
    made = {keys.new_key(KeyType.SECRET, Environment.TEST) for _ in range(500)}
    assert len(made) == 500
    assert {character for key in made for character in key[8:40]} == set(BASE62)


@given(made_keys, st.integers(0, 45), st.sampled_from(BASE62 + "_- \n\0é"))
def test_the_checksum_refuses_any_other_character_in_any_place(
    key: str, place: int, character: str
) -> None:
    changed = key[:place] + character + key[place + 1 :]
    assert (read_form(changed) is None) == (changed != key)


def test_the_checksum_refuses_every_single_change_of_a_key() -> None:
    key = keys.new_key(KeyType.SECRET, Environment.LIVE)
    assert len(key) == 46
    for place in range(len(key)):
        for character in BASE62:
            if character != key[place]:
                assert read_form(key[:place] + character + key[place + 1 :]) is None


@given(made_keys)
def test_a_key_with_something_around_it_or_missing_is_junk(key: str) -> None:
    for junk in (key + "\n", " " + key, key + "0", key[:-1], key[1:], key.upper(), key * 2, ""):
        assert read_form(junk) is None


@given(st.text(max_size=60))
def test_junk_is_refused_without_a_fault(junk: str) -> None:
    assert read_form(junk) is None


def test_a_made_up_key_of_the_right_form_fails_its_checksum() -> None:
    assert FORM.fullmatch("sk_live_" + "0" * 38)
    assert read_form("sk_live_" + "0" * 38) is None


# What is kept


@given(made_keys, st.binary(min_size=16, max_size=64), st.binary(min_size=16, max_size=64))
def test_a_digest_depends_on_the_key_and_on_the_pepper(
    key: str, pepper: bytes, other: bytes
) -> None:
    kept = digest(key.encode(), pepper=pepper)
    assert len(kept) == 32
    assert kept == digest(key.encode(), pepper=pepper)
    assert kept != digest(key.encode() + b"0", pepper=pepper)
    # HMAC fills a short pepper up with zeros, so only those are the same.
    if pepper.rstrip(b"\0") != other.rstrip(b"\0"):
        assert kept != digest(key.encode(), pepper=other)


async def test_another_pepper_opens_nothing(database: Database, tenant: Tenant) -> None:
    now = utc_now()
    assert await companies.is_working_key(database, tenant.sk_test, pepper=PEPPER, now=now)
    assert not await companies.is_working_key(
        database, tenant.sk_test, pepper=PEPPER + b"x", now=now
    )


async def test_only_the_digest_of_a_key_is_stored(database: Database, tenant: Tenant) -> None:
    made = [tenant.sk_test, tenant.ck_test, tenant.sk_live, tenant.ck_live]
    tables = await database.fetch(
        "select oid::regclass::text as name from pg_class"
        " where relkind = 'r' and relnamespace = 'public'::regnamespace"
    )
    assert "api_key" in {table["name"] for table in tables}
    for table in tables:
        rows = await database.fetch(f"select t::text as text from {table['name']} t")
        held = "\n".join(row["text"] for row in rows)
        for key in made:
            # The last four are shown in lists; no longer piece may be found, as text or as bytes.
            random = key.rsplit("_", 1)[1]
            for start in range(len(random) - 7):
                piece = random[start : start + 8]
                assert piece not in held
                assert piece.encode().hex() not in held
    record = (await companies.list_keys(database, tenant.company.public_id))[0]
    assert tenant.sk_test.endswith(record.last_four)
    stored = await database.fetchval("select digest from api_key where key_id = $1", record.key_id)
    assert stored == digest(tenant.sk_test.encode(), pepper=PEPPER)


# Rotation and revocation


async def works(database: Database, key: str, at: datetime) -> bool:
    return await companies.is_working_key(database, key, pepper=PEPPER, now=at)


async def rotate(database: Database, key_id: str, overlap: str, now: datetime) -> companies.NewKey:
    async with database.atomic() as block:
        return await companies.rotate_key(
            block, key_id, overlap=companies.OVERLAPS[overlap], pepper=PEPPER, now=now
        )


async def record_of(database: Database, tenant: Tenant, key_id: str) -> ApiKey:
    listed = await companies.list_keys(database, tenant.company.public_id)
    return next(one for one in listed if one.key_id == key_id)


@pytest.mark.parametrize(
    ("overlap", "length"),
    [
        ("0", timedelta()),
        ("1h", timedelta(hours=1)),
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
    ],
)
async def test_a_rotated_key_works_until_the_end_of_its_overlap_and_no_longer(
    database: Database, tenant: Tenant, overlap: str, length: timedelta
) -> None:
    now = utc_now()
    old = await new_key(database, tenant.company.company_id)
    new = await rotate(database, old.record.key_id, overlap, now)
    moment = timedelta(microseconds=1)
    assert await works(database, old.key, now) == (overlap != "0")
    assert await works(database, old.key, now + length - moment)
    assert not await works(database, old.key, now + length)
    assert await works(database, new.key, now)
    assert await works(database, new.key, now + timedelta(days=3650))
    ended = await record_of(database, tenant, old.record.key_id)
    assert ended.expires_at == now + length
    assert ended.works_at(now + length - moment)
    assert not ended.works_at(now + length)


async def test_the_overlaps_are_the_four_that_are_promised() -> None:
    assert list(companies.OVERLAPS) == ["0", "1h", "24h", "7d"]


async def test_a_successor_takes_over_everything_of_the_old_key(
    database: Database, tenant: Tenant
) -> None:
    now = utc_now()
    networks = (ip_network("10.0.0.0/8"), ip_network("2001:db8::/32"))
    old = await companies.create_key(
        database,
        tenant.company.company_id,
        key_type=KeyType.CHECKOUT,
        environment=Environment.LIVE,
        pepper=PEPPER,
        now=now,
        label="shop",
        allowed_networks=networks,
    )
    new = await rotate(database, old.record.key_id, "1h", now)
    assert new.key != old.key
    assert read_form(new.key) == KeyForm(KeyType.CHECKOUT, Environment.LIVE)
    record = await record_of(database, tenant, new.record.key_id)
    assert (record.label, record.allowed_networks) == ("shop", networks)
    assert record.company_id == tenant.company.company_id
    assert all(not finding.rows for finding in await audit(database))


async def test_a_key_that_has_ended_cannot_be_rotated(database: Database, tenant: Tenant) -> None:
    now = utc_now()
    revoked = (await new_key(database, tenant.company.company_id)).record.key_id
    await companies.revoke_key(database, revoked, now=now)
    before = len(await companies.list_keys(database, tenant.company.public_id))
    with pytest.raises(companies.KeyEndedError):
        await rotate(database, revoked, "24h", now)
    ended = (await new_key(database, tenant.company.company_id)).record.key_id
    await database.execute("update api_key set expires_at = $2 where key_id = $1", ended, now)
    with pytest.raises(companies.KeyEndedError):
        await rotate(database, ended, "24h", now)
    with pytest.raises(companies.UnknownRecordError):
        await rotate(database, "key_unknown", "24h", now)
    assert len(await companies.list_keys(database, tenant.company.public_id)) == before + 1


async def test_a_key_that_was_replaced_is_not_rotated_again(
    database: Database, tenant: Tenant
) -> None:
    now = utc_now()
    old = (await new_key(database, tenant.company.company_id)).record.key_id
    successor = (await rotate(database, old, "1h", now)).record.key_id
    before = len(await companies.list_keys(database, tenant.company.public_id))
    for overlap, at in (("7d", now), ("0", now), ("0", now + timedelta(hours=2))):
        with pytest.raises(companies.KeyReplacedError) as refused:
            await rotate(database, old, overlap, at)
        assert (refused.value.key_id, refused.value.replaced_by) == (old, successor)
    assert (await record_of(database, tenant, old)).expires_at == now + timedelta(hours=1)
    assert len(await companies.list_keys(database, tenant.company.public_id)) == before
    assert (await rotate(database, successor, "0", now)).record.key_id != successor


async def test_rotating_never_lengthens_the_life_of_a_key(
    database: Database, tenant: Tenant
) -> None:
    now = utc_now()
    old = (await new_key(database, tenant.company.company_id)).record.key_id
    soon = now + timedelta(minutes=5)
    await database.execute("update api_key set expires_at = $2 where key_id = $1", old, soon)
    await rotate(database, old, "7d", now)
    assert (await record_of(database, tenant, old)).expires_at == soon


async def test_a_revoked_key_ends_at_once_and_the_first_revocation_counts(
    database: Database, tenant: Tenant
) -> None:
    now = utc_now()
    made = await new_key(database, tenant.company.company_id)
    first = await companies.revoke_key(database, made.record.key_id, now=now)
    again = await companies.revoke_key(database, made.record.key_id, now=now + timedelta(minutes=5))
    assert first.revoked_at == again.revoked_at == now
    assert first == again
    assert not await works(database, made.key, now)
    assert not await works(database, made.key, now - timedelta(minutes=1))
    with pytest.raises(companies.UnknownRecordError):
        await companies.revoke_key(database, "key_unknown", now=now)


# The keyring


@pytest.fixture
def ring(database: Database) -> Keyring:
    return Keyring(database, pepper=PEPPER)


class Clock:
    """What a ring takes for the time, where a test lets it pass."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(keyring, "time", clock)
    return clock


class Road:
    """A way to the database's socket that can be taken away and put back."""

    def __init__(self, database_url: str, folder: str) -> None:
        self._sockets = parse_qs(urlsplit(database_url).query)["host"][0]
        self._link = Path(folder) / "s"
        self.url = database_url.replace(self._sockets, str(self._link))
        self.open()

    def open(self) -> None:
        self._link.symlink_to(self._sockets)

    def close(self) -> None:
        self._link.unlink()


@pytest.fixture
def road(database_url: str) -> Iterator[Road]:
    with tempfile.TemporaryDirectory(prefix="vkr-") as folder:
        yield Road(database_url, folder)


async def last_used_at(database: Database, tenant: Tenant, key: str) -> datetime | None:
    kept = digest(key.encode(), pepper=PEPPER)
    found = await database.fetchval("select last_used_at from api_key where digest = $1", kept)
    assert found is None or isinstance(found, datetime)
    return found


async def test_a_key_is_known_only_after_it_was_found(ring: Keyring, tenant: Tenant) -> None:
    key = tenant.sk_test.encode()
    assert ring.find_known(key) is None
    caller = await ring.find(key)
    assert caller is not None
    assert ring.find_known(key) is caller
    assert ring.find_known(tenant.ck_test.encode()) is None
    assert caller.company_id == tenant.company.company_id
    assert caller.company_public_id == tenant.company.public_id
    assert (caller.key_type, caller.environment) == (KeyType.SECRET, Environment.TEST)
    assert caller.limits == tenant.company.limits


async def test_unknown_revoked_and_expired_keys_are_not_found(
    ring: Keyring, database: Database, tenant: Tenant
) -> None:
    unknown = keys.new_key(KeyType.SECRET, Environment.TEST)
    revoked = await new_key(database, tenant.company.company_id)
    await companies.revoke_key(database, revoked.record.key_id, now=utc_now())
    expired = await new_key(database, tenant.company.company_id)
    await rotate(database, expired.record.key_id, "0", utc_now())
    for key in (unknown, revoked.key, expired.key):
        assert await ring.find(key.encode()) is None
        assert ring.find_known(key.encode()) is None


async def test_one_sweep_drops_revoked_and_expired_keys_and_keeps_the_others(
    ring: Keyring, database: Database, tenant: Tenant
) -> None:
    kept, revoked, expired = [await new_key(database, tenant.company.company_id) for _ in range(3)]
    for made in (kept, revoked, expired):
        assert await ring.find(made.key.encode()) is not None
    await companies.revoke_key(database, revoked.record.key_id, now=utc_now())
    await rotate(database, expired.record.key_id, "0", utc_now())
    await ring.sweep()
    assert ring.find_known(kept.key.encode()) is not None
    assert ring.find_known(revoked.key.encode()) is None
    assert ring.find_known(expired.key.encode()) is None


async def test_finding_a_revoked_key_again_forgets_it(
    ring: Keyring, database: Database, tenant: Tenant
) -> None:
    made = await new_key(database, tenant.company.company_id)
    assert await ring.find(made.key.encode()) is not None
    await companies.revoke_key(database, made.record.key_id, now=utc_now())
    assert await ring.find(made.key.encode()) is None
    assert ring.find_known(made.key.encode()) is None


async def test_a_key_that_was_not_checked_again_in_time_is_not_trusted(
    ring: Keyring, tenant: Tenant, clock: Clock
) -> None:
    assert keyring.TRUST_SECONDS_MAX <= 4
    assert keyring.SWEEP_SECONDS < keyring.TRUST_SECONDS_MAX
    key = tenant.sk_test.encode()
    await ring.find(key)
    clock.now += 3.9
    assert ring.find_known(key) is not None
    clock.now += 0.2
    assert ring.find_known(key) is None
    await ring.sweep()
    clock.now += 3.9
    assert ring.find_known(key) is not None
    clock.now += 0.2
    assert ring.find_known(key) is None
    assert await ring.find(key) is not None
    assert ring.find_known(key) is not None


async def test_use_alone_does_not_prolong_trust(
    ring: Keyring, tenant: Tenant, clock: Clock
) -> None:
    key = tenant.sk_test.encode()
    await ring.find(key)
    for _ in range(39):
        clock.now += 0.1
        assert ring.find_known(key) is not None
    clock.now += 0.2
    assert ring.find_known(key) is None


async def test_a_sweep_brings_a_suspension_and_new_limits(
    ring: Keyring, database: Database, tenant: Tenant
) -> None:
    key = tenant.sk_test.encode()
    await ring.find(key)
    public_id = tenant.company.public_id
    await companies.set_suspended(database, public_id, is_suspended=True)
    await companies.set_limits(database, public_id, withdrawals_per_minute=77)
    await ring.sweep()
    caller = ring.find_known(key)
    assert caller is not None
    assert caller.is_company_suspended
    assert caller.limits.withdrawals_per_minute == 77
    await companies.set_suspended(database, public_id, is_suspended=False)
    await ring.sweep()
    caller = ring.find_known(key)
    assert caller is not None
    assert not caller.is_company_suspended


async def test_a_key_that_nobody_uses_is_forgotten_by_a_sweep(
    ring: Keyring, tenant: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "FORGET_SECONDS", 3.0)
    idle, used = tenant.sk_test.encode(), tenant.ck_test.encode()
    await ring.find(idle)
    await ring.find(used)
    clock.now += 3.1
    assert ring.find_known(used) is not None
    await ring.sweep()
    assert ring.find_known(used) is not None
    assert ring.find_known(idle) is None


async def test_a_full_ring_still_finds_keys_but_remembers_no_more(
    ring: Keyring, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "KNOWN_KEYS_MAX", 1)
    first, second = tenant.sk_test.encode(), tenant.ck_test.encode()
    assert await ring.find(first) is not None
    assert await ring.find(second) is not None
    assert ring.find_known(first) is not None
    assert ring.find_known(second) is None


async def test_a_revocation_is_seen_within_a_sweep_by_itself(
    ring: Keyring, database: Database, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "SWEEP_SECONDS", 0.05)
    made = await new_key(database, tenant.company.company_id)
    await ring.find(made.key.encode())
    keeping = asyncio.create_task(ring.keep_fresh())
    try:
        async with asyncio.timeout(10):
            while await last_used_at(database, tenant, made.key) is None:
                await asyncio.sleep(0.01)
        assert ring.find_known(made.key.encode()) is not None
        await companies.revoke_key(database, made.record.key_id, now=utc_now())
        # Sooner than it would no longer be trusted.
        async with asyncio.timeout(3):
            while ring.find_known(made.key.encode()) is not None:
                await asyncio.sleep(0.01)
    finally:
        await end(keeping)


async def end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_the_last_use_is_written_at_most_once_a_minute(
    ring: Keyring, database: Database, tenant: Tenant
) -> None:
    assert keyring.TOUCH_SECONDS == 60
    key = tenant.sk_test.encode()
    await ring.note_use()
    assert await last_used_at(database, tenant, tenant.sk_test) is None
    before = utc_now()
    await ring.find(key)
    await ring.note_use()
    first = await last_used_at(database, tenant, tenant.sk_test)
    assert first is not None
    assert before <= first <= utc_now()
    for is_found_again in (False, True):
        await (ring.find(key) if is_found_again else ring.sweep())
        assert ring.find_known(key) is not None
        await ring.note_use()
        assert await last_used_at(database, tenant, tenant.sk_test) == first
    assert await last_used_at(database, tenant, tenant.ck_test) is None


async def test_several_processes_together_write_the_last_use_at_most_once_a_minute(
    database: Database, tenant: Tenant
) -> None:
    key = tenant.sk_test.encode()
    written = set()
    for _ in range(3):
        process = Keyring(database, pepper=PEPPER)
        await process.find(key)
        await process.note_use()
        written.add(await last_used_at(database, tenant, tenant.sk_test))
    assert len(written) == 1
    await database.execute(
        "update api_key set last_used_at = last_used_at - interval '61 s' where digest = $1",
        digest(key, pepper=PEPPER),
    )
    process = Keyring(database, pepper=PEPPER)
    await process.find(key)
    await process.note_use()
    later = await last_used_at(database, tenant, tenant.sk_test)
    assert later is not None
    assert utc_now() - later < timedelta(seconds=10)


async def test_the_last_use_is_written_again_after_a_minute_only_if_there_was_one(
    ring: Keyring, database: Database, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "TOUCH_SECONDS", 0.05)
    key = tenant.sk_test.encode()
    await ring.find(key)
    await ring.note_use()
    first = await last_used_at(database, tenant, tenant.sk_test)
    await asyncio.sleep(0.06)
    await ring.note_use()
    assert await last_used_at(database, tenant, tenant.sk_test) == first
    ring.find_known(key)
    await ring.note_use()
    second = await last_used_at(database, tenant, tenant.sk_test)
    assert first is not None
    assert second is not None
    assert second > first


async def test_stale_keys_are_not_trusted_while_the_database_is_away(
    database: Database,
    tenant: Tenant,
    road: Road,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyring, "TRUST_SECONDS_MAX", 0.3)
    monkeypatch.setattr(keyring, "SWEEP_SECONDS", 0.05)
    far = Database(road.url)
    await far.open()
    ring = Keyring(far, pepper=PEPPER)
    keeping = asyncio.create_task(ring.keep_fresh())
    key = tenant.sk_test.encode()
    try:
        assert await ring.find(key) is not None
        road.close()
        async with asyncio.timeout(10):
            while ring.find_known(key) is not None:
                # There may be several of them, and the others would go on asking.
                with suppress(DatabaseUnavailableError):
                    pid = await far.fetchval("select pg_backend_pid()")
                    await database.fetchval("select pg_terminate_backend($1)", pid)
                await asyncio.sleep(0.01)
        attempts: tuple[Callable[[], Coroutine[Any, Any, object]], ...] = (
            lambda: ring.find(key),
            ring.sweep,
        )
        for attempt in attempts:
            with pytest.raises(DatabaseUnavailableError):
                await attempt()
            assert ring.find_known(key) is None
        road.open()
        async with asyncio.timeout(10):
            while ring.find_known(key) is None:
                await asyncio.sleep(0.01)
        assert not keeping.done()
    finally:
        await end(keeping)
        await far.close()
