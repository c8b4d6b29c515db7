"""What a receipt says, line by line, in the reader's language."""

from collections.abc import Sequence
from datetime import datetime

import msgspec


class SheetLine(msgspec.Struct, frozen=True):
    """What it is, and what it says."""

    label: str
    value: str
    is_strong: bool = False
    is_wide: bool = False
    """The label is the longer of the two, as the name of a product is."""


class ReceiptSheet(msgspec.Struct, frozen=True, kw_only=True):
    """All that a receipt shows, written out."""

    language: str
    title: str
    seller: str
    amount: str
    blocks: Sequence[Sequence[SheetLine]]
    footer: str
    made_at: datetime
    test_mark: str = ""
