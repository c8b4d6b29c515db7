"""Every page that buyers see is sound HTML, in every state, language and theme."""

import gzip
import re

import msgspec
import pytest

from support import html_page, page_views
from support.html_page import find, read
from vintem.hosted import render, views
from vintem.hosted.static_files import SCRIPT, STYLE
from vintem.hosted.views import Language, Theme

PAGES = list(page_views.every_page())

# Words of English and of our own code that must never reach a Brazilian.
FOREIGN = re.compile(
    r"\b(?:pay(?:ment)?|checkout session|expired|expires|cancel(?:led)?|order|coupon|card|name|"
    r"loading|error|invalid|please|submit|continue|back to|paid|pending|true|false|none|null|"
    r"undefined|the|your|you|and|with|wait(?:ing)?|copy|copied|test mode)\b",
    re.IGNORECASE,
)
PAGE_BYTES_MAX = 25_000
SCRIPT_BYTES_MAX = 10_000
FRAGMENT_BYTES_MAX = 6_000


@pytest.mark.parametrize("name", page_views.names())
@pytest.mark.parametrize("language", Language)
def test_a_page_is_well_nested_and_names_all_it_asks_for(name: str, language: Language) -> None:
    for is_test in (False, True):
        root = read(page_views.html(name, language, Theme.AUTO, is_test=is_test))
        ids = [one.attributes["id"] for one in root.walk() if "id" in one.attributes]
        assert len(ids) == len(set(ids))
        for one in root.walk():
            for reference in ("for", "aria-describedby"):
                assert one.attributes.get(reference, ids[0]) in ids
            if one.tag == "a" and one.attributes["href"].startswith("#"):
                assert one.attributes["href"][1:] in ids
        _check_names(root)
        assert [one.attributes["lang"] for one in find(root, "html")] == [language]


def _check_names(root: html_page.Element) -> None:
    labelled = {one.attributes["for"] for one in find(root, "label")}
    for one in root.walk():
        if one.tag in {"input", "select", "textarea"} and one.attributes.get("type") != "hidden":
            assert one.attributes["id"] in labelled
        if one.tag in {"a", "button"}:
            is_hint = any(
                "did-you-mean" in up.attributes.get("class", "") for up in one.ancestors()
            )
            pictures = [img.attributes["alt"] for img in find(one, "img")]
            assert one.text or one.attributes.get("aria-label") or any(pictures) or is_hint
        if one.tag == "img":
            assert {"alt", "width", "height"} <= set(one.attributes)


@pytest.mark.parametrize(("name", "language", "theme"), PAGES)
def test_a_page_has_one_heading_and_nothing_that_its_policy_forbids(
    name: str, language: Language, theme: Theme
) -> None:
    page = page_views.html(name, language, theme)
    root = read(page)
    assert len(find(root, "h1")) == 1
    assert find(root, "h1")[0].attributes == {"id": "c", "tabindex": "-1"}
    assert len(find(root, "title")) == len(find(root, "main")) == 1
    for one in root.walk():
        assert not [attribute for attribute in one.attributes if attribute.startswith("on")]
        assert "style" not in one.attributes
        if one.tag == "script":
            assert one.text == ""
            assert one.attributes["integrity"] == SCRIPT.integrity
            assert one.attributes["src"] == SCRIPT.path
        if one.tag == "style" or one.attributes.get("rel") == "stylesheet":
            assert one.attributes["nonce"] == "r4nd0m"
        for address in ("src", "action"):
            assert one.attributes.get(address, "/").startswith("/")
    assert len(find(root, "script")) == 1
    assert "None" not in root.text
    assert "{" not in re.sub(r"<style.*?</style>", "", page).replace("{n}", "").replace(
        "{email}", ""
    )


@pytest.mark.parametrize("name", page_views.names())
def test_a_brazilian_page_has_no_foreign_word(name: str) -> None:
    root = read(page_views.html(name, Language.PORTUGUESE, Theme.LIGHT, is_test=True))
    words = [root.text.replace("checkout expirou", "").replace(page_views.PIX_CODE, "")]
    for one in root.walk():
        for attribute, value in one.attributes.items():
            if attribute in {"alt", "title", "aria-label", "placeholder"} or (
                attribute in {"data-done", "data-failed", "data-busy", "data-error", "data-slow"}
            ):
                words.append(value)
    assert FOREIGN.findall(" ".join(words)) == []


@pytest.mark.parametrize("theme", Theme)
def test_the_theme_of_a_page_is_a_class_of_its_root(theme: Theme) -> None:
    root = read(page_views.html("open", Language.ENGLISH, theme))
    assert find(root, "html")[0].attributes["class"] == theme.lower()
    style = find(root, "style")[0].text
    assert ("prefers-color-scheme" in style) == (theme is Theme.AUTO)


