"""Payments that are booked together: each posting's place in the order of its ledger's."""

from collections.abc import Sequence

import msgspec

from vintem.ledger.model import Account, Kind, Posting, Scope


class Place(msgspec.Struct, frozen=True, gc=False):
    """The parts of a capture, and how far its accounts have come when it has been booked."""

    source: str
    total: int
    available: int
    fee: int
    release: int
    reserve: int
    available_at: int
    available_after: int
    release_at: int
    reserve_at: int
    gain: int
    """The number of its ledger among those that gain something, from 1."""


class Gain(msgspec.Struct, gc=False):
    """What a ledger gains in all, and by how many legs."""

    number: int
    available: int = 0
    available_legs: int = 0
    release: int = 0
    release_legs: int = 0
    reserve: int = 0
    reserve_legs: int = 0


def place(postings: Sequence[Posting]) -> tuple[Sequence[Place], dict[Scope, Gain]]:
    """Give each posting its place, and what each ledger gains."""
    gains: dict[Scope, Gain] = {}
    places = []
    for posting in postings:
        assert posting.kind is Kind.CAPTURE, "only captures have this form"
        amounts = {leg.account: leg.amount for leg in posting.legs}
        gain = gains.get(posting.scope)
        if gain is None:
            gain = gains[posting.scope] = Gain(len(gains) + 1)
        available = amounts.get(Account.AVAILABLE, 0)
        release = amounts.get(Account.RELEASE, 0)
        reserve = amounts.get(Account.RESERVE, 0)
        gain.available += available
        gain.available_legs += available > 0
        gain.release += release
        gain.release_legs += release > 0
        gain.reserve += reserve
        gain.reserve_legs += reserve > 0
        places.append(
            Place(
                source=posting.legs[0].account,
                total=posting.legs[0].amount,
                available=available,
                fee=amounts.get(Account.FEE, 0),
                release=release,
                reserve=reserve,
                available_at=gain.available_legs,
                available_after=gain.available,
                release_at=gain.release_legs,
                reserve_at=gain.reserve_legs,
                gain=gain.number,
            )
        )
    return places, gains
