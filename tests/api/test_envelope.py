"""What every answer looks like, whatever happened on the way to it."""

import json
import os
import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.api import REQUEST_ID, Api, HttpReply, Tenant, assert_envelope, assert_refused
from support.routes import SECRET_IN_A_FAULT
from vintem.api import envelope
from vintem.kit.clock import PublicTime
from vintem.kit.errors import MEANING, ErrorCode, Refusal
from vintem.runtime.log import flush_access

BRASILIA_BEHIND_UTC = timedelta(hours=3)


def log_of(worker_id: str) -> str:
    # The lines of calls are gathered for a moment before they are written.
    flush_access()
    return (Path(os.environ["TEST_LOG_FOLDER"]) / f"{worker_id}.log").read_text()


def header_values(reply: HttpReply, name: str) -> list[str]:
    return [value for sent, value in reply.headers.items() if sent.lower() == name.lower()]


def test_every_error_code_has_one_http_status_and_one_meaning() -> None:
    assert set(envelope.STATUS) == set(ErrorCode)
    assert set(MEANING) == set(ErrorCode)
    assert all(400 <= status <= 599 for status in envelope.STATUS.values())
    assert all(meaning.strip() and meaning.endswith(".") for meaning in MEANING.values())
    assert [code for code in ErrorCode if code != code.name] == []


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (400, ["INVALID_JSON", "VALIDATION_ERROR", "IDEMPOTENCY_KEY_INVALID"]),
        (401, ["MISSING_API_KEY", "INVALID_API_KEY", "WRONG_ENVIRONMENT"]),
        (403, ["KEY_TYPE_NOT_ALLOWED", "COMPANY_SUSPENDED", "IP_NOT_ALLOWED"]),
        (404, ["NOT_FOUND", "WITHDRAWAL_NOT_FOUND", "WEBHOOK_NOT_FOUND", "DELIVERY_NOT_FOUND"]),
        (404, ["EVENT_NOT_FOUND"]),
        (405, ["METHOD_NOT_ALLOWED"]),
        (409, ["INVALID_STATE", "IDEMPOTENCY_IN_PROGRESS", "DUPLICATE_SUSPECTED"]),
        (413, ["PAYLOAD_TOO_LARGE"]),
        (415, ["UNSUPPORTED_MEDIA_TYPE"]),
        (422, ["AMOUNT_BELOW_MINIMUM", "AMOUNT_ABOVE_MAXIMUM", "IDEMPOTENCY_KEY_REUSED"]),
        (422, ["INVALID_DOCUMENT"]),
        (429, ["RATE_LIMIT_EXCEEDED"]),
        (500, ["INTERNAL_ERROR"]),
        (502, ["PROVIDER_ERROR"]),
        (503, ["PROVIDER_NOT_CONFIGURED", "SERVICE_UNAVAILABLE"]),
    ],
)
def test_a_code_has_the_status_that_the_interface_promises(status: int, codes: list[str]) -> None:
    assert {envelope.STATUS[ErrorCode[code]] for code in codes} == {status}


@pytest.mark.parametrize("code", ErrorCode)
def test_a_refusal_without_a_sentence_says_what_its_code_means(code: ErrorCode) -> None:
    refusal = Refusal(code)
    written = envelope.failure(
        refusal.code,
        refusal.message,
        refusal.details,
        timestamp=PublicTime("2026-03-02T14:30:00.000Z"),
        request_id="req_1772461800000_abcdefghi",
    )
    assert json.loads(written) == {
        "success": False,
        "error": {"code": code.value, "message": MEANING[code], "details": {}},
        "meta": {
            "timestamp": "2026-03-02T14:30:00.000Z",
            "version": "v1",
            "requestId": "req_1772461800000_abcdefghi",
        },
    }


