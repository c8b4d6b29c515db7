"""The OpenAPI 3.1 description of a route table, made from the table and its structs."""

import mimetypes
import re
import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from vintem.api import envelope
from vintem.api.body import BODY_BYTES_MAX
from vintem.api.call import Access, Reply, Route
from vintem.api.router import PARAMETER
from vintem.kit.clock import PublicTime, public_time
from vintem.kit.errors import MEANING, ErrorCode

JSON: Final = "application/json"
SCHEMAS: Final = "#/components/schemas/"

Schema = dict[str, Any]

EXAMPLE_MOMENT: Final = datetime(2026, 3, 2, 17, 30, tzinfo=UTC)
EXAMPLE_TIME: Final = public_time(EXAMPLE_MOMENT)
EXAMPLE_REQUEST_ID: Final = f"req_{int(EXAMPLE_MOMENT.timestamp()) * 1_000}_k3v9x2m1q"

# What is the same for every table; the rest is filled in from the table.
_BASE: Final = msgspec.json.decode(
    (Path(__file__).parent / "static" / "openapi.json").read_bytes(), type=dict[str, Any]
)

VERSION: Final = str(_BASE["info"]["version"])

_KEY_CODES: Final = (
    ErrorCode.MISSING_API_KEY,
    ErrorCode.INVALID_API_KEY,
    ErrorCode.WRONG_ENVIRONMENT,
    ErrorCode.COMPANY_SUSPENDED,
    ErrorCode.IP_NOT_ALLOWED,
    ErrorCode.RATE_LIMIT_EXCEEDED,
)
_BODY_CODES: Final = (
    ErrorCode.INVALID_JSON,
    ErrorCode.VALIDATION_ERROR,
    ErrorCode.PAYLOAD_TOO_LARGE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE,
)
_INTENT_CODES: Final = (
    ErrorCode.IDEMPOTENCY_KEY_INVALID,
    ErrorCode.IDEMPOTENCY_IN_PROGRESS,
    ErrorCode.IDEMPOTENCY_KEY_REUSED,
)
_COMMON_CODES: Final = (ErrorCode.INTERNAL_ERROR, ErrorCode.SERVICE_UNAVAILABLE)

_BEFORE_LIMIT_STATUSES: Final = frozenset({401})
_BEFORE_INTENT_STATUSES: Final = frozenset({400, 401, 413, 415})
_RETRY_STATUSES: Final = frozenset({429, 503})
_REUSED_STATUS: Final = envelope.STATUS[ErrorCode.IDEMPOTENCY_KEY_REUSED]
_LIMIT_HEADERS: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
_INTENT_HEADERS: Final = ("X-Idempotency-Key", "X-Idempotency-Key-Source")
_PROCESSED_HEADERS: Final = ("X-Idempotency-Replayed", "X-Idempotency-Processed-At")
_SECURITY: Final[Mapping[Access, Sequence[Mapping[str, Sequence[str]]]]] = {
    Access.PUBLIC: [],
    Access.SECRET_KEY: [{"secretKey": []}],
    Access.ANY_KEY: [{"secretKey": []}, {"checkoutKey": []}],
}

