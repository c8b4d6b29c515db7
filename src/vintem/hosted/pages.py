"""The page of a session: what is shown at its address, and what its other buttons do."""

from typing import Final

from vintem.api.call import Access, Answer, Call, Content, Handler, Header, RefusalPage, Route
from vintem.api.checkout_coupon import try_coupon
from vintem.checkout import catalogue, rehearsal
from vintem.checkout import service as checkout
from vintem.checkout.model import PageState, PublicSession
from vintem.companies.model import Environment
from vintem.hosted import links, payments, static
from vintem.hosted.answers import answer_refusal, begin, reread
from vintem.hosted.buyer import looks_like_card
from vintem.hosted.context import NOTHING_TOLD, Told
from vintem.hosted.forms import Form, read_form
from vintem.hosted.guard import check_page
from vintem.hosted.headers import see_other
from vintem.hosted.receipt import receipt_of
from vintem.hosted.views import TOLD, Action, CouponBox, CouponProblem, Simulation
from vintem.hosted.visits import (
    RECEIPT,
    asked_of,
    find_session,
    language_of,
    page_answer,
    show_refusal,
    to_page,
)
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.rate_limit import PublicLimit
from vintem.transactions.model import PaymentMethod, Status
from vintem.webhooks import service as webhooks

TYPED_CODE_CHARACTERS_MAX: Final = 64
HEARD: Final = 204
NOT_YET: Final = 202

_NOT_KEPT: Final[tuple[Header, ...]] = ((b"cache-control", b"no-store"),)

_PDF_HEADERS: Final[tuple[Header, ...]] = (
    (b"cache-control", b"no-store"),
    (b"content-disposition", b'attachment; filename="comprovante.pdf"'),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"same-origin"),
    (b"x-robots-tag", b"noindex, nofollow"),
)


async def show_page(call: Call) -> Answer:
    """Show where a session stands."""
    public, asked = await find_session(call), asked_of(call)
    applied = _just_applied(public, asked.coupon)
    ends_soon = _ends_soon(public, asked.simulated)
    told = NOTHING_TOLD
    if asked.check or applied is not None or ends_soon:
        told = Told(
            was_checked=bool(asked.check), coupon_applied_cents=applied, ends_soon=ends_soon
        )
    return await page_answer(call, public, told=told, is_fragment=bool(asked.f))


def _just_applied(public: PublicSession, said: str) -> int | None:
    """What the form before has done, told once more by the session itself."""
    coupon = public.session.coupon
    if said == "applied" and coupon is not None:
        return coupon.applied_amount
    return 0 if said == "removed" and coupon is None else None


def _ends_soon(public: PublicSession, said: str) -> bool:
    is_short = public.expires_in_seconds <= rehearsal.SESSION_LEFT.total_seconds()
    return said == Simulation.SESSION_EXPIRED and is_short


async def send_receipt(call: Call) -> Answer:
    """Send the receipt of a session that is paid."""
    public = await find_session(call)
    content = await receipt_of(public, language_of(call))
    if content is None:
        return to_page(call, call.params["token"])
    return Content(content, "application/pdf", headers=_PDF_HEADERS)


async def is_told(call: Call) -> Answer:
    """Say whether the shop has heard that a session is paid, so that nobody arrives before."""
    public = await find_session(call)
    session, payment = public.session, public.payment
    is_heard = public.page_state is PageState.PAID and await webhooks.is_told(
        call.resources.database,
        session.company_id,
        session.environment,
        [session.session_id, *([] if payment is None else [payment.transaction_id])],
    )
    return Content(b"", "text/plain", HEARD if is_heard else NOT_YET, _NOT_KEPT)


async def go_to_page(call: Call) -> Answer:
    """Show the page to a browser that comes back to where it sent a form."""
    await find_session(call)
    return to_page(call, call.params["token"])


class CouponForm(Form, frozen=True):
    """What the buyer types into the box for coupons."""

    code: str = ""


class NoFields(Form, frozen=True):
    """A button alone."""


class SimulateForm(Form, frozen=True):
    """Which button of the simulator was pressed."""

    to: str = ""


async def apply_coupon(call: Call) -> Answer:
    """Price the session anew with the coupon that was typed in."""
    typed = ""
    try:
        public = await begin(call, PublicLimit.COUPONS)
        typed = (await read_form(call, CouponForm)).code[:TYPED_CODE_CHARACTERS_MAX]
        await try_coupon(call, public, typed)
    except Refusal as refusal:
        problem = _COUPON_PROBLEMS.get(refusal.code)
        if problem is None:
            return await answer_refusal(call, refusal, Told())
        return await _coupon_refused(call, refusal, problem, typed)
    return to_page(call, call.params["token"], also="coupon=applied")


_COUPON_PROBLEMS: Final = {
    ErrorCode.COUPON_INVALID: CouponProblem.INVALID,
    ErrorCode.VALIDATION_ERROR: CouponProblem.INVALID,
    ErrorCode.COUPON_LOCKED: CouponProblem.LOCKED,
    ErrorCode.RATE_LIMIT_EXCEEDED: CouponProblem.TOO_MANY_ATTEMPTS,
}


async def _coupon_refused(
    call: Call, refusal: Refusal, problem: CouponProblem, typed: str
) -> Answer:
    try:
        public = await reread(call)
        check_page(call, public.merchant, public.environment)
    except Refusal:
        raise refusal from None
    wait = refusal.retry_after_seconds
    if public.page_state not in {PageState.OPEN, PageState.DECLINED}:
        return to_page(call, call.params["token"])
    box = CouponBox(
        typed="" if looks_like_card(typed) else typed, problem=problem, wait_seconds=wait or 0
    )
    return await page_answer(
        call,
        public,
        told=Told(coupon=box),
        status=422 if wait is None else 429,
        headers=() if wait is None else ((b"retry-after", b"%d" % wait),),
        code=refusal.code,
    )


