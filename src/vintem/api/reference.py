"""The description and the manual that the service gives of itself, both made from the table."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import jinja2
import msgspec
from markupsafe import Markup, escape

from vintem.api import envelope, openapi
from vintem.api.body import BODY_BYTES_MAX
from vintem.api.call import Access, Answer, Call, Content, Header, Route
from vintem.api.openapi import Schema, Shapes
from vintem.companies.model import WINDOW_SECONDS, LimitGroup, Limits
from vintem.kit.clock import BUSINESS_ZONE_NAME
from vintem.kit.errors import MEANING, ErrorCode
from vintem.kit.intent import CLIENT_KEY_CHARACTERS_MAX

# A process has one public address, so this is never reached.
RENDERED_MAX: Final = 4
NESTING_MAX: Final = 6
FOLDER: Final = Path(__file__).parent
CONTENT_SECURITY_POLICY: Final = (
    b"default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none';"
    b" form-action 'none'; frame-ancestors 'none'"
)

_SHORT_CACHE: Final[Header] = (b"cache-control", b"public, max-age=300")
_LONG_CACHE: Final[Header] = (b"cache-control", b"public, max-age=31536000, immutable")

_ACCESS: Final[Mapping[Access, str]] = {
    Access.PUBLIC: "Anyone, without a key",
    Access.SECRET_KEY: "Secret key",
    Access.ANY_KEY: "Secret or checkout key",
}
_WINDOW: Final[Mapping[int, str]] = {1: "second", 60: "minute"}
_EMPTY: Final[Sequence[object]] = (None, "", [], (), {})
_CODE: Final = re.compile(r"`([^`]+)`")
_JSON_TOKEN: Final = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*")(?=:)|(?P<text>"(?:[^"\\]|\\.)*")'
    r"|(?P<number>-?\d+(?:\.\d+)?)|(?P<word>true|false|null)"
)


def routes(table: Sequence[Route]) -> tuple[Route, ...]:
    """The calls that describe every call of the table."""
    reference = Reference(table)
    return tuple(
        Route(
            method="GET",
            path=path,
            handler=handler,
            summary=summary,
            group="Reference",
            access=Access.PUBLIC,
            is_described=False,
        )
        for path, handler, summary in (
            ("/", lead_to_manual, "Where to begin"),
            ("/openapi.json", reference.give_description, "The description, for programs"),
            ("/docs", reference.give_manual, "The manual, for people"),
            ("/docs/style.css", reference.give_style, "How the manual looks"),
        )
    )


async def lead_to_manual(call: Call) -> Answer:
    """Send whoever opens the bare address to the manual."""
    del call
    return Content(b"", "text/plain", 307, headers=((b"location", b"/docs"),))


class Reference:
    """The description and the manual of one table, written once and kept."""

    def __init__(self, table: Sequence[Route]) -> None:
        self._table = tuple(route for route in table if route.is_described)
        self._style = _kept((FOLDER / "static" / "style.css").read_bytes(), "text/css", _LONG_CACHE)
        self._description = lru_cache(RENDERED_MAX)(self._write_description)
        self._manual = lru_cache(RENDERED_MAX)(self._write_manual)

    async def give_description(self, call: Call) -> Answer:
        """Answer with the OpenAPI description."""
        return self._description(call.resources.public_url)

    async def give_manual(self, call: Call) -> Answer:
        """Answer with the manual, as a page."""
        return self._manual(call.resources.public_url)

    async def give_style(self, call: Call) -> Answer:
        """Answer with the stylesheet of the manual."""
        del call
        return self._style

    def _write_description(self, public_url: str) -> Content:
        description = openapi.describe(self._table, public_url=public_url)
        return _kept(msgspec.json.encode(description), openapi.JSON, _SHORT_CACHE)

    def _write_manual(self, public_url: str) -> Content:
        style_version = hashlib.sha256(self._style.body).hexdigest()[:12]
        page = write_manual(self._table, public_url=public_url, style_version=style_version)
        policy = (b"content-security-policy", CONTENT_SECURITY_POLICY)
        return _kept(page.encode(), "text/html; charset=utf-8", _SHORT_CACHE, policy)


def _kept(body: bytes, media_type: str, *headers: Header) -> Content:
    tag = (b"etag", b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode())
    return Content(body, media_type, headers=(tag, *headers))


@dataclass(frozen=True, slots=True)
class Field:
    """One line about a field: its path, what it holds, and what is allowed in it."""

    parent: str
    name: str
    kind: str
    is_required: bool
    note: str
    rules: Sequence[str]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One call, as the manual tells it."""

    route: Route
    anchor: str
    access: str
    limit: str
    path: Sequence[Field]
    query: Sequence[Field]
    body: Sequence[Field]
    answer: Sequence[Field]
    refusals: Mapping[int, Sequence[ErrorCode]]
    curl: str
    example: str
    media_type: str


