"""Bodies, queries and idempotency keys: strict, with every fault named, in the promised order."""

import json
import typing
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from msgspec import Meta

from support.api import Api, HttpReply, Tenant, assert_refused, new_tenant
from vintem.api.body import BODY_BYTES_MAX, FAULTS_MAX, NESTING_MAX
from vintem.api.call import MUST
from vintem.api.routes import TABLE
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database

ORDERS, OPTIONAL, REFUNDS = "/v1/test/orders", "/v1/test/optional", "/v1/test/orders/x/refunds"
JSON = {"Content-Type": "application/json"}


async def send(
    api: Api, key: str | None, raw: bytes | str, path: str = ORDERS, **headers: str
) -> HttpReply:
    data = raw.encode() if isinstance(raw, str) else raw
    return await api.post(path, key=key, data=data, headers={**JSON, **headers})


def faults_of(reply: HttpReply) -> list[tuple[str, str]]:
    """The listed faults, each as field and message, in the order of the fields."""
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    details = reply.json["error"]["details"]
    assert set(details) == {"errors"}
    for fault in details["errors"]:
        assert set(fault) == {"field", "message"}
        assert fault["message"]
    return sorted((fault["field"], fault["message"]) for fault in details["errors"])


def fields_of(reply: HttpReply) -> list[str]:
    return [field for field, _ in faults_of(reply)]


async def test_a_right_body_passes_whatever_its_blanks_and_escapes(
    api: Api, tenant: Tenant
) -> None:
    for raw in (
        '{"amount":100}',
        ' \t\r\n{ "amount" : 100 } \n',
        '{"amount":100,"name":"abc"}',
        '{"amount":100,"name":"a\\u0062c"}',
        '{"\\u0061mount":100}',
        '{"amount":100,"address":null,"metadata":null}',
        '{"amount":100,"metadata":{"a":"x","b":1,"c":1.5,"d":true,"e":null,"":""}}',
        '{"amount":100,"name":"say \\": yes"}',
        '{"amount":100,"items":[{"title":"a","unitPrice":1},{"title":"b","unitPrice":1}]}',
    ):
        reply = await send(api, tenant.sk_test, raw)
        assert reply.status == 201, raw
        assert reply.data["amount"] == 100


@pytest.mark.parametrize(
    ("value", "is_whole"),
    [
        ("0", True),
        ("-0", True),
        ("-5", True),
        ("9999999999", True),
        ("9223372036854775807", True),
        ("1.0", False),
        ("1.5", False),
        ("1e3", False),
        ("1E3", False),
        ("10e-1", False),
        ('"1"', False),
        ('""', False),
        ("true", False),
        ("false", False),
        ("null", False),
        ("[]", False),
        ("[1]", False),
        ("{}", False),
    ],
)
async def test_a_whole_number_is_written_as_one_or_refused(
    api: Api, tenant: Tenant, value: str, is_whole: bool
) -> None:
    reply = await send(api, tenant.sk_test, f'{{"amount":{value}}}')
    if is_whole:
        assert reply.data["amount"] == int(value)
    else:
        assert fields_of(reply) == ["amount"]


