"""The worker's side of webhooks: takes companies on, sends what is due, and writes what came of it.

One worker at a time delivers for a company, by a lease that it renews while it lives. So the order
of each record and the number of calls in flight are kept in that worker's memory. Should two work
for a company all the same, because one was stopped for longer than its lease, the number of a
delivery's tries is the fence: what the slower one learns is not written.
"""

import asyncio
import random
import secrets
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog
from msgspec.structs import replace

from vintem.kit.clock import utc_now
from vintem.runtime import metrics
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database, DatabaseUnavailableError, DedicatedConnection
from vintem.runtime.group_commit import GroupCommit
from vintem.runtime.names import NamesBusyError
from vintem.runtime.outbound import CallFailedError, ForbiddenAddressError, Outbound
from vintem.webhooks import delivery_store as store
from vintem.webhooks import lane_store as lanes
from vintem.webhooks import service as webhooks
from vintem.webhooks.delivery_store import LanePlace, Tried
from vintem.webhooks.lane_store import LaneKey
from vintem.webhooks.model import (
    IN_FLIGHT_PER_COMPANY_MAX,
    IN_FLIGHT_PER_LANE_MAX,
    Attempt,
    DisabledReason,
    Lane,
    Pace,
    Parcel,
    State,
    correlation_id_in,
    lane_after,
    outcome_of,
)
from vintem.webhooks.places import Places, Quota, Standing
from vintem.webhooks.service import Place
from vintem.webhooks.signing import headers_of, sign

log = structlog.get_logger()

PARCELS_AT_ONCE_MAX: Final = 16
TURN_PARCELS_MAX: Final = 256
LANES_LOOKED_AT_MAX: Final = 5_000
LANES_MAX: Final = 1_000
LANES_PER_COMPANY_MAX: Final = 32
LANES_REMEMBERED_MAX: Final = 20_000
IN_FLIGHT_MAX: Final = 400
TRIES_AT_ONCE_MAX: Final = 64
STOP_SECONDS_MAX: Final = 8.0
NAMES_BUSY_PAUSE_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Held:
    """A company that this worker delivers for, until it has nothing more or the lease is over."""

    company_id: int
    lease_ends_at: float
    used_at: float
    places: Places = field(default_factory=lambda: Places(IN_FLIGHT_PER_COMPANY_MAX))
    lanes_running: int = 0


@dataclass(slots=True)
class _Road:
    """A lane as this worker knows it while it is on it."""

    held: _Held
    lane: Lane
    standing: Standing
    is_closed: bool = False
    is_unasked: bool = False
    """Nobody could be asked where it leads."""
    is_awaited: bool = False
    """Something has become due since it was last looked at."""
    in_flight: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(IN_FLIGHT_PER_LANE_MAX)
    )


@dataclass(frozen=True, slots=True)
class _Result:
    parcel: Parcel
    attempt: Attempt


