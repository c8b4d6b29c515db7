"""The merchant's colours, made legible: what stands on them is chosen by contrast."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from vintem.hosted.views import Theme

TEXT_CONTRAST_MIN: Final = 4.5
SHAPE_CONTRAST_MIN: Final = 3.0

_HEX: Final = re.compile(r"#[0-9a-fA-F]{6}")
_STYLES_MAX: Final = 1_024
_BLACK: Final = "#000000"
_WHITE: Final = "#ffffff"
# How much of a light background remains when the page is dark.
_TINT_PERCENT: Final = 3

Channels: TypeAlias = tuple[int, int, int]


class Ground(NamedTuple):
    """What the page has under the merchant's colours, in one of its two moods."""

    card: str
    ink: str
    muted: str


LIGHT_GROUND: Final = Ground(card="#ffffff", ink="#15181d", muted="#5a626d")
DARK_GROUND: Final = Ground(card="#181c22", ink="#f2f4f6", muted="#a9b2bd")
_DARK_PAGE: Final = "#0d1014"
_DARK_LUMINANCE_MAX: Final = 0.05


@lru_cache(_STYLES_MAX)
def style_of(primary: str, background: str, theme: Theme) -> str:
    """Write the style block of a merchant: custom properties and nothing else."""
    assert _HEX.fullmatch(primary), "a colour was checked when it was saved"
    assert _HEX.fullmatch(background), "a colour was checked when it was saved"
    light = ";".join(_properties(primary, background, LIGHT_GROUND))
    dark = ";".join(_properties(primary, darkened(background), DARK_GROUND))
    if theme is Theme.LIGHT:
        return f":root{{{light}}}"
    if theme is Theme.DARK:
        return f":root{{{dark}}}"
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"


def _properties(primary: str, background: str, ground: Ground) -> Iterator[str]:
    stands_out = contrast(primary, ground.card) >= SHAPE_CONTRAST_MIN
    yield f"--p:{primary}"
    yield f"--on-p:{text_on(primary)}"
    yield f"--edge:{primary if stands_out else ground.ink}"
    yield f"--page:{background}"
    yield f"--on-page:{ink_on(background)}"
    yield f"--on-page-2:{_muted_on(background)}"


def text_on(colour: str) -> str:
    """Choose black or white, whichever is more legible; one of them always is."""
    return max(_BLACK, _WHITE, key=lambda text: contrast(text, colour))


def ink_on(colour: str) -> str:
    """Choose a softer black or white where it is legible."""
    inks = (LIGHT_GROUND.ink, DARK_GROUND.ink)
    best = max(inks, key=lambda ink: contrast(ink, colour))
    return best if contrast(best, colour) >= TEXT_CONTRAST_MIN else text_on(colour)


def darkened(colour: str) -> str:
    """Give the background of the dark page: a dark colour as it is, of others only a tint."""
    if luminance(colour) <= _DARK_LUMINANCE_MAX:
        return colour
    mixed = (
        (_TINT_PERCENT * theirs + (100 - _TINT_PERCENT) * ours) // 100
        for theirs, ours in zip(_channels(colour), _channels(_DARK_PAGE), strict=True)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def contrast(one: str, other: str) -> float:
    """Give the ratio in which two colours differ in light, 1 to 21 (WCAG 2)."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """Give the light of a colour relative to white (WCAG 2)."""
    red, green, blue = (_linear(channel / 255) for channel in _channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _muted_on(colour: str) -> str:
    for muted in (LIGHT_GROUND.muted, DARK_GROUND.muted):
        if contrast(muted, colour) >= TEXT_CONTRAST_MIN:
            return muted
    return ink_on(colour)


def _channels(colour: str) -> Channels:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)
