"""The form of how pages look: what is typed, what is wrong with it, and how legible it will be."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from vintem.checkout.model import BANNERS_MAX, COLOR, Appearance, Banner, Theme
from vintem.dashboard.forms import Form
from vintem.hosted.colours import (
    DARK_GROUND,
    LIGHT_GROUND,
    SHAPE_CONTRAST_MIN,
    TEXT_CONTRAST_MIN,
    contrast,
    darkened,
    ink_on,
    text_on,
)
from vintem.kit.urls import UrlFault, parse_web_url

NAME_CHARACTERS_MAX: Final = 120
BANNER_CHARACTERS_MAX: Final = 160
COLOR_FAULT: Final = "Escolha uma cor, como #1652f0."
THEMES: Final = (("LIGHT", "Claro"), ("DARK", "Escuro"), ("AUTO", "Como o aparelho de quem compra"))
MOODS: Final = (("", "Como o tema"), ("LIGHT", "Claro"), ("DARK", "Escuro"))
NOTHING: Final = "—"

Errors = dict[str, str]


class AppearanceForm(Form, frozen=True):
    """How pages shall look, as it is typed; `mood` only says how it is looked at."""

    display_name: str = ""
    theme: str = Theme.LIGHT
    primary_color: str = ""
    background_color: str = ""
    logo_url: str = ""
    banner1_image: str = ""
    banner1_title: str = ""
    banner1_alt: str = ""
    banner1_href: str = ""
    banner2_image: str = ""
    banner2_title: str = ""
    banner2_alt: str = ""
    banner2_href: str = ""
    banner3_image: str = ""
    banner3_title: str = ""
    banner3_alt: str = ""
    banner3_href: str = ""
    mood: str = ""


class Contrast(NamedTuple):
    """How well one colour is told from another, and whether that is enough."""

    what: str
    ratio: str
    is_enough: bool
    otherwise: str


class Change(NamedTuple):
    """What one version has otherwise than another."""

    what: str
    before: str
    after: str


def form_of(appearance: Appearance) -> AppearanceForm:
    """Fill the form in with a version."""
    banners = {
        f"banner{number}_{field}": value
        for number, banner in enumerate(appearance.banners, start=1)
        for field, value in (
            ("image", banner.image_url),
            ("title", banner.title),
            ("alt", banner.alt_text),
            ("href", banner.href or ""),
        )
    }
    return AppearanceForm(
        display_name=appearance.display_name,
        theme=appearance.theme,
        primary_color=appearance.primary_color,
        background_color=appearance.background_color,
        logo_url=appearance.logo_url or "",
        **banners,
    )


def read_appearance(form: AppearanceForm) -> tuple[Appearance, Errors]:
    """Read what was typed; pictures are fetched by whoever shows or publishes it."""
    errors: Errors = {}
    if not 1 <= len(form.display_name) <= NAME_CHARACTERS_MAX:
        errors["display_name"] = f"Escreva um nome de até {NAME_CHARACTERS_MAX} letras."
    if form.theme not in set(Theme):
        errors["theme"] = "Escolha um tema da lista."
    for field in ("primary_color", "background_color"):
        if COLOR.fullmatch(getattr(form, field)) is None:
            errors[field] = COLOR_FAULT
    banners = [_banner(form, number, errors) for number in range(1, BANNERS_MAX + 1)]
    typed = Appearance(
        version=0,
        display_name=form.display_name,
        theme=Theme(form.theme) if form.theme in set(Theme) else Theme.LIGHT,
        primary_color=form.primary_color.lower(),
        background_color=form.background_color.lower(),
        logo_url=form.logo_url or None,
        banners=tuple(banner for banner in banners if banner is not None),
    )
    return typed, errors


def contrasts(appearance: Appearance) -> Sequence[Contrast]:
    """Say how legible a page of these colours is."""
    primary, background = appearance.primary_color, appearance.background_color
    bordered = "o botão ganha uma borda"
    pairs = [
        ("Texto do botão", text_on(primary), primary, TEXT_CONTRAST_MIN, ""),
    ]
    if appearance.theme is not Theme.DARK:
        shown = ("no claro", LIGHT_GROUND, background)
        pairs += _pairs(shown, primary, bordered)
    if appearance.theme is not Theme.LIGHT:
        shown = ("no escuro", DARK_GROUND, darkened(background))
        pairs += _pairs(shown, primary, bordered)
    return [
        Contrast(what, _ratio(contrast(one, other)), contrast(one, other) >= least, otherwise)
        for what, one, other, least, otherwise in pairs
    ]


def changes(before: Appearance | None, after: Appearance) -> Sequence[Change]:
    """Say what a version has otherwise than the one before it."""
    was = {} if before is None else _told(before)
    return [
        Change(what, was.get(what, NOTHING), value)
        for what, value in _told(after).items()
        if was.get(what, NOTHING) != value
    ]


def told_appearance(appearance: Appearance) -> dict[str, object]:
    """What the trail keeps of a version."""
    return {
        "display_name": appearance.display_name,
        "theme": appearance.theme,
        "primary_color": appearance.primary_color,
        "background_color": appearance.background_color,
        "logo_url": appearance.logo_url,
        "banners": [banner.image_url for banner in appearance.banners],
    }


def _pairs(
    shown: tuple[str, object, str], primary: str, otherwise: str
) -> list[tuple[str, str, str, float, str]]:
    where, ground, background = shown
    card = LIGHT_GROUND.card if ground is LIGHT_GROUND else DARK_GROUND.card
    return [
        (f"Botão sobre o cartão, {where}", primary, card, SHAPE_CONTRAST_MIN, otherwise),
        (f"Texto sobre o fundo, {where}", ink_on(background), background, TEXT_CONTRAST_MIN, ""),
    ]


def _told(appearance: Appearance) -> dict[str, str]:
    banners = [
        " · ".join(part for part in (each.image_url, each.title, each.alt_text, each.href) if part)
        for each in appearance.banners
    ]
    return {
        "Nome": appearance.display_name,
        "Tema": dict(THEMES)[appearance.theme],
        "Cor principal": appearance.primary_color,
        "Cor de fundo": appearance.background_color,
        "Logo": appearance.logo_url or NOTHING,
        "Banners": "; ".join(banners) or NOTHING,
    }


def _ratio(value: float) -> str:
    return f"{value:.1f}:1".replace(".", ",")


def _banner(form: AppearanceForm, number: int, errors: Errors) -> Banner | None:
    def typed(field: str) -> str:
        return str(getattr(form, f"banner{number}_{field}"))

    image, title, alt, href = (typed(field) for field in ("image", "title", "alt", "href"))
    if not image:
        if title or alt or href:
            errors[f"banner{number}_image"] = "Escreva o endereço da imagem deste banner."
        return None
    for field, text in (("title", title), ("alt", alt)):
        if len(text) > BANNER_CHARACTERS_MAX:
            errors[f"banner{number}_{field}"] = f"Use até {BANNER_CHARACTERS_MAX} letras."
    if href and isinstance(parse_web_url(href, allows_loopback=False), UrlFault):
        errors[f"banner{number}_href"] = "Use um endereço https público."
    return Banner(sort_order=number, image_url=image, title=title, alt_text=alt, href=href or None)
