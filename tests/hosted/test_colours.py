"""No colour that a merchant can choose makes a page illegible."""

import random
import re

import pytest

from vintem.hosted import colours
from vintem.hosted.colours import DARK_GROUND, LIGHT_GROUND, contrast, style_of
from vintem.hosted.static_files import STYLE
from vintem.hosted.views import Theme

EXTREMES = ("#000000", "#ffffff", "#ffff00", "#808080", "#777777", "#00ff00", "#0000FF", "#767676")
COLOURS_TRIED = 2_000


def tried() -> list[str]:
    dice = random.Random(20_261_115)
    return [*EXTREMES, *(f"#{dice.randrange(1 << 24):06x}" for _ in range(COLOURS_TRIED))]


def properties(style: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z0-9-]+): ?(#[0-9a-fA-F]{6})", style))


@pytest.mark.parametrize("theme", [Theme.LIGHT, Theme.DARK])
def test_text_on_any_colour_is_legible_and_every_button_has_an_edge(theme: Theme) -> None:
    ground = LIGHT_GROUND if theme is Theme.LIGHT else DARK_GROUND
    chosen = tried()
    for primary, background in zip(chosen, reversed(chosen), strict=True):
        found = properties(style_of(primary, background, theme))
        assert contrast(found["p"], found["on-p"]) >= 4.5, primary
        assert contrast(found["edge"], ground.card) >= 3, primary
        for text in ("on-page", "on-page-2"):
            assert contrast(found[text], found["page"]) >= 4.5, background


def test_a_button_that_stands_out_keeps_its_own_edge() -> None:
    assert properties(style_of("#0b6e4f", "#ffffff", Theme.LIGHT))["edge"] == "#0b6e4f"
    assert properties(style_of("#ffff00", "#ffffff", Theme.LIGHT))["edge"] == LIGHT_GROUND.ink


def test_a_light_background_only_tints_the_dark_page() -> None:
    assert colours.luminance(colours.darkened("#ffffff")) < 0.02
    assert colours.darkened("#101020") == "#101020"


@pytest.mark.parametrize("bad", ["red;}", "#fff", "#12345g", "#123456;", "", "url(x)"])
def test_what_is_no_colour_never_reaches_a_style(bad: str) -> None:
    with pytest.raises(AssertionError):
        style_of(bad, "#ffffff", Theme.LIGHT)
    with pytest.raises(AssertionError):
        style_of("#ffffff", bad, Theme.LIGHT)


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_the_fixed_colours_of_both_themes_are_legible() -> None:
    sheet = STYLE.body.decode()
    light = properties(_spelled_out(sheet[: sheet.index(":root.dark")]))
    dark = properties(sheet[sheet.index(":root.dark {\n") : sheet.index("@media (prefers")])
    for found, ground in ((light, LIGHT_GROUND), (dark, DARK_GROUND)):
        assert found["ink"] == ground.ink
        assert found.get("ink-2") == ground.muted
        for text in ("ink", "ink-2", "good", "bad"):
            for under in ("soft", "field"):
                assert contrast(found[text], found[under]) >= 4.5, (text, under)
            assert contrast(found[text], ground.card) >= 4.5, text
        assert contrast(found["good"], found["good-soft"]) >= 4.5
        assert contrast(found["ink"], found["bad-soft"]) >= 4.5
        assert contrast(found["bad"], found["bad-soft"]) >= 3
        for shape in ("field-line", "ring"):
            assert contrast(found[shape], ground.card) >= 3, shape


def test_both_ways_into_the_dark_theme_are_the_same() -> None:
    sheet = STYLE.body.decode()
    asked = sheet[sheet.index(":root.dark {\n") : sheet.index("@media (prefers")]
    by_device = sheet[sheet.index(":root.auto {\n") : sheet.index("*, ::before")]
    assert properties(asked) == properties(by_device) != {}


def _spelled_out(style: str) -> str:
    """Write #abc as #aabbcc."""
    return re.sub(r"#([0-9a-f])([0-9a-f])([0-9a-f])(?=;)", r"#\1\1\2\2\3\3", style)
