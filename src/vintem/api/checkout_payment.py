"""A buyer pays a session: what the page and the public interface both do."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from vintem.api.access import address_block
from vintem.api.body import validation_refusal
from vintem.api.call import Call
from vintem.api.checkout_order import buyer_address
from vintem.api.checkout_shapes import PayBody
from vintem.api.transaction_order import HostedPart, phone_faults, prepare, read_number
from vintem.api.transaction_shapes import (
    BoletoBody,
    CardBody,
    ItemBody,
    PixBody,
    ShippingBody,
    TransactionBody,
)
from vintem.brazil.installments import InstallmentOption
from vintem.brazil.phone import normalise_any_phone
from vintem.checkout import card_tries
from vintem.checkout import service as checkout
from vintem.checkout.attempts import (
    SessionChangedError,
    refuse_over,
    refuse_used_up,
    show_standing,
)
from vintem.checkout.model import (
    PIX_LIFETIME,
    Buyer,
    PublicSession,
    is_alive,
    is_under_way,
)
from vintem.companies import service as companies
from vintem.companies.model import Environment
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.kit.intent import Intent, IntentSource
from vintem.runtime.rate_limit import PublicLimit
from vintem.transactions import service as transactions
from vintem.transactions.batches import Created, Creation
from vintem.transactions.model import PaymentMethod, Transaction

PIX_LIFETIME_MIN: Final = timedelta(seconds=1)
PRICED_ANEW_MAX: Final = 5
IN_FLIGHT_MAX: Final = timedelta(seconds=30)
"""After so long a first call that got no answer will not give one any more."""
IN_FLIGHT_RETRY_SECONDS: Final = 1
ANSWER_SECONDS_MAX: Final = 1.0


@dataclass(frozen=True, slots=True)
class Paid:
    """What came of paying: the session as it stands, and its payment, made now or before."""

    public: PublicSession
    transaction: Transaction
    is_replay: bool


class PriceChanged(Refusal):
    """The session has another price than the one that it was read with."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.INVALID_STATE, "The price has changed; look at it again.")


async def pay(
    call: Call,
    public: PublicSession,
    order: PayBody,
    intent: Intent,
    *,
    may_price_anew: bool = True,
) -> Paid:
    """Pay a session once an intent, and never twice at the same time.

    Whoever asks while a payment waits for its buyer, or for its acquirer, is shown that one. A card
    is never charged another price than `public` has; a code or slip shows its own to its buyer.
    """
    check_form(order)
    if intent.source is IntentSource.CLIENT:
        earlier = await _find_earlier(call, public, intent)
        if earlier is not None:
            return await _replay(call, public, earlier, intent)
    try:
        may_price_anew = may_price_anew and order.payment_method is not PaymentMethod.CREDIT_CARD
        created = await _create(call, public, order, intent, may_price_anew=may_price_anew)
    except Refusal as refusal:
        # Somebody who pressed the button twice is shown what came of the first time.
        if refusal.code is not ErrorCode.CARD_TOKEN_INVALID:
            raise
        twin = await _find_twin(call, public, intent)
        if twin is None:
            raise
        return await _replay(call, public, twin, intent)
    if created.is_replay:
        return await _replay(call, public, created.transaction, intent)
    again = await checkout.read_again(call.resources.database, public.session, call.now)
    return Paid(again, created.transaction, is_replay=False)


def price_mark(public: PublicSession) -> str:
    """Name what the buyer is shown to pay, by card too; another price has another name."""
    interest = public.card_interest
    named = (
        public.session.amounts.total,
        interest.monthly_rate_basis_points,
        interest.free_installments,
        interest.installments_max,
    )
    return "-".join(map(str, named))


def check_form(order: PayBody) -> None:
    """Refuse what the declared shape cannot say."""
    faults = []
    is_card = order.payment_method is PaymentMethod.CREDIT_CARD
    if is_card and order.card is None:
        faults.append(("card", "is required"))
    if not is_card and order.card is not None:
        faults.append(("card", "is for cards only"))
    faults += phone_faults(order.customer.phone)
    if order.payment_method is PaymentMethod.BOLETO and order.customer.address is None:
        faults.append(("customer.address", "is required for boleto"))
    if faults:
        raise validation_refusal(
            [{"field": field, "message": message} for field, message in faults]
        )


