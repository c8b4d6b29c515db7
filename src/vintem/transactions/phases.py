"""A payment that somebody else must be asked about: remembered first, then asked, then answered.

A crash between the phases leaves a row that says when to ask; the worker goes on from there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

import structlog

from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.intent import Intent, IntentReused
from vintem.ledger.model import Scope
from vintem.providers.port import (
    Authorised,
    Blocked,
    CardAcquirer,
    Charge,
    FirstAnswer,
    LaterAnswer,
    NeverSeen,
    Notice,
    NoticeKind,
    Processing,
    Refused,
    Unknown,
    Verdict,
)
from vintem.runtime.db import Connection, Database, DatabaseUnavailableError
from vintem.transactions import answers, arrivals, card_tokens, request_store, store
from vintem.transactions.arrivals import Outcome
from vintem.transactions.batches import Created, Creation
from vintem.transactions.model import Status, Transaction
from vintem.transactions.record import record_of
from vintem.transactions.request_store import Question

log = structlog.get_logger()
T = TypeVar("T")

ANSWER_SECONDS_MAX: Final = 5.0
LEFT_ALONE: Final = timedelta(seconds=ANSWER_SECONDS_MAX + 1)
"""After so long whoever asked first has stopped waiting, or is gone."""
FIRST_PAUSE: Final = timedelta(seconds=2)
PAUSES_SECONDS: Final = (5, 15, 60, 300)
PROCESSING_PAUSE_MIN: Final = timedelta(minutes=1)
PROCESSING_PAUSE_MAX: Final = timedelta(hours=1)
"""What becomes of a charge in process a callback tells; should it be lost, we ask."""
QUESTIONS_AT_ONCE_MAX: Final = 8
COMMITS_AT_ONCE_MAX: Final = 4

NOT_RECEIVED: Final = Refused("NOT_RECEIVED", "The charge did not reach the acquirer.")


FindEarlier = Callable[[Connection], Awaitable[Transaction | None]]


async def _no_earlier(_block: Connection) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Desk:
    """Where cards are charged: by whom, and where it is written down."""

    database: Database
    acquirer: CardAcquirer
    turns: asyncio.Semaphore
    """Lets no more commits wait for a connection than there are, so that none gives up."""


async def charge(
    desk: Desk,
    creation: Creation,
    wanted: Charge,
    intent: Intent,
    find_earlier: FindEarlier = _no_earlier,
) -> Created:
    """Create a payment by card once an intent, and charge the card once.

    What `find_earlier` finds in the commit that would remember the payment is given instead of it.
    """
    database, acquirer = desk.database, desk.acquirer
    # Phase 1: the payment is remembered, and its token used up, before anybody is asked.
    async with desk.turns:
        remembered = await database.atomically(
            _remember(creation, intent, find_earlier, provider=acquirer.name)
        )
    if isinstance(remembered, Transaction):
        return Created(remembered, is_replay=True)
    # Phase 2: the acquirer is asked, with nothing locked and no connection held.
    # One that has waited so long for its turn is the worker's, who may have asked already.
    is_late = utc_now() - remembered.asked_at > LEFT_ALONE
    answer: FirstAnswer = Unknown()
    if not is_late:
        answer = await _ask(acquirer.authorise(wanted), otherwise=Unknown())
    # Phase 3: its answer is written, unless a worker was faster.
    now = max(utc_now(), remembered.asked_at)
    async with desk.turns:
        transaction, outcomes = await database.atomically(_write_first(remembered, answer, now=now))
    arrivals.report(outcomes)
    return Created(transaction, is_replay=False, record=record_of(transaction, ()))


async def ask_due(database: Database, acquirer: CardAcquirer, *, now: datetime) -> int:
    """Ask what became of charges that nobody has decided; any number of workers may do this."""
    asked = 0
    for company_id in await request_store.list_companies_with_questions(database, now=now):
        try:
            while questions := await request_store.claim_questions(
                database,
                company_id,
                pauses_seconds=PAUSES_SECONDS,
                now=now,
                rows_max=QUESTIONS_AT_ONCE_MAX,
            ):
                await asyncio.gather(
                    *(_ask_again(database, acquirer, each, now=now) for each in questions)
                )
                asked += len(questions)
        except DatabaseUnavailableError:
            raise
        except Exception:
            # One company's trouble must not keep the others waiting.
            log.exception("charges could not be asked about", company_id=company_id)
    return asked


def refuse_other_intent(transaction: Transaction, intent: Intent) -> None:
    """Refuse a key that stands for another request."""
    if transaction.fingerprint != intent.fingerprint:
        raise IntentReused(transaction.processed_at or transaction.created_at)


def _remember(
    creation: Creation, intent: Intent, find_earlier: FindEarlier, *, provider: str
) -> Callable[[Connection], Awaitable[Transaction | Question]]:
    """Write a payment that is to be asked about; gives the one that stands for it, if another does.

    Its card token is used up in the same commit: both happen, or neither.
    """
    made, digest = creation.new.transaction, creation.card_token_digest

    async def remember(block: Connection) -> Transaction | Question:
        earlier = await find_earlier(block)
        if earlier is not None:
            return earlier
        if digest is not None and not await card_tokens.spend(
            block, made.scope, digest, now=made.created_at
        ):
            raise Refusal(ErrorCode.CARD_TOKEN_INVALID)
        if await request_store.insert_unanswered(block, creation.new):
            # A call may have taken long to arrive; its acquirer is not asked before this.
            question = _question(creation, provider, asked_at=max(utc_now(), made.created_at))
            ask_at = question.asked_at + LEFT_ALONE
            await request_store.insert_request(block, question, ask_at=ask_at)
            return question
        [holder] = await store.find_by_keys(block, [made])
        # The refusal undoes the block, so that the token of another request can still be used.
        refuse_other_intent(holder, intent)
        return holder

    return remember


def _question(creation: Creation, provider: str, *, asked_at: datetime) -> Question:
    made = creation.new.transaction
    return Question(
        company_id=made.company_id,
        transaction_id=made.transaction_id,
        environment=made.environment,
        provider=provider,
        correlation_id=creation.correlation_id,
        asked_at=asked_at,
    )


async def _ask(asking: Awaitable[T], *, otherwise: T) -> T:
    """Wait for an answer, but not for ever; without one nothing is known."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await asking
    except TimeoutError:
        log.warning("the acquirer did not answer in time")
    except Exception:
        log.exception("the acquirer could not be asked")
    return otherwise


