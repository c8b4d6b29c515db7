"""What providers tell us: their signature is checked, their words translated, the rest is done."""

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta

from vintem.api import body
from vintem.api.call import Access, Answer, Body, Call, Data, Reply, Route
from vintem.companies import service as companies
from vintem.companies.model import Environment
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.money import AMOUNT_CENTS_MAX
from vintem.providers.port import Notice, NoticeKind
from vintem.providers.signature import SIGNATURE_HEADER, TIMESTAMP_HEADER, is_signed
from vintem.providers.simulator import SIMULATOR

ENVIRONMENTS: Final[Mapping[str, Environment]] = {SIMULATOR: Environment.TEST}
"""The providers that may tell us something, and of whose money."""

Name = Annotated[str, Meta(min_length=1, max_length=128)]


class CallbackBody(Body, frozen=True):
    """One thing that happened to one payment, as a provider names it."""

    callback_id: Name
    account: Name
    kind: NoticeKind
    reference: Name
    amount: Annotated[int, Meta(ge=1, le=AMOUNT_CENTS_MAX)]
    end_to_end_id: Name | None = None
    sequence: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    code: Name | None = None
    message: Annotated[str, Meta(max_length=255)] | None = None


class CallbackReply(Reply, frozen=True):
    """What the provider is answered: that we have it, and whether we had it before."""

    callback_id: str
    is_repeat: bool


async def receive_callback(call: Call) -> Answer:
    """Take in what a provider tells us; answered once it is committed."""
    provider = call.params["provider"]
    environment = ENVIRONMENTS.get(provider)
    if environment is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    _check_signature(call, provider)
    told = body.decode(body.parse_json(call.raw.body), CallbackBody)
    resources = call.resources
    company = await companies.find_company(resources.database, told.account)
    if company is None:
        # Not acknowledged, so that it is told again until somebody has looked.
        raise Refusal(ErrorCode.NOT_FOUND, "There is no such account here.")
    is_new = await resources.transactions.receive(
        Notice(
            company_id=company.company_id,
            environment=environment,
            provider=provider,
            callback_id=told.callback_id,
            kind=told.kind,
            reference=told.reference,
            amount=told.amount,
            end_to_end_id=told.end_to_end_id,
            sequence=told.sequence,
            code=told.code,
            message=told.message,
        ),
        now=call.now,
    )
    return Data(CallbackReply(told.callback_id, is_repeat=not is_new))


def _check_signature(call: Call, provider: str) -> None:
    headers = call.raw.headers
    if not is_signed(
        call.resources.callback_secrets[provider],
        timestamp=headers.get(TIMESTAMP_HEADER.encode(), b""),
        signature=headers.get(SIGNATURE_HEADER.encode(), b""),
        body=call.raw.body,
        now=call.now,
    ):
        raise Refusal(ErrorCode.INVALID_API_KEY, "The signature of the callback is not valid.")


ROUTES = (
    Route(
        method="POST",
        path="/callbacks/{provider}",
        handler=receive_callback,
        summary="What a provider tells us",
        group="Operations",
        access=Access.PUBLIC,
        is_body_raw=True,
        is_described=False,
    ),
)