_SAMPLES: Final[Mapping[str, object]] = {
    "string": "text",
    "date": EXAMPLE_TIME[:10],
    "uri": "https://example.com/",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "object": {},
}
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Shapes:
    """The JSON Schemas of every struct that a table names, as they travel."""

    def __init__(self, routes: Sequence[Route]) -> None:
        structs: dict[type[msgspec.Struct], None] = {}
        for route in routes:
            for declared in (route.body, route.query, route.answer):
                _collect(declared, structs)
        # What JSON does not know is written as text, so it is described as text.
        refs, self.components = msgspec.json.schema_components(
            structs, schema_hook=lambda _: {"type": "string"}, ref_template=SCHEMAS + "{name}"
        )
        self._refs = dict(zip(structs, refs, strict=True))
        for struct in structs:
            _refine(struct, self.components[self.name_of(struct)])
        fixed = _BASE["components"]["schemas"]
        assert not fixed.keys() & self.components.keys(), "a struct is named like the envelope's"
        self.components |= fixed
        self.components["ErrorCode"] = {"type": "string", "enum": [str(code) for code in ErrorCode]}

    def of(self, struct: type[msgspec.Struct]) -> Schema:
        """Refer to the schema of a struct."""
        return self._refs[struct]

    def name_of(self, struct: type[msgspec.Struct]) -> str:
        """Name the schema of a struct."""
        return str(self.of(struct)["$ref"]).removeprefix(SCHEMAS)

    def resolve(self, schema: Schema) -> Schema:
        """Follow a reference, keeping what is said beside it."""
        if "$ref" not in schema:
            return schema
        beside = {key: schema[key] for key in schema if key != "$ref"}
        return {**self.components[schema["$ref"].removeprefix(SCHEMAS)], **beside}

    def sample(self, schema: Schema) -> object:
        """Make up a value: every required field, and every other one that has an example."""
        found = self.resolve(schema)
        if "examples" in found:
            return found["examples"][0]
        if found.get("default") is not None:
            return found["default"]
        if "enum" in found:
            return found["enum"][0]
        if "anyOf" in found:
            return self.sample(next(one for one in found["anyOf"] if one.get("type") != "null"))
        if found.get("type") == "array":
            return [self.sample(found["items"])] if found.get("items") else []
        if "properties" in found:
            return {
                name: self.sample(inner)
                for name, inner in found["properties"].items()
                if name in found["required"] or "examples" in inner
            }
        if "minimum" in found:
            return found["minimum"]
        if "minLength" in found and "format" not in found:
            return "text" * (found["minLength"] // 4 + 1)
        return _SAMPLES.get(found.get("format") or found.get("type", ""))


def describe(routes: Sequence[Route], *, public_url: str) -> dict[str, object]:
    """Describe every route of a table that is not kept out of the description."""
    described = [route for route in routes if route.is_described]
    shapes = Shapes(described)
    names = operation_ids(described)
    paths: dict[str, dict[str, object]] = {}
    for route in described:
        operation = _operation(route, names[route.method, route.path], shapes)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    groups = dict.fromkeys(route.group for route in described)
    examples = {
        code: {"summary": MEANING[code], "value": example_refusal(code)} for code in ErrorCode
    }
    return {
        "openapi": _BASE["openapi"],
        "info": _BASE["info"],
        "servers": [{"url": public_url}],
        "externalDocs": {"description": "The same for reading", "url": f"{public_url}/docs"},
        "tags": [{"name": group} for group in groups],
        "paths": paths,
        "components": {
            **_BASE["components"],
            "schemas": _schemas(described, shapes),
            "examples": examples,
        },
    }


def refusals_of(route: Route) -> Sequence[ErrorCode]:
    """Every code a route can answer with: what it declares, and what follows from how it reads."""
    codes: list[ErrorCode] = []
    if route.access is not Access.PUBLIC:
        codes += _KEY_CODES
        if route.access is not Access.ANY_KEY:
            codes.append(ErrorCode.KEY_TYPE_NOT_ALLOWED)
    if route.public_limits:
        codes.append(ErrorCode.RATE_LIMIT_EXCEEDED)
    if route.query is not None:
        codes.append(ErrorCode.VALIDATION_ERROR)
    if route.body is not None or route.is_idempotent:
        codes += _BODY_CODES
    if route.is_idempotent:
        codes += _INTENT_CODES
    wanted = {*codes, *route.refusals, *_COMMON_CODES}
    return sorted(wanted, key=lambda code: (envelope.STATUS[code], tuple(ErrorCode).index(code)))


def operation_ids(routes: Sequence[Route]) -> Mapping[tuple[str, str], str]:
    """Name each operation after its handler; a handler of several routes needs the path too."""
    uses = Counter(_handler_name(route) for route in routes)
    names = {}
    for route in routes:
        name = _handler_name(route)
        words = name if uses[name] == 1 else f"{name} {route.path}"
        names[route.method, route.path] = _camel(words)
    assert len(set(names.values())) == len(routes), "two operations have one name"
    return names


def parameter_words(path: str) -> Mapping[str, str]:
    """Say in words what each parameter of a path stands for: "transaction id"."""
    words = {}
    owner = "record"
    for segment in path.split("/"):
        found = PARAMETER.findall(segment)
        for name in found:
            words[name] = f"{owner} {_spaced(name)}"
        if segment and not found:
            owner = _singular(segment.replace("-", " "))
    return words


def example_answer(route: Route, shapes: Shapes) -> object:
    """The whole answer that a route might give."""
    assert route.answer is not None
    return in_envelope(route.example or shapes.sample(shapes.of(route.answer)))


def in_envelope(data: object) -> object:
    """An answer's data as it arrives."""
    return msgspec.json.decode(
        envelope.success(data, timestamp=EXAMPLE_TIME, request_id=EXAMPLE_REQUEST_ID)
    )


def example_refusal(code: ErrorCode) -> object:
    """The whole refusal with a code."""
    message = MEANING[code]
    details: Mapping[str, object] = {}
    if code is ErrorCode.VALIDATION_ERROR:
        message = "amount: is required"
        details = {"errors": [{"field": "amount", "message": "is required"}]}
    return msgspec.json.decode(
        envelope.failure(
            code, message, details, timestamp=EXAMPLE_TIME, request_id=EXAMPLE_REQUEST_ID
        )
    )


def media_type_of(route: Route) -> str:
    """What an answer outside the envelope is, as far as the end of its path tells."""
    return mimetypes.guess_type(route.path)[0] or "*/*"


def _operation(route: Route, name: str, shapes: Shapes) -> dict[str, object]:
    operation: dict[str, object] = {
        "operationId": name,
        "tags": [route.group],
        "summary": route.summary,
        "security": _SECURITY[route.access or Access.SECRET_KEY],
        "parameters": _parameters(route, shapes),
        "responses": _responses(route, shapes),
    }
    if route.description:
        operation["description"] = route.description
    if route.limit is not None:
        operation["x-limit-group"] = str(route.limit)
    if route.body is not None:
        schema = shapes.of(route.body)
        operation["requestBody"] = {
            "required": not route.is_body_optional,
            "description": f"At most {BODY_BYTES_MAX // 1024} KiB; unknown fields are refused.",
            "content": {JSON: {"schema": schema, "example": shapes.sample(schema)}},
        }
    return operation


def _parameters(route: Route, shapes: Shapes) -> list[object]:
    parameters: list[object] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": f"The {words}.",
            "schema": {"type": "string"},
        }
        for name, words in parameter_words(route.path).items()
    ]
    if route.query is not None:
        fields = shapes.resolve(shapes.of(route.query))
        for name, schema in fields["properties"].items():
            parameters.append(_query_parameter(name, schema, fields["required"]))
    if route.is_idempotent:
        parameters.append({"$ref": "#/components/parameters/IdempotencyKey"})
    parameters.append({"$ref": "#/components/parameters/CorrelationId"})
    return parameters


