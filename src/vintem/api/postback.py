"""The address of a record's own that an integrator wants to be called at."""

from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.urls import UrlFault, parse_web_url


def check_postback_url(text: str | None, *, allows_loopback: bool) -> None:
    """Refuse an address that is not called, whatever it resolves to."""
    if text is None:
        return
    parsed = parse_web_url(text, allows_loopback=allows_loopback)
    if isinstance(parsed, UrlFault):
        raise Refusal(ErrorCode.INVALID_URL, parsed, details={"field": "postbackUrl"})
