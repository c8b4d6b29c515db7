"""Pictures of a QR code: vectors for pages, pixels for all that cannot show vectors."""

from io import BytesIO
from typing import Final

import segno

from vintem.brazil.br_code import CODE_CHARACTERS_MAX

PNG_SIDE_PIXELS: Final = 600

# The white margin that readers need to find the code, also on a dark page.
_QUIET_ZONE_MODULES: Final = 4
_DARK: Final = "#000"
_LIGHT: Final = "#fff"


def draw_svg(text: str) -> bytes:
    """Draw a text as a picture without a size of its own, which fills the place it is given."""
    picture = BytesIO()
    _make_code(text).save(
        picture,
        kind="svg",
        border=_QUIET_ZONE_MODULES,
        dark=_DARK,
        light=_LIGHT,
        omitsize=True,
        xmldecl=False,
        svgclass=None,
        lineclass=None,
        nl=False,
    )
    return picture.getvalue()


def draw_png(text: str) -> bytes:
    """Draw a text about 600 pixels wide, every module being whole pixels."""
    code = _make_code(text)
    side_modules = len(code.matrix) + 2 * _QUIET_ZONE_MODULES
    picture = BytesIO()
    code.save(
        picture,
        kind="png",
        border=_QUIET_ZONE_MODULES,
        dark=_DARK,
        light=_LIGHT,
        scale=round(PNG_SIDE_PIXELS / side_modules),
    )
    return picture.getvalue()


def _make_code(text: str) -> segno.QRCode:
    assert 1 <= len(text) <= CODE_CHARACTERS_MAX
    # Level M is the least: where the next level fits the same size, it costs nothing.
    return segno.make(text, error="m", micro=False)