def _query_parameter(name: str, schema: Schema, required: Sequence[str]) -> dict[str, object]:
    parameter: dict[str, object] = {"name": name, "in": "query", "required": name in required}
    if "description" in schema:
        parameter["description"] = schema["description"]
    return {**parameter, "schema": {key: schema[key] for key in schema if key != "description"}}


def _responses(route: Route, shapes: Shapes) -> dict[str, object]:
    responses = {str(route.answer_status): _acceptance(route, shapes, "Done.")}
    if route.is_idempotent and route.answer_status != 200:
        again = "The idempotency key was used before: the record as it is now."
        responses["200"] = _acceptance(route, shapes, again)
    by_status: dict[int, list[ErrorCode]] = {}
    for code in refusals_of(route):
        by_status.setdefault(envelope.STATUS[code], []).append(code)
    for status, codes in by_status.items():
        responses[str(status)] = {
            "description": "\n".join(f"- `{code}`: {MEANING[code]}" for code in codes),
            "headers": _refusal_headers(route, status, codes),
            "content": {
                JSON: {
                    "schema": {"$ref": SCHEMAS + "ErrorEnvelope"},
                    "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
                }
            },
        }
    return dict(sorted(responses.items()))


def _acceptance(route: Route, shapes: Shapes, sentence: str) -> dict[str, object]:
    names = ["X-Request-Id", "X-Correlation-Id"]
    if ErrorCode.RATE_LIMIT_EXCEEDED in refusals_of(route):
        names += _LIMIT_HEADERS
    if route.is_idempotent:
        names += [*_INTENT_HEADERS, *_PROCESSED_HEADERS]
    response: dict[str, object] = {"description": sentence, "headers": _header_refs(names)}
    if route.answer is not None:
        schema = {"$ref": f"{SCHEMAS}{shapes.name_of(route.answer)}Envelope"}
        example = example_answer(route, shapes)
        response["content"] = {JSON: {"schema": schema, "example": example}}
    elif 200 <= route.answer_status < 300 and route.answer_status != 204:
        response["content"] = {media_type_of(route): {}}
    return response


