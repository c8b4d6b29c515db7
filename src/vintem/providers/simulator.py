"""The sandbox's acquirer: a stranger with a book of its own, whose last word is its callbacks.

The last four digits of a card decide, always in the same way. What it does is committed on its own,
before it answers: whoever loses the answer can ask again, and is charged once.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

import msgspec
import structlog

from vintem.kit.clock import epoch_seconds, utc_now
from vintem.providers import simulator_store as store
from vintem.providers.faults import Fault, Faults
from vintem.providers.outgoing import NotAnsweredError, post
from vintem.providers.port import (
    Authorised,
    Blocked,
    Charge,
    FirstAnswer,
    LaterAnswer,
    NeverSeen,
    NoticeKind,
    Processing,
    Refused,
    Unknown,
    Verdict,
)
from vintem.providers.signature import SIGNATURE_HEADER, TIMESTAMP_HEADER, sign
from vintem.runtime.db import Connection, Database, DatabaseUnavailableError

log = structlog.get_logger()

SIMULATOR: Final = "simulator"
SLOW_ANSWER_SECONDS: Final = 3.0
ARRIVES_WITHIN: Final = timedelta(seconds=10)
CHARGES_AT_ONCE_MAX: Final = 4
CALLBACKS_AT_ONCE_MAX: Final = 32
CALLBACKS_HEARD: Final = range(200, 300)

LATER: Final[Mapping[str, Sequence[tuple[int, NoticeKind]]]] = {
    "0119": ((2, NoticeKind.CHARGE_PAID),),
    "0259": ((2, NoticeKind.DISPUTE_OPENED), (4, NoticeKind.DISPUTE_LOST)),
}
"""What is told by itself later: after how many seconds, and what."""


class Simulator:
    """Charges no card, and says what an acquirer would say."""

    def __init__(self, database: Database, *, secret: bytes, faults: Faults) -> None:
        self._database = database
        self._secret = secret
        self._faults = faults
        self._turns = asyncio.Semaphore(CHARGES_AT_ONCE_MAX)

    @property
    def name(self) -> str:
        """What it is called."""
        return SIMULATOR

    @property
    def arrives_within(self) -> timedelta:
        """How long a charge may be under way."""
        return ARRIVES_WITHIN

    async def authorise(self, charge: Charge) -> FirstAnswer:
        """Charge once a reference, and decide by the number's end."""
        reference = charge.reference
        if self._faults.strike(Fault.LOST_REQUESTS, reference):
            return Unknown()
        verdict = await self._charge(charge)
        if self._faults.strike(Fault.SLOW_ANSWERS, reference):
            await asyncio.sleep(SLOW_ANSWER_SECONDS)
        return Unknown() if self._faults.strike(Fault.LOST_ANSWERS, reference) else verdict

    async def query(self, company_id: int, reference: str) -> LaterAnswer:
        """Say what was decided about a charge."""
        kept = await store.count_query(self._database, company_id, reference)
        if kept is None:
            return NeverSeen()
        if kept.queries == 1 and self._faults.strike(Fault.LOST_QUERIES, reference):
            return Unknown()
        return decide(kept.last_four, reference)

    async def forget(self, company_id: int, reference: str) -> None:
        """Tell nothing more of a charge by itself: somebody decides about it by hand."""
        await store.delete_untold(self._database, company_id, reference)

    async def tell_due(self, address: str, *, now: datetime) -> int:
        """Send the callbacks that are due; what is not heard is sent again."""
        told = 0
        for company_id in await store.list_companies_with_due(self._database, now=now):
            try:
                while claimed := await store.claim_due(
                    self._database, company_id, now=now, rows_max=CALLBACKS_AT_ONCE_MAX
                ):
                    told += await self._tell_all(address, claimed, now=now)
            except DatabaseUnavailableError:
                raise
            except Exception:
                # One company's trouble must not keep the others waiting.
                log.exception("callbacks could not be sent", company_id=company_id)
        return told

    async def _charge(self, charge: Charge) -> Verdict:
        async def charge_once(block: Connection) -> str:
            now = utc_now()
            if await store.insert_charge(block, charge, now=now):
                callbacks = self._callbacks(charge, now)
                if callbacks:
                    await store.insert_callbacks(block, callbacks)
                return charge.card.number.last_digits
            kept = await store.find_charge(block, charge.company_id, charge.reference)
            assert kept is not None, "what is in the way is a charge with this reference"
            return kept.last_four

        async with self._turns:
            last_four = await self._database.atomically(charge_once)
        return decide(last_four, charge.reference)

    def _callbacks(self, charge: Charge, now: datetime) -> Sequence[store.KeptCallback]:
        later = LATER.get(charge.card.number.last_digits, ())
        moments = [now + timedelta(seconds=seconds) for seconds, _ in later]
        if self._faults.strike(Fault.SHUFFLE_CALLBACKS, charge.reference):
            moments.reverse()
        is_repeated = self._faults.strike(Fault.REPEAT_CALLBACKS, charge.reference)
        callbacks = []
        for sequence, ((_, kind), due_at) in enumerate(zip(later, moments, strict=True), 1):
            callback_id = f"sim_{self._faults.number(f'{charge.reference}/{sequence}'):016x}"
            callbacks.append(
                store.KeptCallback(
                    company_id=charge.company_id,
                    callback_id=callback_id,
                    reference=charge.reference,
                    sequence=sequence,
                    body=_body(charge, callback_id, sequence, kind),
                    due_at=due_at,
                    repeats_left=int(is_repeated),
                )
            )
        return callbacks

    async def _tell_all(
        self, address: str, callbacks: Sequence[store.KeptCallback], *, now: datetime
    ) -> int:
        """Tell what was claimed, of each charge one after the other."""
        ordered = sorted(callbacks, key=lambda each: each.reference)
        charges = [list(each) for _, each in groupby(ordered, key=lambda each: each.reference)]
        return sum(
            await asyncio.gather(*(self._tell_in_turn(address, each, now=now) for each in charges))
        )

    async def _tell_in_turn(
        self, address: str, callbacks: Sequence[store.KeptCallback], *, now: datetime
    ) -> int:
        for told, callback in enumerate(callbacks):
            if not await self._tell(address, callback):
                return told
            await store.update_heard(self._database, callback, now=now)
        return len(callbacks)

    async def _tell(self, address: str, callback: store.KeptCallback) -> bool:
        body = callback.body.encode()
        timestamp = str(epoch_seconds(utc_now()))
        headers = {
            "content-type": "application/json",
            TIMESTAMP_HEADER: timestamp,
            SIGNATURE_HEADER: sign(self._secret, timestamp.encode(), body).decode(),
        }
        try:
            status = await post(f"{address}/callbacks/{SIMULATOR}", body, headers)
        except NotAnsweredError as fault:
            log.info("callback not answered", callback=callback.callback_id, cause=str(fault))
            return False
        if status not in CALLBACKS_HEARD:
            log.warning("callback refused", callback=callback.callback_id, status=status)
        return status in CALLBACKS_HEARD


def decide(last_four: str, reference: str) -> Verdict:
    """Say what becomes of a charge."""
    code = authorization_code(reference)
    match last_four:
        case "0002":
            return Refused("CARD_REFUSED", "The issuer refused the card.")
        case "9995":
            return Refused("INSUFFICIENT_FUNDS", "The card has not enough limit.")
        case "0127":
            return Refused("INCORRECT_CVV", "The security code is not the card's.")
        case "0119":
            return Processing(code)
        case "0069":
            return Blocked(code)
        case _:
            return Authorised(code)


def authorization_code(reference: str) -> str:
    """Make six digits of a payment's id: the same ones however often it is asked for."""
    number = int.from_bytes(hashlib.sha256(reference.encode()).digest()[:8])
    return f"{number % 1_000_000:06}"


def _body(charge: Charge, callback_id: str, sequence: int, kind: NoticeKind) -> str:
    return msgspec.json.encode(
        {
            "callbackId": callback_id,
            "account": charge.account,
            "kind": kind,
            "reference": charge.reference,
            "sequence": sequence,
            "amount": charge.amount,
        }
    ).decode()