async def _create(
    call: Call, public: PublicSession, order: PayBody, intent: Intent, *, may_price_anew: bool
) -> Created:
    seen = price_mark(public)
    for _ in range(PRICED_ANEW_MAX):
        standing = _standing(public, order)
        if standing is not None:
            return Created(await _shown(call, public, intent, standing), is_replay=True)
        try:
            return await _create_as_priced(call, public, order, intent)
        except SessionChangedError:
            public = await checkout.read_again(call.resources.database, public.session, call.now)
            if price_mark(public) != seen and not may_price_anew:
                raise PriceChanged from None
    raise Refusal(ErrorCode.INVALID_STATE, "The session is being changed; try again.")


async def _shown(
    call: Call, public: PublicSession, intent: Intent, standing: Transaction
) -> Transaction:
    if intent.source is not IntentSource.CLIENT:
        return standing
    return await show_standing(
        call.resources.database, public.session, intent, standing, now=call.now
    )


def _standing(public: PublicSession, order: PayBody) -> Transaction | None:
    """The payment that a buyer is shown instead of a new one, if there is such a one."""
    payment = public.payment
    refuse_over(public.session, now=public.now)
    if payment is None or public.merchant.is_suspended:
        return None
    is_same = payment.payment_method is order.payment_method and is_alive(payment, public.now)
    return payment if is_same or is_under_way(payment) else None


async def _create_as_priced(
    call: Call, public: PublicSession, order: PayBody, intent: Intent
) -> Created:
    session, resources = public.session, call.resources
    option = refuse_unpayable(call, public, order)
    call.caller = await companies.find_payee(
        resources.database, session.company_id, session.environment
    )
    # The key that was sent is about this session; the payment's own is among its company's.
    own = Intent(new_id(Prefix.IDEMPOTENCY), intent.source, intent.fingerprint)
    wanted = _order(public, order, option, now=call.now)
    creation, _ = await prepare(call, wanted, own, _hosted(public, option))
    buyer = checkout.seal_buyer(resources.sealer, buyer_of(order))

    async def create() -> Created:
        return await checkout.pay(
            resources.transactions, session, creation, intent, buyer, now=call.now
        )

    if order.payment_method is not PaymentMethod.CREDIT_CARD:
        return await create()
    return await _try_card(call, creation, create)


async def _try_card(
    call: Call, creation: Creation, create: Callable[[], Awaitable[Created]]
) -> Created:
    """Create a payment by card, unless too many cards were refused before it."""
    resources, payment = call.resources, creation.new.transaction
    assert creation.charge is not None, "a payment by card charges one"
    is_live = payment.environment == Environment.LIVE
    of_card = PublicLimit.REFUSALS_OF_CARD if is_live else PublicLimit.REFUSALS_OF_TEST_CARD
    limits = card_tries.Limits(
        of_address=resources.public_limits[PublicLimit.REFUSED_CARDS],
        of_card=resources.public_limits[of_card],
    )
    made = card_tries.card_try(
        resources.sealer,
        payment,
        creation.charge.card.number,
        address_block(call.client_ip),
        now=call.now,
    )
    # Until it is known that a card is not refused, it may be: it is written down before.
    await card_tries.begin(resources.database, made, limits)
    try:
        created = await create()
    except (Refusal, SessionChangedError):
        await card_tries.forget(resources.database, made)
        raise
    if created.is_replay:
        await card_tries.forget(resources.database, made)
    return created


def refuse_unpayable(call: Call, public: PublicSession, order: PayBody) -> InstallmentOption | None:
    """Refuse a way to pay that a session does not offer, or not any more; give its terms."""
    refuse_over(public.session, now=call.now)
    if public.merchant.is_suspended:
        raise Refusal(ErrorCode.COMPANY_SUSPENDED)
    is_offered = order.payment_method in (public.session.offered_methods or PaymentMethod)
    if not is_offered or order.payment_method not in public.merchant.payment_methods:
        raise Refusal(ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE)
    refuse_used_up(public.session, order.payment_method, now=call.now)
    return installment_option(public, order)


