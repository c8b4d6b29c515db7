"""What paying by card costs, written out: the choices and the table that the law wants shown."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import jinja2
from markupsafe import Markup

from vintem.brazil.installments import InstallmentOption
from vintem.hosted import words
from vintem.hosted.views import Language, View

KEPT_MAX: Final = 2_048


class CardTerms(View, frozen=True, kw_only=True):
    """The markup of both."""

    choices: Markup
    table: Markup


class Row(View, frozen=True, kw_only=True):
    """One number of installments, written out."""

    n: int
    choice: str
    button: str
    each: str
    first: str
    rate: str
    cost: str
    total: str


# Sessions of one product share their terms, and writing them costs as much as the rest of a page.
@lru_cache(KEPT_MAX)
def draw_card_terms(
    templates: jinja2.Environment,
    language: Language,
    options: Sequence[InstallmentOption],
    chosen: int,
) -> CardTerms:
    """Write the terms of a card payment."""
    rows = [_row_of(words.CATALOGUES[language], option) for option in options]
    choices = templates.get_template("card_choices.html").render(rows=rows, chosen=chosen)
    table = templates.get_template("card_table.html").render(rows=rows) if len(rows) > 1 else ""
    return CardTerms(choices=Markup(choices), table=Markup(table))  # noqa: S704 - rendered


def _row_of(catalogue: Mapping[str, str], option: InstallmentOption) -> Row:
    count, each = option.installments, words.money(option.amounts[-1])
    total = words.money(option.total_cents)
    kind = "once" if count == 1 else "dear" if option.interest_cents else "free"
    button = "open.pay" if count == 1 else "open.pay_installments"
    first = ""
    if option.amounts[0] != option.amounts[-1]:
        first = catalogue["installments.first"].format(amount=words.money(option.amounts[0]))
    return Row(
        n=count,
        choice=catalogue[f"installments.{kind}"].format(n=count, amount=each, total=total),
        button=catalogue[button].format(n=count, amount=each),
        each=each,
        first=first,
        rate=words.percent(option.monthly_rate_basis_points),
        cost=words.percent(option.annual_cost_basis_points),
        total=total,
    )
