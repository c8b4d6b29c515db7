"""A request without a key, as it is recognised again."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ImplicitIntent:
    """A wish without a key: whose, what kind, what was asked, and how long a repetition counts."""

    company_id: int
    environment: str
    operation: str
    fingerprint: bytes
    now: datetime
    window: timedelta

    @property
    def stale_before(self) -> datetime:
        """The moment before which the same request was another wish."""
        return self.now - self.window
