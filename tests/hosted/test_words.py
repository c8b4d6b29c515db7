"""The catalogues say the same in every language, and figures look as at the bank."""

import re
from datetime import UTC, date, datetime
from pathlib import Path
from string import Formatter

import pytest

from vintem.hosted import fields, render, views, words
from vintem.hosted.views import Language
from vintem.hosted.words import CATALOGUES

HOSTED = Path(render.__file__).parent
TEMPLATES = sorted((HOSTED / "templates").glob("*.html"))


def holes(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name is not None}


@pytest.mark.parametrize("language", Language)
def test_every_language_has_every_sentence_with_the_same_holes(language: Language) -> None:
    first = CATALOGUES[Language.PORTUGUESE]
    assert CATALOGUES[language].keys() == first.keys()
    for key, sentence in CATALOGUES[language].items():
        assert sentence.strip() == sentence != ""
        assert holes(sentence) == holes(first[key]), key


def test_every_sentence_is_used_and_every_used_one_exists() -> None:
    sources = "".join(path.read_text() for path in [*TEMPLATES, *(HOSTED.glob("*.py"))])
    whole = set(re.findall(r'"([a-z_]+\.[a-z_0-9]+)"', sources))
    for kind, values in (
        ("problem", views.Problem),
        ("decline", views.Decline),
        ("notice", views.Notice),
        ("test", views.Simulation),
        ("method", views.Method),
        ("field", fields.QUESTIONS),
    ):
        whole |= {f"{kind}.{value}" for value in values}
    whole |= {"installments.once", "installments.free", "installments.dear"}
    known = set(CATALOGUES[Language.PORTUGUESE])
    assert sorted(known - whole) == []
    used = {key for key in whole if key.split(".")[0] in {one.split(".")[0] for one in known}}
    assert {key for key in used if not key.endswith((".html", ".css", ".js"))} <= known


def test_no_template_has_words_of_its_own() -> None:
    for path in TEMPLATES:
        markup = re.sub(r"\{[{%#].*?[}%#]\}", " ", path.read_text(), flags=re.DOTALL)
        bare = re.sub(r"<[^>]*>|&\w+;", " ", markup)
        left = set(re.findall(r"[A-Za-zÀ-ú]{2,}", bare))
        assert left == set(), path.name


@pytest.mark.parametrize(
    ("cents", "written"),
    [
        (0, "R$ 0,00"),
        (5, "R$ 0,05"),
        (129_90, "R$ 129,90"),
        (123_456, "R$ 1.234,56"),
        (9_999_999_999, "R$ 99.999.999,99"),
    ],
)
def test_an_amount_is_written_as_at_the_bank(cents: int, written: str) -> None:
    assert words.money(cents) == written.replace(" ", "\N{NO-BREAK SPACE}")


def test_rates_phones_and_lines_are_written_as_people_know_them() -> None:
    assert words.stopwatch(581) == "09:41"
    assert words.percent(299) == "2,99%"
    assert words.percent(4_236) == "42,36%"
    assert words.phone("+5511987654321") == "(11) 98765-4321"
    assert words.phone("+551133334444") == "(11) 3333-4444"
    assert words.phone("+351 912 345 678") == "+351 912 345 678"
    assert (
        words.digitable_line("34191790010104351004791020150008291070000012990")
        == "34191.79001 01043.510047 91020.150008 2 91070000012990"
    )


def test_moments_are_those_of_brasilia_and_say_so() -> None:
    late = datetime(2026, 11, 16, 2, 5, tzinfo=UTC)
    assert words.moment(Language.PORTUGUESE, late) == "15/11/2026 23:05 (Brasília)"
    assert words.moment(Language.ENGLISH, late) == "2026-11-15 23:05 (Brasília time)"
    assert words.moment(Language.SPANISH, late) == "15/11/2026 23:05 (Brasilia)"
    assert words.day(Language.PORTUGUESE, date(2026, 11, 18)) == "18/11/2026"
    assert words.clock(Language.PORTUGUESE, late, with_day=False) == "23:05"
    assert words.clock(Language.PORTUGUESE, late, with_day=True) == "15/11/2026 23:05"
