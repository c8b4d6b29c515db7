"""From a session as the domain knows it to what its page shows."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Final

import msgspec

from vintem.api.transaction_shapes import (
    BoletoReply,
    CardReply,
    CustomerReply,
    PixReply,
    RefusedReasonReply,
)
from vintem.brazil.br_code import parse_br_code
from vintem.brazil.documents import format_document
from vintem.brazil.phone import normalise_phone
from vintem.checkout.model import (
    COLOR,
    PIX_PER_SESSION_MAX,
    Appearance,
    Buyer,
    LineItem,
    Merchant,
    PageState,
    PublicSession,
)
from vintem.companies.model import Environment
from vintem.hosted import views
from vintem.hosted.views import Decline, Language, Method, Simulation
from vintem.media.model import Picture
from vintem.transactions.model import PaymentMethod, Status, Transaction

REDIRECTS_FOR: Final = timedelta(minutes=10)

_SESSION_ID: Final = re.compile(r"\{SESSION_ID\}|%7BSESSION_ID%7D", re.IGNORECASE)
_DECLINES: Final[Mapping[str, Decline]] = {
    "INSUFFICIENT_FUNDS": Decline.INSUFFICIENT_FUNDS,
    "INCORRECT_CVV": Decline.WRONG_CODE,
    "INCORRECT_DATA": Decline.WRONG_DATA,
    "EXPIRED_CARD": Decline.EXPIRED_CARD,
    "CARD_NOT_ENABLED": Decline.NOT_ENABLED,
    "LIMIT_EXCEEDED": Decline.LIMIT_EXCEEDED,
    "NOT_RECEIVED": Decline.UNAVAILABLE,
}
_SIMULATIONS: Final[Mapping[PageState, Sequence[Simulation]]] = {
    PageState.OPEN: (Simulation.SESSION_EXPIRED,),
    PageState.DECLINED: (Simulation.SESSION_EXPIRED,),
    PageState.PIX_SHOWN: tuple(Simulation),
    PageState.PIX_EXPIRED: (Simulation.PAID, Simulation.SESSION_EXPIRED),
    PageState.BOLETO_SHOWN: (
        Simulation.PAID,
        Simulation.FAILED,
        Simulation.BLOCKED,
        Simulation.SESSION_EXPIRED,
    ),
    PageState.PROCESSING: (Simulation.PAID, Simulation.FAILED, Simulation.BLOCKED),
    PageState.IN_REVIEW: (Simulation.PAID, Simulation.FAILED),
}


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """What is of one answer only: where, for whom, and the numbers used once."""

    here: str
    poll_url: str
    receipt_url: str
    language: Language
    style_nonce: str
    form_nonce: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the page has to say about what the buyer has just tried."""

    typed: views.Typed | None = None
    chosen: Method | None = None
    errors: Sequence[views.FieldError] = ()
    refused: views.Refused | None = None
    coupon: views.CouponBox | None = None
    coupon_applied_cents: int | None = None
    was_checked: bool = False
    ends_soon: bool = False


NOTHING_TOLD: Final = Told()


class PaymentShown(msgspec.Struct, frozen=True, rename="camel"):
    """What pages need of a payment's record."""

    customer: CustomerReply
    installment_amount: int
    interest_amount: int
    pix: PixReply | None
    boleto: BoletoReply | None
    card: CardReply | None
    refused_reason: RefusedReasonReply | None


_shown: Final = msgspec.json.Decoder(type=PaymentShown).decode


def code_to_draw(public: PublicSession) -> str | None:
    """The PIX code whose picture the page shows, if it shows one."""
    payment, state = public.payment, public.page_state
    if payment is None or state not in {PageState.PIX_SHOWN, PageState.BOLETO_SHOWN}:
        return None
    shown = _shown(payment.details)
    if state is PageState.PIX_SHOWN:
        assert shown.pix is not None, "a PIX has its code"
        return shown.pix.qr_code
    assert shown.boleto is not None, "a boleto has its codes"
    return shown.boleto.pix_qr_code


