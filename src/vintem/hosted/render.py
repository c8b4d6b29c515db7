"""From a view to the bytes of a page; no input or output besides reading the templates once."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import jinja2
from markupsafe import Markup

from vintem.brazil.installments import InstallmentOption
from vintem.hosted import views, words
from vintem.hosted.card_terms import CardTerms, draw_card_terms
from vintem.hosted.colours import style_of
from vintem.hosted.fields import draw_field
from vintem.hosted.icons import ICONS
from vintem.hosted.moulds import MOULDS_MAX, Moulds
from vintem.hosted.static_files import ICON, SCRIPT, STYLE, check_inventory
from vintem.hosted.views import Language, Page, PlainPage
from vintem.kit.clock import business_day

FOLDER: Final = Path(__file__).parent / "templates"
COUNTDOWN_SECONDS: Final = 600
"""The last part of a code's life, in which the page counts it down."""
SLOW_SECONDS: Final = 60
"""After so long a page says that confirming takes longer than usual."""

_INDENTATION: Final = re.compile(r"\n\s+")
_TEMPLATE_OF: Final[Mapping[type, str]] = {
    views.Open: "open.html",
    views.PixShown: "pix_shown.html",
    views.PixExpired: "pix_expired.html",
    views.BoletoShown: "boleto_shown.html",
    views.Processing: "processing.html",
    views.InReview: "in_review.html",
    views.Paid: "paid.html",
    views.Expired: "expired.html",
    views.Cancelled: "cancelled.html",
    views.LinkLanding: "link_landing.html",
    views.LinkInactive: "link_inactive.html",
}
_TITLE_OF: Final[Mapping[type, str]] = {
    views.Open: "open.h1",
    views.PixShown: "pix.title",
    views.PixExpired: "pix_expired.h1",
    views.BoletoShown: "boleto.title",
    views.Processing: "processing.h1",
    views.InReview: "review.h1",
    views.Paid: "paid.h1",
    views.Expired: "expired.h1",
    views.Cancelled: "cancelled.h1",
    views.LinkInactive: "link.inactive_h1",
}
# How often a page without script asks again.
_REFRESH_SECONDS: Final[Mapping[type, int]] = {
    views.PixShown: 10,
    views.Processing: 10,
    views.BoletoShown: 60,
    views.InReview: 60,
}
_PLAIN_BRAND: Final = views.Brand(name="Vintém")

check_inventory()


def page_state(state: views.State) -> str:
    """Name the state that a page shows, as the public session names it."""
    if isinstance(state, views.Open):
        return "open" if state.decline is None else "declined"
    return _TEMPLATE_OF[type(state)].removesuffix(".html")


def render_page(page: Page) -> bytes:
    """Write a whole page."""
    return _give(page, "page.html")


def draw_page(page: Page) -> bytes:
    """Write a whole page that is not worth keeping for others."""
    return _render("page.html", page)


def render_fragment(page: Page) -> bytes:
    """Write only the title and the main part, which the script puts in place of the old ones."""
    return _give(page, "fragment.html")


def render_plain_page(page: PlainPage) -> bytes:
    """Write a page without a merchant: an unknown address, or a failure of ours."""
    template = _TEMPLATES[page.language].get_template("plain.html")
    style = _style_of(_PLAIN_BRAND)
    return template.render(
        page=page, brand=_PLAIN_BRAND, style=style, nonce=page.nonce, here=page.here
    ).encode()


def _give(page: Page, name: str) -> bytes:
    state = page.state
    if isinstance(state, views.Open) and not (state.errors or state.decline or state.refused):
        return _MOULDS.fill(name, page, partial(_render, name))
    return _render(name, page)


def _render(name: str, page: Page) -> bytes:
    frame, state, templates = page.frame, page.state, _TEMPLATES[page.frame.language]
    context: dict[str, object] = {
        "frame": frame,
        "here": frame.here,
        "brand": frame.brand,
        "state": state,
        "summary": page.summary,
        "page_state": page_state(state),
    }
    if isinstance(state, views.Open):
        context["problems"] = problems = _problems(frame.language, state)
        context["field"] = partial(draw_field, frame.language, problems)
    # Each part is joined before it goes into the next, which is faster than nesting them.
    for part, template in (("body", _TEMPLATE_OF[type(state)]), ("main", "main.html")):
        rendered = templates.get_template(template).render(context)
        context[part] = Markup(rendered)  # noqa: S704 - rendered, so escaped
    rendered = templates.get_template(name).render(
        context,
        nonce=frame.nonce,
        contact=frame.contact,
        title=_title(page),
        refresh_seconds=_REFRESH_SECONDS.get(type(state)),
        style=_style_of(frame.brand),
    )
    return rendered.encode()