class Dispatcher:
    """Delivers webhooks, beside any number of others; `tick` is to be called again and again."""

    def __init__(
        self,
        database: Database,
        sealer: Sealer,
        outbound: Outbound,
        *,
        allows_loopback: bool,
        pace: Pace | None = None,
    ) -> None:
        self._database = database
        self._sealer = sealer
        self._outbound = outbound
        self._allows_loopback = allows_loopback
        self._pace = pace or Pace()
        self._holder = secrets.token_hex(8)
        self._held: dict[int, _Held] = {}
        self._running: dict[LaneKey, _Road] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._standings: dict[LaneKey, Standing] = {}
        self._looked_to: LaneKey | None = None
        self._is_crowded = False
        self._places = Places(IN_FLIGHT_MAX)
        self._is_stopping = False
        self._fetches = GroupCommit[LanePlace, Sequence[Parcel]](
            database, _fetch_many, sort_key=_place_key, rows_max=TRIES_AT_ONCE_MAX, flushers=1
        )
        self._tries = GroupCommit[Tried, bool](
            database, _write_many, sort_key=_tried_key, rows_max=TRIES_AT_ONCE_MAX, flushers=2
        )

    async def close(self) -> None:
        """Let calls in flight end, write what came of them, and leave the rest to others."""
        self._is_stopping = True
        if self._tasks:
            _done, unfinished = await asyncio.wait(self._tasks, timeout=STOP_SECONDS_MAX)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        await self._fetches.close()
        await self._tries.close()
        if self._held:
            await lanes.release_companies(self._database, self._holder, list(self._held))

    async def tick(self) -> int:
        """Take on what is due and nobody else is at; says how many lanes that was."""
        await self._keep_leases()
        fresh = self._chosen(await self._look())
        # Those that are at hand do not wait for the lease of others.
        started = self._start([lane for lane in fresh if lane.company_id in self._held])
        others = [lane for lane in fresh if lane.company_id not in self._held]
        await self._lease({lane.company_id for lane in others})
        return started + self._start(others)

    async def _look(self) -> Sequence[Lane]:
        """The lanes with something due, of some thousands more with every look."""
        after = self._looked_to
        self._looked_to = await lanes.find_lane_further_on(
            self._database, after, lanes=LANES_LOOKED_AT_MAX
        )
        return await lanes.list_due_lanes(
            self._database, self._holder, after=after, up_to=self._looked_to, now=utc_now()
        )

    def _chosen(self, due: Sequence[Lane]) -> Sequence[Lane]:
        """The lanes to begin with, fairly: no company has all places, nor have those in trouble."""
        process = Quota(LANES_MAX)
        companies: dict[int, Quota] = defaultdict(lambda: Quota(LANES_PER_COMPANY_MAX))
        for (company_id, _), road in self._running.items():
            process.take(road.standing)
            companies[company_id].take(road.standing)
        fresh = []
        for lane in due:
            if lane.key in self._running:
                self._running[lane.key].is_awaited = True
            else:
                fresh.append(lane)
        random.shuffle(fresh)
        chosen = []
        for lane in fresh:
            standing, company = self._standing(lane), companies[lane.company_id]
            if process.has(standing) and company.has(standing):
                process.take(standing)
                company.take(standing)
                chosen.append(lane)
        self._is_crowded = len(chosen) < len(fresh)
        return chosen

    def _start(self, fresh: Sequence[Lane]) -> int:
        started = 0
        for lane in fresh:
            held = self._held.get(lane.company_id)
            if held is None or self._is_stopping:
                continue
            held.lanes_running += 1
            # A breaker that has closed again by now lets one call through.
            road = _Road(held, replace(lane, retry_at=None), self._standing(lane))
            self._running[lane.key] = road
            task = asyncio.create_task(self._run_lane(road))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            started += 1
        return started

    def _standing(self, lane: Lane) -> Standing:
        if lane.failing_since is not None:
            return Standing.TROUBLED
        return self._standings.get(lane.key, Standing.UNKNOWN)

    async def _keep_leases(self) -> None:
        """Give back companies with nothing to do, and renew the lease of the others in time."""
        now = asyncio.get_running_loop().time()
        # Who has just been told something is soon told more: not every time by a new lease.
        idle = [
            each.company_id
            for each in self._held.values()
            if not each.lanes_running and each.used_at < now - self._pace.lease_seconds / 2
        ]
        if idle:
            for company_id in idle:
                del self._held[company_id]
            await lanes.release_companies(self._database, self._holder, idle)
        soon = now + self._pace.lease_seconds * 2 / 3
        ending = {each.company_id for each in self._held.values() if each.lease_ends_at < soon}
        await self._lease(ending)

    async def _lease(self, company_ids: set[int]) -> None:
        if not company_ids:
            return
        # Counted from before the statement: ours ends before the database's does.
        now = asyncio.get_running_loop().time()
        had = await lanes.lease_companies(
            self._database,
            self._holder,
            sorted(company_ids),
            seconds=self._pace.lease_seconds,
        )
        for company_id in had:
            ends_at = now + self._pace.lease_seconds
            if company_id in self._held:
                self._held[company_id].lease_ends_at = ends_at
            else:
                self._held[company_id] = _Held(company_id, ends_at, used_at=now)
        for company_id in company_ids - had:
            if company_id in self._held:
                # Somebody else took it over: nothing more is begun for it.
                self._held[company_id].lease_ends_at = now
                if not self._held[company_id].lanes_running:
                    del self._held[company_id]

    async def _run_lane(self, road: _Road) -> None:
        lane, sent = road.lane, 0
        try:
            # However much there is to send, a lane gives way when others wait for their turn.
            while self._may_go_on(road) and not (self._is_crowded and sent >= TURN_PARCELS_MAX):
                road.is_awaited = False
                parcels = await self._fetch(road)
                if not parcels and not road.is_awaited:
                    break
                await self._send_all(road, deque(parcels))
                sent += len(parcels)
            if road.is_unasked:
                await asyncio.sleep(NAMES_BUSY_PAUSE_SECONDS)
            if road.lane.failing_since is not None:
                await store.put_off_held(
                    self._database, road.lane, hold_back=self._pace.hold_back, now=utc_now()
                )
        except DatabaseUnavailableError as away:
            log.warning("deliveries wait for the database", cause=str(away))
        except Exception:
            log.exception("deliveries failed", company_id=lane.company_id, lane=lane.name)
        finally:
            road.held.lanes_running -= 1
            road.held.used_at = asyncio.get_running_loop().time()
            del self._running[lane.key]

    def _may_go_on(self, road: _Road) -> bool:
        now = asyncio.get_running_loop().time()
        held = road.held
        return (
            not self._is_stopping
            and not road.is_closed
            and road.lane.retry_at is None
            and now < held.lease_ends_at
        )

    async def _fetch(self, road: _Road) -> Sequence[Parcel]:
        lane = road.lane
        # Where nothing was taken of late, one call finds out whether that has changed.
        is_probe = lane.failures_in_row >= self._pace.breaker_failures
        return await self._fetches.write(
            LanePlace(
                lane.company_id,
                lane.name,
                1 if is_probe else PARCELS_AT_ONCE_MAX,
                self._pace.hold_back,
                utc_now(),
            )
        )

    async def _send_all(self, road: _Road, waiting: deque[Parcel]) -> None:
        running: set[asyncio.Task[_Result | None]] = set()
        try:
            while True:
                while waiting and len(running) < _width(road) and self._may_go_on(road):
                    running.add(asyncio.create_task(self._deliver(road, waiting.popleft())))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    result = task.result()
                    if result is not None:
                        await self._learn(road, result)
        finally:
            for task in running:
                task.cancel()

    async def _deliver(self, road: _Road, parcel: Parcel) -> _Result | None:
        """Try a delivery once and write what came of it; nothing if it was not tried."""
        async with self._place(road):
            if not self._may_go_on(road):
                return None
            try:
                attempt = await self._try(road, parcel)
            except NamesBusyError:
                # It is our own machine that was too busy: no try of theirs.
                road.is_closed = road.is_unasked = True
                return None
        outcome = outcome_of(attempt, tries=parcel.tries + 1, pace=self._pace, now=utc_now())
        is_written = await self._tries.write(Tried(parcel, attempt, outcome))
        if is_written:
            kind = "retried" if outcome.state is State.PENDING else str(outcome.state)
            metrics.WEBHOOK_TRIES.labels(kind).inc()
        return _Result(parcel, attempt)

    @asynccontextmanager
    async def _place(self, road: _Road) -> AsyncIterator[None]:
        """Wait for a place among the calls of the lane, the company and the process."""
        async with road.in_flight:
            standing = road.standing
            async with road.held.places.one(standing), self._places.one(standing):
                yield

    async def _try(self, road: _Road, parcel: Parcel) -> Attempt:
        now = utc_now()
        place = Place(parcel.company_id, parcel.environment)
        kept = parcel.secrets or await webhooks.postback_secrets(
            self._database, self._sealer, place
        )
        signing = [webhooks.open_secret(self._sealer, each) for each in kept.signing_at(now)]
        signed_at = int(now.timestamp())
        signature = sign(signing, message_id=parcel.event_id, timestamp=signed_at, body=parcel.body)
        headers = headers_of(
            message_id=parcel.event_id,
            timestamp=signed_at,
            signature=signature,
            correlation_id=correlation_id_in(parcel.body),
        )
        status, error, answer, retry_after = None, None, "", None
        began = asyncio.get_running_loop().time()
        try:
            answered = await self._outbound.post(
                parcel.url,
                parcel.body,
                headers,
                allows_loopback=self._allows_loopback and parcel.environment == "test",
                seconds_max=self._pace.call_seconds_max,
                asker=f"{parcel.company_id} {parcel.lane}",
                is_proven=road.standing is Standing.PROVEN,
            )
            status, retry_after = answered.status, answered.retry_after_seconds
            answer = answered.body.decode(errors="replace").replace("\x00", "\ufffd")
        except (CallFailedError, ForbiddenAddressError) as fault:
            error = str(fault)
        return Attempt(
            attempt=parcel.attempts + 1,
            url=parcel.url,
            signed_at=signed_at,
            signature=signature,
            status=status,
            error=error,
            answer=answer,
            milliseconds=int((asyncio.get_running_loop().time() - began) * 1_000),
            created_at=now,
            retry_after_seconds=retry_after,
        )

    async def _learn(self, road: _Road, result: _Result) -> None:
        """Let a lane's pace follow from what it answered."""
        attempt, parcel = result.attempt, result.parcel
        is_quick = attempt.milliseconds <= self._pace.quick_seconds * 1_000
        is_proven = attempt.is_success and is_quick
        road.standing = Standing.PROVEN if is_proven else Standing.TROUBLED
        self._remember(road)
        if attempt.is_gone:
            await self._hear_gone(road, parcel)
            return
        if attempt.is_success and road.lane.failing_since is None:
            return
        road.lane = lane_after(
            road.lane, attempt, tries=parcel.tries + 1, pace=self._pace, now=utc_now()
        )
        await lanes.update_lane(self._database, road.lane)

    def _remember(self, road: _Road) -> None:
        """Know the lane when it is next begun, unless many others were seen since."""
        self._standings.pop(road.lane.key, None)
        self._standings[road.lane.key] = road.standing
        if len(self._standings) > LANES_REMEMBERED_MAX:
            del self._standings[next(iter(self._standings))]

    async def _hear_gone(self, road: _Road, parcel: Parcel) -> None:
        """The other side wants no more: of this record, or at all."""
        if parcel.is_postback:
            await store.end_record(self._database, parcel, now=utc_now())
            return
        road.is_closed = True
        place = Place(parcel.company_id, parcel.environment)
        await webhooks.disable(
            self._database, place, parcel.lane, DisabledReason.GONE, now=utc_now()
        )
        await webhooks.end_refused(self._database, parcel.company_id, parcel.lane, now=utc_now())


