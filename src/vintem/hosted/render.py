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
from vintem.hosted.colours import style_of
from vintem.hosted.icons import ICONS
from vintem.hosted.static_files import ICON, SCRIPT, STYLE, check_inventory
from vintem.hosted.views import Language, Page, PlainPage
from vintem.kit.clock import business_day

FOLDER: Final = Path(__file__).parent / "templates"
TABLES_KEPT_MAX: Final = 1_024
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
    return _render(page, "page.html")


def render_fragment(page: Page) -> bytes:
    """Write only the title and the main part, which the script puts in place of the old ones."""
    return _render(page, "fragment.html")


def render_plain_page(page: PlainPage) -> bytes:
    """Write a page without a merchant: an unknown address, or a failure of ours."""
    template = _TEMPLATES[page.language].get_template("plain.html")
    style = _style_of(_PLAIN_BRAND)
    return template.render(
        page=page, brand=_PLAIN_BRAND, style=style, nonce=page.nonce, here=page.here
    ).encode()


def _render(page: Page, name: str) -> bytes:
    frame, state = page.frame, page.state
    template = _TEMPLATES[frame.language].get_template(name)
    return template.render(
        frame=frame,
        nonce=frame.nonce,
        here=frame.here,
        brand=frame.brand,
        contact=frame.contact,
        state=state,
        summary=page.summary,
        page_state=page_state(state),
        title=_title(page),
        body=_TEMPLATE_OF[type(state)],
        problems=_problems(frame.language, state) if isinstance(state, views.Open) else None,
        refresh_seconds=_REFRESH_SECONDS.get(type(state)),
        style=_style_of(frame.brand),
    ).encode()


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
        "installment_rows": partial(_installment_rows, language),
        "Method": views.Method,
        "Action": views.Action,
        "SLOW_SECONDS": SLOW_SECONDS,
        "STATES": _STATES,
    }
    return environment


def _say(catalogue: Mapping[str, str], key: str, **values: object) -> str:
    sentence = catalogue[key]
    return sentence.format(**values) if values else sentence


def _valid_until(language: Language, state: views.PixShown) -> str:
    now: datetime = state.expires_at - timedelta(seconds=state.expires_in_seconds)
    with_day = business_day(now) != business_day(state.expires_at)
    return words.clock(language, state.expires_at, with_day=with_day)


class InstallmentRow(views.View, frozen=True, kw_only=True):
    """A line of the installment table, written out."""

    n: int
    choice: str
    button: str
    each: str
    first: str
    rate: str
    cost: str
    total: str


def _installment_rows(
    language: Language, options: Sequence[InstallmentOption]
) -> Sequence[InstallmentRow]:
    return _rows_of(language, tuple(options))


@lru_cache(TABLES_KEPT_MAX)
def _rows_of(
    language: Language, options: tuple[InstallmentOption, ...]
) -> tuple[InstallmentRow, ...]:
    return tuple(_row_of(words.CATALOGUES[language], option) for option in options)


def _row_of(catalogue: Mapping[str, str], option: InstallmentOption) -> InstallmentRow:
    count, each = option.installments, words.money(option.amounts[-1])
    total = words.money(option.total_cents)
    kind = "once" if count == 1 else "dear" if option.interest_cents else "free"
    button = "open.pay" if count == 1 else "open.pay_installments"
    has_remainder = option.amounts[0] != option.amounts[-1]
    return InstallmentRow(
        n=count,
        choice=_say(catalogue, f"installments.{kind}", n=count, amount=each, total=total),
        button=_say(catalogue, button, n=count, amount=each),
        each=each,
        first=(
            _say(catalogue, "installments.first", amount=words.money(option.amounts[0]))
            if has_remainder
            else ""
        ),
        rate=words.percent(option.monthly_rate_basis_points),
        cost=words.percent(option.annual_cost_basis_points),
        total=total,
    )


_STATES: Final = (
    *("AC", "AL", "AM", "AP", "BA", "CE", "DF", "ES", "GO", "MA", "MG", "MS", "MT", "PA", "PB"),
    *("PE", "PI", "PR", "RJ", "RN", "RO", "RR", "RS", "SC", "SE", "SP", "TO"),
)
_TEMPLATES: Final = {language: _templates(language) for language in Language}
