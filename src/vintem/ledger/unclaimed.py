"""Money that belongs to no payment: where it goes once somebody has decided about it."""

from collections.abc import Sequence
from datetime import datetime

from vintem.ledger import recipes, service, store, suspense_store
from vintem.ledger.model import Account, Unclaimed
from vintem.runtime.db import Connection


async def list_unclaimed(db: Connection, company_ids: Sequence[int]) -> Sequence[Unclaimed]:
    """All money of companies that belongs to no payment, the oldest first."""
    return await suspense_store.list_unclaimed(db, company_ids)


async def find_and_lock(block: Connection, company_id: int, reference: str) -> Unclaimed | None:
    """Find money that nobody has decided about, and let nobody else decide until the block ends."""
    # A company may have had no other posting yet, and there is no lock on what is not there.
    await store.insert_accounts(block, {company_id})
    await store.lock_accounts(block, company_id)
    return await suspense_store.find_unclaimed(block, company_id, reference)


async def give_to_company(block: Connection, found: Unclaimed, *, now: datetime) -> None:
    """Let a company have what came; what has left it bears, out of what it has or as debt."""
    scope, reference, amount = found.scope, found.reference, found.amount
    if amount > 0:
        posting = recipes.credited(scope, reference, amount=amount)
    else:
        balances = await service.lock_balances(block, scope)
        split = recipes.waterfall(balances, -amount, [Account.AVAILABLE])
        posting = recipes.charged(scope, reference, split)
    await service.post(block, [posting], now)
    await service.recover_debts(block, {scope: f"{posting.kind}/{reference}"}, now)


async def give_back(block: Connection, found: Unclaimed, *, now: datetime) -> None:
    """Book that money went back where it came from; below zero, that it has come back."""
    posting = recipes.given_back(found.scope, found.reference, to=found.source, amount=found.amount)
    await service.post(block, [posting], now)