def installment_option(public: PublicSession, order: PayBody) -> InstallmentOption | None:
    """Find what a card is charged for so many installments, or refuse a number not offered."""
    if order.payment_method is not PaymentMethod.CREDIT_CARD:
        if order.installments != 1:
            raise Refusal(ErrorCode.INVALID_INSTALLMENTS, "Only cards are paid in installments.")
        return None
    for option in public.installment_options:
        if option.installments == order.installments:
            return option
    offered = [option.installments for option in public.installment_options]
    raise Refusal(ErrorCode.INVALID_INSTALLMENTS, details={"offered": offered})


def _order(
    public: PublicSession, order: PayBody, option: InstallmentOption | None, *, now: datetime
) -> TransactionBody:
    """The order of a payment: what the session says, not what the buyer does."""
    session, method = public.session, order.payment_method
    lifetime = min(PIX_LIFETIME, session.expires_at - now)
    is_pix, is_boleto = method is PaymentMethod.PIX, method is PaymentMethod.BOLETO
    if is_pix and lifetime < PIX_LIFETIME_MIN:
        raise Refusal(ErrorCode.SESSION_EXPIRED)
    return TransactionBody(
        payment_method=method,
        amount=session.amounts.total if option is None else option.total_cents,
        customer=order.customer,
        installments=order.installments,
        pix=PixBody(int(lifetime.total_seconds())) if is_pix else None,
        card=None if order.card is None else CardBody(order.card.token),
        boleto=BoletoBody(expires_in_days=public.merchant.boleto_due_days) if is_boleto else None,
        postback_url=session.postback_url,
        external_ref=session.external_ref,
        metadata=dict(session.metadata),
    )


def _hosted(public: PublicSession, option: InstallmentOption | None) -> HostedPart:
    session = public.session
    shipping = session.amounts.shipping
    return HostedPart(
        session_id=session.session_id,
        items=_items(public),
        shipping=ShippingBody(shipping) if shipping else None,
        option=option,
    )


def _items(public: PublicSession) -> Sequence[ItemBody]:
    return [
        ItemBody(item.name, item.unit_amount, item.quantity, external_ref=item.product_id)
        for item in public.session.line_items
    ]


def buyer_of(order: PayBody) -> Buyer:
    """What a buyer has told us of themselves, so that they need not say it again."""
    customer = order.customer
    return Buyer(
        name=customer.name,
        email=customer.email,
        document=read_number(customer.document),
        phone="" if customer.phone is None else normalise_any_phone(customer.phone) or "",
        address=None if customer.address is None else buyer_address(customer.address),
        external_ref=customer.external_ref,
    )


async def _find_earlier(call: Call, public: PublicSession, intent: Intent) -> Transaction | None:
    return await checkout.find_paid_before(call.resources.database, public.session, intent)


async def _find_twin(call: Call, public: PublicSession, intent: Intent) -> Transaction | None:
    """The payment that the same press of a button made a moment ago."""
    if intent.source is IntentSource.CLIENT:
        return await _find_earlier(call, public, intent)
    again = await checkout.read_again(call.resources.database, public.session, call.now)
    payment = again.payment
    if payment is None or not is_under_way(payment):
        return None
    return payment


async def _replay(call: Call, public: PublicSession, payment: Transaction, intent: Intent) -> Paid:
    """Show a payment that was made before; one without its first answer is waited for."""
    database = call.resources.database
    if payment.processed_at is None and call.now - payment.created_at < IN_FLIGHT_MAX:
        payment = await transactions.find_processed(
            database, payment, seconds_max=ANSWER_SECONDS_MAX
        )
        if payment.processed_at is None and intent.source is IntentSource.CLIENT:
            raise Refusal(
                ErrorCode.IDEMPOTENCY_IN_PROGRESS, retry_after_seconds=IN_FLIGHT_RETRY_SECONDS
            )
    again = await checkout.read_again(database, public.session, call.now)
    return Paid(again, payment, is_replay=True)
