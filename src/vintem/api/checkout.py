"""The Checkout group."""

from typing import Final

import msgspec

from vintem.api.call import Access, Answer, Call, Data, Processed, Route
from vintem.api.checkout_coupon import try_coupon
from vintem.api.checkout_gate import SESSION_REFUSALS, find_link, find_session
from vintem.api.checkout_order import filter_of, read_order
from vintem.api.checkout_payment import pay
from vintem.api.checkout_shapes import (
    CouponBody,
    LinkOpenedReply,
    NothingBody,
    OpenedReply,
    PayBody,
    PayReply,
    PollQuery,
    PublicSessionReply,
    SessionBody,
    SessionList,
    SessionListReply,
    SessionQuery,
    TotalsReply,
)
from vintem.api.checkout_view import show_paid, show_session, show_totals
from vintem.api.paging import read_page, shown_pagination
from vintem.api.transaction_order import scope_of
from vintem.checkout import listing
from vintem.checkout import service as checkout
from vintem.checkout.attempts import refuse_over
from vintem.checkout.model import Session
from vintem.checkout.record import record_of
from vintem.companies.model import LimitGroup
from vintem.kit.clock import public_time
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.intent import IntentSource
from vintem.kit.paging import Cursor
from vintem.runtime.rate_limit import PublicLimit

POLLING: Final = frozenset({"1", "true", "yes"})


async def create_session(call: Call) -> Answer:
    """Open a session once an intent."""
    resources, intent = call.resources, call.intent
    assert intent is not None
    try:
        wanted = await read_order(call)
        opened = await checkout.create_session(
            resources.database, resources.sealer, wanted, intent, now=call.now
        )
    except Refusal as refusal:
        # A recorded key replays, whatever the checks say today; a form that is wrong comes first.
        if intent.source is not IntentSource.CLIENT or refusal.code is ErrorCode.VALIDATION_ERROR:
            raise
        earlier = await checkout.find_replay(resources.database, scope_of(call), intent)
        if earlier is None:
            raise
        return _opened(call, earlier, None)
    return _opened(call, opened.session, opened.token)


async def list_sessions(call: Call) -> Answer:
    """List sessions, the newest first."""
    query, database = call.query_as(SessionQuery), call.resources.database
    page = read_page(page=query.page, page_size=query.page_size, cursor=query.cursor)
    wanted = filter_of(call, query)
    found = await listing.list_page(
        database,
        wanted,
        cursor=page.cursor,
        offset=page.offset,
        rows_max=page.page_size + 1,
        now=call.now,
    )
    shown = found[: page.page_size]
    last = shown[-1] if len(found) > page.page_size else None
    where = shown_pagination(
        page,
        counted_rows=await listing.count(database, wanted, now=call.now),
        next_cursor=None if last is None else Cursor(last.created_at, last.session_id),
    )
    records = [msgspec.Raw(record_of(each, each.status_at(call.now))) for each in shown]
    return Data(SessionList(sessions=records, pagination=where))


async def read_session(call: Call) -> Answer:
    """Show a session to its buyer; one that is over only to whoever polls."""
    if call.query_as(PollQuery).poll not in POLLING:
        refuse_over(call.session.session, now=call.now)
    return Data(show_session(call.session))


async def apply_coupon(call: Call) -> Answer:
    """Price a session anew with a coupon."""
    session = await try_coupon(call, call.session, call.body_as(CouponBody).code)
    return Data(show_totals(session, now=call.now))


async def remove_coupon(call: Call) -> Answer:
    """Price a session anew without a coupon."""
    session = await checkout.remove_coupon(
        call.resources.database, call.session.session, now=call.now
    )
    return Data(show_totals(session, now=call.now))


async def pay_session(call: Call) -> Answer:
    """Pay a session, or show the payment that waits for its buyer."""
    intent = call.intent
    assert intent is not None
    paid = await pay(call, call.session, call.body_as(PayBody), intent)
    transaction = paid.transaction
    at = transaction.processed_at or transaction.created_at
    status = 200 if paid.is_replay else 201
    return Data(show_paid(paid), status, Processed(is_replay=paid.is_replay, at=at))


async def open_payment_link(call: Call) -> Answer:
    """Open a session for a buyer who came by a payment link."""
    resources = call.resources
    opened = await checkout.open_link(
        resources.database,
        resources.sealer,
        call.link,
        now=call.now,
        correlation_id=call.correlation_id,
    )
    assert opened.token is not None, "nobody else has the key"
    session = opened.session
    reply = LinkOpenedReply(
        session.session_id, checkout_url(call, opened.token), public_time(session.expires_at)
    )
    return Data(reply, 201)


def checkout_url(call: Call, token: str) -> str:
    """Where the buyer of a session is sent."""
    return f"{call.resources.public_url}/s/{token}"


def _opened(call: Call, session: Session, token: str | None) -> Answer:
    reply = OpenedReply(
        session_id=session.session_id,
        status=session.status_at(call.now),
        expires_at=public_time(session.expires_at),
        total_amount=session.amounts.total,
        checkout_url=msgspec.UNSET if token is None else checkout_url(call, token),
    )
    is_replay = token is None
    processed = Processed(is_replay=is_replay, at=session.created_at)
    return Data(reply, 200 if is_replay else 201, processed)