def page_of(
    public: PublicSession,
    visit: Visit,
    *,
    buyer: Buyer | None,
    qr_svg: str,
    told: Told = NOTHING_TOLD,
) -> views.Page:
    """Say what the page of a session shows now."""
    state = _state_of(public, visit, buyer=buyer, qr_svg=qr_svg, told=told)
    is_open = isinstance(state, views.Open)
    coupon = (told.coupon or views.CouponBox()) if is_open else None
    return views.Page(
        frame=_frame_of(public, visit, told), state=state, summary=_summary_of(public, coupon)
    )


def _frame_of(public: PublicSession, visit: Visit, told: Told) -> views.Frame:
    state, session = public.page_state, public.session
    is_test = public.environment == Environment.TEST
    return views.Frame(
        here=visit.here,
        nonce=visit.style_nonce,
        language=visit.language,
        brand=brand_of(public.appearance),
        contact=contact_of(public.merchant),
        is_test=is_test,
        order_reference=order_reference(public),
        back_url=session.cancel_url,
        poll=None
        if state is PageState.PAID
        else views.Poll(
            url=visit.poll_url,
            state_version=public.state_version,
            expires_in_seconds=public.expires_in_seconds,
        ),
        simulations=_SIMULATIONS.get(state, ()) if is_test else (),
        ends_soon=told.ends_soon,
    )


def order_reference(public: PublicSession) -> str:
    """What buyer and merchant call the order: the merchant's own word, or the end of ours."""
    ending = public.session.session_id[-8:].upper()
    return public.session.external_ref or f"{ending[:4]}-{ending[4:]}"


def brand_of(appearance: Appearance) -> views.Brand:
    """Say how a merchant's pages look; pictures only where they are our own copies."""
    return views.Brand(
        name=appearance.display_name,
        logo=image_of(appearance.logo_media),
        primary_color=_color(appearance.primary_color, "primary_color"),
        background_color=_color(appearance.background_color, "background_color"),
        theme=views.Theme(appearance.theme),
        banners=_banners_of(appearance),
    )


def _banners_of(appearance: Appearance) -> Sequence[views.Banner]:
    pictures = (
        (banner, image_of(banner.image_media, alt=banner.alt_text))
        for banner in sorted(appearance.banners, key=lambda banner: banner.sort_order)
    )
    return [
        views.Banner(image=image, href=_https(banner.href), title=banner.title)
        for banner, image in pictures
        if image is not None
    ]


def contact_of(merchant: Merchant) -> views.Contact:
    """Say how a buyer reaches the merchant."""
    return views.Contact(
        email=merchant.support_email,
        phone=merchant.support_phone,
        url=_https(merchant.support_url),
    )


def item_of(item: LineItem) -> views.Item:
    """Show a line of the order."""
    return views.Item(
        name=item.name,
        quantity=item.quantity,
        unit_cents=item.unit_amount,
        image=image_of(item.image_media),
    )


def _summary_of(public: PublicSession, coupon: views.CouponBox | None) -> views.Summary:
    session, amounts = public.session, public.session.amounts
    return views.Summary(
        items=[
            item_of(item) for item in sorted(session.line_items, key=lambda item: item.sort_order)
        ],
        subtotal_cents=amounts.subtotal,
        total_cents=amounts.total,
        discount_cents=amounts.discount,
        shipping_cents=amounts.shipping or None,
        additional_cents=amounts.additional,
        coupon_code=None if session.coupon is None else session.coupon.code,
        coupon=coupon,
        interest_cents=interest_of(public),
    )


def interest_of(public: PublicSession) -> int:
    """What the payment adds to the total, once there is one that may still count."""
    if public.payment is None or public.page_state in {PageState.OPEN, PageState.DECLINED}:
        return 0
    return _shown(public.payment.details).interest_amount


