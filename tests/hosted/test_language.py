"""A page is in the language that its buyer asks for."""

import pytest

from vintem.hosted.language import choose_language
from vintem.hosted.views import Language


@pytest.mark.parametrize(
    ("asked", "accepted", "language"),
    [
        ("", b"", Language.PORTUGUESE),
        ("en", b"es", Language.ENGLISH),
        ("EN-us", b"", Language.ENGLISH),
        ("pt-BR", b"en", Language.PORTUGUESE),
        ("xx", b"es-AR,es;q=0.9,en;q=0.8", Language.SPANISH),
        ("", b"de, en;q=0.3, es;q=0.7", Language.SPANISH),
        ("", b"de", Language.PORTUGUESE),
        ("", b"en;q=0, es;q=0.1", Language.SPANISH),
        ("", b"en;q=x, \xff", Language.PORTUGUESE),
        ('"><script>', b"*", Language.PORTUGUESE),
    ],
)
def test_the_language_is_asked_for_or_accepted_or_portuguese(
    asked: str, accepted: bytes, language: Language
) -> None:
    assert choose_language(asked, accepted) is language
