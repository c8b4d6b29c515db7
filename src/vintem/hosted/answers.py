"""How a form of a page begins, and how a buyer is told that nothing came of it."""

from collections.abc import Mapping
from typing import Final

import msgspec

from vintem.api import envelope
from vintem.api.call import Answer, Call
from vintem.checkout.model import PageState, PublicSession
from vintem.hosted.context import Told
from vintem.hosted.guard import admit, check_page
from vintem.hosted.views import Notice, Refused
from vintem.hosted.visits import find_session, page_answer, to_page
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.rate_limit import PublicLimit

WITH_NOTICE: Final = frozenset({PageState.OPEN, PageState.DECLINED, PageState.PIX_EXPIRED})
"""The pages that have a place for what went wrong."""

MOVED_ON: Final = frozenset(
    {
        ErrorCode.SESSION_COMPLETED,
        ErrorCode.SESSION_EXPIRED,
        ErrorCode.SESSION_CANCELLED,
        ErrorCode.INVALID_STATE,
        ErrorCode.IDEMPOTENCY_IN_PROGRESS,
    }
)
"""The session is not where the form thought it was: its page shows where it is."""

NOTICES: Final[Mapping[ErrorCode, Notice]] = {
    ErrorCode.RATE_LIMIT_EXCEEDED: Notice.TOO_MANY_ATTEMPTS,
    ErrorCode.CARD_ATTEMPTS_EXCEEDED: Notice.CARD_ATTEMPTS_EXCEEDED,
    ErrorCode.CARD_TOKEN_INVALID: Notice.TRY_AGAIN,
    ErrorCode.COMPANY_SUSPENDED: Notice.STORE_UNAVAILABLE,
    ErrorCode.PAYMENT_LINK_INACTIVE: Notice.LINK_FULL,
    ErrorCode.PROVIDER_NOT_CONFIGURED: Notice.STORE_UNAVAILABLE,
    ErrorCode.PROVIDER_ERROR: Notice.TRY_AGAIN,
}


async def begin(call: Call, limit: PublicLimit, *, purpose: str = "") -> PublicSession:
    """Count a form, find its session, and look at which page has sent it; in this order."""
    await admit(call, limit, purpose=purpose)
    public = await find_session(call)
    check_page(call, public.merchant, public.environment)
    return public


async def reread(call: Call) -> PublicSession:
    """Read the session again, as it is after what was tried."""
    return await find_session(call)


async def answer_refusal(
    call: Call,
    refusal: Refusal,
    told: Told,
    notice: Notice | None = None,
    *,
    status: int | None = None,
) -> Answer:
    """Tell the buyer on the page itself, where it has a place for that."""
    if refusal.code in MOVED_ON:
        return to_page(call, call.params["token"])
    notice = notice or NOTICES.get(refusal.code)
    if notice is None:
        raise refusal
    try:
        public = await reread(call)
        check_page(call, public.merchant, public.environment)
    except Refusal:
        raise refusal from None
    if public.page_state not in WITH_NOTICE:
        raise refusal
    wait = refusal.retry_after_seconds
    headers = () if wait is None else ((b"retry-after", b"%d" % wait),)
    return await page_answer(
        call,
        public,
        told=msgspec.structs.replace(told, refused=Refused(notice=notice, wait_seconds=wait or 0)),
        status=status or envelope.STATUS[refusal.code],
        headers=headers,
        code=refusal.code,
    )