@pytest.mark.parametrize("value", ["1" * 5_000, "1e400", "-1e400", "1" + "0" * 400 + ".5"])
async def test_a_number_beyond_all_measure_is_refused_and_not_a_fault_of_ours(
    api: Api, tenant: Tenant, value: str
) -> None:
    for raw in (f'{{"amount":{value}}}', f'{{"amount":1,"metadata":{{"a":{value}}}}}'):
        reply = await send(api, tenant.sk_test, raw)
        assert reply.status == 400
        assert reply.json["error"]["code"] in {"INVALID_JSON", "VALIDATION_ERROR"}


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        ("{}", ["amount"]),
        ('{"amount":1,"extra":2}', ["extra"]),
        ('{"amount":1,"Amount":2}', ["Amount"]),
        ('{"amount":1,"is_gift":true}', ["is_gift"]),
        ('{"amount":1,"":2}', [""]),
        ('{"amount":1,"isGift":1}', ["isGift"]),
        ('{"amount":1,"isGift":"true"}', ["isGift"]),
        ('{"amount":1,"isGift":null}', ["isGift"]),
        ('{"amount":1,"name":1}', ["name"]),
        ('{"amount":1,"name":"ab"}', ["name"]),
        ('{"amount":1,"name":"' + "a" * 101 + '"}', ["name"]),
        ('{"amount":1,"address":[]}', ["address"]),
        ('{"amount":1,"address":"x"}', ["address"]),
        ('{"amount":1,"address":{}}', ["address.street", "address.zipCode"]),
        (
            '{"amount":1,"address":{"street":"","zipCode":1,"city":"x"}}',
            ["address.city", "address.street", "address.zipCode"],
        ),
        ('{"amount":1,"items":{}}', ["items"]),
        ('{"amount":1,"items":"x"}', ["items"]),
        ('{"amount":1,"items":[null]}', ["items[0]"]),
        ('{"amount":1,"items":[1,[],"x"]}', ["items[0]", "items[1]", "items[2]"]),
        ('{"amount":1,"items":[{}]}', ["items[0].title", "items[0].unitPrice"]),
        (
            '{"amount":1,"items":[{"title":"a","unitPrice":1},{"title":2,"unitPrice":1,"x":1}]}',
            ["items[1].title", "items[1].x"],
        ),
        (
            '{"amount":1,"items":[7,{"title":"a","unitPrice":1,"quantity":0}]}',
            ["items[0]", "items[1].quantity"],
        ),
        ('{"amount":1,"metadata":[]}', ["metadata"]),
        ('{"amount":1,"metadata":{"a":[],"b":1,"c":{"d":1}}}', ["metadata.a", "metadata.c"]),
        (
            '{"name":1,"isGift":2,"address":{"zipCode":3},"items":[4],"metadata":5,"odd":6}',
            [
                "address.street",
                "address.zipCode",
                "amount",
                "isGift",
                "items[0]",
                "metadata",
                "name",
                "odd",
            ],
        ),
        ("[]", [""]),
        ("null", [""]),
        ("1", [""]),
        ('"amount"', [""]),
        ("true", [""]),
    ],
)
async def test_every_fault_of_a_body_is_listed_with_its_path(
    api: Api, tenant: Tenant, raw: str, fields: Sequence[str]
) -> None:
    assert fields_of(await send(api, tenant.sk_test, raw)) == fields


async def test_each_fault_says_what_is_wrong(api: Api, tenant: Tenant) -> None:
    raw = '{"odd":1,"isGift":1,"items":[{"unitPrice":1}]}'
    reply = await send(api, tenant.sk_test, raw)
    assert faults_of(reply) == [
        ("amount", "is required"),
        ("isGift", "Expected `bool`, got `int`"),
        ("items[0].title", "is required"),
        ("odd", "is not a known field"),
    ]
    assert reply.json["error"]["message"] == "odd: is not a known field"


async def test_a_fault_far_down_a_long_list_is_found(api: Api, tenant: Tenant) -> None:
    items: list[object] = [{"title": "a", "unitPrice": 1}] * 500
    items[437] = {"title": "a", "unitPrice": "1"}
    reply = await api.post(ORDERS, key=tenant.sk_test, json={"amount": 1, "items": items})
    assert fields_of(reply) == ["items[437].unitPrice"]