async def _ask_again(
    database: Database, acquirer: CardAcquirer, question: Question, *, now: datetime
) -> None:
    asking = acquirer.query(question.company_id, question.transaction_id)
    answer: LaterAnswer = await _ask(asking, otherwise=Unknown())
    may_turn_up = question.is_seen or now < question.asked_at + acquirer.arrives_within
    if isinstance(answer, NeverSeen) and may_turn_up:
        answer = Unknown()
    if isinstance(answer, NeverSeen):
        log.warning("a charge never reached the acquirer", reference=question.transaction_id)
        answer = NOT_RECEIVED
    _, outcomes = await database.atomically(_write_later(question, answer, now=now))
    arrivals.report(outcomes)


Written = tuple[Transaction, Sequence[Outcome]]


def _write_first(
    question: Question, answer: FirstAnswer, *, now: datetime
) -> Callable[[Connection], Awaitable[Written]]:
    async def write(block: Connection) -> Written:
        transaction = await _lock(block, question)
        if transaction.is_answered:
            # A worker was faster; what it wrote may not be what we were told.
            if not isinstance(answer, Unknown):
                await _plan_asking(block, transaction, answer, question, now)
            return await _take_verdict(block, transaction, answer, question, now)
        if isinstance(answer, Unknown):
            await request_store.update_ask_at(
                block, transaction, ask_at=now + FIRST_PAUSE, is_seen=False
            )
        else:
            await _plan_asking(block, transaction, answer, question, now)
        return await _answer_first(block, transaction, answer, question, now)

    return write


def _write_later(
    question: Question, answer: FirstAnswer, *, now: datetime
) -> Callable[[Connection], Awaitable[Written]]:
    async def write(block: Connection) -> Written:
        transaction = await _lock(block, question)
        if not isinstance(answer, Unknown):
            await _plan_asking(block, transaction, answer, question, now)
        if not transaction.is_answered:
            return await _answer_first(block, transaction, answer, question, now)
        return await _take_verdict(block, transaction, answer, question, now)

    return write


async def _plan_asking(
    block: Connection,
    transaction: Transaction,
    answer: Verdict,
    question: Question,
    now: datetime,
) -> None:
    """Ask again about what is in process, the older the more rarely; about nothing else."""
    is_open = isinstance(answer, Processing) and transaction.status is Status.PROCESSING
    age = now - question.asked_at
    pause = min(max(age, PROCESSING_PAUSE_MIN), PROCESSING_PAUSE_MAX)
    ask_at = now + pause if is_open else None
    await request_store.update_ask_at(block, transaction, ask_at=ask_at, is_seen=is_open)


async def _take_verdict(
    block: Connection,
    transaction: Transaction,
    answer: FirstAnswer,
    question: Question,
    now: datetime,
) -> Written:
    """Do what an answer means for a payment that has had one, once, as if a callback told it."""
    if isinstance(answer, Unknown):
        return transaction, ()
    if isinstance(answer, Processing):
        return await answers.settle(block, transaction, answer, now=now), ()
    if isinstance(answer, Blocked) and transaction.paid_at is not None:
        # A callback was faster: what was asked before it is of no more interest.
        return transaction, ()
    notice = _notice(transaction, question.provider, answer)
    outcomes = await arrivals.take(block, transaction, notice, now=now) or ()
    return await _lock(block, question), outcomes


async def _answer_first(
    block: Connection,
    transaction: Transaction,
    answer: FirstAnswer,
    question: Question,
    now: datetime,
) -> Written:
    answered = await answers.answer_first(
        block, transaction, answer, correlation_id=question.correlation_id, now=now
    )
    # A callback may have been faster than the answer.
    return await arrivals.do_waiting(block, answered, now=now)


def _notice(
    transaction: Transaction, provider: str, verdict: Authorised | Refused | Blocked
) -> Notice:
    """Say an answer that came later in the words of a callback, which is heard once."""
    kind, code, message = _words(verdict)
    return Notice(
        company_id=transaction.company_id,
        environment=transaction.environment,
        provider=provider,
        # What was said later and is something else is heard too.
        callback_id=f"query/{transaction.transaction_id}/{kind}",
        kind=kind,
        reference=transaction.transaction_id,
        amount=transaction.amount,
        code=code,
        message=message,
    )


def _words(
    verdict: Authorised | Refused | Blocked,
) -> tuple[NoticeKind, str | None, str | None]:
    match verdict:
        case Authorised():
            return NoticeKind.CHARGE_PAID, verdict.authorization_code, None
        case Blocked():
            return NoticeKind.CHARGE_BLOCKED, verdict.authorization_code, None
        case Refused():
            return NoticeKind.CHARGE_REFUSED, verdict.code, verdict.message


async def _lock(block: Connection, question: Question) -> Transaction:
    scope = Scope(question.company_id, question.environment)
    transaction = await store.lock(block, scope, question.transaction_id)
    assert transaction is not None, "the payment was written with its question"
    return transaction