def _refusal_headers(route: Route, status: int, codes: Sequence[ErrorCode]) -> Mapping[str, object]:
    names = ["X-Request-Id", "X-Correlation-Id"]
    is_limited = ErrorCode.RATE_LIMIT_EXCEEDED in refusals_of(route)
    if is_limited and status not in _BEFORE_LIMIT_STATUSES:
        names += _LIMIT_HEADERS
    if status in _RETRY_STATUSES or ErrorCode.IDEMPOTENCY_IN_PROGRESS in codes:
        names.append("Retry-After")
    if route.is_idempotent and status not in _BEFORE_INTENT_STATUSES:
        names += _INTENT_HEADERS
        if status == _REUSED_STATUS:
            names.append("X-Idempotency-Processed-At")
    return _header_refs(names)


def _header_refs(names: Sequence[str]) -> Mapping[str, object]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _schemas(routes: Sequence[Route], shapes: Shapes) -> dict[str, object]:
    queries = {shapes.name_of(route.query) for route in routes if route.query is not None}
    schemas: dict[str, object] = {
        name: schema for name, schema in shapes.components.items() if name not in queries
    }
    for answer in dict.fromkeys(route.answer for route in routes if route.answer is not None):
        name = f"{shapes.name_of(answer)}Envelope"
        assert name not in schemas, f"a struct is named like the envelope {name}"
        schemas[name] = {
            "type": "object",
            "properties": {
                "success": {"const": True},
                "data": shapes.of(answer),
                "meta": {"$ref": SCHEMAS + "SuccessMeta"},
            },
            "required": ["success", "data", "meta"],
        }
    return dict(sorted(schemas.items()))


def _handler_name(route: Route) -> str:
    return str(getattr(route.handler, "__name__", "")) or route.summary


def _camel(words: str) -> str:
    parts: list[str] = re.findall(r"[A-Za-z0-9]+", words)
    first, *rest = parts
    return first[:1].lower() + first[1:] + "".join(word[:1].upper() + word[1:] for word in rest)


def _spaced(name: str) -> str:
    return _WORD_START.sub(" ", name).lower()


def _singular(noun: str) -> str:
    if noun.endswith("ies"):
        return noun.removesuffix("ies") + "y"
    return noun.removesuffix("s")


def _collect(declared: object, structs: dict[type[msgspec.Struct], None]) -> None:
    """Find every struct inside an annotation, and inside the fields of those."""
    origin = typing.get_origin(declared) or declared
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        struct = typing.cast("type[msgspec.Struct]", declared)
        if struct not in structs:
            structs[struct] = None
            for field in msgspec.structs.fields(struct):
                _collect(field.type, structs)
    for argument in typing.get_args(declared):
        _collect(argument, structs)


def _refine(struct: type[msgspec.Struct], schema: Schema) -> None:
    """Add what the struct says and its plain schema does not."""
    is_reply = issubclass(typing.get_origin(struct) or struct, Reply)
    for field in msgspec.structs.fields(struct):
        found = schema["properties"][field.encode_name]
        # An answer leaves no key out, so a default in it is nobody's choice.
        if is_reply and not field.required and not _mentions(field.type, msgspec.UnsetType):
            found.pop("default", None)
            schema["required"].append(field.encode_name)
        if _mentions(field.type, PublicTime):
            schema["properties"][field.encode_name] = _with_public_time(found)


def _mentions(declared: object, wanted: object) -> bool:
    arguments = typing.get_args(declared)
    return declared is wanted or any(_mentions(argument, wanted) for argument in arguments)


def _with_public_time(schema: Schema) -> Schema:
    if schema.get("type") == "string":
        beside = {key: schema[key] for key in schema if key != "type"}
        return {"$ref": SCHEMAS + "PublicTime", **beside}
    refined = dict(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            refined[key] = _with_public_time(schema[key])
    if "anyOf" in schema:
        refined["anyOf"] = [_with_public_time(choice) for choice in schema["anyOf"]]
    return refined