async def test_an_answer_has_exactly_the_members_of_the_envelope(api: Api, tenant: Tenant) -> None:
    reply = await api.get("/v1/test/orders/abc", key=tenant.sk_test)
    assert_envelope(reply)
    assert set(reply.json) == {"success", "data", "meta"}
    assert set(reply.json["meta"]) == {"timestamp", "timezone", "version", "requestId"}
    assert reply.json["meta"]["timezone"] == "America/Sao_Paulo"
    assert reply.json["meta"]["version"] == "v1"
    refused = await api.get("/v1/nothing")
    assert_envelope(refused)
    assert set(refused.json) == {"success", "error", "meta"}
    assert set(refused.json["meta"]) == {"timestamp", "version", "requestId"}
    assert refused.json["error"]["details"] == {}


async def test_the_request_id_stands_in_header_and_body_and_is_never_the_same(
    api: Api, tenant: Tenant
) -> None:
    seen = set()
    for path, key in [("/v1/balance", tenant.sk_test), ("/v1/nothing", None)] * 10:
        reply = await api.get(path, key=key)
        request_id = reply.json["meta"]["requestId"]
        assert REQUEST_ID.fullmatch(request_id)
        assert header_values(reply, "x-request-id") == [request_id]
        assert abs(int(request_id.split("_")[1]) / 1_000 - time.time()) < 5
        seen.add(request_id)
    assert len(seen) == 20


async def test_a_request_id_cannot_be_chosen_by_the_caller(api: Api) -> None:
    reply = await api.get("/v1/nothing", headers={"x-request-id": "req_1_mine"})
    assert reply.headers["x-request-id"] != "req_1_mine"


@pytest.mark.parametrize("value", ["a", "order-4711", "!", "~", '#1/2;x="y"', "a" * 128, "{}:,"])
async def test_a_correlation_id_of_visible_ascii_comes_back(api: Api, value: str) -> None:
    reply = await api.get("/v1/nothing", headers={"X-Correlation-Id": value})
    assert header_values(reply, "x-correlation-id") == [value]


@pytest.mark.parametrize("value", ["", "a" * 129, "a b", "a\tb", "ação", "a" * 5_000])
async def test_any_other_correlation_id_is_ignored(api: Api, tenant: Tenant, value: str) -> None:
    headers = {"X-Correlation-Id": value}
    reply = await api.get("/v1/balance", key=tenant.sk_test, headers=headers)
    assert reply.status == 200
    assert header_values(reply, "x-correlation-id") == []


async def test_of_two_correlation_ids_none_comes_back(api: Api) -> None:
    headers = [("X-Correlation-Id", "a"), ("X-Correlation-Id", "b")]
    assert header_values(await api.get("/v1/nothing", headers=headers), "x-correlation-id") == []


async def test_a_correlation_id_comes_back_with_every_kind_of_answer(
    api: Api, tenant: Tenant
) -> None:
    sent = {"X-Correlation-Id": "trace-1"}
    for path in ("/v1/balance", "/v1/test/fails", "/v1/test/x.svg", "/v1/nothing", "/healthz"):
        reply = await api.get(path, key=tenant.sk_test, headers=sent)
        assert header_values(reply, "x-correlation-id") == ["trace-1"], path