def write_manual(table: Sequence[Route], *, public_url: str, style_version: str) -> str:
    """Write the manual of a table as a page."""
    shapes = Shapes(table)
    anchors = openapi.operation_ids(table)
    groups: dict[str, list[Endpoint]] = {}
    for route in table:
        anchor = anchors[route.method, route.path]
        groups.setdefault(route.group, []).append(_endpoint(route, anchor, shapes, public_url))
    endpoints = [endpoint for group in groups.values() for endpoint in group]
    return (
        _templates()
        .get_template("docs.html")
        .render(
            public_url=public_url,
            style_version=style_version,
            version=openapi.VERSION,
            groups=groups,
            limits=[_limit(group, endpoints) for group in LimitGroup],
            idempotent=[endpoint for endpoint in endpoints if endpoint.route.is_idempotent],
            checkout=[one for one in endpoints if one.route.access is Access.ANY_KEY],
            errors=sorted(envelope.STATUS.items(), key=lambda pair: pair[1]),
            meaning=MEANING,
            success_example=_pretty(openapi.in_envelope({})).replace("{}", "{ … }"),
            error_example=_pretty(openapi.example_refusal(ErrorCode.VALIDATION_ERROR)),
            example_moment=openapi.EXAMPLE_MOMENT,
            example_time=openapi.EXAMPLE_TIME,
            zone=BUSINESS_ZONE_NAME,
            body_kib_max=BODY_BYTES_MAX // 1024,
            key_characters_max=CLIENT_KEY_CHARACTERS_MAX,
        )
    )


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": prose, "coloured": coloured, "timed": timed, "anchor": _anchor}
    return environment


def prose(text: str) -> Markup:
    """Write a sentence as HTML, its `code` as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped first


def timed(kind: str) -> Markup:
    """Write a kind of value as HTML; a date-time leads to what must be known about it."""
    link = Markup('<a href="#time">date-time</a>')
    return link.join(escape(part) for part in kind.split("date-time"))


def coloured(text: str) -> Markup:
    """Write JSON as HTML, its names and values told apart."""
    written, end = [], 0
    for token in _JSON_TOKEN.finditer(text):
        written.append(escape(text[end : token.start()]))
        written.append(Markup('<span class="{}">{}</span>').format(token.lastgroup, token[0]))
        end = token.end()
    return Markup("").join([*written, escape(text[end:])])


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _endpoint(route: Route, anchor: str, shapes: Shapes, public_url: str) -> Endpoint:
    refusals: dict[int, list[ErrorCode]] = {}
    for code in openapi.refusals_of(route):
        refusals.setdefault(envelope.STATUS[code], []).append(code)
    has_answer = route.answer is not None
    return Endpoint(
        route=route,
        anchor=anchor,
        access=_ACCESS[route.access or Access.SECRET_KEY],
        limit="" if route.limit is None else _rate(route.limit),
        path=[
            Field("", name, "string", is_required=True, note=f"The {words}.", rules=())
            for name, words in openapi.parameter_words(route.path).items()
        ],
        query=_fields_of(route.query, shapes),
        body=_fields_of(route.body, shapes),
        answer=_fields_of(route.answer, shapes),
        refusals=refusals,
        curl=_curl(route, shapes, public_url),
        example=_pretty(openapi.example_answer(route, shapes)) if has_answer else "",
        media_type=openapi.JSON if has_answer else openapi.media_type_of(route),
    )


def _fields_of(struct: type[msgspec.Struct] | None, shapes: Shapes) -> Sequence[Field]:
    return () if struct is None else list(_fields(shapes.of(struct), shapes))


def _fields(schema: Schema, shapes: Shapes, parent: str = "", depth: int = 0) -> Iterator[Field]:
    """List the fields of an object and, after each, the fields inside it."""
    found = shapes.resolve(schema)
    for name, inner in found.get("properties", {}).items():
        held = shapes.resolve(inner)
        yield Field(
            parent=parent,
            name=name,
            kind=_kind(inner, shapes),
            is_required=name in found["required"],
            note=inner.get("description")
            or ("" if "format" in held else held.get("description", "")),
            rules=list(_rules(held, shapes)),
        )
        if depth < NESTING_MAX:
            for part, ending in _parts(inner, shapes):
                yield from _fields(part, shapes, f"{parent}{name}{ending}.", depth + 1)


def _parts(schema: Schema, shapes: Shapes) -> Iterator[tuple[Schema, str]]:
    """Find the objects inside a field, with what each adds to the field's path."""
    found = shapes.resolve(schema)
    if "properties" in found:
        yield found, ""
    for choice in found.get("anyOf", ()):
        yield from _parts(choice, shapes)
    if found.get("items"):
        for part, ending in _parts(found["items"], shapes):
            yield part, f"[]{ending}"