async def test_no_more_faults_are_listed_than_the_limit(api: Api, tenant: Tenant) -> None:
    for raw in (
        json.dumps({"amount": 1, "items": [7] * 20_000}),
        json.dumps({"amount": 1, **{f"odd{number}": 1 for number in range(5_000)}}),
        json.dumps({"amount": 1, "metadata": {str(number): [] for number in range(5_000)}}),
    ):
        assert len(fields_of(await send(api, tenant.sk_test, raw))) == FAULTS_MAX


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ('{"amount":1,"amount":1}', "amount"),
        ('{"amount":1,"amount":2}', "amount"),
        ('{"amount":1,"\\u0061mount":2}', "amount"),
        ('{"odd":1,"odd":1}', "odd"),
        ('{"amount":1,"address":{"street":"a","street":"a","zipCode":"1"}}', "street"),
        ('{"amount":1,"items":[{"title":"a","unitPrice":1,"title":"b"}]}', "title"),
        ('{"amount":1,"metadata":{"a":"\\": ","a":1}}', "a"),
        ('{"amount":1,"":1,"":1}', ""),
    ],
)
async def test_a_name_given_twice_is_refused_wherever_it_is(
    api: Api, tenant: Tenant, raw: str, field: str
) -> None:
    reply = await send(api, tenant.sk_test, raw)
    assert faults_of(reply) == [(field, "is given twice")]


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ('{"amount":1,"name":"abc\\u0000"}', "name"),
        ('{"amount":1,"name":"\\u0000\\u0000\\u0000"}', "name"),
        ('{"amount":1,"metadata":{"a":"\\u0000"}}', "metadata.a"),
        ('{"amount":1,"metadata":{"a\\u0000b":1}}', "metadata.ab"),
        ('{"amount":1,"items":[{"title":"\\u0000","unitPrice":1}]}', "items[0].title"),
    ],
)
async def test_a_nul_character_is_refused_wherever_it_is(
    api: Api, tenant: Tenant, raw: str, field: str
) -> None:
    reply = await send(api, tenant.sk_test, raw)
    assert faults_of(reply) == [(field, "must not contain NUL characters")]


async def test_what_only_looks_like_a_nul_passes(api: Api, tenant: Tenant) -> None:
    reply = await send(api, tenant.sk_test, '{"amount":1,"name":"abc\\\\u0000"}')
    assert reply.data["name"] == "abc\\u0000"


@pytest.mark.parametrize("brackets", ["[]", "{}"])
async def test_nesting_is_allowed_up_to_its_limit_and_not_beyond(
    api: Api, tenant: Tenant, brackets: str
) -> None:
    opening, closing = ("[", "]") if brackets == "[]" else ('{"a":', "}")
    for levels, code in (
        # One level is the body, one the metadata; the innermost value is a number.
        (NESTING_MAX - 2, ErrorCode.VALIDATION_ERROR),
        (NESTING_MAX - 1, ErrorCode.INVALID_JSON),
        (5_000, ErrorCode.INVALID_JSON),
        (40_000, ErrorCode.INVALID_JSON),
    ):
        nested = opening * levels + "1" + closing * levels
        reply = await send(api, tenant.sk_test, '{"amount":1,"odd":{"a":' + nested + "}}")
        assert_refused(reply, code, status=400)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b'{"amount":1',
        b'{"amount":1}}',
        b'{"amount":1}x',
        b'{"amount":1,}',
        b'{"amount":01}',
        b'{"amount":+1}',
        b'{"amount":.5}',
        b'{"amount":1.}',
        b'{"amount":0x1}',
        b'{"amount":1_000}',
        b'{"amount":NaN}',
        b'{"amount":Infinity}',
        b"{'amount':1}",
        b"{amount:1}",
        b'{"amount":1,"name":"abc\ndef"}',
        b'{"amount":1,"name":"abc\x00def"}',
        b'{"amount":1,"name":"abc\\x"}',
        b'{"amount":1,"name":"abc\\ud800"}',
        b'{"amount":1,"name":"abc\\ud800\\ud800"}',
        b'{"amount":1,"name":"abc\\udc00"}',
        b'{"amount":1,"name":"abc\xff"}',
        b'{"amount":1,"name":"abc\xc0\x80"}',
        b'{"amount":1,"name":"abc\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"amount":1}',
        '{"amount":1}'.encode("utf-16"),
        '{"amount":1}'.encode("utf-32"),
        b'{"amount":1} // x',
        b"amount=1",
        b"<amount>1</amount>",
        b"\x1f\x8b\x08\x00",
    ],
)
async def test_what_is_not_json_is_refused_as_such(api: Api, tenant: Tenant, raw: bytes) -> None:
    reply = await send(api, tenant.sk_test, raw)
    assert_refused(reply, ErrorCode.INVALID_JSON, status=400)
    assert reply.json["error"]["details"] == {}