async def disable_unreachable(database: Database, *, pace: Pace | None = None) -> int:
    """Disable the endpoints that have taken nothing for days."""
    now = utc_now()
    since: timedelta = (pace or Pace()).disable_after
    return await webhooks.disable_unreachable(database, failing_before=now - since, now=now)


def _width(road: _Road) -> int:
    """How many deliveries of a lane are under way; some of them are being written already."""
    return IN_FLIGHT_PER_LANE_MAX * 2 if road.standing is Standing.PROVEN else 1


async def _fetch_many(
    connection: DedicatedConnection, places: Sequence[LanePlace]
) -> Sequence[Sequence[Parcel]]:
    found: dict[LaneKey, list[Parcel]] = {_place_key(place): [] for place in places}
    for parcel in await store.fetch_due(connection, places):
        found[parcel.company_id, parcel.lane].append(parcel)
    return [found[_place_key(place)] for place in places]


async def _write_many(connection: DedicatedConnection, tries: Sequence[Tried]) -> Sequence[bool]:
    written = await store.write_tries(connection, tries)
    return [each.parcel.delivery_id in written for each in tries]


def _place_key(place: LanePlace) -> LaneKey:
    return (place.company_id, place.name)


def _tried_key(tried: Tried) -> tuple[int, str]:
    return (tried.parcel.company_id, tried.parcel.delivery_id)