async def remove_coupon(call: Call) -> Answer:
    """Price the session anew without its coupon."""
    try:
        public = await begin(call, PublicLimit.COUPONS)
        await read_form(call, NoFields)
        await checkout.remove_coupon(call.resources.database, public.session, now=call.now)
    except Refusal as refusal:
        return await answer_refusal(call, refusal, Told())
    return to_page(call, call.params["token"], also="coupon=removed")


async def choose_another_way(call: Call) -> Answer:
    """Let the buyer choose again how to pay."""
    try:
        public = await begin(call, PublicLimit.PAYMENTS, purpose=" to choose")
        await read_form(call, NoFields)
        await checkout.choose_another_way(call.resources.database, public.session, now=call.now)
    except Refusal as refusal:
        return await answer_refusal(call, refusal, Told())
    return to_page(call, call.params["token"])


async def restart(call: Call) -> Answer:
    """Open a new session of the payment link that an ended one came from."""
    try:
        public = await begin(call, PublicLimit.LINK_SESSIONS)
        await read_form(call, NoFields)
        session, resources = public.session, call.resources
        is_over = public.page_state in {PageState.EXPIRED, PageState.CANCELLED}
        if session.link_id is None or not is_over:
            return to_page(call, call.params["token"])
        if public.merchant.is_suspended:
            raise Refusal(ErrorCode.COMPANY_SUSPENDED)  # noqa: TRY301 - told like the others
        link = await catalogue.find_link(resources.database, session.scope, session.link_id)
        assert link is not None, "links are never deleted"
        if not link.is_open_at(call.now):
            # Its own page says that it is over.
            return see_other(f"/l/{link.public_token}")
        opened = await checkout.open_link(
            resources.database,
            resources.sealer,
            link,
            now=call.now,
            correlation_id=call.correlation_id,
        )
    except Refusal as refusal:
        return await answer_refusal(call, refusal, Told())
    assert opened.token is not None, "the key of a link's session is made for it alone"
    return to_page(call, opened.token)


async def simulate(call: Call) -> Answer:
    """Make happen what a bank, an analyst or the clock would do; only where no money is real."""
    try:
        public = await begin(call, PublicLimit.PAYMENTS, purpose=" to simulate")
        if public.environment != Environment.TEST:
            raise Refusal(ErrorCode.SANDBOX_ONLY)  # noqa: TRY301 - told like the others
        to = (await read_form(call, SimulateForm)).to
        if to in set(Simulation):
            await _simulate(call, public, Simulation(to))
    except Refusal as refusal:
        return await answer_refusal(call, refusal, Told())
    also = f"simulated={to}" if to == Simulation.SESSION_EXPIRED else ""
    return to_page(call, call.params["token"], also=also)


_STATUS_OF: Final = {
    Simulation.PAID: Status.PAID,
    Simulation.FAILED: Status.FAILED,
    Simulation.BLOCKED: Status.BLOCKED,
}


async def _simulate(call: Call, public: PublicSession, to: Simulation) -> None:
    resources, session, payment = call.resources, public.session, public.payment
    if to is Simulation.SESSION_EXPIRED:
        await rehearsal.shorten(resources.database, session, now=call.now)
    elif to is Simulation.PIX_EXPIRED:
        await rehearsal.expire_payment(resources.database, session, now=call.now)
    elif payment is not None:
        status = _STATUS_OF[to]
        await resources.transactions.move(
            session.scope, payment.transaction_id, status, now=call.now
        )
        if payment.payment_method is PaymentMethod.CREDIT_CARD:
            # The acquirer had plans of its own for it: somebody else has decided now.
            await resources.simulator.forget(payment.company_id, payment.transaction_id)


def _get(path: str, handler: Handler, summary: str) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        summary=summary,
        group="Pages",
        access=Access.PUBLIC,
        is_described=False,
    )


def _post(action: Action, handler: Handler, summary: str) -> tuple[Route, Route]:
    path = f"/s/{{token}}/{action}"
    form = Route(
        method="POST",
        path=path,
        handler=handler,
        summary=summary,
        group="Pages",
        access=Access.PUBLIC,
        is_form=True,
        is_described=False,
    )
    return form, _get(path, go_to_page, "The page that the form is on")


ROUTES: Final = (
    _get("/s/{token}", show_page, "The page of a session"),
    _get(f"/s/{{token}}/{RECEIPT}", send_receipt, "The receipt of a paid session"),
    _get(f"/s/{{token}}/{TOLD}", is_told, "Whether the shop has heard of the payment"),
    *_post(Action.PAY, payments.pay, "Pay a session"),
    *_post(Action.NEW_PIX, payments.make_new_pix, "Make another PIX code"),
    *_post(Action.COUPON, apply_coupon, "Apply a coupon"),
    *_post(Action.REMOVE_COUPON, remove_coupon, "Remove a coupon"),
    *_post(Action.ANOTHER_WAY, choose_another_way, "Choose again how to pay"),
    *_post(Action.RESTART, restart, "Start again from the payment link"),
    *_post(Action.SIMULATE, simulate, "Make a test payment move"),
    *links.ROUTES,
    *static.ROUTES,
)

REFUSAL_PAGES: Final[dict[str, RefusalPage]] = {"s": show_refusal, "l": show_refusal}
"""Who shows refusals to people, by the first part of the path."""
