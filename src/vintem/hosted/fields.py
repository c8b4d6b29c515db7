"""The fields of the payment form: how each is asked for, and what a browser may fill in."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from vintem.hosted.views import Field, Language, Problem
from vintem.hosted.words import CATALOGUES


class Question(NamedTuple):
    """How a field is asked for; the script looks at data-mask and data-check."""

    attributes: str
    problem: Problem
    """What the script says of it at first sight; the server's word may differ."""
    type: str = "text"
    is_optional: bool = False
    hint: str | None = None
    missing: Problem | None = None
    """What the script says of it instead while nothing is in it."""


_DOCUMENT: Final = (
    'inputmode="text" autocomplete="off" autocapitalize="characters" spellcheck="false"'
    ' data-mask="document" data-check="document"'
)

QUESTIONS: Final[Mapping[Field, Question]] = {
    Field.NAME: Question(
        'autocomplete="name" maxlength="100" data-check="name"', Problem.NAME_INVALID
    ),
    Field.EMAIL: Question(
        'inputmode="email" autocomplete="email" maxlength="254" autocapitalize="none"'
        ' spellcheck="false" data-check="email"',
        Problem.EMAIL_INVALID,
        type="email",
    ),
    Field.DOCUMENT: Question(_DOCUMENT, Problem.DOCUMENT_INVALID, missing=Problem.DOCUMENT_MISSING),
    Field.PHONE: Question(
        'inputmode="tel" autocomplete="tel-national" data-mask="phone" data-check="phone"',
        Problem.PHONE_INVALID,
        type="tel",
        is_optional=True,
        hint="field.phone_why",
    ),
    Field.POSTAL_CODE: Question(
        'inputmode="numeric" autocomplete="postal-code" data-mask="postal" data-check="postal"',
        Problem.POSTAL_CODE_INVALID,
    ),
    Field.STREET: Question(
        'autocomplete="address-line1" maxlength="120" data-check="filled"', Problem.STREET_MISSING
    ),
    Field.STREET_NUMBER: Question(
        'maxlength="20" data-check="filled"', Problem.STREET_NUMBER_MISSING
    ),
    Field.COMPLEMENT: Question(
        'autocomplete="address-line2" maxlength="80"', Problem.TOO_LONG, is_optional=True
    ),
    Field.NEIGHBORHOOD: Question(
        'autocomplete="address-level3" maxlength="80" data-check="filled"',
        Problem.NEIGHBORHOOD_MISSING,
    ),
    Field.CITY: Question(
        'autocomplete="address-level2" maxlength="80" data-check="filled"', Problem.CITY_MISSING
    ),
    Field.CARD_NUMBER: Question(
        'inputmode="numeric" autocomplete="cc-number" spellcheck="false"'
        ' data-mask="card" data-check="card"',
        Problem.CARD_NUMBER_INVALID,
    ),
    Field.CARD_EXPIRY: Question(
        'inputmode="numeric" autocomplete="cc-exp" data-mask="expiry" data-check="expiry"',
        Problem.CARD_EXPIRY_INVALID,
    ),
    Field.CARD_CODE: Question(
        'inputmode="numeric" autocomplete="cc-csc" maxlength="4" spellcheck="false"'
        ' data-mask="code" data-check="code"',
        Problem.CARD_CODE_INVALID,
    ),
    Field.CARD_NAME: Question(
        'autocomplete="cc-name" maxlength="100" autocapitalize="characters" spellcheck="false"'
        ' data-check="holder"',
        Problem.CARD_NAME_INVALID,
    ),
    Field.CARD_DOCUMENT: Question(_DOCUMENT, Problem.CARD_DOCUMENT_INVALID, is_optional=True),
}


class Halves(NamedTuple):
    """What surrounds a field's value and its problem, which alone differ from page to page."""

    before: str
    after: str


def draw_field(
    language: Language, problems: Mapping[str, str], name: str, value: str = ""
) -> Markup:
    """Write a field with its label, what was typed into it, and what is wrong with that."""
    halves, problem = _HALVES[language, name], problems[name]
    typed = f' value="{escape(value)}"' if value else ""
    mark = ' aria-invalid="true"' if problem else ""
    drawn = f"{halves.before}{typed}{mark}{halves.after}{escape(problem)}</p></div>"
    return Markup(drawn)  # noqa: S704 - escaped above


def _halves(language: Language, field: Field, question: Question) -> Halves:
    words = CATALOGUES[language]
    label = escape(words[f"field.{field}"])
    if question.is_optional:
        label += Markup(' <span class="soft">{}</span>').format(words["open.optional"])
    required = "" if question.is_optional else " required"
    hint = ""
    if question.hint is not None:
        hint = Markup('<p class="hint">{}</p>').format(words[question.hint])
    errors = f' data-error="{escape(words[f"problem.{question.problem}"])}"'
    if question.missing is not None:
        errors += f' data-missing="{escape(words[f"problem.{question.missing}"])}"'
    return Halves(
        f'<div class="field"><label for="f-{field}">{label}</label>'
        f'<input id="f-{field}" name="{field}" type="{question.type}" {question.attributes}'
        f'{required} aria-describedby="f-{field}-e"{errors}',
        f'>{hint}<p class="err" id="f-{field}-e">',
    )


_HALVES: Final[Mapping[tuple[Language, str], Halves]] = {
    (language, field): _halves(language, field, question)
    for language in Language
    for field, question in QUESTIONS.items()
}
