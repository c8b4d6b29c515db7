"""What happens to money; every function runs inside the caller's atomic block."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

import structlog

from vintem.kit.clock import business_day
from vintem.ledger import (
    payout_store,
    recipes,
    schedule_store,
    statement_store,
    store,
)
from vintem.ledger.model import (
    BALANCED,
    Account,
    Balances,
    Capture,
    Hold,
    HoldKind,
    Kind,
    Payout,
    Posting,
    Resolution,
    ScheduledRelease,
    Scope,
    Split,
    StatementFilter,
    StatementLine,
    StatementPage,
    Taken,
)
from vintem.ledger.schedule_store import ReleaseOf
from vintem.runtime.db import Connection, Database, DatabaseUnavailableError
from vintem.runtime.group_commit import GroupCommit

log = structlog.get_logger()

OVERTAKEN_MAX: Final = timedelta(hours=1)
RELEASES_AT_ONCE_MAX: Final = 200
READS_AT_ONCE_MAX: Final = 256
WAITING_AT_FIRST_MAX: Final = 50


async def capture_many(block: Connection, payments: Sequence[Capture], *, now: datetime) -> None:
    """Book payments that came in and schedule what waits."""
    await post(block, [recipes.capture(payment) for payment in payments], now)
    releases = [release for payment in payments for release in payment.releases]
    if releases:
        await store.insert_releases(block, releases)
    await recover_debts(
        block,
        {payment.scope: f"{Kind.CAPTURE}/{payment.transaction_id}" for payment in payments},
        now,
    )


async def lock(block: Connection, scope: Scope) -> None:
    """Keep others from changing any balance until the block ends."""
    await lock_balances(block, scope)


async def open_accounts(db: Connection, company_ids: Collection[int]) -> bool:
    """Open the accounts of companies that have none; says whether there were any such."""
    return await store.insert_accounts(db, company_ids)


async def hold(
    block: Connection,
    scope: Scope,
    kind: HoldKind,
    reference: str,
    *,
    transaction_id: str,
    amount: int,
    now: datetime,
) -> None:
    """Take money aside; what the company does not have becomes its debt."""
    balances = await lock_balances(block, scope)
    split = recipes.waterfall(balances, amount, kind.sources)
    taken = [
        *await _take_from_schedule(block, scope, Account.RELEASE, split.release, transaction_id),
        *await _take_from_schedule(block, scope, Account.RESERVE, split.reserve, transaction_id),
    ]
    split = Split(split.available, split.release, split.reserve, split.debt, taken)
    await post(block, [recipes.hold(scope, kind, reference, split)], now)
    await store.insert_hold(block, Hold(scope, kind, reference, split, now))


async def restore(
    block: Connection,
    scope: Scope,
    kind: HoldKind,
    reference: str,
    *,
    posting_kind: Kind,
    now: datetime,
) -> None:
    """Put held money back where it came from."""
    split = await _resolved(block, scope, kind, reference, Resolution.RESTORED, None, now)
    await _put_back(
        block, scope, posting_kind, reference, out_of=kind.account, split=split, now=now
    )


async def pay_out(
    block: Connection,
    scope: Scope,
    kind: HoldKind,
    reference: str,
    *,
    posting_kind: Kind,
    to: Account,
    now: datetime,
) -> None:
    """Let held money leave for good."""
    split = await _resolved(block, scope, kind, reference, Resolution.PAID_OUT, None, now)
    posting = recipes.pay_out(
        scope, posting_kind, reference, out_of=kind.account, to=to, amount=split.amount
    )
    await post(block, [posting], now)


async def pay_part_out(
    block: Connection,
    scope: Scope,
    kind: HoldKind,
    reference: str,
    *,
    posting_kind: Kind,
    part: str,
    amount: int,
    to: Account,
    now: datetime,
) -> None:
    """Let a part of held money, named once, leave for good; the rest is held as before."""
    split = await store.lock_open_hold(block, scope, kind, reference)
    assert split is not None, "what is held has an open hold"
    await store.update_hold(block, scope, kind, reference, recipes.leave(split, amount))
    posting = recipes.pay_out(scope, posting_kind, part, out_of=kind.account, to=to, amount=amount)
    await post(block, [posting], now)


async def take_back(
    block: Connection,
    scope: Scope,
    kind: HoldKind,
    reference: str,
    *,
    posting_kind: Kind,
    source: Account,
    now: datetime,
) -> None:
    """Put money that had left back where it was held from."""
    split = await _resolved(
        block, scope, kind, reference, Resolution.RETURNED, Resolution.PAID_OUT, now
    )
    await _put_back(block, scope, posting_kind, reference, out_of=source, split=split, now=now)


async def charge_dispute_fee(
    block: Connection, scope: Scope, reference: str, *, amount: int, now: datetime
) -> None:
    """Charge for a lost dispute."""
    if amount:
        balances = await lock_balances(block, scope)
        split = recipes.waterfall(balances, amount, [Account.AVAILABLE])
        await post(block, [recipes.dispute_fee(scope, reference, split)], now)


async def book_unclaimed(
    block: Connection,
    scope: Scope,
    reference: str,
    *,
    source: Account,
    amount: int,
    now: datetime,
) -> None:
    """Keep money that belongs to no payment where somebody looks at it; below zero, what left."""
    posting = recipes.unclaimed(scope, reference, source=source, amount=amount)
    await post(block, [posting], now)


async def hold_payout(block: Connection, payout: Payout, *, now: datetime) -> bool:
    """Take a withdrawal's money aside, or say that there is not enough; never into debt."""
    return await payout_store.hold_and_lock_accounts(block, payout, now=now)