def order_of_bytes(length: int) -> bytes:
    frame = b'{"amount":1,"metadata":{"a":"%b"}}'
    return frame % (b"x" * (length - len(frame) + 2))


async def in_chunks(raw: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(raw), size):
        yield raw[start : start + size]


async def test_a_body_may_be_256_kib_and_not_a_byte_more(api: Api, tenant: Tenant) -> None:
    assert BODY_BYTES_MAX == 262_144
    for chunk_bytes in (None, 1_000, 70_000):

        async def post(length: int, size: int | None) -> HttpReply:
            raw = order_of_bytes(length)
            data = raw if size is None else in_chunks(raw, size)
            return await api.post(ORDERS, key=tenant.sk_test, data=data, headers=JSON)

        assert (await post(BODY_BYTES_MAX, chunk_bytes)).status == 201
        for length in (BODY_BYTES_MAX + 1, 2 * BODY_BYTES_MAX):
            reply = await post(length, chunk_bytes)
            assert_refused(reply, ErrorCode.PAYLOAD_TOO_LARGE, status=413)
            assert reply.json["error"]["details"] == {}


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "Application/JSON ; charset=utf-8",
        "application/json; profile=x",
    ],
)
async def test_json_with_any_parameter_is_the_right_media_type(
    api: Api, tenant: Tenant, media_type: str
) -> None:
    for path in (ORDERS, OPTIONAL):
        headers = {"Content-Type": media_type}
        reply = await api.post(path, key=tenant.sk_test, data=b'{"amount":1}', headers=headers)
        assert reply.status in {200, 201}


@pytest.mark.parametrize(
    "media_types",
    [
        [],
        [""],
        ["text/plain"],
        ["text/json"],
        ["application/jsonp"],
        ["application/json5"],
        ["application/vnd.api+json"],
        ["application/x-www-form-urlencoded"],
        ["multipart/form-data; boundary=application/json"],
        ["text/plain; application/json"],
        ["*/*"],
        ["json"],
        ["application/json, text/plain"],
        ["application/json", "text/plain"],
        ["text/plain", "application/json"],
    ],
)
async def test_a_body_of_any_other_or_no_media_type_is_415(
    api: Api, tenant: Tenant, media_types: Sequence[str]
) -> None:
    headers = [("Content-Type", media_type) for media_type in media_types]
    for path in (ORDERS, OPTIONAL):
        # Sent in chunks, because the client would add a type of its own to plain bytes.
        reply = await api.session.post(
            api.base_url + path,
            data=in_chunks(b'{"amount":1}', 5),
            headers=[("x-api-key", tenant.sk_test), *headers],
            skip_auto_headers=["Content-Type"],
        )
        assert reply.status == 415
        assert (await reply.json())["error"]["code"] == ErrorCode.UNSUPPORTED_MEDIA_TYPE


async def test_a_missing_body_is_refused_where_one_is_needed(api: Api, tenant: Tenant) -> None:
    for headers in ({}, JSON):
        reply = await api.post(ORDERS, key=tenant.sk_test, headers=headers)
        assert_refused(reply, ErrorCode.INVALID_JSON, status=400)


@pytest.mark.parametrize("path", [OPTIONAL, REFUNDS])
async def test_an_optional_body_may_be_absent_empty_or_an_empty_object(
    api: Api, tenant: Tenant, path: str
) -> None:
    for data, headers in ((None, {}), (b"", JSON), (b"", {}), (b"{}", JSON), (b" {} ", JSON)):
        reply = await api.post(path, key=tenant.sk_test, data=data, headers=headers)
        assert reply.status in {200, 201}, (data, headers)