def _kind(schema: Schema, shapes: Shapes) -> str:
    found = shapes.resolve(schema)
    if "anyOf" in found:
        return " or ".join(dict.fromkeys(_kind(choice, shapes) for choice in found["anyOf"]))
    if found.get("type") == "array":
        return f"array of {_kind(found['items'], shapes)}" if found.get("items") else "array"
    if "enum" in found:
        return "string" if isinstance(found["enum"][0], str) else "integer"
    return str(found.get("format") or found.get("type") or "any")


def _rules(schema: Schema, shapes: Shapes) -> Iterator[str]:
    """Say in words what a schema allows."""
    for choice in schema.get("anyOf", ()):
        yield from _rules(shapes.resolve(choice), shapes)
    if "items" in schema and "properties" not in shapes.resolve(schema["items"]):
        yield from _rules(shapes.resolve(schema["items"]), shapes)
    if "enum" in schema:
        choices = ", ".join(f"`{value}`" for value in schema["enum"])
        yield f"one of {choices}" if len(schema["enum"]) > 1 else f"always {choices}"
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " keys"),
    ):
        yield from _range(schema.get(least), schema.get(most), unit)
    if "pattern" in schema:
        yield f"matches `{schema['pattern']}`"
    if schema.get("default") not in _EMPTY:
        yield f"`{_plain(schema['default'])}` when left out"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _range(least: int | None, most: int | None, unit: str) -> Iterator[str]:
    if least is not None and most is not None:
        yield f"{least:,} to {most:,}{unit}"
    elif least is not None:
        yield f"at least {least:,}{unit}"
    elif most is not None:
        yield f"at most {most:,}{unit}"


def _curl(route: Route, shapes: Shapes, public_url: str) -> str:
    """Write the command that makes a call; what the reader must fill in is a shell variable."""
    address = f"{public_url}{route.path}"
    for name, words in openapi.parameter_words(route.path).items():
        address = address.replace(f"{{{name}}}", "$" + words.replace(" ", "_").upper())
    method = "" if route.method == "GET" else f"-X {route.method} "
    lines = [f'curl {method}"{address}"']
    if route.access is not Access.PUBLIC:
        lines.append('-H "x-api-key: $API_KEY"')
    if route.is_idempotent:
        lines.append('-H "X-Idempotency-Key: $IDEMPOTENCY_KEY"')
    if route.body is not None:
        written = _pretty(shapes.sample(shapes.of(route.body))).replace("'", "'\\''")
        written = written.replace("\n", "\n  ")
        lines += ['-H "Content-Type: application/json"', f"-d '{written}'"]
    return " \\\n  ".join(lines)


def _limit(
    group: LimitGroup, endpoints: Sequence[Endpoint]
) -> tuple[LimitGroup, str, Sequence[Endpoint]]:
    return group, _rate(group), [one for one in endpoints if one.route.limit is group]


def _rate(group: LimitGroup) -> str:
    return f"{Limits().of(group)} per {_WINDOW[WINDOW_SECONDS[group]]}"


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