async def pay_held(block: Connection, payout: Payout, *, now: datetime) -> None:
    """Let the money that is held for a withdrawal leave."""
    await _end_payout(block, payout, Resolution.PAID_OUT, now)
    await post(block, [recipes.payout_paid(payout)], now)
    if payout.bought is not None:
        await payout_store.insert_asset_posting(block, payout, payout.bought, now=now)


async def return_held(block: Connection, payout: Payout, *, now: datetime) -> None:
    """Give back all the money that is held for a withdrawal."""
    await _end_payout(block, payout, Resolution.RESTORED, now)
    posting = recipes.payout_returned(payout)
    await post(block, [posting], now)
    # A debt may have come up meanwhile, and whoever owes has nothing free.
    await recover_debts(block, {payout.scope: f"{posting.kind}/{posting.reference}"}, now)


async def _end_payout(
    block: Connection, payout: Payout, resolution: Resolution, now: datetime
) -> None:
    held = await payout_store.resolve_hold(block, payout, resolution=resolution, now=now)
    assert held == payout.total, "a withdrawal's hold is resolved once, in full"


async def available(db: Connection, scope: Scope) -> int:
    """What a company could withdraw at this moment."""
    balances = await store.read_balances(db, {scope})
    return balances.get(scope, {}).get(Account.AVAILABLE, 0)


async def release_due(database: Database, *, now: datetime) -> int:
    """Make everything available that is due; any number of workers may do this at once."""
    today = business_day(now)
    companies = await store.list_companies_with_due_releases(database, today=today)
    released = 0
    for company_id in companies:
        try:
            while rows := await _release_due_of(database, company_id, today, now):
                released += rows
        except DatabaseUnavailableError:
            raise
        except Exception:
            # One company's trouble must not keep the others waiting.
            log.exception("money could not be released", company_id=company_id)
    return released


async def release_early(block: Connection, scope: Scope, *, rows_max: int, now: datetime) -> int:
    """Make available what waits for any day; says how much. Where no money is real, only."""
    assert scope.environment == "test", "real money is released on its day"
    await store.lock_accounts(block, scope.company_id)
    waiting = await store.claim_due_releases(
        block,
        scope.company_id,
        today=date.max,
        now=now,
        rows_max=rows_max,
        environment=scope.environment,
    )
    await _post_releases(block, waiting, now)
    return sum(row.amount for row in waiting)


