"""What happens to sessions: opened, priced, paid and cancelled."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from vintem.checkout import attempt_store, attempts, catalogue_store, moves, public_store, store
from vintem.checkout.attempts import NewAttempt, lock_with_payment, refuse_over
from vintem.checkout.link import PaymentLink
from vintem.checkout.model import (
    COUPON_LOCK,
    SESSION_LIFETIME,
    WRONG_CODES_MAX,
    Amounts,
    Appearance,
    AppliedCoupon,
    Buyer,
    Coupon,
    LineItem,
    Merchant,
    PublicSession,
    Session,
    SessionStatus,
    amounts_of,
    digest_of,
    is_under_way,
    normal_code,
)
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id, new_token
from vintem.kit.intent import Intent, IntentReused
from vintem.kit.money import AMOUNT_CENTS_MAX, AMOUNT_CENTS_MIN
from vintem.ledger.model import Scope
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection, Database
from vintem.transactions import moves as payment_moves
from vintem.transactions.batches import Created, Creation
from vintem.transactions.model import PaymentMethod, Status, StatusReason, Transaction
from vintem.transactions.service import Transactions
from vintem.webhooks import service as webhooks

BUYER_PURPOSE: Final = b"buyer of a session"


class WantedItem(msgspec.Struct, frozen=True):
    """A product that shall be bought, and how many."""

    product_id: str
    quantity: int = 1
    sort_order: int = 0


class NewSession(msgspec.Struct, frozen=True):
    """What a session shall be."""

    scope: Scope
    items: Sequence[WantedItem]
    expires_at: datetime | None = None
    success_url: str | None = None
    cancel_url: str | None = None
    buyer: Buyer | None = None
    coupon_code: str | None = None
    shipping_amount: int = 0
    additional_amount: int = 0
    external_ref: str | None = None
    postback_url: str | None = None
    metadata: Mapping[str, str | int | float | bool | None] = msgspec.field(default_factory=dict)
    link_id: str | None = None
    offered_methods: Sequence[PaymentMethod] = ()
    installments_limit: int | None = None
    correlation_id: str = ""


class Opened(msgspec.Struct, frozen=True):
    """A session just opened, with its token, or the one that the intent opened before."""

    session: Session
    token: str | None
    """Shown this once; kept nowhere."""


async def create_session(
    database: Database, sealer: Sealer, wanted: NewSession, intent: Intent, *, now: datetime
) -> Opened:
    """Open a session once an intent."""
    scope = wanted.scope
    line_items = await _find_items(database, scope, wanted.items)
    amounts = amounts_of(
        line_items, shipping=wanted.shipping_amount, additional=wanted.additional_amount
    )
    check_total(amounts)
    coupon = None
    if wanted.coupon_code is not None:
        applied = await _usable(database, scope, wanted.coupon_code, amounts, line_items, now=now)
        if applied is None:
            raise Refusal(ErrorCode.COUPON_INVALID)
        coupon, amounts = applied
    appearance = await catalogue_store.find_newest_appearance(database, scope)
    token = new_token()
    session = Session(
        company_id=scope.company_id,
        session_id=new_id(Prefix.SESSION),
        environment=scope.environment,
        token_digest=digest_of(token),
        status=SessionStatus.OPEN,
        sequence=1,
        state_version=1,
        line_items=line_items,
        amounts=amounts,
        created_at=now,
        updated_at=now,
        expires_at=wanted.expires_at or now + SESSION_LIFETIME,
        idempotency_key=intent.key,
        fingerprint=intent.fingerprint,
        coupon=coupon,
        link_id=wanted.link_id,
        appearance_version=None if appearance is None else appearance.version,
        success_url=wanted.success_url,
        cancel_url=wanted.cancel_url,
        external_ref=wanted.external_ref,
        postback_url=wanted.postback_url,
        metadata=wanted.metadata,
        buyer_sealed=None if wanted.buyer is None else seal_buyer(sealer, wanted.buyer),
        offered_methods=wanted.offered_methods,
        installments_limit=wanted.installments_limit,
    )

    async def insert(block: Connection) -> bool:
        is_new = await store.insert(block, session)
        if is_new:
            change = moves.change_of(session, None, now=now, correlation_id=wanted.correlation_id)
            await webhooks.record(block, [change])
        return is_new

    if await database.atomically(insert):
        return Opened(session, token)
    earlier = await find_replay(database, scope, intent)
    assert earlier is not None, "the key is taken"
    return Opened(earlier, None)


async def find_session(db: Connection, scope: Scope, session_id: str) -> Session | None:
    """Find a session by its id, as its company does."""
    return await store.find(db, scope, session_id)


async def find_replay(db: Connection, scope: Scope, intent: Intent) -> Session | None:
    """Find the session that an intent opened before; refuse the key of another intent."""
    session = await store.find_by_key(db, scope, intent.key)
    if session is not None and session.fingerprint != intent.fingerprint:
        raise IntentReused(session.created_at)
    return session


async def find_link(
    db: Connection, public_token: str
) -> tuple[PaymentLink, Merchant, Appearance] | None:
    """Find a payment link by its public token, active or not."""
    return await public_store.find_link(db, public_token)


async def open_link(
    database: Database,
    sealer: Sealer,
    link: PaymentLink,
    *,
    now: datetime,
    buyer: Buyer | None = None,
    correlation_id: str = "",
) -> Opened:
    """Open a session for a buyer who came by a payment link."""
    if not link.is_open_at(now):
        raise Refusal(ErrorCode.PAYMENT_LINK_INACTIVE)
    scope, coupon = Scope(link.company_id, link.environment), None
    if link.coupon_id is not None:
        coupon = await catalogue_store.find_coupon(database, scope, link.coupon_id)
    wanted = NewSession(
        scope=scope,
        items=[WantedItem(link.product_id, link.quantity)],
        success_url=link.success_url,
        cancel_url=link.cancel_url,
        buyer=buyer,
        link_id=link.link_id,
        coupon_code=None if coupon is None else coupon.code,
        offered_methods=link.payment_methods,
        installments_limit=link.installments_max,
        correlation_id=correlation_id,
    )
    try:
        return await _create_by_link(database, sealer, wanted, now=now)
    except Refusal as refusal:
        if refusal.code is ErrorCode.PRODUCT_NOT_FOUND:
            # What it sells is not sold any more.
            raise Refusal(ErrorCode.PAYMENT_LINK_INACTIVE) from None
        raise


async def _create_by_link(
    database: Database, sealer: Sealer, wanted: NewSession, *, now: datetime
) -> Opened:
    """Open a session of a link; one whose coupon is over is sold without it."""
    intent = payment_moves.generated_intent()
    try:
        return await create_session(database, sealer, wanted, intent, now=now)
    except Refusal as refusal:
        if refusal.code is not ErrorCode.COUPON_INVALID:
            raise
    without = replace(wanted, coupon_code=None)
    return await create_session(database, sealer, without, intent, now=now)


async def read_public(db: Connection, token: str, now: datetime) -> PublicSession | None:
    """Read all that is shown of a session; nothing for an unknown token."""
    digest = digest_of(token)
    key = (await public_store.find_sessions(db, [digest])).get(digest)
    return None if key is None else await public_store.find_public(db, key, now=now)


async def read_again(db: Connection, session: Session, now: datetime) -> PublicSession:
    """Read all that is shown of a session that was found before."""
    key = session.company_id, session.session_id
    found = await public_store.find_public(db, key, now=now)
    assert found is not None, "sessions are never deleted"
    return found


async def pay(
    transactions_: Transactions,
    session: Session,
    creation: Creation,
    intent: Intent,
    buyer_sealed: bytes,
    *,
    now: datetime,
) -> Created:
    """Create a payment of a session, or give the one that already stands for it.

    Raises SessionChangedError when the session was priced anew since it was read.
    """
    made = creation.new.transaction
    assert made.checkout_session_id == session.session_id
    attempt = NewAttempt(session, made, intent, buyer_sealed, creation.new.document_digest)
    begin = attempts.begin(attempt, now=now)
    # The payment has a key of its own: a buyer's is about the session, not about the company.
    own = Intent(made.idempotency_key, intent.source, made.fingerprint)
    return await transactions_.create_for_session(creation, own, begin)


async def find_paid_before(db: Connection, session: Session, intent: Intent) -> Transaction | None:
    """Find the payment that an intent made for a session before; refuse the key of another."""
    return await attempts.find_earlier(db, session, intent)


async def apply_coupon(
    database: Database, session: Session, code: str, *, now: datetime
) -> Session:
    """Price a session anew with a coupon; a code that waits to be paid is superseded."""

    async def apply(block: Connection) -> Session | Refusal:
        locked, payment = await _lock_to_price(block, session, now=now)
        if locked.coupon_locked_until is not None and now < locked.coupon_locked_until:
            raise _locked_coupon(locked.coupon_locked_until, now)
        if locked.coupon is not None and locked.coupon.code == normal_code(code):
            return locked
        whole = replace(locked.amounts, discount=0)
        applied = await _usable(
            block, locked.scope, code, whole, locked.line_items, now=now, session=locked
        )
        if applied is None:
            # Told after the commit: a wrong code counts.
            await store.update(block, _after_wrong_code(locked, now=now))
            return Refusal(ErrorCode.COUPON_INVALID)
        return await _price(block, locked, payment, applied, now=now)

    outcome = await database.atomically(apply)
    if isinstance(outcome, Refusal):
        raise outcome
    return outcome


async def remove_coupon(database: Database, session: Session, *, now: datetime) -> Session:
    """Price a session anew without a coupon."""

    async def remove(block: Connection) -> Session:
        locked, payment = await _lock_to_price(block, session, now=now)
        whole = replace(locked.amounts, discount=0)
        return await _price(block, locked, payment, (None, whole), now=now)

    return await database.atomically(remove)


async def choose_another_way(database: Database, session: Session, *, now: datetime) -> Session:
    """Let a buyer choose again how to pay; a code that waits to be paid is superseded."""

    async def choose(block: Connection) -> Session:
        locked, payment = await _lock_to_price(block, session, now=now)
        if payment is None:
            return locked
        locked = await _without_pending(block, locked, payment, now=now)
        chosen = replace(
            locked, transaction_id=None, state_version=locked.state_version + 1, updated_at=now
        )
        await store.update(block, chosen)
        return chosen

    return await database.atomically(choose)


async def cancel_session(
    database: Database,
    scope: Scope,
    session_id: str,
    *,
    now: datetime,
    also: Callable[[Connection], Awaitable[None]] | None = None,
) -> Session:
    """Cancel a session and what waits to be paid for it; `also` takes part in the commit."""

    async def cancel(block: Connection) -> Session:
        if await store.find(block, scope, session_id) is None:
            raise Refusal(ErrorCode.SESSION_NOT_FOUND)
        locked, payment = await lock_with_payment(block, scope, session_id)
        refuse_over(locked, now=now)
        if payment is not None and payment.status is Status.PENDING:
            reason = StatusReason.MERCHANT
            await payment_moves.move(block, payment, Status.CANCELLED, reason, now=now)
            locked, _ = await lock_with_payment(block, scope, session_id)
        over = replace(locked, state_version=locked.state_version + 1, updated_at=now, due_at=None)
        cancelled = await moves.write(block, over, [SessionStatus.CANCELLED], now=now)
        if also is not None:
            await also(block)
        return cancelled

    return await database.atomically(cancel)


def check_total(amounts: Amounts) -> None:
    """Refuse a total that cannot be paid."""
    if amounts.total < AMOUNT_CENTS_MIN:
        raise Refusal(ErrorCode.AMOUNT_BELOW_MINIMUM, details={"minimum": AMOUNT_CENTS_MIN})
    if amounts.total > AMOUNT_CENTS_MAX:
        raise Refusal(ErrorCode.AMOUNT_ABOVE_MAXIMUM, details={"maximum": AMOUNT_CENTS_MAX})


def seal_buyer(sealer: Sealer, buyer: Buyer) -> bytes:
    """Keep what is known of a buyer so that nobody reads it at rest."""
    return sealer.seal(msgspec.json.encode(buyer), purpose=BUYER_PURPOSE)


def open_buyer(sealer: Sealer, session: Session) -> Buyer:
    """Read what is known of a session's buyer; nothing of it, where nothing is."""
    if session.buyer_sealed is None:
        return Buyer()
    plain = sealer.open(session.buyer_sealed, purpose=BUYER_PURPOSE)
    assert plain is not None, "sealed with another pepper"
    return msgspec.json.decode(plain, type=Buyer)


