"""Public calls that are counted by the caller's address; every answer tells the limit."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from vintem.api import envelope
from vintem.api.access import address_block
from vintem.api.call import Answer, Call, Content
from vintem.api.pipeline import JSON_MEDIA_TYPE, limit_headers
from vintem.kit.clock import public_time
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime import metrics
from vintem.runtime.rate_limit import Decision, Window

WINDOW_SECONDS: Final = 60


async def counted(
    call: Call, work: Callable[[], Awaitable[Content]], *, group: str, limit: int
) -> Answer:
    """Do the work if the address has calls of this group left in this minute."""
    window = Window(
        company_id=0,
        key_id=address_block(call.client_ip),
        group=group,
        limit=limit,
        seconds=WINDOW_SECONDS,
    )
    decision = await call.resources.public_limiter.admit(window)
    if not decision.admitted:
        over = Refusal(
            ErrorCode.RATE_LIMIT_EXCEEDED, retry_after_seconds=decision.retry_after_seconds
        )
        return _refused(call, over, decision)
    try:
        content = await work()
    except Refusal as refusal:
        return _refused(call, refusal, decision)
    return replace(content, headers=(*limit_headers(decision), *content.headers))


def _refused(call: Call, refusal: Refusal, decision: Decision) -> Content:
    metrics.count_refusal(refusal.code)
    headers = [*limit_headers(decision), (b"cache-control", b"no-store")]
    if refusal.retry_after_seconds is not None:
        headers.append((b"retry-after", b"%d" % refusal.retry_after_seconds))
    content = envelope.failure(
        refusal.code,
        refusal.message,
        refusal.details,
        timestamp=public_time(call.now),
        request_id=call.request_id,
    )
    status = envelope.STATUS[refusal.code]
    return Content(content, JSON_MEDIA_TYPE.decode(), status, headers)