class BalanceReader:
    """Reads balances; calls that arrive together share one statement, as writes share a commit."""

    def __init__(self, database: Database) -> None:
        self._reads = GroupCommit[Scope, Balances](
            database,
            _read_many,
            sort_key=lambda scope: (scope.company_id, scope.environment),
            # One reader with large groups: a second would only make them smaller.
            flushers=1,
            rows_max=READS_AT_ONCE_MAX,
        )

    async def read(self, scope: Scope) -> Balances:
        """What stands in each account at some moment after the call."""
        return await self._reads.write(scope)

    async def close(self) -> None:
        """Answer what is waiting, then stop."""
        await self._reads.close()


async def _read_many(db: Connection, scopes: Sequence[Scope]) -> Sequence[Balances]:
    found = await store.read_balances(db, set(scopes))
    # A company that never had money has nothing in all of its accounts.
    nothing = dict.fromkeys(BALANCED, 0)
    balances = {scope: nothing | found.get(scope, {}) for scope in set(scopes)}
    return [balances[scope] for scope in scopes]


async def next_releases(
    db: Connection, scope: Scope, *, rows_max: int
) -> Sequence[tuple[date, int]]:
    """The next days on which something becomes available."""
    return await store.list_next_releases(db, scope, rows_max=rows_max)


async def releases_of(db: Connection, scope: Scope, transaction_id: str) -> Sequence[ReleaseOf]:
    """When the money of a payment becomes available, or became."""
    return await schedule_store.list_releases_of(db, scope, transaction_id)


async def statement(
    db: Connection, scope: Scope, *, before: int | None, offset: int, rows_max: int
) -> StatementPage:
    """The movements of the available balance, the newest first, and how many there are."""
    return await statement_store.list_statement(
        db, scope, before=before, offset=offset, rows_max=rows_max
    )


async def filtered_statement(
    db: Connection, scope: Scope, wanted: StatementFilter, *, before: int | None, rows_max: int
) -> Sequence[StatementLine]:
    """The movements of the available balance of a kind or a time, the newest first.

    Movements are numbered in the order of their commits, which is almost that of their moments: a
    time is looked up in the numbers, with room on both sides for what was overtaken.
    """
    first, last = 0, before
    if wanted.created_from is not None:
        moment = wanted.created_from - OVERTAKEN_MAX
        first = await statement_store.find_statement_number(db, scope, moment)
    if wanted.created_before is not None:
        moment = wanted.created_before + OVERTAKEN_MAX
        ends = await statement_store.find_statement_number(db, scope, moment) + 1
        last = ends if before is None else min(before, ends)
    return await statement_store.list_filtered_statement(
        db, scope, wanted, after=first, before=last, rows_max=rows_max
    )


async def post(block: Connection, postings: Sequence[Posting], now: datetime) -> None:
    """Write postings, opening the accounts of a company with its first one."""
    if not await store.post_and_lock_accounts(block, postings, now=now):
        await store.insert_accounts(block, {posting.scope.company_id for posting in postings})
        is_posted = await store.post_and_lock_accounts(block, postings, now=now)
        assert is_posted, "the accounts are open now"


async def lock_balances(block: Connection, scope: Scope) -> Balances:
    """Lock all balances, opening the accounts of a company that has had no posting on them."""
    balances = await store.lock_balances(block, scope)
    if not balances:
        await store.insert_accounts(block, {scope.company_id})
        balances = await store.lock_balances(block, scope)
    return balances


async def _release_due_of(database: Database, company_id: int, today: date, now: datetime) -> int:
    async def release(block: Connection) -> int:
        # Accounts before the schedule, as holds do; so workers take turns within a company.
        await store.lock_accounts(block, company_id)
        due = await store.claim_due_releases(
            block, company_id, today=today, now=now, rows_max=RELEASES_AT_ONCE_MAX
        )
        await _post_releases(block, due, now)
        if len(due) < RELEASES_AT_ONCE_MAX:
            await store.delete_past_days(block, company_id, today=today)
        return len(due)

    return await database.atomically(release)


