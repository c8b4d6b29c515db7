"""Reads a page as strictly as no browser does: what is opened is closed, in order."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}
# What may stand in a paragraph, a heading, a label or a button.
PHRASING = {
    *("a", "b", "bdi", "br", "button", "code", "i", "img", "input", "label", "select", "option"),
    *("small", "span", "strong", "svg", "textarea", "time", "path", "rect", "circle"),
}
ONLY_PHRASING = {"p", "h1", "h2", "label", "button", "span", "summary", "legend", "caption"}
CHILDREN = {
    "ul": {"li"},
    "ol": {"li"},
    "dl": {"div", "dt", "dd"},
    "select": {"option"},
    "table": {"caption", "thead", "tbody"},
    "thead": {"tr"},
    "tbody": {"tr"},
    "tr": {"th", "td"},
}
INTERACTIVE = {"a", "button", "input", "select", "textarea", "label", "details"}


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str]
    parent: "Element | None" = None
    children: list["Element"] = field(default_factory=list)
    own_text: list[str] = field(default_factory=list)

    def walk(self) -> Iterator["Element"]:
        """Give the element and all inside it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def ancestors(self) -> Iterator["Element"]:
        """Give what the element stands in, from the inside out."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    @property
    def text(self) -> str:
        """Give all the text inside."""
        return " ".join(part for one in self.walk() for part in one.own_text)


class Reader(HTMLParser):
    """Builds the tree, and refuses what is not well nested."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("#", {})
        self._top = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> repeats an attribute: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs}, self._top)
        self._check_place(element)
        self._top.children.append(element)
        if tag not in VOID:
            self._top = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take in an element of a drawing."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close an element."""
        assert self._top.tag == tag, f"</{tag}> closes <{self._top.tag}>"
        assert self._top.parent is not None
        self._top = self._top.parent

    def handle_data(self, data: str) -> None:
        """Take in text."""
        if data.strip():
            self._top.own_text.append(data.strip())

    def close(self) -> None:
        """Make sure that nothing is left open."""
        super().close()
        assert self._top is self.root, f"<{self._top.tag}> is never closed"

    def _check_place(self, element: Element) -> None:
        tag, parent = element.tag, self._top.tag
        if parent in CHILDREN:
            assert tag in CHILDREN[parent], f"<{tag}> in <{parent}>"
        if parent in ONLY_PHRASING:
            assert tag in PHRASING, f"<{tag}> in <{parent}>"
        above = {one.tag for one in [self._top, *self._top.ancestors()]}
        if tag in INTERACTIVE - {"input", "label", "details"}:
            assert not above & {"a", "button"}, f"<{tag}> inside a link or button"
        if tag == "form":
            assert "form" not in above, "a form in a form"


def read(page: str) -> Element:
    """Read a page."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader.root


def find(root: Element, tag: str, **attributes: str) -> list[Element]:
    """Find elements by their tag and attributes."""
    return [
        one
        for one in root.walk()
        if one.tag == tag
        and all(one.attributes.get(name) == value for name, value in attributes.items())
    ]
