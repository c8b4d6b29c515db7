"""The forms by which a session is paid: the payment form itself, and the next PIX code."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from vintem.api.call import Answer, Call
from vintem.api.card_tokens import keep_card
from vintem.api.checkout_payment import Paid, PriceChanged, price_mark, refuse_unpayable
from vintem.api.checkout_payment import pay as pay_session
from vintem.api.checkout_shapes import CardTokenBody, PayBody
from vintem.api.transaction_shapes import CustomerBody, DocumentBody
from vintem.checkout import service as checkout
from vintem.checkout.model import Buyer as KnownBuyer
from vintem.checkout.model import PageState, PublicSession
from vintem.hosted import views
from vintem.hosted.answers import WITH_NOTICE, answer_refusal, begin, reread
from vintem.hosted.buyer import Buyer, PayForm, read_buyer, typed_of, without_card_numbers
from vintem.hosted.context import Told
from vintem.hosted.forms import read_form
from vintem.hosted.views import Field, Method, Notice, Problem
from vintem.hosted.visits import page_answer, to_page
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.kit.intent import Intent, IntentSource, fingerprint
from vintem.runtime.rate_limit import PublicLimit
from vintem.transactions import card_tokens
from vintem.transactions.model import PaymentMethod, Status

UNPROCESSABLE: Final = 422
LAST_DIGITS: Final = 4
NO_TOKEN: Final = ""

_NONCE: Final = re.compile(r"[0-9A-Za-z_-]{22}\.[0-9]{1,10}(?:-[0-9]{1,10}){3}")
_FIELD_OF_CARD: Final[Mapping[object, tuple[Field, Problem]]] = {
    "number": (Field.CARD_NUMBER, Problem.CARD_NUMBER_INVALID),
    "holderName": (Field.CARD_NAME, Problem.CARD_NAME_INVALID),
    "expirationMonth": (Field.CARD_EXPIRY, Problem.CARD_EXPIRED),
    "expirationYear": (Field.CARD_EXPIRY, Problem.CARD_EXPIRED),
    "cvv": (Field.CARD_CODE, Problem.CARD_CODE_INVALID),
}


async def pay(call: Call) -> Answer:
    """Pay a session as its buyer has filled in the form; once a form, however often it is sent."""
    told = Told()
    try:
        public = await begin(call, PublicLimit.PAYMENTS)
        form = await _form_of(call)
        told = Told(typed=typed_of(form), chosen=_method_of(form))
        _refuse_stale(public, form)
        buyer = read_buyer(form, call.now)
        if isinstance(buyer, list):
            return await _ask_again(call, public, msgspec.structs.replace(told, errors=buyer))
        intent = _intent_of(call, form)
        order = await _order_of(call, public, buyer, intent)
        paid = await _pay_with(call, public, order, intent)
    except Refusal as refusal:
        if refusal.code is ErrorCode.RATE_LIMIT_EXCEEDED:
            told = await _typed_in_vain(call)
        return await _refused(call, refusal, told)
    is_declined = paid.public.page_state is PageState.DECLINED
    if paid.transaction.status is Status.FAILED and is_declined:
        return await page_answer(call, paid.public, told=told, status=UNPROCESSABLE)
    return to_page(call, call.params["token"])


async def make_new_pix(call: Call) -> Answer:
    """Make another code for the buyer whose code can be paid no more."""
    try:
        public = await begin(call, PublicLimit.PAYMENTS)
        customer = _customer_of(checkout.open_buyer(call.resources.sealer, public.session))
        if customer is None:
            # Nobody has paid here before: the form asks who does.
            return to_page(call, call.params["token"])
        order = PayBody(customer=customer, payment_method=PaymentMethod.PIX)
        own = Intent(new_id(Prefix.IDEMPOTENCY), IntentSource.GENERATED, b"")
        await _pay(call, public, order, own)
    except Refusal as refusal:
        return await _refused(call, refusal, Told())
    return to_page(call, call.params["token"])


async def _typed_in_vain(call: Call) -> Told:
    """What was typed into a form that came too soon, so that it need not be typed again."""
    try:
        form = without_card_numbers(await read_form(call, PayForm))
    except Refusal:
        return Told()
    return Told(typed=typed_of(form), chosen=_method_of(form))


async def _form_of(call: Call) -> PayForm:
    try:
        return without_card_numbers(await read_form(call, PayForm))
    except Refusal as refusal:
        if refusal.code is not ErrorCode.VALIDATION_ERROR:
            raise
        # No page of ours sends such a form, or no longer.
        raise _Stale from None


class _Stale(Refusal):
    """The form is not the one that the page would show now."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.VALIDATION_ERROR)


def _refuse_stale(public: PublicSession, form: PayForm) -> None:
    """Refuse a form that was shown with another price: nobody pays what they have not seen."""
    if _NONCE.fullmatch(form.form_nonce) is None:
        raise _Stale
    if form.form_nonce.partition(".")[2] != price_mark(public):
        raise _Stale


def _method_of(form: PayForm) -> Method | None:
    return Method(form.method) if form.method in set(Method) else None


