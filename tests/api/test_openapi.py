"""The description says of every route what the table says, in a form that others can read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec import Meta
from openapi_spec_validator import OpenAPIV31SpecValidator

from vintem.api import envelope, openapi, pipeline
from vintem.api.call import Access, Answer, Body, Call, Content, Query, Reply, Route
from vintem.api.routes import TABLE
from vintem.companies.model import LimitGroup
from vintem.kit.clock import BUSINESS_ZONE_NAME, PublicTime
from vintem.kit.errors import ErrorCode
from vintem.kit.intent import CLIENT_KEY_CHARACTERS_MAX, IntentSource

ADDRESS = "https://pay.example.com"


class Wood(StrEnum):
    """What a boat is made of."""

    CEDAR = "cedar"
    IPE = "ipe"


class Owner(Body, frozen=True):
    """Whom a boat belongs to."""

    name: Annotated[str, Meta(min_length=3, max_length=100, examples=["Ana Souza"])]
    email: Annotated[str, Meta(description="Where we write to.")] = "ana@example.com"


class Plank(Body, frozen=True):
    """A part of a boat."""

    wood: Wood
    length: Annotated[int, Meta(ge=1, le=5_000)]


class NewBoat(Body, frozen=True):
    """A boat to be built."""

    amount: Annotated[
        int, Meta(ge=100, le=9_999_999_999, description="In cents.", examples=[15_900])
    ]
    owner: Owner
    planks: Annotated[Sequence[Plank], Meta(max_length=100)] = ()
    second_owner: Owner | None = None
    currency: Literal["BRL"] = "BRL"
    metadata: Mapping[str, str | int | bool | None] = msgspec.field(default_factory=dict)


class Sinking(Body, frozen=True):
    """Why a boat goes down."""

    reason: Annotated[str, Meta(max_length=140)] = ""


class BoatFilter(Query, frozen=True):
    """Which boats are wanted."""

    harbour: str
    wood: Annotated[Wood | None, Meta(description="Only of this `wood`.")] = None
    page_size: Annotated[int, Meta(ge=1, le=100)] = 20


class Launch(Reply, frozen=True):
    """A boat's first day in the water."""

    day: date
    at: PublicTime | None = None


class Boat(Reply, frozen=True):
    """A boat, as it is now."""

    id: str
    amount: int
    wood: Wood
    created_at: PublicTime
    owner_name: str | None = None
    sunk_at: PublicTime | None = None
    launches: Sequence[Launch] = ()
    berth_url: str | msgspec.UnsetType = msgspec.UNSET


class Fleet(Reply, frozen=True):
    """A page of boats."""

    boats: Sequence[Boat]


async def build_boat(call: Call) -> Answer:
    """Build nothing."""
    del call
    return Content(b"", "text/plain")


async def list_boats(call: Call) -> Answer:
    """List nothing."""
    return await build_boat(call)


async def sink_boat(call: Call) -> Answer:
    """Sink nothing."""
    return await build_boat(call)


async def draw_boat(call: Call) -> Answer:
    """Draw nothing."""
    return await build_boat(call)


async def watch_boat(call: Call) -> Answer:
    """Watch nothing."""
    return await build_boat(call)


RICH = (
    Route(
        method="POST",
        path="/v1/boats",
        handler=build_boat,
        summary="Build a boat",
        description="Builds a boat of `planks`. <b>Not</b> a raft.",
        group="Boats",
        access=Access.SECRET_KEY,
        limit=LimitGroup.TRANSACTIONS,
        body=NewBoat,
        answer=Boat,
        answer_status=201,
        is_idempotent=True,
        refusals=(ErrorCode.AMOUNT_BELOW_MINIMUM, ErrorCode.PROVIDER_NOT_CONFIGURED),
    ),
    Route(
        method="GET",
        path="/v1/boats",
        handler=list_boats,
        summary="List boats",
        group="Boats",
        access=Access.ANY_KEY,
        limit=LimitGroup.REQUESTS,
        query=BoatFilter,
        answer=Fleet,
    ),
    Route(
        method="PATCH",
        path="/v1/boats/{id}/sink",
        handler=sink_boat,
        summary="Sink a boat",
        group="Boats",
        access=Access.SECRET_KEY,
        limit=LimitGroup.WITHDRAWALS,
        body=Sinking,
        is_body_optional=True,
        answer=Boat,
        refusals=(ErrorCode.INVALID_STATE,),
    ),
    Route(
        method="GET",
        path="/v1/harbours/{publicToken}/boats/{id}",
        handler=watch_boat,
        summary="Watch a boat",
        group="Harbours",
        access=Access.PUBLIC,
        answer=Boat,
        refusals=(ErrorCode.NOT_FOUND, ErrorCode.RATE_LIMIT_EXCEEDED),
    ),
    *(
        Route(
            method="GET",
            path=f"/v1/pictures/{{imageToken}}.{ending}",
            handler=draw_boat,
            summary=f"Draw a boat as {ending}",
            group="Harbours",
            access=Access.PUBLIC,
        )
        for ending in ("svg", "png")
    ),
    Route(
        method="GET",
        path="/below-deck",
        handler=watch_boat,
        summary="Not for passengers",
        group="Operations",
        access=Access.PUBLIC,
        is_described=False,
    ),
)

