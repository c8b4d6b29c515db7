"""What must be true of the trail: each company's acts are a whole chain."""

from collections.abc import Sequence
from typing import Final

from vintem.audit.invariant import Invariant
from vintem.trail import store

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "T1",
        "An act of the trail is as it was written, and follows the one whose hash it names.",
        f"""
        select distinct on (company_id) * from ({store.BROKEN}) as broken
        order by company_id, sequence
        """,  # noqa: S608 - a constant
    ),
    Invariant(
        "T2",
        "A company's trail ends with the act that its head names.",
        store.LOST_ENDS,
    ),
)