async def test_an_optional_body_is_as_strict_as_any_once_it_is_there(
    api: Api, tenant: Tenant
) -> None:
    key = tenant.sk_test
    assert (await send(api, key, '{"amount":9}', OPTIONAL)).data["amount"] == 9
    assert (await send(api, key, "{}", OPTIONAL)).data["amount"] == 7
    assert fields_of(await send(api, key, '{"amount":"9"}', OPTIONAL)) == ["amount"]
    assert fields_of(await send(api, key, '{"odd":9}', OPTIONAL)) == ["odd"]
    assert fields_of(await send(api, key, "null", OPTIONAL)) == [""]
    assert fields_of(await send(api, key, "[]", OPTIONAL)) == [""]
    assert_refused(await send(api, key, " ", OPTIONAL), ErrorCode.INVALID_JSON, status=400)


async def test_a_get_ignores_a_body(api: Api, tenant: Tenant) -> None:
    reply = await api.get("/v1/balance", key=tenant.sk_test, data=b"{", headers=JSON)
    assert reply.status == 200


@pytest.mark.parametrize(
    ("query", "page", "status"),
    [
        ("", 1, ""),
        ("?", 1, ""),
        ("?page=3", 3, ""),
        ("?page=3&status=paid", 3, "paid"),
        ("?status=a%20b", 1, "a b"),
        ("?status=a+b", 1, "a b"),
        ("?status=%C3%A9", 1, "é"),
        ("?status=", 1, ""),
        ("?status=a%26b%3Dc", 1, "a&b=c"),
        ("?%73tatus=paid", 1, "paid"),
        ("?status=paid&", 1, "paid"),
    ],
)
async def test_a_right_query_is_read(
    api: Api, tenant: Tenant, query: str, page: int, status: str
) -> None:
    reply = await api.get(ORDERS + query, key=tenant.sk_test)
    assert (reply.data["amount"], reply.data["value"]) == (page, status)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("odd=1", ["odd"]),
        ("Page=1", ["Page"]),
        ("page[]=1", ["page[]"]),
        ("=1", [""]),
        ("page", ["page"]),
        ("page=", ["page"]),
        ("page=0", ["page"]),
        ("page=-1", ["page"]),
        ("page=x", ["page"]),
        ("page=1.0", ["page"]),
        ("page=1e2", ["page"]),
        ("page=01", ["page"]),
        ("page=%2B1", ["page"]),
        ("page=+1", ["page"]),
        ("page=1_0", ["page"]),
        ("page=0x1", ["page"]),
        ("page=true", ["page"]),
        ("page=null", ["page"]),
        ("page=%D9%A1", ["page"]),
        ("page=" + "9" * 30, ["page"]),
        ("page=" + "9" * 6_000, ["page"]),
        ("page=1&page=1", ["page"]),
        ("page=1&page=2", ["page"]),
        ("status=a&status=b", ["status"]),
        ("status=a&%73tatus=b", ["status"]),
        ("status=%00", ["status"]),
        ("page=0&odd=1&status=a&status=b", ["odd", "page", "status"]),
        ("status=%FF", [""]),
        ("status=%C3", [""]),
        ("status=%zz", [""]),
        ("status=%", [""]),
        ("status=%4", [""]),
        ("%zz=1", [""]),
        ("&".join(f"a{number}=1" for number in range(51)), [""]),
    ],
)
async def test_every_fault_of_a_query_is_listed(
    api: Api, tenant: Tenant, query: str, fields: Sequence[str]
) -> None:
    assert fields_of(await api.get(f"{ORDERS}?{query}", key=tenant.sk_test)) == fields


async def test_public_routes_ignore_their_query(api: Api) -> None:
    assert (await api.get("/v1/test/a.svg?odd=1&odd=%zz")).status == 200