async def _find_items(
    db: Connection, scope: Scope, wanted: Sequence[WantedItem]
) -> Sequence[LineItem]:
    found = {
        product.product_id: product
        for product in await catalogue_store.find_products(
            db, scope, [item.product_id for item in wanted]
        )
        if product.is_active
    }
    line_items = []
    for item in wanted:
        product = found.get(item.product_id)
        if product is None:
            raise Refusal(ErrorCode.PRODUCT_NOT_FOUND, details={"productId": item.product_id})
        line_items.append(
            LineItem(
                product_id=product.product_id,
                name=product.name,
                unit_amount=product.unit_amount,
                quantity=item.quantity,
                sort_order=item.sort_order,
                image_url=product.image_url,
                image_media=product.image_media,
            )
        )
    return tuple(sorted(line_items, key=lambda item: item.sort_order))


Applied = tuple[AppliedCoupon | None, Amounts]


async def _usable(
    db: Connection,
    scope: Scope,
    code: str,
    amounts: Amounts,
    line_items: Sequence[LineItem],
    *,
    now: datetime,
    session: Session | None = None,
) -> Applied | None:
    """Price amounts with the coupon of a code; nothing when there is none that may be used."""
    kept_code = normal_code(code)
    if kept_code is None:
        return None
    coupon = await catalogue_store.find_coupon_by_code(db, scope, kept_code)
    if coupon is None:
        return None
    if session is not None:
        if await attempt_store.find_holder(db, scope, session.session_id, coupon.coupon_id):
            # What the session holds itself is left for it.
            coupon = replace(coupon, redemptions=coupon.redemptions - 1)
        payer = await attempt_store.find_payer(db, session)
        if await attempts.is_used_up_by(db, session, coupon, payer):
            return None
    if not coupon.is_usable(amounts.subtotal, now=now):
        return None
    return _priced(coupon, amounts, line_items)