async def test_the_timestamp_is_brasilia_wall_clock_and_the_reset_is_true_epoch(
    api: Api, tenant: Tenant
) -> None:
    for reply in (await api.get("/v1/balance", key=tenant.sk_test), await api.get("/v1/nothing")):
        told = datetime.fromisoformat(reply.json["meta"]["timestamp"].removesuffix("Z"))
        wall_clock = datetime.now(UTC) - BRASILIA_BEHIND_UTC
        assert abs(told.replace(tzinfo=UTC) - wall_clock) < timedelta(seconds=5)
    reply = await api.get("/v1/balance", key=tenant.sk_test)
    assert 0 <= int(reply.headers["X-RateLimit-Reset"]) - time.time() + 1 < 5


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/v1",
        "/v1/",
        "/v1/balance/",
        "/v1//balance",
        "//v1/balance",
        "/V1/balance",
        "/v1/Balance",
        "/v1/balance/x",
        "/v1/balance%20",
        "/v1/balance%00",
        "/v2/balance",
        "/v1/test/orders/",
        "/v1/test/orders/a/b",
        "/v1/test/orders/a%2Fb",
        "/v1/test/orders/a%2fb",
        "/v1/test%2Forders",
        "/v1%2fbalance",
        "/healthz%2F",
        "/%2Fhealthz",
        "/v1/test/orders/%00",
        "/v1/test/orders/a%00b",
        "/v1/../v1/balance",
        "/v1/./balance",
        "/v1/balance;x=1",
        "/v1/test/.svg",
    ],
)
async def test_an_unknown_path_is_404_for_everyone(api: Api, tenant: Tenant, path: str) -> None:
    for key in (None, tenant.sk_test):
        reply = await api.get(path, key=key)
        assert_refused(reply, ErrorCode.NOT_FOUND, status=404)
        assert reply.json["error"]["details"] == {}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("abc", "abc"),
        ("a.b", "a.b"),
        ("%C3%A9", "é"),
        ("a%20b", "a b"),
        ("%25", "%"),
        ("..", ".."),
        ("%0A", "\n"),
        ("%FF", "\ufffd"),
    ],
)
async def test_a_path_parameter_is_what_the_percent_signs_stand_for(
    api: Api, tenant: Tenant, written: str, read: str
) -> None:
    reply = await api.get(f"/v1/test/orders/{written}", key=tenant.sk_test)
    assert reply.data["value"] == read


async def test_a_fixed_path_goes_before_one_with_a_parameter(api: Api, tenant: Tenant) -> None:
    assert (await api.get("/v1/test/x.svg")).headers["content-type"] == "image/svg+xml"
    reply = await api.get("/v1/test/checkout", key=tenant.ck_test)
    assert reply.data["amount"] == 1


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/balance", "GET, HEAD"),
        ("DELETE", "/v1/balance", "GET, HEAD"),
        ("OPTIONS", "/v1/balance", "GET, HEAD"),
        ("TRACE", "/v1/balance", "GET, HEAD"),
        ("PATCH", "/v1/test/orders", "GET, HEAD, POST"),
        ("GET", "/v1/test/optional", "POST"),
        ("HEAD", "/v1/test/optional", "POST"),
        ("PUT", "/v1/test/orders/abc", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
    ],
)
async def test_a_path_with_another_method_is_405_and_names_those_it_has(
    api: Api, method: str, path: str, allowed: str
) -> None:
    reply = await api.call(method, path)
    assert reply.status == 405
    assert reply.headers["Allow"] == allowed
    if method == "HEAD":
        assert reply.body == b""
    else:
        assert_refused(reply, ErrorCode.METHOD_NOT_ALLOWED, status=405)
        assert reply.json["error"]["details"] == {"allowed": allowed.split(", ")}


async def test_options_of_an_unknown_path_is_404(api: Api) -> None:
    assert_refused(await api.call("OPTIONS", "/v1/x"), ErrorCode.NOT_FOUND, status=404)


@pytest.mark.parametrize("path", ["/v1/balance", "/v1/test/x.svg", "/healthz", "/v1/nothing"])
async def test_head_answers_like_get_without_a_body(api: Api, tenant: Tenant, path: str) -> None:
    get = await api.get(path, key=tenant.sk_test)
    head = await api.call("HEAD", path, key=tenant.sk_test)
    assert head.body == b""
    assert head.status == get.status
    assert set(head.headers) == set(get.headers)
    for name in ("content-type", "content-length"):
        assert head.headers[name] == get.headers[name]
    assert int(head.headers["content-length"]) == len(get.body)


async def test_head_needs_the_key_that_get_needs(api: Api) -> None:
    assert (await api.call("HEAD", "/v1/balance")).status == 401


async def test_an_unexpected_fault_is_500_and_tells_nothing_but_the_request_id(
    api: Api, tenant: Tenant, worker_id: str
) -> None:
    reply = await api.get("/v1/test/fails", key=tenant.sk_test)
    assert_refused(reply, ErrorCode.INTERNAL_ERROR, status=500)
    assert reply.json["error"]["message"] == MEANING[ErrorCode.INTERNAL_ERROR]
    assert reply.json["error"]["details"] == {}
    told = reply.body.decode() + str(reply.headers)
    for leak in (SECRET_IN_A_FAULT, "RuntimeError", "Traceback", "could not use", ".py"):
        assert leak not in told
    request_id = reply.headers["x-request-id"]
    lines = [line for line in log_of(worker_id).splitlines() if request_id in line]
    events = {json.loads(line)["event"] for line in lines}
    assert events == {"call failed", "call"}
    assert any("RuntimeError" in line and "could not use" in line for line in lines)
    assert SECRET_IN_A_FAULT not in log_of(worker_id)


