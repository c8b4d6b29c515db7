"""The receipt of a paid session, as a file: drawn when it is asked for, and kept a while."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from vintem.checkout.model import PageState, PublicSession
from vintem.hosted import words
from vintem.hosted.context import interest_of, order_reference, paid_of
from vintem.hosted.receipt_sheet import ReceiptSheet, SheetLine
from vintem.hosted.views import Language, Method, Paid

KEPT_MAX: Final = 200
DRAWN_AT_ONCE_MAX: Final = 1

Kept = OrderedDict[tuple[str, int, Language], bytes]

_kept: Final[Kept] = OrderedDict()
# A drawing takes tens of milliseconds, for which no other call shall wait.
_hand: Final = ThreadPoolExecutor(DRAWN_AT_ONCE_MAX, thread_name_prefix="receipt")


async def receipt_of(public: PublicSession, language: Language) -> bytes | None:
    """Give the receipt of a session as a PDF; nothing while it is not paid."""
    if public.page_state is not PageState.PAID:
        return None
    key = (public.session.session_id, public.state_version, language)
    content = _kept.get(key)
    if content is None:
        sheet = sheet_of(public, language)
        content = await asyncio.get_running_loop().run_in_executor(_hand, _draw, sheet)
        _kept[key] = content
        if len(_kept) > KEPT_MAX:
            _kept.popitem(last=False)
    return content


def _draw(sheet: ReceiptSheet) -> bytes:
    # Loaded by the thread that draws the first one: a process that draws none does without it.
    from vintem.hosted.receipt_page import draw_receipt  # noqa: PLC0415

    return draw_receipt(sheet)


def sheet_of(public: PublicSession, language: Language) -> ReceiptSheet:
    """Write a receipt out, line by line."""
    assert public.payment is not None, "what is paid has a payment"
    paid = paid_of(public, public.payment)
    say = words.CATALOGUES[language]
    return ReceiptSheet(
        language=language,
        title=say["paid.receipt"],
        seller=public.appearance.display_name,
        amount=words.money(paid.amount_cents),
        blocks=[
            _payment_lines(public, paid, language),
            _order_lines(public, paid, language),
            _people_lines(paid, language),
        ],
        footer=say["page.powered"],
        made_at=paid.paid_at,
        test_mark=say["test.receipt"] if public.environment == "test" else "",
    )


def _payment_lines(public: PublicSession, paid: Paid, language: Language) -> Sequence[SheetLine]:
    say = words.CATALOGUES[language]
    method = say[f"method.{paid.method}"]
    if paid.method is Method.CARD and paid.card_last_digits is not None:
        brand = (paid.card_brand or "").title()
        method += " · " + say["paid.card"].format(brand=brand, digits=paid.card_last_digits)
    lines = [
        SheetLine(say["paid.method"], method),
        SheetLine(say["paid.when"], words.moment(language, paid.paid_at)),
        SheetLine(say["paid.order"], order_reference(public)),
        SheetLine(say["paid.transaction"], paid.transaction_id),
    ]
    if paid.installments > 1 and paid.installment_cents is not None:
        each, first = words.money(paid.installment_cents), words.money(paid.first_installment_cents)
        text = (
            say["paid.installments_of"].format(n=paid.installments, amount=each)
            if first == each
            else say["paid.installments_first"].format(
                first=first, n=paid.installments - 1, amount=each
            )
        )
        lines.insert(1, SheetLine(say["paid.installments"], text))
    if paid.end_to_end_id is not None:
        lines.append(SheetLine(say["paid.end_to_end"], paid.end_to_end_id))
    if paid.refunded_at is not None:
        date, amount = words.moment(language, paid.refunded_at), words.money(paid.refunded_cents)
        is_whole = paid.refunded_cents == paid.amount_cents
        key = "paid.refunded" if is_whole else "paid.refunded_part"
        lines.append(SheetLine(say[key].format(date=date, amount=amount), "", is_wide=True))
    return lines


def _order_lines(public: PublicSession, paid: Paid, language: Language) -> Sequence[SheetLine]:
    say, session = words.CATALOGUES[language], public.session
    amounts = session.amounts
    lines = [
        SheetLine(
            f"{item.quantity} × {item.name}",
            words.money(item.quantity * item.unit_amount),
            is_wide=True,
        )
        for item in session.line_items
    ]
    if session.coupon is not None:
        text = say["summary.coupon"].format(code=session.coupon.code)
        lines.append(SheetLine(text, f"-{words.money(amounts.discount)}", is_wide=True))
    interest = interest_of(public)
    for key, cents in (
        ("summary.shipping", amounts.shipping),
        ("summary.additional", amounts.additional),
        ("summary.interest", interest),
    ):
        if cents > 0:
            lines.append(SheetLine(say[key], words.money(cents), is_wide=True))
    total = words.money(paid.amount_cents)
    return [*lines, SheetLine(say["summary.total"], total, is_strong=True, is_wide=True)]


def _people_lines(paid: Paid, language: Language) -> Sequence[SheetLine]:
    say = words.CATALOGUES[language]
    named = (
        ("paid.receiver", paid.receiver_name),
        ("paid.receiver_document", paid.receiver_document),
        ("paid.payer", paid.payer_name),
        ("paid.payer_document", paid.payer_document),
    )
    return [SheetLine(say[key], value) for key, value in named if value]
