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
    if not call.resources.is_public_url_given and _is_of_host(call):
        return
    check_origin(call, call.headers, merchant, environment)


def _is_of_host(call: Call) -> bool:
    """Say whether the page is under the name that we are called by, where we know no other."""
    origin, host = call.headers.get(b"origin", b"").lower(), call.headers.get(b"host", b"").lower()
    return bool(host) and origin in {b"https://" + host, b"http://" + host}
