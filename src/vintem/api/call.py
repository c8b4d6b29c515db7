"""What a route declares, what a handler is given, and what it answers."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, TypeVar

import msgspec

from vintem.checkout.model import PaymentLink, PublicSession
from vintem.companies.model import Caller, LimitGroup
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.intent import Intent
from vintem.resources import Resources
from vintem.runtime.rate_limit import PublicLimit

StructT = TypeVar("StructT", bound=msgspec.Struct)
Header = tuple[bytes, bytes]


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The shape of a request's body: strict types, no unknown fields."""


MUST: Final = "must"
"""Under which name a field's `Meta.extra` says in words what its pattern asks for."""


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The shape of a list's query parameters."""

    def faults(self) -> list[dict[str, str]]:
        """What is wrong although each parameter has its declared type."""
        return []


class PublicQuery(msgspec.Struct, frozen=True, rename="camel"):
    """The shape of a public route's query parameters; it ignores those that it does not know."""


class Reply(msgspec.Struct, frozen=True, rename="camel"):
    """The shape of an answer's data."""


class Access(Enum):
    """Who may call a route."""

    PUBLIC = "public"
    SECRET_KEY = "secret key"  # noqa: S105 - the name of a rule
    ANY_KEY = "secret or checkout key"


@dataclass(frozen=True, slots=True)
class Processed:
    """When a covered call was first completed, and whether this answer repeats it."""

    is_replay: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Data:
    """An answer in the envelope."""

    data: msgspec.Struct | msgspec.Raw
    status: int = 200
    processed: Processed | None = None
    headers: Sequence[Header] = ()


@dataclass(frozen=True, slots=True)
class Content:
    """An answer outside the envelope: a page, a picture, a description."""

    body: bytes
    media_type: str
    status: int = 200
    headers: Sequence[Header] = ()
    code: ErrorCode | None = None
    """Why the caller was told no, where the content says it in its own way."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer outside the envelope that is too large to be held whole: its parts as they come."""

    parts: AsyncIterator[bytes]
    length: int
    media_type: str
    headers: Sequence[Header] = ()


Answer = Data | Content | Stream


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request byte by byte, for whoever checks a signature over it."""

    headers: Mapping[bytes, bytes]
    body: bytes


@dataclass(slots=True)
class Call:
    """One call, as far as the pipeline has come with it."""

    resources: Resources
    request_id: str
    now: datetime
    method: str
    path: str
    client_ip: str
    correlation_id: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    caller: Caller | None = None
    intent: Intent | None = None
    body: msgspec.Struct | None = None
    query: msgspec.Struct | None = None
    raw_request: RawRequest | None = None
    form_reader: Callable[[], Awaitable[bytes]] | None = None
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    query_string: bytes = b""
    public_session: PublicSession | None = None
    payment_link: PaymentLink | None = None

    @property
    def session(self) -> PublicSession:
        """The checkout session that the path's token stands for; its route's gate has found it."""
        assert self.public_session is not None, "the route has no gate that finds a session"
        return self.public_session

    @property
    def link(self) -> PaymentLink:
        """The payment link that the path's token stands for; its route's gate has found it."""
        assert self.payment_link is not None, "the route has no gate that finds a link"
        return self.payment_link

    @property
    def raw(self) -> RawRequest:
        """The request byte by byte; only routes that declare it may want to know."""
        assert self.raw_request is not None, "the route does not declare a raw body"
        return self.raw_request

    async def read_raw(self) -> RawRequest:
        """Read a form's bytes, once; whoever wants them has admitted the caller before."""
        if self.raw_request is None:
            assert self.form_reader is not None, "the route does not declare a form"
            self.raw_request = RawRequest(self.headers, await self.form_reader())
        return self.raw_request

    @property
    def company(self) -> Caller:
        """Who is calling; only routes that ask for a key may want to know."""
        assert self.caller is not None, "a public route has no caller"
        return self.caller

    def body_as(self, shape: type[StructT]) -> StructT:
        """The decoded body, in the shape that the route declares."""
        assert isinstance(self.body, shape), f"the route does not declare {shape.__name__}"
        return self.body

    def query_as(self, shape: type[StructT]) -> StructT:
        """The decoded query, in the shape that the route declares."""
        assert isinstance(self.query, shape), f"the route does not declare {shape.__name__}"
        return self.query


Handler = Callable[[Call], Awaitable[Answer]]
RefusalPage = Callable[[Call, Refusal, int], Content]
"""Shows people what the envelope tells programs: the call, why it is refused, the status."""
Gate = Callable[[Call, Mapping[bytes, bytes]], Awaitable[Sequence[Header]]]
"""Finds what a path's token stands for and refuses strange pages, before any body is read; gives
the headers that every further answer carries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One line of the route table: the router and the description are both made from it.

    `access` has no default that opens anything: a route that does not declare it stops the start.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    group: str
    access: Access | None = None
    limit: LimitGroup | None = None
    public_limits: Sequence[PublicLimit] = ()
    """How often one IP address may call it without a key, each of them by the minute."""
    gate: Gate | None = None
    body: type[Body] | None = None
    is_body_optional: bool = False
    is_body_raw: bool = False
    """The handler reads the bytes itself, because it must check a signature over them first."""
    is_form: bool = False
    """A browser sends fields of a form, which the handler reads once it knows whose they are."""
    query: type[Query] | type[PublicQuery] | None = None
    answer: type[msgspec.Struct] | None = None
    answer_status: int = 200
    example: msgspec.Struct | None = None
    is_idempotent: bool = False
    refusals: Sequence[ErrorCode] = ()
    description: str = ""
    is_described: bool = True