def _state_of(
    public: PublicSession, visit: Visit, *, buyer: Buyer | None, qr_svg: str, told: Told
) -> views.State:
    state, payment = public.page_state, public.payment
    if state in {PageState.OPEN, PageState.DECLINED}:
        return _open(public, visit, buyer, told)
    if state is PageState.EXPIRED:
        return views.Expired(
            can_restart=public.session.link_id is not None, return_url=public.session.cancel_url
        )
    if state is PageState.CANCELLED:
        return views.Cancelled(
            cancelled_at=public.session.cancelled_at,
            can_restart=public.session.link_id is not None,
            return_url=public.session.cancel_url,
        )
    assert payment is not None, "every other page is about a payment"
    return _payment_state(public, payment, visit, qr_svg=qr_svg, told=told)


def _payment_state(
    public: PublicSession, payment: Transaction, visit: Visit, *, qr_svg: str, told: Told
) -> views.State:
    match public.page_state:
        case PageState.PIX_SHOWN:
            return _pix_shown(public, payment, qr_svg=qr_svg, told=told)
        case PageState.PIX_EXPIRED:
            can_regenerate = public.session.pix_made < PIX_PER_SESSION_MAX
            return views.PixExpired(
                amount_cents=payment.amount, can_regenerate=can_regenerate, refused=told.refused
            )
        case PageState.BOLETO_SHOWN:
            return _boleto_shown(payment, qr_svg=qr_svg, told=told)
        case PageState.PROCESSING:
            waited = public.now - payment.created_at
            return views.Processing(
                amount_cents=payment.amount, seconds_so_far=max(0, int(waited.total_seconds()))
            )
        case PageState.IN_REVIEW:
            return views.InReview(amount_cents=payment.amount, return_url=public.session.cancel_url)
        case _:
            return paid_of(public, payment, pdf_url=visit.receipt_url)


def _open(public: PublicSession, visit: Visit, buyer: Buyer | None, told: Told) -> views.Open:
    methods = [Method(method) for method in public.payment_methods]
    payment = public.payment
    is_declined = payment is not None and public.page_state is PageState.DECLINED
    last = Method(payment.payment_method) if payment is not None and is_declined else None
    wanted = told.chosen or last
    return views.Open(
        form_nonce=visit.form_nonce,
        methods=methods,
        chosen=wanted if wanted in methods else next(iter(methods), Method.PIX),
        typed=told.typed or typed_of(buyer),
        card=views.CardOffer(options=public.installment_options)
        if Method.CARD in methods
        else None,
        boleto_days=public.merchant.boleto_due_days,
        errors=told.errors,
        decline=decline_of(payment) if payment is not None and is_declined else None,
        refused=told.refused,
        coupon_applied_cents=told.coupon_applied_cents,
    )


def typed_of(buyer: Buyer | None) -> views.Typed:
    """Fill the form in with what is known of the buyer."""
    if buyer is None:
        return views.Typed()
    filled = views.Typed(
        name=buyer.name,
        email=buyer.email,
        document=format_document(buyer.document) if buyer.document else "",
        # The form takes numbers of Brazil; of another the buyer would be told that it is wrong.
        phone=normalise_phone(buyer.phone) or "",
        card_name=buyer.name,
    )
    address = buyer.address
    if address is None:
        return filled
    return msgspec.structs.replace(
        filled,
        postal_code=address.zip_code,
        street=address.street,
        street_number=address.street_number,
        complement=address.complement,
        neighborhood=address.neighborhood,
        city=address.city,
        state=address.state,
    )


def decline_of(payment: Transaction) -> Decline:
    """Say why a payment came to nothing, as far as its buyer is told."""
    if payment.payment_method is not PaymentMethod.CREDIT_CARD:
        return Decline.NOT_A_CARD
    reason = _shown(payment.details).refused_reason
    return Decline.GENERIC if reason is None else _DECLINES.get(reason.code, Decline.GENERIC)


