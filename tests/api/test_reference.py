"""The manual tells of every call and every code, and asks nothing of anyone else."""

import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from api.test_openapi import ADDRESS, RICH
from support.api import Api
from vintem.api import openapi, reference
from vintem.api.call import Access, Call, Content, Route
from vintem.api.router import Router
from vintem.api.routes import TABLE
from vintem.kit.errors import MEANING, ErrorCode
from vintem.resources import Resources

VOID = {"meta", "link", "br", "wbr", "hr", "img", "circle", "path"}
CONTRAST_MIN = 4.5
TABLES = pytest.mark.parametrize("table", [TABLE, RICH], ids=["the table", "a rich table"])


class Page(HTMLParser):
    """A page, read strictly: every tag that is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.tags if attribute in attributes]

    @property
    def names(self) -> list[str]:
        return [tag for tag, _ in self.tags]


async def answer(table: Sequence[Route], path: str, public_url: str = ADDRESS) -> Content:
    """What the reference of a table answers at a path."""
    route, _ = Router(reference.routes(table)).find("GET", path)
    resources = cast("Resources", SimpleNamespace(public_url=public_url))
    now = datetime(2026, 3, 2, tzinfo=UTC)
    call = Call(resources, "req_1_x", now, method="GET", path=path, client_ip="192.0.2.1")
    content = await route.handler(call)
    assert isinstance(content, Content)
    return content


async def manual(table: Sequence[Route]) -> str:
    return (await answer(table, "/docs")).body.decode()


def test_the_reference_is_public_and_not_part_of_what_it_describes() -> None:
    routes = reference.routes(TABLE)
    assert {route.path for route in routes} == {"/", "/openapi.json", "/docs", "/docs/style.css"}
    assert all(route.access is Access.PUBLIC and not route.is_described for route in routes)


@TABLES
async def test_the_description_is_served_as_it_is_made(table: Sequence[Route]) -> None:
    content = await answer(table, "/openapi.json")
    assert content.media_type == "application/json"
    expected = msgspec.json.encode(openapi.describe(table, public_url=ADDRESS))
    assert content.body == expected


async def test_the_manual_is_written_once_for_each_address() -> None:
    route, _ = Router(reference.routes(TABLE)).find("GET", "/docs")
    pages = []
    for address in (ADDRESS, ADDRESS, "https://other.example.com"):
        resources = cast("Resources", SimpleNamespace(public_url=address))
        now = datetime(2026, 3, 2, tzinfo=UTC)
        call = Call(resources, "req_1_x", now, method="GET", path="/docs", client_ip="192.0.2.1")
        pages.append(await route.handler(call))
    assert pages[0] is pages[1]
    assert isinstance(pages[2], Content)
    assert b"https://other.example.com/v1/balance" in pages[2].body


async def test_the_manual_allows_the_browser_nothing_but_its_own_style() -> None:
    headers = dict((await answer(TABLE, "/docs")).headers)
    assert headers[b"content-security-policy"] == (
        b"default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none';"
        b" form-action 'none'; frame-ancestors 'none'"
    )


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/docs/style.css"])
async def test_an_answer_may_be_kept_and_is_named_by_what_it_holds(path: str) -> None:
    headers = dict((await answer(TABLE, path)).headers)
    assert headers[b"cache-control"].startswith(b"public, max-age=")
    assert re.fullmatch(rb'"[0-9a-f]{32}"', headers[b"etag"])


@TABLES
async def test_the_manual_tells_of_every_described_route(table: Sequence[Route]) -> None:
    page = Page(await manual(table))
    for route in table:
        is_told = f"{route.method} {route.path}" in page.text
        assert is_told is route.is_described
        assert (route.summary in page.text) is route.is_described


async def test_the_manual_tells_of_every_field_at_every_depth() -> None:
    text = Page(await manual(RICH)).text
    told = (
        "owner.name",
        "planks[].wood",
        "secondOwner.email",
        "boats[].launches[].day",
        "pageSize",
    )
    assert not [path for path in told if path not in text]
    assert "100 to 9,999,999,999" in text
    assert "one of cedar, ipe" in text
    assert "20 when left out" in text


async def test_the_manual_explains_every_code() -> None:
    page = Page(await manual(TABLE))
    for code in ErrorCode:
        assert f"{code} {MEANING[code]}" in page.text


async def test_what_a_route_says_of_itself_cannot_become_markup() -> None:
    page = await manual(RICH)
    assert "Builds a boat of <code>planks</code>. &lt;b&gt;Not&lt;/b&gt; a raft." in page


async def test_a_call_is_shown_as_a_command_with_variables_to_fill_in() -> None:
    text = Page(await manual(RICH)).text
    watched = f'curl "{ADDRESS}/v1/harbours/$HARBOUR_PUBLIC_TOKEN/boats/$BOAT_ID"'
    assert watched in text
    assert f'curl -X POST "{ADDRESS}/v1/boats" \\\n  -H "x-api-key: $API_KEY"' in text


@TABLES
async def test_the_manual_is_whole_html_with_one_title_and_unique_ids(
    table: Sequence[Route],
) -> None:
    page = Page(await manual(table))
    assert page.open == []
    assert page.names.count("h1") == 1
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    targets = [link[1:] for link in page.values("href") if link.startswith("#")]
    assert not set(targets) - set(ids)


@TABLES
async def test_headings_never_skip_a_level(table: Sequence[Route]) -> None:
    names = Page(await manual(table)).names
    levels = [int(name[1]) for name in names if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


@TABLES
async def test_the_manual_needs_nothing_from_elsewhere(table: Sequence[Route]) -> None:
    text = await manual(table)
    page = Page(text)
    addresses = re.findall(r"https?://[^\s\"'<&]*", text)
    assert not [address for address in addresses if not address.startswith(ADDRESS)]
    assert "script" not in page.names
    assert "style" not in page.names
    assert page.values("style") == []
    assert page.values("src") == []
    style = (await answer(table, "/docs/style.css")).body.decode()
    assert "url(" not in style
    assert "@import" not in style


async def test_the_stylesheet_is_asked_for_by_what_it_holds() -> None:
    page = Page(await manual(TABLE))
    (sheet,) = [one["href"] for _, one in page.tags if one.get("rel") == "stylesheet"]
    assert re.fullmatch(r"docs/style\.css\?v=[0-9a-f]{12}", sheet)
    assert (await answer(TABLE, "/docs/style.css")).media_type.startswith("text/css")


async def test_the_manual_has_landmarks_and_a_way_past_them() -> None:
    page = Page(await manual(TABLE))
    assert {"header", "nav", "main", "footer"} <= set(page.names)
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links[0] == "#content"
    scrolling = [one for _, one in page.tags if one.get("class") == "scroll"]
    assert scrolling
    assert all(one["tabindex"] == "0" and one["aria-label"] for one in scrolling)


async def test_every_colour_of_text_stands_out_from_what_is_behind_it() -> None:
    style = (await answer(TABLE, "/docs/style.css")).body.decode()
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block)) for block in blocks)
    for colours in (light, {**light, **dark}):
        pairs = [
            (text, behind)
            for text in ("text", "muted", "accent", "danger")
            for behind in ("page", "raised")
        ]
        pairs += [("accent", "accent-soft"), ("warn", "warn-soft"), ("text", "warn-soft")]
        pairs += [(text, "panel") for text in ("panel-text", "panel-muted")]
        pairs += [(f"json-{kind}", "panel") for kind in ("name", "text", "number", "word")]
        for text, behind in pairs:
            assert contrast(colours[text], colours[behind]) >= CONTRAST_MIN, (text, behind)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as WCAG 2 defines it."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


async def test_the_bare_address_leads_to_the_manual(api: Api) -> None:
    reply = await api.get("/")
    assert reply.status == 200
    assert b"<h1" in reply.body
