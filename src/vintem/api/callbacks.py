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
from vintem.ledger.model import Scope
from vintem.providers.payouts import Paid, PayoutNoticeKind, Rejected
from vintem.providers.port import Notice, NoticeKind
from vintem.providers.signature import SIGNATURE_HEADER, TIMESTAMP_HEADER, is_signed
from vintem.providers.simulator import SIMULATOR
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.model import NoticeOutcome, PayoutNotice

ENVIRONMENTS: Final[Mapping[str, Environment]] = {SIMULATOR: Environment.TEST}
"""The providers that may tell us something, and of whose money."""

UNNAMED_REJECTION: Final = "REJECTED"

Name = Annotated[str, Meta(min_length=1, max_length=128)]


class CallbackBody(Body, frozen=True):
    """One thing that happened to one payment or payout, as a provider names it."""

    callback_id: Name
    account: Name
    kind: Name
    reference: Name
    """Our id of a payment or the txid of its code; of a payout, the id it was asked for under."""
    # More than anything is sold for may come, by mistake or for being late: nothing is lost.
    amount: Annotated[int, Meta(ge=1, le=10 * AMOUNT_CENTS_MAX)]
    end_to_end_id: Name | None = None
    tx_hash: Name | None = None
    confirmations: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    sequence: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    code: Name | None = None
    message: Annotated[str, Meta(max_length=255)] | None = None
    dispute_id: Name | None = None


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
    if told.kind in set(PayoutNoticeKind):
        scope = Scope(company.company_id, environment)
        is_new = await _receive_payout(call, provider, scope, told)
    elif told.kind in set(NoticeKind):
        notice = _notice(provider, environment, company.company_id, told)
        is_new = await resources.transactions.receive(notice, now=call.now)
    else:
        raise body.validation_refusal([{"field": "kind", "message": "is not a known kind"}])
    return Data(CallbackReply(told.callback_id, is_repeat=not is_new))


def _notice(provider: str, environment: Environment, company_id: int, told: CallbackBody) -> Notice:
    return Notice(
        company_id=company_id,
        environment=environment,
        provider=provider,
        callback_id=told.callback_id,
        kind=NoticeKind(told.kind),
        reference=told.reference,
        amount=told.amount,
        end_to_end_id=told.end_to_end_id,
        sequence=told.sequence,
        code=told.code,
        message=told.message,
        dispute_id=told.dispute_id,
    )


async def _receive_payout(call: Call, provider: str, scope: Scope, told: CallbackBody) -> bool:
    """Take in what became of a payout; false when it was told before."""
    is_paid = told.kind == PayoutNoticeKind.PAID
    notice = PayoutNotice(
        scope=scope,
        notice_id=f"{provider}/{told.callback_id}",
        request_id=told.reference,
        amount=told.amount,
        answer=Paid(told.end_to_end_id, told.tx_hash, told.confirmations)
        if is_paid
        else Rejected(told.code or UNNAMED_REJECTION, told.message or ""),
    )
    outcome = await withdrawals.apply_payout_notice(call.resources.database, notice, now=call.now)
    if outcome is NoticeOutcome.UNKNOWN_REQUEST:
        raise Refusal(ErrorCode.NOT_FOUND, "There is no such request here.")
    return outcome is not NoticeOutcome.REPEATED


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