IDEMPOTENCY = ("X-Idempotency-Key", "X-Idempotency-Key-Source")
PROCESSED = ("X-Idempotency-Replayed", "X-Idempotency-Processed-At")


def idempotency_of(reply: HttpReply) -> dict[str, str]:
    return {
        name: reply.headers[name] for name in (*IDEMPOTENCY, *PROCESSED) if name in reply.headers
    }


@pytest.mark.parametrize(
    "key", ["a", "~", "!", "0f0e8a52-4d3e-4d8a-9f3e-0d8f3b1b7a11", 'a"b,c;d', "k" * 255]
)
async def test_a_client_key_of_visible_ascii_is_echoed_as_the_clients(
    api: Api, tenant: Tenant, key: str
) -> None:
    reply = await send(api, tenant.sk_test, '{"amount":1}', **{"X-Idempotency-Key": key})
    assert reply.status == 201
    assert idempotency_of(reply) == {
        "X-Idempotency-Key": key,
        "X-Idempotency-Key-Source": "client",
        "X-Idempotency-Replayed": "false",
        "X-Idempotency-Processed-At": reply.json["meta"]["timestamp"],
    }


@pytest.mark.parametrize("keys", [[""], ["k" * 256], ["a b"], ["a\tb"], ["ação"], ["a", "a"]])
async def test_any_other_client_key_is_refused(
    api: Api, tenant: Tenant, keys: Sequence[str]
) -> None:
    for path in (ORDERS, REFUNDS):
        headers = [*JSON.items(), *(("X-Idempotency-Key", key) for key in keys)]
        data = b'{"amount":1}'
        reply = await api.post(path, key=tenant.sk_test, data=data, headers=headers)
        assert_refused(reply, ErrorCode.IDEMPOTENCY_KEY_INVALID, status=400)
        assert idempotency_of(reply) == {}


async def test_without_a_client_key_one_is_generated_each_time(api: Api, tenant: Tenant) -> None:
    replies = [await send(api, tenant.sk_test, '{"amount":1}') for _ in range(3)]
    generated = {reply.headers["X-Idempotency-Key"] for reply in replies}
    assert len(generated) == 3
    assert all(key.startswith("idem_") and len(key) == len("idem_") + 26 for key in generated)
    for reply in replies:
        assert reply.headers["X-Idempotency-Key-Source"] == "generated"
        assert reply.headers["X-Idempotency-Replayed"] == "false"


async def test_a_replay_is_200_and_says_so(api: Api, tenant: Tenant) -> None:
    raw = '{"amount":1,"name":"replayed"}'
    reply = await send(api, tenant.sk_test, raw, **{"X-Idempotency-Key": "k"})
    assert reply.status == 200
    assert reply.headers["X-Idempotency-Replayed"] == "true"
    assert set(idempotency_of(reply)) == {*IDEMPOTENCY, *PROCESSED}


