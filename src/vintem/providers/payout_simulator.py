"""The sandbox's payout provider: the amount that was asked for decides, always in the same way.

It keeps books of its own and commits them by itself, as a bank would. What it has once paid or
rejected stays so, however often it is asked.
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from vintem.brazil.br_code import end_to_end_id
from vintem.brazil.wallets import Coin, Network
from vintem.kit.clock import utc_now
from vintem.providers.payouts import (
    Accepted,
    Paid,
    PayoutAnswer,
    PayoutOrder,
    Quote,
    Rejected,
    Unheard,
    Unknown,
    WalletDestination,
)
from vintem.runtime.db import Database, Row
from vintem.runtime.failpoints import Failpoint, die_at, is_hit

ISPB: Final = "99999999"
SETTLES_AFTER: Final = timedelta(seconds=2)
LATE_QUERIES: Final = 2
RATE_SOURCE: Final = "sandbox"
RATES: Final[Mapping[Coin, Decimal]] = {Coin.USDT: Decimal("5.4321"), Coin.BTC: Decimal(350_000)}
CONFIRMATIONS: Final[Mapping[Network, int]] = {
    Network.BTC: 3,
    Network.TRC20: 20,
    Network.ERC20: 12,
    Network.POLYGON: 32,
    Network.BEP20: 15,
}
PLANS: Final = {1: "reject", 2: "pay_late", 3: "reject_late"}
REASONS: Final = {
    "PIX_KEY_NOT_FOUND": "The PIX key is not in the directory.",
    "WALLET_NOT_FOUND": "The network does not know the wallet.",
}
OTHER_REASON: Final = "The provider rejected the payment."


class PayoutSimulator:
    """Pays nobody; nothing leaves the database."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], datetime] = utc_now,
        loses_answers: bool = False,
    ) -> None:
        self._database = database
        self._clock = clock
        self._loses_answers = loses_answers

    async def send(self, order: PayoutOrder) -> PayoutAnswer:
        """Take a payment on, once a request id."""
        plan = PLANS.get(order.asked_amount % 100, "pay")
        row = await self._accept(order, plan)
        if self._loses_answers or is_hit(Failpoint.ANSWER_LOST):
            await self._decide(row, is_forced=True)
            return Unknown("the answer was lost")
        if plan in {"pay_late", "reject_late"} and row["outcome"] is None:
            return Unknown("the answer did not come in time")
        return await self._decide(row)

    async def query(self, company_id: int, request_id: str) -> PayoutAnswer:
        """Say what became of a request."""
        row = await self._database.fetchrow(
            """
            update simulated_payout set queries = queries + 1
            where company_id = $1 and request_id = $2 returning *
            """,
            company_id,
            request_id,
        )
        return Unheard() if row is None else await self._decide(row)

    async def quote(self, coin: Coin) -> Quote:
        """Give a price that never changes."""
        return Quote(coin, RATES[coin], RATE_SOURCE, self._clock())

    async def force(self, order: PayoutOrder, *, failure_code: str | None) -> PayoutAnswer:
        """Let a request end in a way that was chosen, unless it has ended already."""
        plan = "pay" if failure_code is None else "reject"
        row = await self._accept(order, plan)
        return await self._settle(row, failure_code)

    async def _accept(self, order: PayoutOrder, plan: str) -> Row:
        now, destination = self._clock(), order.destination
        await self._database.execute(
            """
            insert into simulated_payout (
                company_id, request_id, amount, network, plan, accepted_at, settles_at
            ) values ($1, $2, $3, $4, $5, $6, $7)
            on conflict do nothing
            """,
            order.company_id,
            order.request_id,
            order.amount,
            destination.network if isinstance(destination, WalletDestination) else None,
            plan,
            now,
            now + SETTLES_AFTER,
        )
        row = await self._database.fetchrow(
            "select * from simulated_payout where company_id = $1 and request_id = $2",
            order.company_id,
            order.request_id,
        )
        assert row is not None
        return row

    async def _decide(self, row: Row, *, is_forced: bool = False) -> PayoutAnswer:
        """Settle a request whose time has come, and answer."""
        if row["outcome"] is not None:
            return answer_of(row)
        plan = row["plan"]
        if plan in {"pay_late", "reject_late"} and not is_forced:
            if row["queries"] < LATE_QUERIES:
                return Unknown("the provider does not know yet")
        elif plan == "pay" and self._clock() < row["settles_at"] and not is_forced:
            return Accepted()
        code = "WALLET_NOT_FOUND" if row["network"] else "PIX_KEY_NOT_FOUND"
        return await self._settle(row, code if plan.startswith("reject") else None)

    async def _settle(self, row: Row, failure_code: str | None) -> PayoutAnswer:
        """Pay or reject for good, if nobody has; a second payment of a request cannot be."""
        settled = await self._database.fetchrow(
            """
            update simulated_payout set outcome = $3, failure_code = $4, settled_at = $5,
                executions = executions + case $3 when 'executed' then 1 else 0 end
            where company_id = $1 and request_id = $2 and outcome is null
            returning *
            """,
            row["company_id"],
            row["request_id"],
            "executed" if failure_code is None else "rejected",
            failure_code,
            self._clock(),
        )
        die_at(Failpoint.EXECUTED)
        if settled is None:
            settled = await self._database.fetchrow(
                "select * from simulated_payout where company_id = $1 and request_id = $2",
                row["company_id"],
                row["request_id"],
            )
        assert settled is not None
        return answer_of(settled)


def answer_of(row: Row) -> PayoutAnswer:
    """What is said of a request that has ended, always the same."""
    if row["outcome"] == "rejected":
        code = row["failure_code"]
        return Rejected(code, REASONS.get(code, OTHER_REASON))
    request_id, network = row["request_id"], row["network"]
    if network is None:
        name = end_to_end_id(ispb=ISPB, moment=row["settled_at"], suffix=request_id[-11:])
        return Paid(end_to_end_id=name)
    digest = hashlib.sha256(request_id.encode()).hexdigest()
    is_bare = network in {Network.BTC, Network.TRC20}
    return Paid(
        tx_hash=digest if is_bare else f"0x{digest}", confirmations=CONFIRMATIONS[Network(network)]
    )
