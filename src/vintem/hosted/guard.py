"""What every form goes through before it is read: how often, whose page, and from which page."""

from typing import Final

from vintem.api.access import address_block
from vintem.api.call import Call
from vintem.api.checkout_gate import check_origin
from vintem.checkout.model import Merchant
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.rate_limit import PublicLimit, Window

WINDOW_SECONDS: Final = 60


async def admit(call: Call, limit: PublicLimit, *, purpose: str = "") -> None:
    """Count a form for the address it comes from, or refuse it; purposes are counted apart."""
    window = Window(
        company_id=0,
        key_id=address_block(call.client_ip),
        group=f"{limit}{purpose}",
        limit=call.resources.public_limits[limit],
        seconds=WINDOW_SECONDS,
    )
    decision = await call.resources.public_limiter.admit(window)
    if not decision.admitted:
        raise Refusal(
            ErrorCode.RATE_LIMIT_EXCEEDED, retry_after_seconds=decision.retry_after_seconds
        )


def check_page(call: Call, merchant: Merchant, environment: str) -> None:
    """Refuse a form that another site's page has sent."""
    origin, host = call.headers.get(b"origin"), call.headers.get(b"host", b"").lower()
    # A browser calls us by the name that its page is under: the page is our own.
    if origin is not None and host and origin.lower() in {b"https://" + host, b"http://" + host}:
        return
    check_origin(call, call.headers, merchant, environment)