async def test_a_reused_key_is_422_with_key_source_and_the_first_completion(
    api: Api, tenant: Tenant
) -> None:
    raw = '{"amount":1,"name":"reused"}'
    reply = await send(api, tenant.sk_test, raw, **{"X-Idempotency-Key": "k"})
    assert_refused(reply, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
    assert idempotency_of(reply) == {
        "X-Idempotency-Key": "k",
        "X-Idempotency-Key-Source": "client",
        "X-Idempotency-Processed-At": reply.json["meta"]["timestamp"],
    }


async def test_a_body_that_is_refused_gets_no_idempotency_headers(api: Api, tenant: Tenant) -> None:
    for raw in ("{", "{}"):
        reply = await send(api, tenant.sk_test, raw, **{"X-Idempotency-Key": "k"})
        assert reply.status == 400
        assert idempotency_of(reply) == {}


@pytest.mark.parametrize("key", ["k", "", "a b", "k" * 256])
async def test_the_header_is_ignored_where_it_is_not_covered(
    api: Api, tenant: Tenant, key: str
) -> None:
    headers = {"X-Idempotency-Key": key}
    for reply in (
        await send(api, tenant.sk_test, "{}", OPTIONAL, **headers),
        await api.get("/v1/balance", key=tenant.sk_test, headers=headers),
        await api.get("/v1/test/a.svg", headers=headers),
    ):
        assert reply.status == 200
        assert idempotency_of(reply) == {}


async def fingerprint_of(api: Api, key: str, raw: str, path: str = ORDERS) -> str:
    fingerprint: str = (await send(api, key, raw, path)).data["fingerprint"]
    assert len(fingerprint) == 64
    return fingerprint


async def test_a_fingerprint_does_not_depend_on_order_blanks_escapes_or_caller(
    api: Api, tenant: Tenant, database: Database
) -> None:
    same = (
        '{"amount":1,"name":"abc","metadata":{"x":1,"y":2}}',
        '{"name":"abc","metadata":{"y":2,"x":1},"amount":1}',
        ' {\n"amount" : 1 ,\t"name":"a\\u0062c","metadata":{"x":1,"y":2}}',
    )
    prints = {await fingerprint_of(api, tenant.sk_test, raw) for raw in same}
    prints.add(await fingerprint_of(api, tenant.sk_live, same[0]))
    prints.add(await fingerprint_of(api, (await new_tenant(database)).sk_test, same[0]))
    assert len(prints) == 1


async def test_a_fingerprint_depends_on_every_part_of_the_body_and_on_the_path(
    api: Api, tenant: Tenant
) -> None:
    bodies = (
        '{"amount":1}',
        '{"amount":2}',
        '{"amount":1,"name":"name"}',
        '{"amount":1,"name":"Name"}',
        '{"amount":1,"metadata":{}}',
        '{"amount":1,"metadata":{"a":1}}',
        '{"amount":1,"metadata":{"a":"1"}}',
        '{"amount":1,"metadata":{"a":true}}',
        '{"amount":1,"metadata":{"a":null}}',
        '{"amount":1,"items":[{"title":"a","unitPrice":1},{"title":"b","unitPrice":1}]}',
        '{"amount":1,"items":[{"title":"b","unitPrice":1},{"title":"a","unitPrice":1}]}',
    )
    prints = [await fingerprint_of(api, tenant.sk_test, raw) for raw in bodies]
    for name in ("x", "y"):
        path = f"/v1/test/orders/{name}/refunds"
        prints.append(await fingerprint_of(api, tenant.sk_test, bodies[0], path))
    assert len(set(prints)) == len(bodies) + 2


async def test_an_absent_body_has_the_fingerprint_of_an_empty_object(
    api: Api, tenant: Tenant
) -> None:
    absent = await api.post(REFUNDS, key=tenant.sk_test)
    empty = await fingerprint_of(api, tenant.sk_test, "{}", REFUNDS)
    assert absent.data["fingerprint"] == empty
    assert await fingerprint_of(api, tenant.sk_test, '{"amount":7}', REFUNDS) != empty


async def test_the_checks_come_in_the_promised_order(api: Api, database: Database) -> None:
    """Each request has every later fault too, and one fault less than the one before it."""
    tenant = await new_tenant(database, requests_per_minute=7)
    bad_key: dict[str, Any] = {"X-Idempotency-Key": "a b"}
    too_large = b" " * (BODY_BYTES_MAX + 1)
    text = {"Content-Type": "text/plain"}
    steps: list[tuple[str | None, bytes, dict[str, Any], ErrorCode, int]] = [
        (None, too_large, text, ErrorCode.MISSING_API_KEY, 401),
        ("junk", too_large, text, ErrorCode.INVALID_API_KEY, 401),
        (tenant.ck_test, too_large, text, ErrorCode.KEY_TYPE_NOT_ALLOWED, 403),
        (tenant.sk_test, too_large, text, ErrorCode.PAYLOAD_TOO_LARGE, 413),
        (tenant.sk_test, b"{", text, ErrorCode.UNSUPPORTED_MEDIA_TYPE, 415),
        (tenant.sk_test, b"{", {}, ErrorCode.INVALID_JSON, 400),
        (tenant.sk_test, b'{"amount":1,"amount":2}', {}, ErrorCode.VALIDATION_ERROR, 400),
        (tenant.sk_test, b"{}", {}, ErrorCode.VALIDATION_ERROR, 400),
        (tenant.sk_test, b'{"amount":1}', {}, ErrorCode.IDEMPOTENCY_KEY_INVALID, 400),
    ]
    for key, raw, headers, code, status in steps:
        sent = {**JSON, **bad_key, **headers}
        reply = await api.post(ORDERS, key=key, data=raw, headers=sent)
        assert_refused(reply, code, status=status)
    assert (await send(api, tenant.sk_test, '{"amount":1}')).status == 201
    # Now the limit is used up: it goes before every fault of the body.
    for _, raw, headers, *_ in steps:
        sent = {**JSON, **bad_key, **headers}
        reply = await api.post(ORDERS, key=tenant.sk_test, data=raw, headers=sent)
        assert_refused(reply, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)
        assert idempotency_of(reply) == {}


async def test_a_query_is_checked_after_key_and_limit(api: Api, database: Database) -> None:
    tenant = await new_tenant(database, requests_per_minute=1)
    bad = f"{ORDERS}?page=0"
    assert_refused(await api.get(bad), ErrorCode.MISSING_API_KEY, status=401)
    refused = await api.get(bad, key=tenant.ck_test)
    assert_refused(refused, ErrorCode.KEY_TYPE_NOT_ALLOWED, status=403)
    assert fields_of(await api.get(bad, key=tenant.sk_test)) == ["page"]
    limited = await api.get(bad, key=tenant.sk_test)
    assert_refused(limited, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)


def patterns_of(declared: object) -> Iterator[Meta]:
    """What every part of a shape says that has a pattern."""
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        for field in msgspec.structs.fields(declared):
            yield from patterns_of(field.type)
    for meta in getattr(declared, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.pattern is not None:
            yield meta
    for part in typing.get_args(declared):
        yield from patterns_of(part)


def test_every_pattern_of_every_route_is_also_said_in_words() -> None:
    shapes = [shape for route in TABLE for shape in (route.body, route.query) if shape is not None]
    found = [meta for shape in shapes for meta in patterns_of(shape)]
    assert len(found) > 10
    assert [meta for meta in found if not (meta.extra or {}).get(MUST)] == []


@pytest.mark.parametrize(
    ("path", "body", "field", "said"),
    [
        (
            "/v1/transactions",
            {"customer": {"email": "nobody"}},
            "customer.email",
            "must be an e-mail address",
        ),
        (
            "/v1/transactions",
            {"customer": {"document": {"type": "rg"}}},
            "customer.document.type",
            "must be cpf or cnpj",
        ),
        (
            "/v1/transactions",
            {"paymentMethod": "cash"},
            "paymentMethod",
            "must be pix, credit_card or boleto",
        ),
        ("/v1/withdrawals", {"method": "ted"}, "method", "must be pix, fiat or crypto"),
        (
            "/v1/sandbox/withdrawals/wd_x/simulate",
            {"failureCode": "not so"},
            "failureCode",
            "must be capital letters, digits and _, such as PIX_KEY_NOT_FOUND",
        ),
        (
            "/v1/sandbox/withdrawals/wd_x/simulate",
            {"status": "paid"},
            "status",
            "must be pending, pending_approval, processing, completed, failed or cancelled",
        ),
    ],
)
async def test_what_a_field_must_be_is_said_in_words(
    api: Api, tenant: Tenant, path: str, body: object, field: str, said: str
) -> None:
    reply = await api.post(path, key=tenant.sk_test, json=body)
    assert (field, said) in faults_of(reply)