TABLES = pytest.mark.parametrize("table", [TABLE, RICH], ids=["the table", "a rich table"])


def described(table: Sequence[Route]) -> dict[str, Any]:
    """The description as its readers get it: after a journey as JSON."""
    written = msgspec.json.encode(openapi.describe(table, public_url=ADDRESS))
    return msgspec.json.decode(written, type=dict[str, Any])


def inner_values(value: object) -> Iterator[dict[str, Any]]:
    """Every object inside a JSON value, itself included."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from inner_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from inner_values(inner)


def validator(description: dict[str, Any], name: str) -> Draft202012Validator:
    """What checks a value against one schema of a description."""
    return Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": description["components"]}
    )


@TABLES
def test_an_independent_validator_accepts_the_description(table: Sequence[Route]) -> None:
    OpenAPIV31SpecValidator(described(table)).validate()


@TABLES
def test_every_described_route_appears_with_its_method_and_no_other_does(
    table: Sequence[Route],
) -> None:
    found = {
        (method.upper(), path)
        for path, methods in described(table)["paths"].items()
        for method in methods
    }
    assert found == {(route.method, route.path) for route in table if route.is_described}


@TABLES
def test_every_reference_leads_somewhere(table: Sequence[Route]) -> None:
    description = described(table)
    for value in inner_values(description):
        if "$ref" in value:
            place: Any = description
            for step in value["$ref"].removeprefix("#/").split("/"):
                place = place[step]


@TABLES
def test_every_example_fits_its_schema(table: Sequence[Route]) -> None:
    description = described(table)
    shown = 0
    for value in inner_values(description["paths"]):
        if "example" in value:
            name = value["schema"]["$ref"].rpartition("/")[2]
            validator(description, name).validate(value["example"])
            shown += 1
    assert shown > 0


def test_every_error_code_has_an_example_that_fits_the_error_envelope() -> None:
    description = described(TABLE)
    assert set(description["components"]["examples"]) == set(ErrorCode)
    for example in description["components"]["examples"].values():
        validator(description, "ErrorEnvelope").validate(example["value"])


def test_every_error_code_is_in_the_enum() -> None:
    schema = described(TABLE)["components"]["schemas"]["ErrorCode"]
    assert schema["enum"] == list(ErrorCode)


def test_the_fixed_part_agrees_with_the_code() -> None:
    components = described(TABLE)["components"]
    meta = components["schemas"]["SuccessMeta"]["properties"]
    parameters, headers = components["parameters"], components["headers"]
    assert meta["timezone"] == {"const": BUSINESS_ZONE_NAME}
    assert meta["version"] == {"const": envelope.API_VERSION}
    assert meta["requestId"]["examples"] == [openapi.EXAMPLE_REQUEST_ID]
    assert components["schemas"]["PublicTime"]["examples"] == [openapi.EXAMPLE_TIME]
    key_length = parameters["IdempotencyKey"]["schema"]["maxLength"]
    assert key_length == CLIENT_KEY_CHARACTERS_MAX
    sources = headers["X-Idempotency-Key-Source"]["schema"]["enum"]
    assert sources == [str(source) for source in IntentSource]
    longest = parameters["CorrelationId"]["schema"]["maxLength"]
    assert pipeline.CORRELATION_ID.fullmatch(b"x" * longest)
    assert not pipeline.CORRELATION_ID.fullmatch(b"x" * (longest + 1))


def test_the_description_names_itself_and_its_address() -> None:
    description = described(TABLE)
    assert description["openapi"].startswith("3.1")
    assert description["info"]["title"] == "Vintém"
    assert description["info"]["version"] == "1.0.0"
    assert description["servers"] == [{"url": ADDRESS}]


def test_operations_are_named_after_their_handlers() -> None:
    operations = [value for value in inner_values(described(RICH)) if "operationId" in value]
    assert [operation["operationId"] for operation in operations] == [
        "buildBoat",
        "listBoats",
        "sinkBoat",
        "watchBoat",
        "drawBoatV1PicturesImageTokenSvg",
        "drawBoatV1PicturesImageTokenPng",
    ]


def test_a_route_asks_for_the_keys_that_may_call_it() -> None:
    paths = described(RICH)["paths"]
    assert paths["/v1/boats"]["post"]["security"] == [{"secretKey": []}]
    assert paths["/v1/boats"]["get"]["security"] == [{"secretKey": []}, {"checkoutKey": []}]
    assert paths["/v1/harbours/{publicToken}/boats/{id}"]["get"]["security"] == []


def test_parameters_come_from_the_path_and_the_query_struct() -> None:
    paths = described(RICH)["paths"]
    listed = paths["/v1/boats"]["get"]["parameters"]
    assert [(one.get("name"), one.get("required")) for one in listed] == [
        ("harbour", True),
        ("wood", False),
        ("pageSize", False),
        (None, None),
    ]
    assert listed[1]["description"] == "Only of this `wood`."
    assert listed[2]["schema"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    watched = paths["/v1/harbours/{publicToken}/boats/{id}"]["get"]["parameters"]
    assert [(one.get("name"), one.get("description")) for one in watched[:2]] == [
        ("publicToken", "The harbour public token."),
        ("id", "The boat id."),
    ]


def test_a_body_is_required_unless_the_route_says_otherwise() -> None:
    paths = described(RICH)["paths"]
    assert paths["/v1/boats"]["post"]["requestBody"]["required"] is True
    assert paths["/v1/boats/{id}/sink"]["patch"]["requestBody"]["required"] is False
    assert "requestBody" not in paths["/v1/boats"]["get"]


def test_an_idempotent_route_takes_a_key_and_answers_a_repeat_with_200() -> None:
    operation = described(RICH)["paths"]["/v1/boats"]["post"]
    assert {"$ref": "#/components/parameters/IdempotencyKey"} in operation["parameters"]
    responses = operation["responses"]
    assert {"200", "201"} <= responses.keys()
    for status in ("200", "201"):
        headers = set(responses[status]["headers"])
        assert {name for name in headers if name.startswith("X-Idempotency")} == {
            "X-Idempotency-Key",
            "X-Idempotency-Key-Source",
            "X-Idempotency-Replayed",
            "X-Idempotency-Processed-At",
        }
    assert "X-Idempotency-Processed-At" in responses["422"]["headers"]
    assert "X-Idempotency-Key" not in responses["401"]["headers"]


def test_refusals_follow_from_what_a_route_declares() -> None:
    paths = described(RICH)["paths"]

    def codes(path: str, method: str) -> dict[str, list[str]]:
        responses = paths[path][method]["responses"]
        return {
            status: re.findall(r"`([A-Z_]+)`:", response["description"])
            for status, response in responses.items()
            if int(status) >= 400
        }

    assert codes("/v1/boats", "post") == {
        "400": ["INVALID_JSON", "VALIDATION_ERROR", "IDEMPOTENCY_KEY_INVALID"],
        "401": ["MISSING_API_KEY", "INVALID_API_KEY", "WRONG_ENVIRONMENT"],
        "403": ["KEY_TYPE_NOT_ALLOWED", "COMPANY_SUSPENDED", "IP_NOT_ALLOWED"],
        "409": ["IDEMPOTENCY_IN_PROGRESS"],
        "413": ["PAYLOAD_TOO_LARGE"],
        "415": ["UNSUPPORTED_MEDIA_TYPE"],
        "422": ["AMOUNT_BELOW_MINIMUM", "IDEMPOTENCY_KEY_REUSED"],
        "429": ["RATE_LIMIT_EXCEEDED"],
        "500": ["INTERNAL_ERROR"],
        "503": ["PROVIDER_NOT_CONFIGURED", "SERVICE_UNAVAILABLE"],
    }
    assert codes("/v1/boats", "get")["403"] == ["COMPANY_SUSPENDED", "IP_NOT_ALLOWED"]
    assert codes("/v1/boats", "get")["400"] == ["VALIDATION_ERROR"]
    assert codes("/v1/harbours/{publicToken}/boats/{id}", "get") == {
        "404": ["NOT_FOUND"],
        "429": ["RATE_LIMIT_EXCEEDED"],
        "500": ["INTERNAL_ERROR"],
        "503": ["SERVICE_UNAVAILABLE"],
    }


def test_limits_and_waiting_times_are_told_in_headers() -> None:
    responses = described(RICH)["paths"]["/v1/boats"]["get"]["responses"]
    assert "X-RateLimit-Remaining" in responses["200"]["headers"]
    assert "X-RateLimit-Remaining" not in responses["401"]["headers"]
    for status in ("429", "503"):
        assert "Retry-After" in responses[status]["headers"]
    assert all("X-Request-Id" in response["headers"] for response in responses.values())


def test_an_answer_leaves_no_key_out_and_has_no_defaults() -> None:
    boat = described(RICH)["components"]["schemas"]["Boat"]
    assert set(boat["properties"]) - set(boat["required"]) == {"berthUrl"}
    assert not [one for one in boat["properties"].values() if "default" in one]


def test_a_public_time_is_told_from_a_plain_text() -> None:
    schemas = described(RICH)["components"]["schemas"]
    public_time = {"$ref": "#/components/schemas/PublicTime"}
    assert schemas["Boat"]["properties"]["createdAt"] == public_time
    assert schemas["Boat"]["properties"]["sunkAt"] == {"anyOf": [public_time, {"type": "null"}]}
    assert schemas["Boat"]["properties"]["id"] == {"type": "string"}


def test_an_answer_outside_the_envelope_is_named_by_the_end_of_its_path() -> None:
    paths = described(RICH)["paths"]
    response = paths["/v1/pictures/{imageToken}.svg"]["get"]["responses"]["200"]
    assert list(response["content"]) == ["image/svg+xml"]