def _title(page: Page) -> str:
    state, catalogue = page.state, words.CATALOGUES[page.frame.language]
    if isinstance(state, views.LinkLanding):
        what = state.item.name
    else:
        what = catalogue[_TITLE_OF[type(state)]]
    return catalogue["page.title"].format(what=what, store=page.frame.brand.name)


def _problems(language: Language, state: views.Open) -> Mapping[str, str]:
    """Say what is wrong with each field; the first of several faults is enough."""
    catalogue = words.CATALOGUES[language]
    sentences: dict[str, str] = defaultdict(str)
    for error in reversed(state.errors):
        sentences[error.field] = catalogue[f"problem.{error.problem}"]
    return sentences


def _style_of(brand: views.Brand) -> Markup:
    style = style_of(brand.primary_color, brand.background_color, brand.theme)
    return Markup(style)  # noqa: S704 - made of checked colours only


class Minified(jinja2.FileSystemLoader):
    """Templates without their indentation, which readers of the page do not need."""

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        """Read a template."""
        source, path, is_fresh = super().get_source(environment, template)
        return _INDENTATION.sub("\n", source), path, is_fresh


def _templates(language: Language) -> jinja2.Environment:
    """Prepare the templates of one language; a filter on a constant is worked out only once."""
    environment = jinja2.Environment(
        loader=Minified(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    catalogue = words.CATALOGUES[language]
    environment.filters |= {
        "t": partial(_say, catalogue),
        "money": words.money,
        "percent": words.percent,
        "phone": words.phone,
        "stopwatch": words.stopwatch,
        "digitable_line": words.digitable_line,
        "moment": partial(words.moment, language),
        "day": partial(words.day, language),
        "valid_until": partial(_valid_until, language),
        "icon": ICONS.__getitem__,
        "trusted": Markup,
    }
    environment.globals |= {
        "language": language,
        "languages": [(one, words.CATALOGUES[one]["language.name"]) for one in Language],
        "static_style": STYLE,
        "static_script": SCRIPT,
        "static_icon": ICON,
        "card_terms": partial(_card_terms, language),
        "state_choices": _state_choices,
        "Method": views.Method,
        "Action": views.Action,
        "TOLD": views.TOLD,
        "SLOW_SECONDS": SLOW_SECONDS,
        "COUNTDOWN_SECONDS": COUNTDOWN_SECONDS,
    }
    return environment


def _say(catalogue: Mapping[str, str], key: str, **values: object) -> str:
    sentence = catalogue[key]
    return sentence.format(**values) if values else sentence


def _valid_until(language: Language, state: views.PixShown) -> str:
    now: datetime = state.expires_at - timedelta(seconds=state.expires_in_seconds)
    with_day = business_day(now) != business_day(state.expires_at)
    return words.clock(language, state.expires_at, with_day=with_day)


def _card_terms(language: Language, options: Sequence[InstallmentOption], chosen: int) -> CardTerms:
    return draw_card_terms(_TEMPLATES[language], language, tuple(options), chosen)


@lru_cache
def _state_choices(chosen: str) -> Markup:
    choices = (f"<option{' selected' * (one == chosen)}>{one}</option>" for one in _STATES)
    return Markup("".join(choices))  # noqa: S704 - made of the letters below


_STATES: Final = (
    *("AC", "AL", "AM", "AP", "BA", "CE", "DF", "ES", "GO", "MA", "MG", "MS", "MT", "PA", "PB"),
    *("PE", "PI", "PR", "RJ", "RN", "RO", "RR", "RS", "SC", "SE", "SP", "TO"),
)
_MOULDS: Final = Moulds(moulds_max=MOULDS_MAX)
_TEMPLATES: Final = {language: _templates(language) for language in Language}