async def _post_releases(block: Connection, due: Sequence[ScheduledRelease], now: datetime) -> None:
    postings = [
        recipes.release(
            row.scope, f"{row.transaction_id}/{row.part}", account=row.account, amount=row.amount
        )
        for row in due
        if row.amount
    ]
    if postings:
        await post(block, postings, now)
        references = {posting.scope: f"{posting.kind}/{posting.reference}" for posting in postings}
        await recover_debts(block, references, now)


async def recover_debts(block: Connection, references: Mapping[Scope, str], now: datetime) -> None:
    """Pay debt off with what has just become available, before anything else can use it."""
    postings = [
        recipes.debt_recovery(scope, references[scope], amount=min(owed, available))
        for scope, owed, available in await store.list_debts(block, list(references))
    ]
    if postings:
        await post(block, postings, now)


async def _take_from_schedule(
    block: Connection, scope: Scope, account: Account, amount: int, transaction_id: str
) -> Sequence[Taken]:
    """Take an amount out of what waits: the payment's own first, then the latest due."""
    if not amount:
        return ()
    taken, left = [], amount
    async for waiting in _waiting_of(block, scope, account, transaction_id):
        part = min(left, waiting.amount)
        taken.append(
            Taken(waiting.transaction_id, waiting.account, waiting.part, waiting.due_on, part)
        )
        left -= part
        if not left:
            break
    assert not left, "the schedule holds what the account holds"
    changed = await store.change_open_releases(block, scope, taken, sign=-1)
    assert len(changed) == len(taken), "what waits cannot be released under our lock"
    return taken


async def _waiting_of(
    block: Connection, scope: Scope, account: Account, transaction_id: str
) -> AsyncIterator[Taken]:
    """What waits in a locked account, read no further than it is needed."""
    for waiting in await store.list_open_releases_of(block, scope, account, transaction_id):
        yield waiting
    offset, rows_max = 0, WAITING_AT_FIRST_MAX
    while True:
        latest = await store.list_latest_releases(
            block, scope, account, offset=offset, rows_max=rows_max
        )
        for waiting in latest:
            if waiting.transaction_id != transaction_id:
                yield waiting
        if len(latest) < rows_max:
            return
        # Twice as many each time, so that what is skipped never costs more than what is read.
        offset, rows_max = offset + rows_max, 2 * rows_max


async def _put_back(
    block: Connection,
    scope: Scope,
    kind: Kind,
    reference: str,
    *,
    out_of: Account,
    split: Split,
    now: datetime,
) -> None:
    balances = await lock_balances(block, scope)
    today = business_day(now)
    past_due = {Account.RELEASE: split.release, Account.RESERVE: split.reserve}
    # What has been released by a clock ahead of ours is not scheduled again: it is past due too.
    not_due = [taken for taken in split.taken if taken.due_on > today]
    if not_due:
        for taken in await store.change_open_releases(block, scope, not_due, sign=1):
            past_due[taken.account] -= taken.amount
    posting = recipes.put_back(
        scope,
        kind,
        reference,
        out_of=out_of,
        split=split,
        debt_owed=-balances[Account.DEBT],
        past_due=past_due,
    )
    await post(block, [posting], now)
    await recover_debts(block, {scope: f"{kind}/{reference}"}, now)


async def _resolved(
    block: Connection,
    scope: Scope,
    kind: HoldKind,
    reference: str,
    resolution: Resolution,
    was: Resolution | None,
    now: datetime,
) -> Split:
    split = await store.resolve_hold(
        block, scope, kind, reference, resolution=resolution, was=was, now=now
    )
    assert split is not None, "a hold is resolved once"
    return split