def _pix_shown(
    public: PublicSession, payment: Transaction, *, qr_svg: str, told: Told
) -> views.PixShown:
    pix = _shown(payment.details).pix
    assert pix is not None, "a PIX has its code"
    assert payment.expires_at is not None, "a PIX has an end"
    return views.PixShown(
        code=pix.qr_code,
        qr_svg=qr_svg,
        receiver_name=_receiver_of(pix.qr_code),
        amount_cents=payment.amount,
        expires_at=payment.expires_at,
        expires_in_seconds=public.payment_expires_in_seconds or 0,
        was_checked=told.was_checked,
    )


@lru_cache(maxsize=4_096)
def _receiver_of(code: str) -> str:
    """The receiver's name as the buyer's bank will show it."""
    read = parse_br_code(code)
    assert read is not None, "a code of ours can be read"
    return read.merchant_name


def _boleto_shown(payment: Transaction, *, qr_svg: str, told: Told) -> views.BoletoShown:
    boleto = _shown(payment.details).boleto
    assert boleto is not None, "a boleto has its codes"
    return views.BoletoShown(
        amount_cents=payment.amount,
        due_date=boleto.due_date,
        digitable_line=boleto.digitable_line,
        pdf_url=_own_path(boleto.url),
        pix_code=boleto.pix_qr_code,
        pix_qr_svg=qr_svg,
        was_checked=told.was_checked,
    )


def paid_of(
    public: PublicSession, payment: Transaction, *, pdf_url: str | None = None
) -> views.Paid:
    """Show that a session is paid: its receipt."""
    shown, merchant = _shown(payment.details), public.merchant
    paid_at = payment.paid_at or payment.updated_at
    return_url = success_url(public)
    card, is_card = shown.card, payment.payment_method is PaymentMethod.CREDIT_CARD
    is_pix = payment.payment_method is PaymentMethod.PIX
    is_refunded = payment.status is Status.REFUNDED
    return views.Paid(
        amount_cents=payment.amount + payment.late_amount,
        method=Method(payment.payment_method),
        paid_at=paid_at,
        transaction_id=payment.transaction_id,
        receiver_name=merchant.legal_name or merchant.name,
        receiver_document=format_document(merchant.document) if merchant.document else None,
        payer_name=shown.customer.name,
        payer_document=shown.customer.document.number,
        end_to_end_id=payment.end_to_end_id if is_pix else None,
        card_brand=None if card is None else card.brand,
        card_last_digits=None if card is None else card.last_digits,
        installments=payment.installments,
        installment_cents=payment.amount // payment.installments if is_card else None,
        refunded_at=(payment.refunded_at or payment.updated_at)
        if payment.refunded_amount
        else None,
        refunded_cents=payment.refunded_amount,
        return_url=return_url,
        redirects=return_url is not None
        and not is_refunded
        and public.now < paid_at + REDIRECTS_FOR,
        pdf_url=pdf_url,
    )


def success_url(public: PublicSession) -> str | None:
    """Where a buyer goes who has paid: the stored address, with the session's id filled in."""
    url = public.session.success_url
    return None if url is None else _SESSION_ID.sub(public.session.session_id, url)


def image_of(name: str | None, *, alt: str = "") -> views.Image | None:
    """Show a picture that we keep ourselves; any other is left out."""
    picture = None if name is None else Picture.named(name)
    if picture is None:
        return None
    return views.Image(url=picture.path, width=picture.width, height=picture.height, alt=alt)


def _color(color: str, field: str) -> str:
    """A colour that was checked when it was saved, and is not believed all the same."""
    default: str = getattr(_PLAIN, field)
    return color if COLOR.fullmatch(color) else default


def _https(url: str | None) -> str | None:
    return url if url is not None and url.startswith("https://") else None


def _own_path(url: str) -> str:
    """The path of one of our own addresses, whichever name we are called by."""
    return "/" + url.split("/", 3)[3]


_PLAIN: Final = views.Brand(name="")