@pytest.mark.parametrize("name", page_views.names())
def test_a_page_is_light(name: str) -> None:
    page = page_views.html(name, Language.PORTUGUESE, Theme.AUTO).encode()
    script = len(gzip.compress(SCRIPT.body))
    assert script <= SCRIPT_BYTES_MAX
    assert len(gzip.compress(page)) + len(gzip.compress(STYLE.body)) + script <= PAGE_BYTES_MAX


@pytest.mark.parametrize("name", page_views.states())
def test_a_fragment_is_the_title_and_the_main_part_of_its_page(name: str) -> None:
    page = page_views.page(name)
    fragment, whole = render.render_fragment(page).decode(), render.render_page(page).decode()
    assert [one.tag for one in read(fragment).children] == ["title", "main"]
    for part in fragment.strip().split("\n", 1):
        assert part in whole
    assert len(gzip.compress(fragment.encode())) <= FRAGMENT_BYTES_MAX


def test_every_page_state_of_a_session_has_its_page() -> None:
    shown = {render.page_state(state) for state in page_views.states().values()}
    assert shown == {
        *("open", "pix_shown", "pix_expired", "boleto_shown", "processing", "in_review"),
        *("declined", "paid", "expired", "cancelled", "link_landing", "link_inactive"),
    }
    for name in page_views.states():
        main = find(read(page_views.html(name, Language.SPANISH, Theme.DARK)), "main")[0]
        assert main.attributes["data-state"] == render.page_state(page_views.states()[name])


@pytest.mark.parametrize("name", ["pix_shown", "boleto_shown", "processing", "in_review"])
def test_a_page_that_waits_asks_again_without_script(name: str) -> None:
    noscript = find(read(page_views.html(name, Language.PORTUGUESE, Theme.LIGHT)), "noscript")
    assert noscript[0].children[0].attributes["http-equiv"] == "refresh"


@pytest.mark.parametrize("name", ["open", "paid", "expired", "cancelled", "not_found", "error"])
def test_a_page_that_does_not_wait_never_reloads_itself(name: str) -> None:
    assert "http-equiv" not in page_views.html(name, Language.PORTUGUESE, Theme.LIGHT)


@pytest.mark.parametrize("name", page_views.states())
def test_only_a_test_shows_banner_and_simulator(name: str) -> None:
    live = page_views.html(name, Language.PORTUGUESE, Theme.LIGHT)
    test = page_views.html(name, Language.PORTUGUESE, Theme.LIGHT, is_test=True)
    for sign in ("Modo de teste", "Simulador", "/simulate"):
        assert sign not in live
        assert sign in test


def test_a_simulator_never_shows_in_live_even_when_its_buttons_are_given() -> None:
    page = page_views.page("open", is_test=True)
    frame = msgspec.structs.replace(page.frame, is_test=False)
    assert b"simulate" not in render.render_page(msgspec.structs.replace(page, frame=frame))


def test_an_unknown_address_names_no_merchant_and_a_failure_names_its_code() -> None:
    missing = page_views.html("not_found", Language.PORTUGUESE, Theme.AUTO)
    assert "Loja" not in read(missing).text
    assert "Link inválido" in missing
    failure = page_views.html("error", Language.PORTUGUESE, Theme.AUTO)
    assert "Código: req_1763225000000_a1b2c3d4e" in failure


def test_a_link_has_what_messengers_show_of_it() -> None:
    root = read(page_views.html("link_landing", Language.PORTUGUESE, Theme.LIGHT))
    shown = {
        one.attributes["property"]: one.attributes["content"]
        for one in find(root, "meta")
        if "property" in one.attributes
    }
    assert shown["og:title"] == "Curso de Violão para Iniciantes"
    assert shown["og:description"] == "Pague R$\xa0109,90 com segurança em Loja Exemplo"
    assert {"og:type", "og:site_name", "og:url", "og:image"} <= set(shown)
    form = find(root, "form", method="post")[0]
    assert form.attributes["action"] == "/l/abc?lang=pt-BR"


def test_a_kept_page_differs_from_a_fresh_one_in_nothing() -> None:
    page = page_views.page("open")
    first = render.render_page(page)
    poll = views.Poll(url="/v1/x?a=1&b=2", state_version=77, expires_in_seconds=12)
    frame = msgspec.structs.replace(page.frame, here="/s/other", nonce="n&2", poll=poll)
    state = msgspec.structs.replace(page_views.OPEN, form_nonce='f"3')
    other = msgspec.structs.replace(page, frame=frame, state=state)
    assert render.render_page(other) == render._render("page.html", other)
    assert render.render_page(page) == first == render._render("page.html", page)


def test_a_text_that_looks_like_a_hole_of_a_kept_page_stays_text() -> None:
    dressed = page_views.brand(name="r4nd0m n-1 3000")
    page = page_views.page("open", dressed=dressed)
    assert render.render_page(page) == render._render("page.html", page)
