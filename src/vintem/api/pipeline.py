"""What every call goes through: request id, key, access, limit, body, handler, envelope."""

import asyncio
import re
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from vintem.api import body, envelope
from vintem.api.access import TooManyWrongKeys, address_block, identify
from vintem.api.call import (
    Access,
    Answer,
    Call,
    Content,
    Data,
    Header,
    RawRequest,
    RefusalPage,
    Route,
    Stream,
)
from vintem.api.client_ip import find_client_ip
from vintem.api.headers import (
    join_repeated,
    limit_headers,
    processed_at_header,
    processed_headers,
    stream_headers,
)
from vintem.api.request_note import note_request
from vintem.api.router import MethodNotAllowed, Router
from vintem.companies.model import WINDOW_SECONDS, Caller, LimitGroup
from vintem.kit.clock import public_time, utc_text
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id, new_request_id
from vintem.kit.intent import Intent, IntentReused, IntentSource, fingerprint, is_client_key
from vintem.resources import Resources
from vintem.runtime import log as logs
from vintem.runtime import metrics
from vintem.runtime.db import DatabaseUnavailableError
from vintem.runtime.rate_limit import Decision, PublicLimit, Window

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = structlog.get_logger()

BODY_SECONDS_MAX: Final = 20.0
LINGER_SECONDS_MAX: Final = 1.0
UNAVAILABLE_RETRY_SECONDS: Final = 1
PUBLIC_WINDOW_SECONDS: Final = 60
WHOLE_ANSWER: Final = "vintem.whole_answer"
WHOLE_BODY: Final = "vintem.whole_body"
UNKNOWN_ROUTE: Final = "(none)"
UNKNOWN_METHOD: Final = "OTHER"
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CORRELATION_ID: Final = re.compile(rb"[!-~]{1,128}")
HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._~!$&'()*+;=%-]*)(?::[0-9]{0,5})?")
NO_PAGES: Final[Mapping[str, RefusalPage]] = {}
VERSIONS: Final = frozenset({"1.1", "1.0"})
CHUNKED: Final = b"chunked"
JSON_MEDIA_TYPE: Final = b"application/json"
JSON_HEADERS: Final[Sequence[Header]] = (
    (b"content-type", JSON_MEDIA_TYPE),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


class Malformed(Refusal):
    """The request can be read in more than one way; the connection is closed after the answer."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.VALIDATION_ERROR, message, details=body.whole_fault(message))


class Pipeline:
    """The ASGI application: one route table behind one way in and one way out."""

    def __init__(
        self,
        resources: Resources,
        routes: Sequence[Route],
        *,
        refusal_pages: Mapping[str, RefusalPage] = NO_PAGES,
    ) -> None:
        """Take the routes, and who shows refusals to people, by the first part of the path."""
        self._resources = resources
        self._router = Router(routes)
        self._refusal_pages = refusal_pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call, whatever happens on the way."""
        assert scope["type"] == "http", "only HTTP is spoken here"
        exchange = Exchange(self._resources, self._router, scope, receive, self._refusal_pages)
        status, headers, content = await exchange.answer()
        extensions = scope.get("extensions")
        try:
            if not isinstance(content, bytes):
                await _send_parts(send, status, headers, content)
            elif extensions is not None and WHOLE_ANSWER in extensions:
                await extensions[WHOLE_ANSWER](status, headers, content)
            else:
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": content})
        finally:
            exchange.note(status)


async def _send_parts(
    send: Send, status: int, headers: Sequence[Header], parts: AsyncIterator[bytes]
) -> None:
    """Send an answer part by part; one that breaks off is too short, and the caller sees it."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    async for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class Exchange:
    """One call on its way through."""

    __slots__ = (
        "_headers",
        "_is_body_read",
        "_raw_body",
        "_receive",
        "_refusal_pages",
        "_reply_headers",
        "_resources",
        "_router",
        "_scope",
        "_started_at",
        "call",
        "code",
        "decision",
        "route",
    )

    def __init__(
        self,
        resources: Resources,
        router: Router,
        scope: Scope,
        receive: Receive,
        refusal_pages: Mapping[str, RefusalPage],
    ) -> None:
        self._started_at = time.perf_counter()
        self._resources = resources
        self._router = router
        self._scope = scope
        self._receive = receive
        self._refusal_pages = refusal_pages
        self._is_body_read = False
        self._raw_body = b""
        self._headers: Mapping[bytes, bytes] = dict(scope["headers"])
        if len(self._headers) != len(scope["headers"]):
            self._headers = join_repeated(scope["headers"])
        self.route: Route | None = None
        self.decision: Decision | None = None
        self.code = ""
        now = time.time()
        self.call = Call(
            resources=resources,
            request_id=new_request_id(int(now * 1_000)),
            now=datetime.fromtimestamp(now, UTC),
            method=scope["method"],
            path=scope["path"],
            client_ip=find_client_ip(scope, resources.trusted_proxies),
            headers=self._headers,
            query_string=scope["query_string"],
        )
        self._reply_headers: list[Header] = [(b"x-request-id", self.call.request_id.encode())]
        correlation_id = self._headers.get(b"x-correlation-id")
        if correlation_id and CORRELATION_ID.fullmatch(correlation_id):
            self.call.correlation_id = correlation_id.decode("ascii")
            self._reply_headers.append((b"x-correlation-id", correlation_id))

    async def answer(self) -> tuple[int, list[Header], bytes | AsyncIterator[bytes]]:
        """Give the status, the headers and the bytes of the answer, or its parts; never raise."""
        try:
            self._check_form()
            self.route, self.call.params = self._router.find(self.call.method, self.call.path)
            answer = await self._handle(self.route)
            if isinstance(answer, Stream):
                return 200, [*self._known_headers(), *stream_headers(answer)], answer.parts
            return self._accept(answer)
        except Refusal as refusal:
            await self._let_body_arrive()
            return self._refuse(refusal)
        except DatabaseUnavailableError as away:
            log.warning("database unavailable", request=self.call.request_id, cause=str(away))
            return self._refuse(
                Refusal(
                    ErrorCode.SERVICE_UNAVAILABLE, retry_after_seconds=UNAVAILABLE_RETRY_SECONDS
                )
            )
        except Exception:
            log.exception("call failed", request=self.call.request_id, route=self._route_name)
            return self._refuse(Refusal(ErrorCode.INTERNAL_ERROR))

    def _check_form(self) -> None:
        """Refuse what the parser lets pass although a proxy might read it in another way."""
        version, host = self._scope["http_version"], self._headers.get(b"host")
        if host is None:
            if version == "1.1":
                raise Malformed("The Host header is missing.")
        elif HOST.fullmatch(host) is None:
            raise Malformed("The Host header is not valid.")
        if version not in VERSIONS:
            raise Malformed("The version of HTTP must be 1.1 or 1.0.")
        coding = self._headers.get(b"transfer-encoding")
        if coding is not None and (coding.lower() != CHUNKED or version != "1.1"):
            raise Malformed("The Transfer-Encoding must be chunked.")

    async def _handle(self, route: Route) -> Answer:
        if route.access is not Access.PUBLIC:
            assert route.access is not None
            assert route.limit is not None
            self.call.caller = await identify(self.call, route.access, self._headers)
            await self._count(self.call.caller, route.limit)
        if route.public_limits:
            await self._count_public(route.public_limits)
        if route.gate is not None:
            self._reply_headers += await route.gate(self.call, self._headers)
        if route.query is not None:
            self.call.query = body.decode_query(self._scope["query_string"], route.query)
        if route.body is not None or route.is_idempotent:
            await self._read_request(route)
        elif route.is_body_raw:
            self.call.raw_request = RawRequest(self._headers, await self._read_body())
            self._check_media_type()
        elif route.is_form:
            self.call.form_reader = self._read_body
        answer = await route.handler(self.call)
        if route.is_form:
            await self._let_body_arrive()
        return answer

    async def _count(self, caller: Caller, group: LimitGroup) -> None:
        self.decision = await self._resources.limiter.admit(
            Window(
                caller.company_id,
                caller.key_id,
                group,
                caller.limits.of(group),
                WINDOW_SECONDS[group],
            )
        )
        self._refuse_over_limit(self.decision)

    async def _count_public(self, groups: Sequence[PublicLimit]) -> None:
        """Count a call for its IP address, in every window or in none."""
        limiter, address = self._resources.public_limiter, address_block(self.call.client_ip)
        counted: list[tuple[Decision, Window]] = []
        for group in groups:
            is_of_one = group is PublicLimit.READS_OF_ONE
            window = Window(
                company_id=0,
                key_id=f"{address} {self.call.path}" if is_of_one else address,
                group=group,
                limit=self._resources.public_limits[group],
                seconds=PUBLIC_WINDOW_SECONDS,
            )
            decision = await limiter.admit(window)
            if not decision.admitted:
                for _, earlier in counted:
                    await limiter.give_back(earlier)
                self._refuse_over_limit(decision)
            counted.append((decision, window))
        # The one that will be used up first is told.
        self._refuse_over_limit(min(counted, key=lambda one: one[0].remaining)[0])

    def _refuse_over_limit(self, decision: Decision) -> None:
        """Tell the caller of a limit, and refuse if it is used up."""
        self._reply_headers += limit_headers(decision)
        if not decision.admitted:
            raise Refusal(
                ErrorCode.RATE_LIMIT_EXCEEDED, retry_after_seconds=decision.retry_after_seconds
            )

    async def _read_request(self, route: Route) -> None:
        raw = self._raw_body = await self._read_body()
        # An optional body that is left out says the same as an empty object.
        value: object = {}
        if raw or not route.is_body_optional:
            if raw:
                self._check_media_type()
            value = body.parse_json(raw)
        if route.body is not None:
            self.call.body = body.decode(value, route.body)
        if route.is_idempotent:
            self.call.intent = self._read_intent(body.canonical(value))

    async def _read_body(self) -> bytes:
        length = self._headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > body.BODY_BYTES_MAX:
            raise Refusal(ErrorCode.PAYLOAD_TOO_LARGE, _TOO_LARGE)
        whole = self._body_at_hand()
        if whole is not None:
            return whole
        message = await self._receive_in_time()
        chunk: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            self._is_body_read = True
            return chunk
        chunks = bytearray(chunk)
        give_up_at = self._started_at + BODY_SECONDS_MAX
        while message.get("more_body", False):
            message = await self._receive_in_time(give_up_at)
            chunks += message.get("body", b"")
            if len(chunks) > body.BODY_BYTES_MAX:
                raise Refusal(ErrorCode.PAYLOAD_TOO_LARGE, _TOO_LARGE)
        self._is_body_read = True
        return bytes(chunks)

    def _body_at_hand(self) -> bytes | None:
        """The body, if it came with the head; that is how most come, and nothing waits for it."""
        take_body = (self._scope.get("extensions") or {}).get(WHOLE_BODY)
        whole: bytes | None = None if take_body is None else take_body()
        if whole is None:
            return None
        self._is_body_read = True
        if len(whole) > body.BODY_BYTES_MAX:
            raise Refusal(ErrorCode.PAYLOAD_TOO_LARGE, _TOO_LARGE)
        return whole

    async def _receive_in_time(self, give_up_at: float | None = None) -> MutableMapping[str, Any]:
        """Wait for the next part of the body, but not for ever."""
        seconds = BODY_SECONDS_MAX if give_up_at is None else give_up_at - time.perf_counter()
        try:
            async with asyncio.timeout(seconds):
                message = await self._receive()
        except TimeoutError:
            late = "The body did not arrive in time."
            raise body.validation_refusal([{"field": "", "message": late}]) from None
        if message["type"] == "http.disconnect":
            cut_off = "The body did not arrive whole."
            raise body.validation_refusal([{"field": "", "message": cut_off}])
        return message

    async def _let_body_arrive(self) -> None:
        """Take the rest of a refused body where the connection closes after the answer.

        A caller that is still sending then would be reset, and would not see the answer.
        """
        headers = self._headers
        connection = headers.get(b"connection", b"").lower()
        is_closing = self._scope["http_version"] != "1.1" or b"close" in connection
        has_body = b"content-length" in headers or b"transfer-encoding" in headers
        if self._is_body_read or not (is_closing and has_body) or b"expect" in headers:
            return
        bytes_left = body.BODY_BYTES_MAX
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS_MAX):
                while bytes_left > 0:
                    message = await self._receive()
                    bytes_left -= len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return

    def _check_media_type(self) -> None:
        media_type = self._headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media_type != JSON_MEDIA_TYPE:
            raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE)

    def _read_intent(self, canonical: bytes) -> Intent:
        digest = fingerprint(
            pepper=self._resources.pepper,
            method=self.call.method,
            path=self.call.path,
            body=canonical,
        )
        key = self._headers.get(b"x-idempotency-key")
        if key is None:
            return Intent(new_id(Prefix.IDEMPOTENCY), IntentSource.GENERATED, digest)
        text = key.decode("latin-1")
        if not is_client_key(text):
            raise Refusal(ErrorCode.IDEMPOTENCY_KEY_INVALID)
        return Intent(text, IntentSource.CLIENT, digest)

    def _accept(self, answer: Data | Content) -> tuple[int, list[Header], bytes]:
        headers = self._known_headers()
        if isinstance(answer, Content):
            headers.append((b"content-type", answer.media_type.encode()))
            headers.append((b"x-content-type-options", b"nosniff"))
            content = answer.body
            if answer.code is not None:
                metrics.count_refusal(answer.code)
                self.code = answer.code
        else:
            # Before any header of a success: data that cannot be written becomes a refusal.
            content = envelope.success(
                answer.data,
                timestamp=public_time(self.call.now),
                request_id=self.call.request_id,
            )
            headers += JSON_HEADERS
            if answer.processed is not None:
                headers += processed_headers(answer.processed)
        headers += answer.headers
        headers.append((b"content-length", b"%d" % len(content)))
        return answer.status, headers, content

    def _refuse(self, refusal: Refusal) -> tuple[int, list[Header], bytes]:
        metrics.count_refusal(refusal.code)
        self.code = refusal.code
        status, headers, content = self._refusal(refusal, envelope.STATUS[refusal.code])
        if refusal.retry_after_seconds is not None:
            headers.append((b"retry-after", b"%d" % refusal.retry_after_seconds))
        if b"expect" in self._headers or isinstance(refusal, Malformed):
            # Whether the body still comes is not known, so nothing more can be read after it.
            headers.append((b"connection", b"close"))
        if isinstance(refusal, MethodNotAllowed):
            headers.append((b"allow", ", ".join(refusal.allowed).encode()))
        elif isinstance(refusal, TooManyWrongKeys):
            headers += limit_headers(refusal.decision)
        elif isinstance(refusal, IntentReused):
            headers.append(processed_at_header(refusal.processed_at))
        return status, headers, content

    def _refusal(self, refusal: Refusal, status: int) -> tuple[int, list[Header], bytes]:
        """Write the envelope or, where people call, a page; never fail while doing so."""
        show = self._refusal_pages.get(self.call.path[1:].partition("/")[0])
        if show is not None:
            try:
                return self._accept(show(self.call, refusal, status))
            except Exception:
                log.exception("page failed", request=self.call.request_id, route=self._route_name)
        content = envelope.failure(
            refusal.code,
            refusal.message,
            refusal.details,
            timestamp=public_time(self.call.now),
            request_id=self.call.request_id,
        )
        headers = [
            *self._known_headers(),
            *JSON_HEADERS,
            (b"content-length", b"%d" % len(content)),
        ]
        return status, headers, content

    def _known_headers(self) -> list[Header]:
        """Give what was known before the answer, and the intent as its handler left it."""
        intent = self.call.intent
        if intent is None:
            return self._reply_headers
        return [
            *self._reply_headers,
            (b"x-idempotency-key", intent.key.encode()),
            (b"x-idempotency-key-source", intent.source.encode()),
        ]

    def note(self, status: int) -> None:
        """Count the call and write its line."""
        call, route = self.call, self._route_name
        seconds = time.perf_counter() - self._started_at
        method = call.method if call.method in METHODS else UNKNOWN_METHOD
        metrics.count_request(route=route, method=method, status=status, seconds=seconds)
        caller, decision = call.caller, self.decision
        logs.write_access(
            logs.AccessLine(
                time=utc_text(call.now),
                level=logs.level_of(status, is_quiet=bool(self.route and self.route.is_quiet)),
                event="call",
                method=method,
                route=route,
                status=status,
                ms=round(seconds * 1_000, 2),
                request=call.request_id,
                correlation=call.correlation_id,
                company="" if caller is None else caller.company_public_id,
                key="" if caller is None else caller.key_id,
                code=self.code,
                admitted=decision.decided_at if decision and decision.admitted else None,
            )
        )
        if caller is not None:
            note_request(call, caller, route, status, self.code, seconds, decision, self._raw_body)

    @property
    def _route_name(self) -> str:
        return UNKNOWN_ROUTE if self.route is None else self.route.path


_TOO_LARGE: Final = f"The body is larger than {body.BODY_BYTES_MAX // 1024} KiB."
