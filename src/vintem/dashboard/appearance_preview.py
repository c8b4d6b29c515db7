"""The buyer's page as it would look: the real one, with something made up to buy."""

import re
import zlib
from typing import Final

import msgspec

from vintem.api.call import Call, Content, Header
from vintem.brazil.installments import CardInterest
from vintem.checkout.model import COLOR, Appearance, Banner, Theme, installment_options
from vintem.companies.model import Environment
from vintem.hosted import views
from vintem.hosted.context import brand_of
from vintem.hosted.headers import HTML, new_style_nonce
from vintem.hosted.render import draw_page
from vintem.hosted.static import accepts_gzip
from vintem.hosted.views import Language, Method

TOTAL_CENTS: Final = 14_990
NAME_CHARACTERS_MAX: Final = 120
ZIP_LEVEL: Final = 4
ZIP_WINDOW_BITS: Final = 31  # the form of gzip files

# Nothing in it runs or is sent, and only our own pages may show it inside of them.
_POLICY: Final = (
    b"default-src 'none'; style-src 'nonce-%b'; img-src 'self'; form-action 'none';"
    b" frame-ancestors 'self'; base-uri 'none'"
)
_HEADERS: Final[tuple[Header, ...]] = (
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"x-robots-tag", b"noindex, nofollow"),
)
_SCRIPT: Final = re.compile(rb"<script\b[^>]*></script>")


class Look(msgspec.Struct, frozen=True):
    """How the page shall look, as an address says it; pictures by the names of our own copies."""

    display_name: str = ""
    theme: str = ""
    primary_color: str = ""
    background_color: str = ""
    logo: str = ""
    banner1: str = ""
    banner2: str = ""
    banner3: str = ""
    mood: str = ""


def look_of(appearance: Appearance, mood: str) -> dict[str, str]:
    """Say in an address how a page shall look."""
    banners = {
        f"banner{number}": banner.image_media or ""
        for number, banner in enumerate(appearance.banners, start=1)
    }
    return {
        "display_name": appearance.display_name,
        "theme": appearance.theme,
        "primary_color": appearance.primary_color,
        "background_color": appearance.background_color,
        "logo": appearance.logo_media or "",
        "mood": mood,
        **banners,
    }


def preview(call: Call, look: Look, environment: Environment) -> Content:
    """Show the page; whatever the address says wrongly looks as pages do that nobody changed."""
    nonce = new_style_nonce()
    frame = views.Frame(
        here="#",
        nonce=nonce,
        language=Language.PORTUGUESE,
        brand=brand_of(_appearance(look)),
        is_test=environment is Environment.TEST,
        order_reference="EXEMPLO",
    )
    content = _SCRIPT.sub(b"", draw_page(views.Page(frame=frame, state=_OPEN, summary=_SUMMARY)))
    headers = ((b"content-security-policy", _POLICY % nonce.encode()), *_HEADERS)
    if accepts_gzip(call):
        content = zlib.compress(content, ZIP_LEVEL, ZIP_WINDOW_BITS)
        headers += ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
    return Content(content, HTML, headers=headers)


def _appearance(look: Look) -> Appearance:
    plain = Appearance(version=0, display_name=look.display_name[:NAME_CHARACTERS_MAX] or "Loja")
    theme = look.mood or look.theme
    media = (look.banner1, look.banner2, look.banner3)
    return msgspec.structs.replace(
        plain,
        theme=Theme(theme) if theme in set(Theme) else plain.theme,
        primary_color=_color(look.primary_color, plain.primary_color),
        background_color=_color(look.background_color, plain.background_color),
        logo_media=look.logo or None,
        banners=tuple(
            Banner(sort_order=number, image_url="", image_media=name)
            for number, name in enumerate(media)
            if name
        ),
    )


def _color(wanted: str, otherwise: str) -> str:
    return wanted if COLOR.fullmatch(wanted) else otherwise


_INTEREST: Final = CardInterest(monthly_rate_basis_points=299, free_installments=3)
_SUMMARY: Final = views.Summary(
    items=(views.Item(name="Produto de exemplo", quantity=1, unit_cents=TOTAL_CENTS),),
    subtotal_cents=TOTAL_CENTS,
    total_cents=TOTAL_CENTS,
    coupon=views.CouponBox(),
)
_OPEN: Final = views.Open(
    form_nonce="exemplo",
    methods=tuple(Method),
    chosen=Method.PIX,
    typed=views.Typed(name="Maria da Silva", email="maria@exemplo.com.br"),
    card=views.CardOffer(options=installment_options(TOTAL_CENTS, _INTEREST)),
)
