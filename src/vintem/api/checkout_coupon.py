"""A buyer tries a coupon: what the page and the public interface both do."""

from typing import Final

from vintem.api.access import address_block
from vintem.api.call import Call
from vintem.checkout import service as checkout
from vintem.checkout.model import PublicSession, Session
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.rate_limit import PublicLimit, Window

HOUR_SECONDS: Final = 3_600


async def try_coupon(call: Call, public: PublicSession, code: str) -> Session:
    """Price a session anew with a coupon, unless its caller has guessed wrong too often."""
    resources = call.resources
    window = Window(
        company_id=0,
        key_id=address_block(call.client_ip),
        group=PublicLimit.WRONG_CODES,
        limit=resources.public_limits[PublicLimit.WRONG_CODES],
        seconds=HOUR_SECONDS,
    )
    # Taken before it is known: many at once are not more.
    decision = await resources.limiter.admit(window)
    if not decision.admitted:
        raise Refusal(ErrorCode.COUPON_LOCKED, retry_after_seconds=decision.retry_after_seconds)
    is_wrong = False
    try:
        return await checkout.apply_coupon(resources.database, public.session, code, now=call.now)
    except Refusal as refusal:
        is_wrong = refusal.code is ErrorCode.COUPON_INVALID
        raise
    finally:
        if not is_wrong:
            await resources.limiter.give_back(window)