def _priced(coupon: Coupon, amounts: Amounts, line_items: Sequence[LineItem]) -> Applied | None:
    discount = coupon.discount_of(amounts, line_items)
    if discount == 0:
        return None
    applied = AppliedCoupon(coupon.coupon_id, coupon.code, coupon.discount_type, discount)
    return applied, replace(amounts, discount=discount)


async def _lock_to_price(
    block: Connection, session: Session, *, now: datetime
) -> tuple[Session, Transaction | None]:
    locked, payment = await lock_with_payment(block, session.scope, session.session_id)
    refuse_over(locked, now=now)
    if payment is not None and is_under_way(payment):
        raise Refusal(
            ErrorCode.INVALID_STATE,
            "A payment is being decided.",
            details={"status": payment.status},
        )
    return locked, payment


async def _price(
    block: Connection,
    session: Session,
    payment: Transaction | None,
    applied: Applied,
    *,
    now: datetime,
) -> Session:
    coupon, amounts = applied
    if coupon == session.coupon:
        return session
    # What is paid must never be another amount than what is shown.
    session = await _without_pending(block, session, payment, now=now)
    priced = replace(
        session,
        coupon=coupon,
        amounts=amounts,
        state_version=session.state_version + 1,
        updated_at=now,
    )
    await store.update(block, priced)
    return priced


async def _without_pending(
    block: Connection, session: Session, payment: Transaction | None, *, now: datetime
) -> Session:
    if payment is None or payment.status is not Status.PENDING:
        return session
    await attempts.end_payment(block, payment, now=now)
    again = await store.lock(block, session.scope, session.session_id)
    assert again is not None
    return again


def _after_wrong_code(session: Session, *, now: datetime) -> Session:
    was_locked = session.coupon_locked_until is not None
    wrong = 1 if was_locked else session.wrong_codes + 1
    return replace(
        session,
        wrong_codes=wrong,
        coupon_locked_until=now + COUPON_LOCK if wrong >= WRONG_CODES_MAX else None,
    )


def _locked_coupon(until: datetime, now: datetime) -> Refusal:
    seconds = max(1, int((until - now).total_seconds()) + 1)
    return Refusal(ErrorCode.COUPON_LOCKED, retry_after_seconds=seconds)
