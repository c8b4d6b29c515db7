"""What the company has: what can be withdrawn, what waits, and what is held back."""

from typing import Final

from vintem.api.call import Answer
from vintem.dashboard.answers import page
from vintem.dashboard.page import Page, shown
from vintem.dashboard.visit import Visit
from vintem.ledger import service as ledger
from vintem.ledger.model import Account
from vintem.members.model import Permission

NEXT_RELEASES_MAX: Final = 7


async def show_balance(visit: Visit) -> Answer:
    """Show every balance, and the next days on which something becomes available."""
    balances = await visit.resources.balances.read(visit.scope)
    releases = await ledger.next_releases(
        visit.resources.database, visit.scope, rows_max=NEXT_RELEASES_MAX
    )
    return page(
        visit,
        "balance.html",
        title="Saldo",
        available=balances[Account.AVAILABLE],
        waiting=balances[Account.RELEASE],
        reserve=balances[Account.RESERVE],
        blocked=balances[Account.BLOCKED],
        disputed=balances[Account.DISPUTE],
        withdrawing=balances[Account.PAYOUT],
        refunding=balances[Account.REFUND],
        debt=-balances[Account.DEBT],
        releases=releases,
    )


PAGES: Final[tuple[Page, ...]] = (
    shown("/balance", show_balance, Permission.BALANCE_READ, "Saldo"),
)
