"""Who else changes in the commit in which a payment moves: the session that it pays for."""

from datetime import datetime
from typing import Final, Protocol

from vintem.runtime.db import Connection
from vintem.transactions.model import Status, Transaction


class Follower(Protocol):
    """Does what a payment's move means for its session, inside the payment's atomic block."""

    async def __call__(
        self, block: Connection, was: Status | None, transaction: Transaction, *, now: datetime
    ) -> None: ...


_followers: Final[list[Follower]] = []


def follow_with(follower: Follower) -> None:
    """Let a floor above hear of every move; named once, when the process opens its resources."""
    _followers[:] = [follower]


async def tell(
    block: Connection, was: Status | None, transaction: Transaction, *, now: datetime
) -> None:
    """Let the session of a locked payment follow its move; most payments have none."""
    if transaction.checkout_session_id is None:
        return
    assert _followers, "a process that moves payments opens its resources before"
    await _followers[0](block, was, transaction, now=now)