async def test_an_answer_that_cannot_be_written_is_a_whole_500(api: Api, tenant: Tenant) -> None:
    reply = await api.get("/v1/test/unwritable", key=tenant.sk_test)
    assert_refused(reply, ErrorCode.INTERNAL_ERROR, status=500)
    names = [name.lower() for name in reply.headers]
    assert sorted(names) == sorted(set(names))


async def test_the_access_line_names_the_route_and_never_the_path_or_the_key(
    api: Api, tenant: Tenant, worker_id: str
) -> None:
    reply = await api.get("/v1/test/orders/very-private", key=tenant.sk_test)
    request_id = reply.headers["x-request-id"]
    lines = [line for line in log_of(worker_id).splitlines() if request_id in line]
    assert len(lines) == 1
    line = json.loads(lines[0])
    assert line["route"] == "/v1/test/orders/{name}"
    assert line["company"] == tenant.company.public_id
    assert line["status"] == 200
    assert "very-private" not in lines[0]
    assert tenant.sk_test not in log_of(worker_id)


async def test_a_refusal_that_asks_to_wait_says_how_long(api: Api, tenant: Tenant) -> None:
    reply = await api.get("/v1/test/waits", key=tenant.sk_test)
    assert_refused(reply, ErrorCode.IDEMPOTENCY_IN_PROGRESS, status=409)
    assert header_values(reply, "Retry-After") == ["1"]
    assert header_values(await api.get("/v1/nothing"), "Retry-After") == []


async def test_every_json_answer_carries_the_safety_headers(api: Api, tenant: Tenant) -> None:
    for path in ("/v1/balance", "/v1/nothing", "/v1/test/fails", "/v1/test/waits"):
        reply = await api.get(path, key=tenant.sk_test)
        assert header_values(reply, "content-type") == ["application/json"]
        assert header_values(reply, "cache-control") == ["no-store"]
        assert header_values(reply, "x-content-type-options") == ["nosniff"]
        assert header_values(reply, "server") == []
        assert int(reply.headers["content-length"]) == len(reply.body)


async def test_an_answer_outside_the_envelope_carries_id_type_and_nosniff(api: Api) -> None:
    reply = await api.get("/v1/test/abc.svg")
    assert reply.body == b"<svg>abc</svg>"
    assert header_values(reply, "content-type") == ["image/svg+xml"]
    assert header_values(reply, "x-content-type-options") == ["nosniff"]
    assert REQUEST_ID.fullmatch(reply.headers["x-request-id"])


async def test_small_answers_on_a_kept_connection_are_not_held_back(
    api: Api, tenant: Tenant
) -> None:
    async def usual_wait() -> float:
        waited = []
        for _ in range(15):
            started_at = time.perf_counter()
            await api.get("/v1/balance", key=tenant.sk_test)
            waited.append(time.perf_counter() - started_at)
        return statistics.median(waited)

    # Held back until the other side confirms, the body of an answer would always come after 40 ms.
    waits: list[float] = []
    while len(waits) < 3 and min(waits, default=1) >= 0.03:
        waits.append(await usual_wait())
    assert min(waits) < 0.03


async def test_the_line_of_a_refused_call_names_its_code_and_who_called(
    api: Api, tenant: Tenant, worker_id: str
) -> None:
    reply = await api.get("/v1/balance", key=tenant.ck_test)
    line = next(
        json.loads(each)
        for each in log_of(worker_id).splitlines()
        if reply.headers["x-request-id"] in each
    )
    assert line["code"] == ErrorCode.KEY_TYPE_NOT_ALLOWED
    assert line["company"] == tenant.company.public_id
