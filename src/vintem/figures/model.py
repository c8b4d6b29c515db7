"""What is counted of a company's payments, without input or output."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

import msgspec

EVENTS_AT_ONCE_MAX: Final = 2_000
PAYMENTS_OF_CUSTOMER_MAX: Final = 1_000
"""A buyer with more payments is counted by the newest of them."""
CHECK_AFTER: Final = (timedelta(minutes=2), timedelta(hours=2), timedelta(hours=26))
"""When a stretch is looked at again for events that were committed late."""
PAUSE_SECONDS_MIN: Final = 10
PAUSE_SECONDS_MAX: Final = 3_600
BEGINNING: Final = datetime.fromisoformat("2000-01-01T00:00:00+00:00")
"""Before anything happened."""

COUNTS: Final = ("created", "paid", "failed", "refunded", "disputed")
FIELDS: Final = tuple(f"{what}_{unit}" for what in COUNTS for unit in ("count", "cents"))


class Figures(msgspec.Struct, frozen=True, array_like=True):
    """What happened to payments: how many, and how many cents."""

    created_count: int = 0
    created_cents: int = 0
    paid_count: int = 0
    paid_cents: int = 0
    failed_count: int = 0
    failed_cents: int = 0
    refunded_count: int = 0
    refunded_cents: int = 0
    disputed_count: int = 0
    disputed_cents: int = 0

    @property
    def approval_basis_points(self) -> int | None:
        """How many hundredths of a percent of what was created were paid; none without any."""
        if self.created_count == 0:
            return None
        return min(10_000, self.paid_count * 10_000 // self.created_count)

    @property
    def average_cents(self) -> int | None:
        """What a payment that was made is worth on average, rounded down."""
        return self.paid_cents // self.paid_count if self.paid_count else None


class DayFigures(msgspec.Struct, frozen=True, array_like=True):
    """The figures of one day and one method."""

    day: date
    payment_method: str
    figures: Figures


class Stretch(msgspec.Struct, frozen=True):
    """A stretch of time that was counted, and what was found in it."""

    from_at: datetime
    until_at: datetime
    events: int
    counted: Sequence[DayFigures]
    counted_at: datetime
    checks: int = 0

    @property
    def check_at(self) -> datetime | None:
        """When it is looked at again; never, once it was looked at often enough."""
        if self.checks >= len(CHECK_AFTER):
            return None
        return self.counted_at + CHECK_AFTER[self.checks]


class Customer(msgspec.Struct, frozen=True, kw_only=True):
    """A buyer of a company: what they have bought, and the payment that says who they are."""

    document_digest: bytes
    last_transaction_id: str
    seen_at: datetime
    payments: int
    purchases: int
    paid_cents: int
    refunded_cents: int
    first_paid_at: datetime | None
    last_paid_at: datetime | None

    @property
    def customer_id(self) -> str:
        """How addresses of pages name the buyer."""
        return self.document_digest.hex()

    @property
    def has_more(self) -> bool:
        """Whether there are older payments than those that were counted."""
        return self.payments > PAYMENTS_OF_CUSTOMER_MAX


def total(parts: Iterable[Figures]) -> Figures:
    """Add figures up."""
    sums = [0] * len(FIELDS)
    for part in parts:
        for place, field in enumerate(FIELDS):
            sums[place] += getattr(part, field)
    return Figures(*sums)


def by_day(parts: Iterable[DayFigures]) -> Mapping[date, Figures]:
    """Add the methods of each day up."""
    days: dict[date, list[Figures]] = {}
    for part in parts:
        days.setdefault(part.day, []).append(part.figures)
    return {day: total(figures) for day, figures in days.items()}


def difference(new: Sequence[DayFigures], old: Sequence[DayFigures]) -> Sequence[DayFigures]:
    """What must be added to the days where a stretch was counted anew."""
    before = {(part.day, part.payment_method): part.figures for part in old}
    after = {(part.day, part.payment_method): part.figures for part in new}
    changes = []
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key, Figures()), after.get(key, Figures())
        if was != now:
            changed = [getattr(now, field) - getattr(was, field) for field in FIELDS]
            changes.append(DayFigures(*key, Figures(*changed)))
    return changes
