"""How many cards of one address were refused within the hour, told at once or only later."""

import math
import time
from dataclasses import dataclass
from typing import Final

from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.db import Connection
from vintem.transactions import service as transactions
from vintem.transactions.model import Status, Transaction

HOUR_SECONDS: Final = 3_600
NANOSECONDS: Final = 1_000_000_000
UNDECIDED: Final = frozenset({Status.PROCESSING, Status.BLOCKED})


@dataclass(slots=True, eq=False)
class Place:
    """One card that was refused, or may still be."""

    address: str
    taken_ns: int
    undecided: Transaction | None = None


class RefusedCards:
    """The places of one process; a card takes one until it is known not to be refused."""

    seconds_max: Final = HOUR_SECONDS

    def __init__(self) -> None:
        self._places: dict[str, list[Place]] = {}

    async def take(self, db: Connection, address: str, *, limit: int) -> Place:
        """Take a place for one more card, or refuse to try it."""
        if len(self._taken(address)) >= limit:
            await self._free_decided(db, address)
        taken, now_ns = self._taken(address), time.monotonic_ns()
        if len(taken) >= limit:
            left_ns = taken[-limit].taken_ns + HOUR_SECONDS * NANOSECONDS - now_ns
            raise Refusal(
                ErrorCode.CARD_ATTEMPTS_EXCEEDED,
                retry_after_seconds=max(1, math.ceil(left_ns / NANOSECONDS)),
            )
        place = Place(address, now_ns)
        taken.append(place)
        return place

    def settle(self, place: Place, payment: Transaction | None) -> None:
        """Keep the place of a card that is refused or not decided about; free any other."""
        if payment is None or payment.status not in {Status.FAILED, *UNDECIDED}:
            self._free(place)
        elif payment.status in UNDECIDED:
            place.undecided = payment

    def forget_idle(self, *, idle_seconds: int) -> None:
        """Drop the places that are older than so long."""
        for address in list(self._places):
            if not self._taken(address, seconds=idle_seconds):
                del self._places[address]

    async def _free_decided(self, db: Connection, address: str) -> None:
        """Ask what became of the cards that were not decided about."""
        for place in list(self._taken(address)):
            asked = place.undecided
            if asked is not None:
                payment = await transactions.get(db, asked.scope, asked.transaction_id)
                place.undecided = None
                self.settle(place, None if payment.paid_at is not None else payment)

    def _taken(self, address: str, *, seconds: int = HOUR_SECONDS) -> list[Place]:
        oldest_ns = time.monotonic_ns() - seconds * NANOSECONDS
        places = [each for each in self._places.get(address, ()) if each.taken_ns > oldest_ns]
        self._places[address] = places
        return places

    def _free(self, place: Place) -> None:
        places = self._places.get(place.address, [])
        if place in places:
            places.remove(place)
