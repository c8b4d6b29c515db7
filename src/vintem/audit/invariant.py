"""What an invariant is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invariant:
    """A sentence that must be true, and the statement that returns what contradicts it."""

    name: str
    sentence: str
    statement: str
