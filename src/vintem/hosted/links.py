"""Payment links: looking at one only shows what it sells, and going on opens a session."""

import re
from dataclasses import replace
from typing import Final

from vintem.api.call import Access, Answer, Call, Header, Route
from vintem.checkout import catalogue
from vintem.checkout import service as checkout
from vintem.checkout.link import PaymentLink
from vintem.checkout.model import PAYABLE, SESSION_LIFETIME, Appearance, Merchant, Product
from vintem.companies.model import Environment
from vintem.hosted import views
from vintem.hosted.context import brand_of, contact_of, image_of
from vintem.hosted.guard import admit, check_page
from vintem.hosted.headers import new_style_nonce
from vintem.hosted.render import render_page
from vintem.hosted.visits import TOKEN, html_answer, language_of, to_page
from vintem.kit.errors import ErrorCode, Refusal
from vintem.ledger.model import Scope
from vintem.runtime.rate_limit import PublicLimit

GONE: Final = 410
COOKIE: Final = "vintem_session"

_COOKIE: Final = re.compile(rb"(?:^|; ?)vintem_session=([0-9A-Za-z_-]{43})(?:;|$)")

Found = tuple[PaymentLink, Merchant, Appearance]


async def show_link(call: Call) -> Answer:
    """Show what a link sells; previews look at it too, so that nothing is written."""
    found = await _find(call)
    link, _, _ = found
    product = await _product_of(call, link)
    is_open = link.is_open_at(call.now) or await _begun_before(call, link) is not None
    if product is None or not is_open:
        return _page(call, found, views.LinkInactive(message=link.inactive_message), status=GONE)
    return _page(call, found, _landing(call, link, product))


async def open_session(call: Call) -> Answer:
    """Open a session for whoever goes on, and send them to its page."""
    await admit(call, PublicLimit.LINK_SESSIONS)
    link, merchant, _ = found = await _find(call)
    check_page(call, merchant, link.environment)
    if merchant.is_suspended:
        raise Refusal(ErrorCode.COMPANY_SUSPENDED)
    resources = call.resources
    begun = await _begun_before(call, link)
    if begun is not None:
        return to_page(call, begun)
    try:
        opened = await checkout.open_link(
            resources.database,
            resources.sealer,
            link,
            now=call.now,
            correlation_id=call.correlation_id,
        )
    except Refusal as refusal:
        if refusal.code is not ErrorCode.PAYMENT_LINK_INACTIVE:
            raise
        return _page(call, found, views.LinkInactive(message=link.inactive_message), status=GONE)
    assert opened.token is not None, "the key of a link's session is made for it alone"
    sent = to_page(call, opened.token)
    return replace(sent, headers=(*sent.headers, _remember(call, link, opened.token)))


async def _begun_before(call: Call, link: PaymentLink) -> str | None:
    """The token of the session that this browser has opened by this link and not ended."""
    sent = _COOKIE.search(call.headers.get(b"cookie", b""))
    if sent is None or not link.is_active_at(call.now):
        return None
    token = sent[1].decode()
    public = await call.resources.sessions.read(token, call.now)
    if public is None or public.session.scope != Scope(link.company_id, link.environment):
        return None
    is_open = public.session.status_at(call.now) in PAYABLE
    return token if is_open and public.session.link_id == link.link_id else None


def _remember(call: Call, link: PaymentLink, token: str) -> Header:
    """Let one browser find its session again, at this link alone and not by any script."""
    seconds = int(SESSION_LIFETIME.total_seconds())
    is_safe = call.resources.public_url.startswith("https://")
    cookie = (
        f"{COOKIE}={token}; Max-Age={seconds}; Path=/l/{link.public_token}; HttpOnly; SameSite=Lax"
        f"{'; Secure' if is_safe else ''}"
    )
    return b"set-cookie", cookie.encode()


async def _find(call: Call) -> Found:
    token = call.params["publicToken"]
    found = None
    if TOKEN.fullmatch(token):
        found = await checkout.find_link(call.resources.database, token)
    if found is None:
        raise Refusal(ErrorCode.PAYMENT_LINK_NOT_FOUND)
    return found


async def _product_of(call: Call, link: PaymentLink) -> Product | None:
    scope = Scope(link.company_id, link.environment)
    product = await catalogue.find_product(call.resources.database, scope, link.product_id)
    return product if product is not None and product.is_active else None


def _landing(call: Call, link: PaymentLink, product: Product) -> views.LinkLanding:
    public_url, image = call.resources.public_url, image_of(product.image_media)
    return views.LinkLanding(
        item=views.Item(
            name=product.name,
            quantity=link.quantity,
            unit_cents=product.unit_amount,
            image=image,
        ),
        page_url=f"{public_url}/l/{link.public_token}",
        message=link.message,
        image_url=None if image is None else f"{public_url}{image.url}",
    )


def _page(
    call: Call,
    found: Found,
    state: views.LinkLanding | views.LinkInactive,
    *,
    status: int = 200,
) -> Answer:
    link, merchant, appearance = found
    style_nonce = new_style_nonce()
    frame = views.Frame(
        here=f"/l/{link.public_token}",
        nonce=style_nonce,
        language=language_of(call),
        brand=brand_of(appearance),
        contact=contact_of(merchant),
        is_test=link.environment == Environment.TEST,
    )
    content = render_page(views.Page(frame=frame, state=state))
    return html_answer(call, content, style_nonce, status=status)


ROUTES: Final = (
    Route(
        method="GET",
        path="/l/{publicToken}",
        handler=show_link,
        summary="The page of a payment link",
        group="Pages",
        access=Access.PUBLIC,
        is_described=False,
    ),
    Route(
        method="POST",
        path="/l/{publicToken}",
        handler=open_session,
        summary="Go on from a payment link to a session",
        group="Pages",
        access=Access.PUBLIC,
        is_form=True,
        is_described=False,
    ),
)
