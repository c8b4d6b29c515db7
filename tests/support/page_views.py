"""A sample of every page that buyers see, in any language and theme."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

import msgspec

from vintem.brazil.installments import CardInterest, installment_table
from vintem.brazil.qr_picture import draw_svg
from vintem.hosted import render, views
from vintem.hosted.views import Language, Theme

NOW = datetime(2026, 11, 15, 17, 21, tzinfo=UTC)
TOKEN = "Zk1x0y4Q2m9v7c5b3n8a6s1d0f2g4h6j8k0l1p3o5i7"
HERE = f"/s/{TOKEN}"
PIX_CODE = (
    "00020101021226830014br.gov.bcb.pix2561pix.exemplo.com.br/v2/cobv/"
    "9d36b84fc70b478fb95c12729b90ca25520400005303986540"
    "6129.905802BR5917LOJA EXEMPLO LTDA6009SAO PAULO62070503***63041D3D"
)
BOLETO_LINE = "99991234056789012345678901234567191070000012990"
TOTAL_CENTS = 129_90
STATE_VERSION = 3

SUMMARY = views.Summary(
    items=(
        views.Item(name="Curso de Violão para Iniciantes", quantity=1, unit_cents=109_90),
        views.Item(name="Apostila impressa", quantity=2, unit_cents=20_00),
    ),
    subtotal_cents=149_90,
    discount_cents=20_00,
    coupon_code="BEMVINDO",
    shipping_cents=0,
    total_cents=TOTAL_CENTS,
)
OPEN_SUMMARY = msgspec.structs.replace(SUMMARY, coupon=views.CouponBox())
NO_COUPON = msgspec.structs.replace(
    OPEN_SUMMARY,
    items=(views.Item(name="Curso de Violão para Iniciantes", quantity=1, unit_cents=129_90),),
    subtotal_cents=TOTAL_CENTS,
    discount_cents=0,
    coupon_code=None,
    shipping_cents=None,
)
CARD = views.CardOffer(
    options=tuple(
        installment_table(
            TOTAL_CENTS, CardInterest(monthly_rate_basis_points=299, free_installments=3)
        )
    )
)
OPEN = views.Open(
    form_nonce="n-1",
    methods=tuple(views.Method),
    chosen=views.Method.PIX,
    typed=views.Typed(name="Maria da Silva", email="maria@exemplo.com.br"),
    card=CARD,
)
RETURN_URL = "https://loja.exemplo.com.br/obrigado?session=cs_1"


@lru_cache
def qr_svg() -> str:
    """Draw the code of the sample."""
    return draw_svg(PIX_CODE).decode()


def states() -> Mapping[str, views.State]:
    """One state of each kind, and the variants that look different."""
    pix = views.PixShown(
        code=PIX_CODE,
        qr_svg=qr_svg(),
        receiver_name="LOJA EXEMPLO LTDA",
        amount_cents=TOTAL_CENTS,
        expires_at=NOW + timedelta(seconds=581),
        expires_in_seconds=581,
    )
    paid = views.Paid(
        amount_cents=TOTAL_CENTS,
        method=views.Method.PIX,
        paid_at=NOW,
        transaction_id="tx_01jcq3v7z8m2n4p6r8s0t2v4w6",
        receiver_name="LOJA EXEMPLO LTDA",
        receiver_document="11.222.333/0001-81",
        payer_name="Maria da Silva",
        payer_document="***.982.247-**",
        end_to_end_id="E99999999202611151721a1b2c3d4e5f",
        return_url=RETURN_URL,
        redirects=True,
        pdf_url=f"{HERE}/receipt.pdf",
    )
    replace = msgspec.structs.replace
    return {
        "open": OPEN,
        "open_card": replace(OPEN, chosen=views.Method.CARD),
        "open_boleto": replace(OPEN, chosen=views.Method.BOLETO),
        "open_errors": replace(
            OPEN,
            chosen=views.Method.CARD,
            errors=(
                views.FieldError(field=views.Field.NAME, problem=views.Problem.NAME_INVALID),
                views.FieldError(
                    field=views.Field.DOCUMENT, problem=views.Problem.DOCUMENT_INVALID
                ),
                views.FieldError(
                    field=views.Field.CARD_NUMBER, problem=views.Problem.CARD_NUMBER_INVALID
                ),
            ),
        ),
        "declined": replace(
            OPEN, chosen=views.Method.CARD, decline=views.Decline.INSUFFICIENT_FUNDS
        ),
        "refused": replace(
            OPEN,
            refused=views.Refused(notice=views.Notice.TOO_MANY_ATTEMPTS, wait_seconds=42),
        ),
        "coupon_applied": replace(OPEN, coupon_applied_cents=20_00),
        "pix_shown": pix,
        "pix_checked": replace(pix, was_checked=True, expires_at=NOW + timedelta(hours=20)),
        "pix_expired": views.PixExpired(amount_cents=TOTAL_CENTS),
        "boleto_shown": views.BoletoShown(
            amount_cents=TOTAL_CENTS,
            due_date=date(2026, 11, 18),
            digitable_line=BOLETO_LINE,
            pdf_url="/v1/boletos/abc.pdf",
            pix_code=PIX_CODE,
            pix_qr_svg=qr_svg(),
        ),
        "processing": views.Processing(amount_cents=TOTAL_CENTS),
        "processing_slow": views.Processing(amount_cents=TOTAL_CENTS, seconds_so_far=90),
        "in_review": views.InReview(amount_cents=TOTAL_CENTS, return_url=RETURN_URL),
        "paid": paid,
        "paid_card": replace(
            paid,
            method=views.Method.CARD,
            amount_cents=156_48,
            end_to_end_id=None,
            card_brand="mastercard",
            card_last_digits="4242",
            installments=12,
            installment_cents=13_04,
        ),
        "refunded": replace(paid, refunded_at=NOW + timedelta(days=2), refunded_cents=TOTAL_CENTS),
        "expired": views.Expired(can_restart=True, return_url=RETURN_URL),
        "cancelled": views.Cancelled(cancelled_at=NOW, return_url=RETURN_URL),
        "link_landing": views.LinkLanding(
            item=SUMMARY.items[0],
            page_url="https://pagar.exemplo.com.br/l/abc",
            image_url="https://pagar.exemplo.com.br/media/abc.png",
            message="Acesso na hora.\nTire suas dúvidas com a gente.",
            submits_itself=False,
        ),
        "link_inactive": views.LinkInactive(),
    }


def brand(theme: Theme = Theme.LIGHT, **changes: str) -> views.Brand:
    """Dress the pages as a shop would."""
    plain = views.Brand(name="Loja Exemplo", theme=theme)
    return msgspec.structs.replace(plain, **changes)


def summary_of(name: str) -> views.Summary | None:
    """Say what is bought on a page."""
    if name.startswith("link"):
        return None
    if name in {"open_card", "open_errors", "refused"}:
        return NO_COUPON
    if name == "paid_card":
        return msgspec.structs.replace(SUMMARY, interest_cents=26_58)
    if name.startswith(("open", "coupon", "declined")):
        return OPEN_SUMMARY
    return SUMMARY


POLLED = ("open", "pix", "boleto", "processing", "in_review", "expired", "declined")


def page(
    name: str,
    language: Language = Language.PORTUGUESE,
    theme: Theme = Theme.LIGHT,
    *,
    dressed: views.Brand | None = None,
    is_test: bool = False,
) -> views.Page:
    """Make the page of a state."""
    poll = views.Poll(
        url=f"/v1/checkout/sessions/{TOKEN}?poll=1",
        state_version=STATE_VERSION,
        expires_in_seconds=3_000,
    )
    frame = views.Frame(
        here="/l/abc" if name.startswith("link") else HERE,
        nonce="r4nd0m",
        language=language,
        brand=dressed or brand(theme),
        contact=views.Contact(email="ajuda@loja.exemplo.com.br", phone="+551133334444"),
        is_test=is_test,
        order_reference="8F3K-22",
        back_url="https://loja.exemplo.com.br/carrinho",
        poll=poll if name.startswith(POLLED) else None,
        simulations=tuple(views.Simulation) if is_test else (),
    )
    return views.Page(frame=frame, state=states()[name], summary=summary_of(name))


def plain_page(name: str, language: Language = Language.PORTUGUESE) -> views.PlainPage:
    """Make one of the two pages that know of no merchant."""
    request_id = "req_1763225000000_a1b2c3d4e" if name == "error" else None
    return views.PlainPage(nonce="r4nd0m", language=language, here=HERE, request_id=request_id)


PLAIN = ("not_found", "error")


def names() -> tuple[str, ...]:
    """Every page there is."""
    return (*states(), *PLAIN)


def html(name: str, language: Language, theme: Theme, *, is_test: bool = False) -> str:
    """Render a page."""
    if name in PLAIN:
        return render.render_plain_page(plain_page(name, language)).decode()
    return render.render_page(page(name, language, theme, is_test=is_test)).decode()


def every_page() -> Iterator[tuple[str, Language, Theme]]:
    """Every page in every language and theme."""
    for name in names():
        for language in Language:
            for theme in Theme:
                yield name, language, theme
