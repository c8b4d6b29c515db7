"""What the simulated acquirer can be told to do badly, and to which charges it happens."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """One way in which a provider over a network disappoints."""

    LOST_REQUESTS = "lost_requests"
    LOST_ANSWERS = "lost_answers"
    LOST_QUERIES = "lost_queries"
    SLOW_ANSWERS = "slow_answers"
    REPEAT_CALLBACKS = "repeat_callbacks"
    SHUFFLE_CALLBACKS = "shuffle_callbacks"


FaultShare = tuple[Fault, int]
"""A fault, and the percentage of charges that it happens to."""


def parse_faults(text: str) -> tuple[FaultShare, ...]:
    """Read `lost_answers:30, repeat_callbacks`; without a percentage all charges are meant."""
    shares = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, percent = word.partition(":")
        share = int(percent) if percent else 100
        if not 1 <= share <= 100:
            raise ValueError(text)
        shares.append((Fault(name), share))
    return tuple(shares)


@dataclass(frozen=True, slots=True)
class Faults:
    """Decides by a seed, always in the same way, which charges a fault happens to."""

    seed: int = 0
    shares: Sequence[FaultShare] = ()

    def strike(self, fault: Fault, reference: str) -> bool:
        """Say whether a fault happens to a charge."""
        percent = dict(self.shares).get(fault, 0)
        return percent > 0 and self.number(f"{fault}/{reference}") % 100 < percent

    def number(self, text: str) -> int:
        """Make a number of a text and the seed."""
        return int.from_bytes(hashlib.sha256(f"{self.seed}/{text}".encode()).digest()[:8])
