"""What pictures are for, and how large they may be."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MEDIA_TYPE: Final = "image/webp"
FETCHED_BYTES_MAX: Final = 2 * 1024 * 1024
FETCH_SECONDS_MAX: Final = 10.0

_NAME: Final = re.compile(r"([0-9a-f]{64})-([1-9][0-9]{0,3})x([1-9][0-9]{0,3})")


class Use(StrEnum):
    """Where a picture is shown."""

    LOGO = "logo"
    BANNER = "banner"
    PRODUCT = "product"


@dataclass(frozen=True, slots=True)
class Box:
    """What a picture is made to fit into: twice its room on the page, for fine screens."""

    width: int
    height: int


BOXES: Final = {
    Use.LOGO: Box(480, 240),
    Use.BANNER: Box(1_200, 600),
    Use.PRODUCT: Box(480, 480),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture as we drew it."""

    content: bytes
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that is kept: under which address of ours, and how much room it takes."""

    digest: str
    width: int
    height: int

    @property
    def path(self) -> str:
        """Where it is served."""
        return f"/media/{self.digest}"

    @property
    def name(self) -> str:
        """All of it in one word, for whoever keeps it in a record of their own."""
        return f"{self.digest}-{self.width}x{self.height}"

    @classmethod
    def named(cls, name: str) -> "Picture | None":
        """Read such a word; nothing when it is none."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(found[1], int(found[2]), int(found[3]))


class NotAPictureError(Exception):
    """The bytes are no picture that we show; the sentence says why."""