async def _order_of(call: Call, public: PublicSession, buyer: Buyer, intent: Intent) -> PayBody:
    """Turn a card that may be tried into its token: from here on nothing holds its number."""
    order = PayBody(
        customer=buyer.customer,
        payment_method=PaymentMethod(buyer.method),
        installments=buyer.installments,
    )
    if buyer.card is None:
        return order
    if await checkout.find_paid_before(call.resources.database, public.session, intent):
        # The form was sent before, and what came of it is shown: its card is not needed again.
        return msgspec.structs.replace(order, card=CardTokenBody(NO_TOKEN))
    refuse_unpayable(call, public, order)
    kept = await keep_card(call, public.session.scope, buyer.card)
    return msgspec.structs.replace(order, card=CardTokenBody(kept.token))


def _intent_of(call: Call, form: PayForm) -> Intent:
    """One form is one intent; a code is not even kept as a digest, of a number only its end."""
    number = "".join(filter(str.isdigit, form.cc_number))[-LAST_DIGITS:]
    seen = msgspec.structs.replace(form, cc_csc="", cc_number=number)
    digest = fingerprint(
        pepper=call.resources.pepper,
        method=call.method,
        path=call.path,
        body=msgspec.json.encode(seen),
    )
    return Intent(form.form_nonce, IntentSource.CLIENT, digest)


async def _pay_with(call: Call, public: PublicSession, order: PayBody, intent: Intent) -> Paid:
    """Pay; a card that nothing was paid with is not kept until its token is too old."""
    is_used = False
    try:
        paid = await _pay(call, public, order, intent)
        is_used = not paid.is_replay
    finally:
        if order.card is not None and order.card.token != NO_TOKEN and not is_used:
            resources, scope = call.resources, public.session.scope
            token = order.card.token
            await card_tokens.forget(resources.database, resources.sealer, scope, token, call.now)
    return paid


async def _pay(call: Call, public: PublicSession, order: PayBody, intent: Intent) -> Paid:
    try:
        return await pay_session(call, public, order, intent, may_price_anew=False)
    except PriceChanged:
        raise _Stale from None


def _customer_of(known: KnownBuyer) -> CustomerBody | None:
    if not (known.name and known.email and known.document):
        return None
    kind = "cpf" if len(known.document) == len("52998224725") else "cnpj"
    return CustomerBody(
        name=known.name,
        email=known.email,
        document=DocumentBody(type=kind, number=known.document),  # type: ignore[arg-type]
        phone=known.phone or None,
        external_ref=known.external_ref,
    )


async def _refused(call: Call, refusal: Refusal, told: Told) -> Answer:
    """Show the form again with what was wrong with it, or go where the session has gone."""
    is_stale = isinstance(refusal, _Stale)
    if is_stale and (await reread(call)).page_state not in WITH_NOTICE:
        return to_page(call, call.params["token"])
    if is_stale or refusal.code is ErrorCode.IDEMPOTENCY_KEY_REUSED:
        return await answer_refusal(call, refusal, told, Notice.FORM_STALE, status=UNPROCESSABLE)
    errors = _errors_of(refusal)
    if errors:
        told = msgspec.structs.replace(told, errors=errors)
        return await _ask_again(call, await reread(call), told, code=refusal.code)
    if refusal.code is ErrorCode.COUPON_INVALID:
        return await _without_coupon(call, refusal, told)
    if refusal.code is ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE:
        is_used_up = "maximum" in refusal.details and told.chosen is not Method.BOLETO
        notice = Notice.PIX_ATTEMPTS_EXCEEDED if is_used_up else Notice.METHOD_UNAVAILABLE
        return await answer_refusal(call, refusal, told, notice)
    return await answer_refusal(call, refusal, told)


def _errors_of(refusal: Refusal) -> list[views.FieldError]:
    match refusal.code:
        case ErrorCode.INVALID_CARD:
            field, problem = _FIELD_OF_CARD[refusal.details["field"]]
        case ErrorCode.INVALID_INSTALLMENTS:
            field, problem = Field.INSTALLMENTS, Problem.INSTALLMENTS_INVALID
        case ErrorCode.INVALID_DOCUMENT:
            field, problem = Field.DOCUMENT, Problem.DOCUMENT_INVALID
        case _:
            return []
    return [views.FieldError(field=field, problem=problem)]


async def _without_coupon(call: Call, refusal: Refusal, told: Told) -> Answer:
    """Take a coupon off that was used up meanwhile, and show the new price before it is paid."""
    public = await reread(call)
    await checkout.remove_coupon(call.resources.database, public.session, now=call.now)
    box = views.CouponBox(
        typed="" if public.session.coupon is None else public.session.coupon.code,
        problem=views.CouponProblem.INVALID,
    )
    told = msgspec.structs.replace(told, coupon=box)
    return await answer_refusal(call, refusal, told, Notice.FORM_STALE)


async def _ask_again(
    call: Call, public: PublicSession, told: Told, *, code: ErrorCode = ErrorCode.VALIDATION_ERROR
) -> Answer:
    return await page_answer(call, public, told=told, status=UNPROCESSABLE, code=code)
