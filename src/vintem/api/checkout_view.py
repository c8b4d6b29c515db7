"""A session and its payment as the public interface shows them."""

from datetime import datetime

import msgspec

from vintem.api.checkout_payment import Paid
from vintem.api.checkout_shapes import (
    AppearanceReply,
    BannerReply,
    CouponReply,
    LineItemReply,
    PaidBoletoReply,
    PaidCardReply,
    PaymentReply,
    PayReply,
    PublicSessionReply,
    RefusedReply,
    TotalsReply,
)
from vintem.checkout.model import (
    CURRENCY,
    Appearance,
    AppliedCoupon,
    LineItem,
    PublicSession,
    Session,
    is_alive,
)
from vintem.kit.clock import public_time
from vintem.transactions.model import Status, Transaction


class CardPart(msgspec.Struct, frozen=True, rename="camel"):
    """What is shown of a card."""

    brand: str
    last_digits: str


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """What is shown of a payment's record."""

    installment_amount: int
    interest_amount: int
    pix_qr_code: str | None
    pix_qr_code_image: str | None
    boleto: PaidBoletoReply | None
    card: CardPart | None
    refused_reason: RefusedReply | None


_read_details = msgspec.json.Decoder(type=Details).decode


def show_session(public: PublicSession) -> PublicSessionReply:
    """Show a session to its buyer."""
    session, amounts = public.session, public.session.amounts
    return PublicSessionReply(
        session_id=session.session_id,
        status=public.status,
        expires_at=public_time(session.expires_at),
        line_items=[_item(item) for item in session.line_items],
        subtotal_amount=amounts.subtotal,
        discount_amount=amounts.discount,
        shipping_amount=amounts.shipping,
        additional_amount=amounts.additional,
        total_amount=amounts.total,
        success_url=session.success_url,
        cancel_url=session.cancel_url,
        coupon=_coupon(session.coupon),
        appearance=_appearance(public.appearance),
        payment=None if public.payment is None else show_payment(public.payment, public.now),
        payment_methods=public.payment_methods,
        expires_in_seconds=public.expires_in_seconds,
        state_version=public.state_version,
        page_state=public.page_state,
    )


def show_totals(session: Session, *, now: datetime) -> TotalsReply:
    """Show what is to be paid."""
    amounts = session.amounts
    return TotalsReply(
        session_id=session.session_id,
        status=session.status_at(now),
        subtotal_amount=amounts.subtotal,
        discount_amount=amounts.discount,
        shipping_amount=amounts.shipping,
        additional_amount=amounts.additional,
        total_amount=amounts.total,
        coupon=_coupon(session.coupon),
    )


def show_payment(payment: Transaction, now: datetime) -> PaymentReply:
    """Show a payment; its code only while it can be paid."""
    details = _read_details(payment.details)
    is_payable = is_alive(payment, now)
    seconds = None
    if payment.expires_at is not None and payment.status is Status.PENDING:
        seconds = max(0, int((payment.expires_at - now).total_seconds()))
    return PaymentReply(
        transaction_id=payment.transaction_id,
        status=_status_shown(payment),
        method=payment.payment_method,
        pix_qr_code=details.pix_qr_code if is_payable else None,
        pix_qr_code_image=details.pix_qr_code_image if is_payable else None,
        expires_at=None if payment.expires_at is None else public_time(payment.expires_at),
        expires_in_seconds=seconds,
    )


def _status_shown(payment: Transaction) -> Status:
    """What the buyer is told: whoever has paid has paid, whatever is disputed about it later."""
    is_given_back = payment.status is Status.REFUNDED
    return payment.status if payment.paid_at is None or is_given_back else Status.PAID


def show_paid(paid: Paid) -> PayReply:
    """Show what came of paying."""
    public, payment = paid.public, paid.transaction
    details, shown = _read_details(payment.details), show_payment(payment, public.now)
    card = details.card
    return PayReply(
        session_id=public.session.session_id,
        status=public.status,
        transaction_id=payment.transaction_id,
        amount=payment.amount,
        pix_qr_code=shown.pix_qr_code,
        pix_qr_code_image=shown.pix_qr_code_image,
        expires_at=shown.expires_at,
        boleto=details.boleto if is_alive(payment, public.now) else None,
        card=None
        if card is None
        else PaidCardReply(
            brand=card.brand,
            last_digits=card.last_digits,
            installments=payment.installments,
            installment_amount=details.installment_amount,
            interest_amount=details.interest_amount,
        ),
        success_url=public.session.success_url,
        payment=shown,
        refused_reason=details.refused_reason,
    )


def _item(item: LineItem) -> LineItemReply:
    return LineItemReply(
        snapshot_product_name=item.name,
        snapshot_image_url=item.image_url,
        unit_amount=item.unit_amount,
        quantity=item.quantity,
        currency=CURRENCY,
        sort_order=item.sort_order,
        product_id=item.product_id,
    )


def _coupon(coupon: AppliedCoupon | None) -> CouponReply | None:
    if coupon is None:
        return None
    return CouponReply(coupon.code, coupon.discount_type, coupon.applied_amount)


def _appearance(appearance: Appearance) -> AppearanceReply:
    return AppearanceReply(
        appearance_version=appearance.version,
        template=appearance.template,
        display_name=appearance.display_name,
        logo_url=appearance.logo_url,
        primary_color=appearance.primary_color,
        background_color=appearance.background_color,
        theme=appearance.theme,
        banners=[
            BannerReply(
                sort_order=banner.sort_order,
                image_url=banner.image_url,
                href=banner.href,
                title=banner.title,
                alt_text=banner.alt_text,
            )
            for banner in appearance.banners
        ],
    )
