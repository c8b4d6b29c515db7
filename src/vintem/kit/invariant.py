"""What must be true of the data at every moment, as statements that return what contradicts it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invariant:
    """A sentence that must be true, and the statement that returns what contradicts it."""

    name: str
    sentence: str
    statement: str
