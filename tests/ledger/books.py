"""A company's books as the tests write them: short calls, one atomic block each."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from vintem.audit import audit
from vintem.ledger import service as ledger
from vintem.ledger import store
from vintem.ledger.model import (
    Account,
    Capture,
    HoldKind,
    Kind,
    ScheduledRelease,
    Scope,
    StatementLine,
)
from vintem.runtime.db import Database

TODAY = date(2026, 3, 10)

RESTORED = {
    HoldKind.REFUND: Kind.REFUND_FAILED,
    HoldKind.BLOCK: Kind.UNBLOCK,
    HoldKind.DISPUTE: Kind.DISPUTE_WON,
}
PAID_OUT = {
    HoldKind.REFUND: Kind.REFUND_PAID,
    HoldKind.BLOCK: Kind.BLOCK_REFUNDED,
    HoldKind.DISPUTE: Kind.CHARGEBACK,
}

Waiting = Sequence[tuple[date, int]]


def noon(day: date) -> datetime:
    """The middle of a day in Brasilia."""
    return datetime.combine(day, time(15), tzinfo=UTC)


def in_days(days: int) -> date:
    return TODAY + timedelta(days=days)


def payment(
    scope: Scope,
    transaction_id: str,
    amount: int,
    *,
    fee: int = 0,
    release: Waiting = (),
    reserve: Waiting = (),
    source: Account = Account.BANK,
) -> Capture:
    releases = [
        ScheduledRelease(scope, transaction_id, account, part, due_on, waiting)
        for account, rows in ((Account.RELEASE, release), (Account.RESERVE, reserve))
        for part, (due_on, waiting) in enumerate(rows, start=1)
    ]
    return Capture(scope, transaction_id, source, amount, fee, releases)


@dataclass(frozen=True)
class Books:
    """The ledger of one company in one environment."""

    database: Database
    scope: Scope

    async def capture(
        self,
        transaction_id: str,
        amount: int,
        *,
        fee: int = 0,
        release: Waiting = (),
        reserve: Waiting = (),
        on: date = TODAY,
    ) -> None:
        one = payment(self.scope, transaction_id, amount, fee=fee, release=release, reserve=reserve)
        async with self.database.atomic() as block:
            await ledger.capture_many(block, [one], now=noon(on))

    async def hold(
        self,
        kind: HoldKind,
        reference: str,
        amount: int,
        *,
        transaction_id: str = "tx_other",
        on: date = TODAY,
    ) -> None:
        async with self.database.atomic() as block:
            await ledger.hold(
                block,
                self.scope,
                kind,
                reference,
                transaction_id=transaction_id,
                amount=amount,
                now=noon(on),
            )

    async def restore(self, kind: HoldKind, reference: str, *, on: date = TODAY) -> None:
        async with self.database.atomic() as block:
            await ledger.restore(
                block, self.scope, kind, reference, posting_kind=RESTORED[kind], now=noon(on)
            )

    async def pay_out(
        self,
        kind: HoldKind,
        reference: str,
        *,
        to: Account = Account.BANK,
        on: date = TODAY,
    ) -> None:
        async with self.database.atomic() as block:
            await ledger.pay_out(
                block, self.scope, kind, reference, posting_kind=PAID_OUT[kind], to=to, now=noon(on)
            )

    async def take_back(
        self, reference: str, *, source: Account = Account.BANK, on: date = TODAY
    ) -> None:
        async with self.database.atomic() as block:
            await ledger.take_back(
                block,
                self.scope,
                HoldKind.DISPUTE,
                reference,
                posting_kind=Kind.CHARGEBACK_WON,
                source=source,
                now=noon(on),
            )

    async def charge_dispute_fee(self, reference: str, amount: int, *, on: date = TODAY) -> None:
        async with self.database.atomic() as block:
            await ledger.charge_dispute_fee(
                block, self.scope, reference, amount=amount, now=noon(on)
            )

    async def release_due(self, on: date) -> int:
        return await ledger.release_due(self.database, now=noon(on))

    async def all_balances(self) -> dict[str, int]:
        """What the API would say, through the reader that it shares."""
        reader = ledger.BalanceReader(self.database)
        try:
            found = await reader.read(self.scope)
        finally:
            await reader.close()
        return {str(account): balance for account, balance in found.items()}

    async def balances(self) -> dict[str, int]:
        """What stands where, without the empty accounts."""
        found = await store.read_balances(self.database, {self.scope})
        balances = found.get(self.scope, {})
        return {str(account): balance for account, balance in balances.items() if balance}

    async def next_releases(self, rows_max: int = 100) -> list[tuple[date, int]]:
        return list(await ledger.next_releases(self.database, self.scope, rows_max=rows_max))

    async def statement(
        self, *, before: int | None = None, rows_max: int = 1_000
    ) -> Sequence[StatementLine]:
        page = await ledger.statement(
            self.database, self.scope, before=before, offset=0, rows_max=rows_max
        )
        return page.lines

    async def total(self, account: Account) -> int:
        """What the postings say of an account, also of one without a balance."""
        total = await self.database.fetchval(
            """
            select coalesce(sum(l.amount), 0)::bigint
            from posting p cross join lateral unnest(p.codes, p.amounts) as l (code, amount)
            where p.company_id = $1 and p.environment = $2 and l.code = $3
            """,
            self.scope.company_id,
            self.scope.environment,
            account,
        )
        assert isinstance(total, int)
        return total

    async def postings(self) -> int:
        count = await self.database.fetchval(
            "select count(*) from posting where company_id = $1 and environment = $2",
            self.scope.company_id,
            self.scope.environment,
        )
        assert isinstance(count, int)
        return count


async def complaints(database: Database) -> dict[str, Sequence[str]]:
    """The invariants that do not hold, with the rows that say so."""
    return {
        finding.invariant.name: finding.rows for finding in await audit(database) if finding.rows
    }
