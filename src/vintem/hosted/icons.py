"""The few drawings of the pages, each a decoration beside words that say the same."""

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup


def _line(paths: str) -> Markup:
    drawing = (
        '<svg class="i" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2"'
        f' stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">{paths}</svg>'
    )
    return Markup(drawing)  # noqa: S704 - drawn here


def _path(data: str) -> str:
    return f'<path d="{data}"/>'


_PIX: Final = (
    "M5.283 18.36a3.505 3.505 0 0 0 2.493-1.032l3.6-3.6a.684.684 0 0 1 .946 0l3.613 3.613a3.504"
    " 3.504 0 0 0 2.493 1.032h.71l-4.56 4.56a3.647 3.647 0 0 1-5.156 0L4.85 18.36ZM18.428"
    " 5.627a3.505 3.505 0 0 0-2.493 1.032l-3.613 3.614a.67.67 0 0 1-.946 0l-3.6-3.6A3.505 3.505 0"
    " 0 0 5.283 5.64h-.434l4.573-4.572a3.646 3.646 0 0 1 5.156 0l4.559 4.559ZM1.068 9.422 3.79"
    " 6.699h1.492a2.483 2.483 0 0 1 1.744.722l3.6 3.6a1.73 1.73 0 0 0 2.443 0l3.614-3.613a2.482"
    " 2.482 0 0 1 1.744-.723h1.767l2.737 2.737a3.646 3.646 0 0 1 0 5.156l-2.736"
    " 2.736h-1.768a2.482 2.482 0 0 1-1.744-.722l-3.613-3.613a1.77 1.77 0 0 0-2.444 0l-3.6"
    " 3.6a2.483 2.483 0 0 1-1.744.722H3.791l-2.723-2.723a3.646 3.646 0 0 1 0-5.156"
)

ICONS: Final[Mapping[str, Markup]] = {
    "pix": Markup(  # noqa: S704 - drawn here
        '<svg class="i pix-mark" viewBox="0 0 24 24" fill="currentColor" aria-hidden="true">'
        f"{_path(_PIX)}</svg>"
    ),
    "credit_card": _line('<rect x="2" y="5" width="20" height="14" rx="2.5"/>' + _path("M2 10h20")),
    "boleto": _line(_path("M3 5v14M7 5v14M11 5v14M14 5v14M18 5v14M21 5v14")),
    "lock": _line(
        '<rect x="5" y="11" width="14" height="10" rx="2"/>' + _path("M8 11V7a4 4 0 0 1 8 0v4")
    ),
    "back": _line(_path("M19 12H5m7-7-7 7 7 7")),
    "check": _line(_path("m5 12.5 4.5 4.5L19 7.5")),
    "cross": _line(_path("M6 6l12 12M18 6 6 18")),
    "clock": _line('<circle cx="12" cy="12" r="9"/>' + _path("M12 7v5l3 2")),
    "alert": _line('<circle cx="12" cy="12" r="9"/>' + _path("M12 7.5v5.5M12 16.5v.01")),
    "search": _line('<circle cx="11" cy="11" r="7"/>' + _path("m20 20-4-4")),
    "copy": _line(
        '<rect x="9" y="9" width="12" height="12" rx="2"/>'
        + _path("M5 15H4a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1h10a1 1 0 0 1 1 1v1")
    ),
    "down": _line(_path("M12 4v11m-5-5 5 5 5-5M5 20h14")),
    "print": _line(_path("M7 8V3h10v5M7 17H4v-7a2 2 0 0 1 2-2h12a2 2 0 0 1 2 2v7h-3M7 14h10v7H7z")),
    "tag": _line(_path("M3 12V4a1 1 0 0 1 1-1h8l9 9-9 9zM7.5 7.5v.01")),
    "link": _line(
        _path(
            "M10 14a4 4 0 0 0 6 0l3-3a4.2 4.2 0 0 0-6-6l-1 1"
            "M14 10a4 4 0 0 0-6 0l-3 3a4.2 4.2 0 0 0 6 6l1-1"
        )
    ),
    "bag": _line(
        _path("M5 8h14l1 12a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1zM8.5 8V6.5a3.5 3.5 0 0 1 7 0V8")
    ),
    "flask": _line(
        _path("M10 3h4M11 3v6l-6 10a1.5 1.5 0 0 0 1.3 2h11.4a1.5 1.5 0 0 0 1.3-2L13 9V3M8 15h8")
    ),
}
