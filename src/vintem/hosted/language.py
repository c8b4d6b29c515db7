"""Which language a page is in: as the buyer asked, else as the browser prefers, else Portuguese."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from vintem.hosted.views import Language

LANGUAGES_READ_MAX: Final = 10

_BY_FIRST_PART: Final = {language.partition("-")[0].lower(): language for language in Language}


@lru_cache(maxsize=1_000)
def choose_language(asked: str, accepted: bytes) -> Language:
    """Pick by `?lang=`, then by the Accept-Language header."""
    wanted = _find(asked)
    if wanted is not None:
        return wanted
    preferred = sorted(_read_accepted(accepted), key=lambda pair: -pair[1])
    found = (_find(tag) for tag, weight in preferred if weight > 0)
    return next((language for language in found if language is not None), Language.PORTUGUESE)


def _find(tag: str) -> Language | None:
    return _BY_FIRST_PART.get(tag.partition("-")[0].lower())


def _read_accepted(accepted: bytes) -> Iterator[tuple[str, float]]:
    for part in accepted.decode("latin-1").split(",")[:LANGUAGES_READ_MAX]:
        tag, _, weight = part.replace(" ", "").partition(";q=")
        try:
            yield tag, float(weight or 1)
        except ValueError:
            continue