ROUTES = (
    Route(
        method="POST",
        path="/v1/checkout/sessions",
        handler=create_session,
        summary="Open a checkout session",
        description=(
            "Opens a session and gives `checkoutUrl`, the page to send the buyer to. Keep it: only"
            " the first answer has it. `expiresAt` is a number of minutes; without it a session"
            " lasts 48 hours."
        ),
        group="Checkout",
        access=Access.ANY_KEY,
        limit=LimitGroup.REQUESTS,
        body=SessionBody,
        answer=OpenedReply,
        answer_status=201,
        is_idempotent=True,
        refusals=(
            ErrorCode.PRODUCT_NOT_FOUND,
            ErrorCode.AMOUNT_BELOW_MINIMUM,
            ErrorCode.AMOUNT_ABOVE_MAXIMUM,
            ErrorCode.COUPON_INVALID,
            ErrorCode.INVALID_DOCUMENT,
            ErrorCode.INVALID_URL,
        ),
    ),
    Route(
        method="GET",
        path="/v1/checkout/sessions",
        handler=list_sessions,
        summary="List checkout sessions",
        description="The newest first. The token of a session is in none of them.",
        group="Checkout",
        access=Access.ANY_KEY,
        limit=LimitGroup.REQUESTS,
        query=SessionQuery,
        answer=SessionListReply,
    ),
    Route(
        method="GET",
        path="/v1/checkout/sessions/{token}",
        handler=read_session,
        summary="Read a session as its buyer",
        description=(
            "Needs no key: the token in the path is the end of `checkoutUrl`. A session that is"
            " over answers 410, unless `poll` is `1`, `true` or `yes`. `stateVersion` rises with"
            " every change that the buyer can see."
        ),
        group="Checkout",
        access=Access.PUBLIC,
        is_quiet=True,
        public_limits=(PublicLimit.READS_OF_ONE, PublicLimit.READS),
        gate=find_session,
        query=PollQuery,
        answer=PublicSessionReply,
        refusals=SESSION_REFUSALS,
    ),
    Route(
        method="POST",
        path="/v1/checkout/sessions/{token}/coupon",
        handler=apply_coupon,
        summary="Apply a coupon",
        description=(
            "Called by the buyer's page, without a key. A PIX or boleto that waits to be paid is"
            " superseded. Five wrong codes lock the coupon of the session for 15 minutes."
        ),
        group="Checkout",
        access=Access.PUBLIC,
        public_limits=(PublicLimit.COUPONS,),
        gate=find_session,
        body=CouponBody,
        answer=TotalsReply,
        refusals=(
            *SESSION_REFUSALS,
            ErrorCode.COUPON_INVALID,
            ErrorCode.COUPON_LOCKED,
            ErrorCode.INVALID_STATE,
        ),
    ),
    Route(
        method="DELETE",
        path="/v1/checkout/sessions/{token}/coupon",
        handler=remove_coupon,
        summary="Remove the coupon",
        description="Called by the buyer's page, without a key.",
        group="Checkout",
        access=Access.PUBLIC,
        public_limits=(PublicLimit.COUPONS,),
        gate=find_session,
        body=NothingBody,
        is_body_optional=True,
        answer=TotalsReply,
        refusals=(*SESSION_REFUSALS, ErrorCode.INVALID_STATE),
    ),
    Route(
        method="POST",
        path="/v1/checkout/sessions/{token}/pay",
        handler=pay_session,
        summary="Pay a session",
        description=(
            "Called by the buyer's page, without a key. The amount comes from the session alone."
            " While a PIX waits to be paid, paying by PIX again gives the same one. A refused card"
            " is an answer, not an error: `payment.status` is `failed`."
        ),
        group="Checkout",
        access=Access.PUBLIC,
        public_limits=(PublicLimit.PAYMENTS,),
        gate=find_session,
        body=PayBody,
        answer=PayReply,
        answer_status=201,
        is_idempotent=True,
        refusals=(
            *SESSION_REFUSALS,
            ErrorCode.COMPANY_SUSPENDED,
            ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE,
            ErrorCode.CARD_ATTEMPTS_EXCEEDED,
            ErrorCode.CARD_TOKEN_INVALID,
            ErrorCode.COUPON_INVALID,
            ErrorCode.INVALID_DOCUMENT,
            ErrorCode.INVALID_INSTALLMENTS,
            ErrorCode.INVALID_STATE,
            ErrorCode.PAYMENT_LINK_INACTIVE,
            ErrorCode.PROVIDER_NOT_CONFIGURED,
        ),
    ),
    Route(
        method="POST",
        path="/v1/checkout/payment-links/{publicToken}/sessions",
        handler=open_payment_link,
        summary="Open a session of a payment link",
        description="Called by the link's page, without a key, for each buyer who goes on.",
        group="Checkout",
        access=Access.PUBLIC,
        public_limits=(PublicLimit.LINK_SESSIONS,),
        gate=find_link,
        body=NothingBody,
        is_body_optional=True,
        answer=LinkOpenedReply,
        answer_status=201,
        refusals=(
            ErrorCode.ORIGIN_NOT_ALLOWED,
            ErrorCode.COMPANY_SUSPENDED,
            ErrorCode.PAYMENT_LINK_NOT_FOUND,
            ErrorCode.PAYMENT_LINK_INACTIVE,
        ),
    ),
)
