"""The Transactions group."""

from datetime import timedelta
from typing import Final

import msgspec

from vintem.api.call import Access, Answer, Body, Call, Data, Processed, Route
from vintem.api.paging import read_page, shown_pagination
from vintem.api.transaction_order import (
    CustomerDocument,
    filter_of,
    prepare,
    scope_of,
    unseal_document,
)
from vintem.api.transaction_shapes import (
    RefundBody,
    RefundReply,
    TransactionBody,
    TransactionList,
    TransactionListReply,
    TransactionQuery,
    TransactionReply,
)
from vintem.companies.model import ImplicitProtection, LimitGroup
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id
from vintem.kit.intent import Intent, IntentSource
from vintem.transactions import implicit
from vintem.transactions import service as transactions
from vintem.transactions.batches import Created, Creation
from vintem.transactions.model import Refund, Transaction
from vintem.transactions.record import record_of, refund_record


class CancelBody(Body, frozen=True):
    """Nothing needs to be said."""


IN_FLIGHT_MAX: Final = timedelta(seconds=30)
"""After so long a first call that got no answer will not give one any more."""
IN_FLIGHT_RETRY_SECONDS: Final = 1
ANSWER_SECONDS_MAX: Final = 1.0


async def create_transaction(call: Call) -> Answer:
    """Create a payment once an intent."""
    intent = call.intent
    assert intent is not None
    protection = call.company.implicit_protection
    if protection is not ImplicitProtection.OFF and intent.source is IntentSource.GENERATED:
        return await _create_unless_repeated(call, intent, protection)
    try:
        creation, document = await prepare(call, call.body_as(TransactionBody), intent)
        created = await call.resources.transactions.create(creation, intent)
    except Refusal as refusal:
        # A recorded key replays, whatever the checks say today; a form that is wrong comes first.
        if intent.source is not IntentSource.CLIENT or refusal.code is ErrorCode.VALIDATION_ERROR:
            raise
        earlier = await transactions.find_replay(call.resources.database, scope_of(call), intent)
        if earlier is None:
            raise
        return await _replay(call, earlier)
    if created.is_replay:
        return await _replay(call, created.transaction)
    return _created(creation, created, document)


async def _create_unless_repeated(
    call: Call, intent: Intent, protection: ImplicitProtection
) -> Answer:
    """Create a payment for a company that wants to hear of repetitions, or to be kept from them."""
    database, scope = call.resources.database, scope_of(call)
    is_enforced = protection is ImplicitProtection.ENFORCE
    # Before the checks: what was accepted moments ago is answered although its card token is spent.
    earlier = await implicit.find(database, scope, intent, now=call.now) if is_enforced else None
    if earlier is not None:
        return await _replay_implicit(call, earlier)
    try:
        creation, document = await prepare(call, call.body_as(TransactionBody), intent)
        created = await call.resources.transactions.create(creation, intent, protection)
    except Refusal:
        # A twin that was faster may have spent the token in the meantime.
        if is_enforced:
            earlier = await implicit.find(database, scope, intent, now=call.now)
        if earlier is None:
            raise
        return await _replay_implicit(call, earlier)
    if created.is_replay:
        return await _replay_implicit(call, created.transaction)
    return _created(creation, created, document)


async def read_transaction(call: Call) -> Answer:
    """Show a payment as it stands."""
    transaction = await _find(call)
    return Data(msgspec.Raw(await _shown(call, transaction)))


async def list_transactions(call: Call) -> Answer:
    """List payments, the newest first."""
    query = call.query_as(TransactionQuery)
    page = read_page(page=query.page, page_size=query.page_size, cursor=query.cursor)
    listed = await call.resources.transactions.list(filter_of(call, query), page, now=call.now)
    where = shown_pagination(page, counted_rows=listed.counted_rows, next_cursor=listed.next_cursor)
    return Data(
        TransactionList(
            transactions=[msgspec.Raw(record) for record in listed.records],
            pagination=where,
        )
    )


async def refund_transaction(call: Call) -> Answer:
    """Give money back once an intent."""
    order, intent = call.body_as(RefundBody), call.intent
    assert intent is not None
    refund, is_replay = await call.resources.transactions.refund(
        scope_of(call),
        transaction_id_of(call),
        intent,
        amount=order.amount,
        reason=order.reason,
        now=call.now,
        correlation_id=call.correlation_id,
    )
    processed = Processed(is_replay=is_replay, at=refund.created_at)
    return Data(_raw_refund(refund), 200 if is_replay else 201, processed)


async def cancel_transaction(call: Call) -> Answer:
    """Cancel a payment that nobody has made yet."""
    transaction = await call.resources.transactions.cancel(
        scope_of(call), transaction_id_of(call), now=call.now
    )
    return Data(msgspec.Raw(await _shown(call, transaction)))


def _created(creation: Creation, created: Created, document: CustomerDocument) -> Answer:
    shown = document.written_into(created.record or creation.record)
    processed_at = created.transaction.processed_at
    assert processed_at is not None, "what was created has its first answer"
    return Data(msgspec.Raw(shown), 201, Processed(is_replay=False, at=processed_at))


async def _replay_implicit(call: Call, transaction: Transaction) -> Answer:
    key, digest = transaction.idempotency_key, transaction.fingerprint
    call.intent = Intent(key, IntentSource.IMPLICIT, digest)
    return await _replay(call, transaction)


async def _replay(call: Call, transaction: Transaction) -> Answer:
    if transaction.processed_at is None and call.now - transaction.created_at < IN_FLIGHT_MAX:
        transaction = await transactions.find_processed(
            call.resources.database, transaction, seconds_max=ANSWER_SECONDS_MAX
        )
        if transaction.processed_at is None:
            raise Refusal(
                ErrorCode.IDEMPOTENCY_IN_PROGRESS, retry_after_seconds=IN_FLIGHT_RETRY_SECONDS
            )
    at = transaction.processed_at or transaction.created_at
    processed = Processed(is_replay=True, at=at)
    return Data(msgspec.Raw(await _shown(call, transaction)), 200, processed)


async def _find(call: Call) -> Transaction:
    return await transactions.get(call.resources.database, scope_of(call), transaction_id_of(call))


def transaction_id_of(call: Call) -> str:
    """The id in the path; one of the wrong form is simply unknown."""
    transaction_id = call.params["id"]
    if not is_id(transaction_id, Prefix.TRANSACTION):
        raise Refusal(ErrorCode.TRANSACTION_NOT_FOUND)
    return transaction_id


async def _shown(call: Call, transaction: Transaction) -> bytes:
    refunds = await transactions.refunds_of(call.resources.database, [transaction])
    document = unseal_document(call.resources.sealer, transaction)
    return record_of(transaction, refunds, document=document)


def _raw_refund(refund: Refund) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(refund_record(refund)))


ROUTES = (
    Route(
        method="POST",
        path="/v1/transactions",
        handler=create_transaction,
        summary="Create a transaction",
        description=(
            "Creates a payment. For PIX, `pixQrCode` is the code to copy and paste and"
            " `pixQrCodeImage` the address of its picture; for boleto, `boletoUrl` is the address"
            " of the page to print. Send `X-Idempotency-Key`, and the same key when you try again."
        ),
        group="Transactions",
        access=Access.SECRET_KEY,
        limit=LimitGroup.TRANSACTIONS,
        body=TransactionBody,
        answer=TransactionReply,
        answer_status=201,
        is_idempotent=True,
        refusals=(
            ErrorCode.AMOUNT_BELOW_MINIMUM,
            ErrorCode.AMOUNT_ABOVE_MAXIMUM,
            ErrorCode.INVALID_DOCUMENT,
            ErrorCode.INVALID_DUE_DATE,
            ErrorCode.INVALID_INSTALLMENTS,
            ErrorCode.INVALID_CARD,
            ErrorCode.CARD_TOKEN_INVALID,
            ErrorCode.RAW_CARD_NOT_ALLOWED,
            ErrorCode.ITEMS_TOTAL_MISMATCH,
            ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE,
            ErrorCode.INVALID_URL,
            ErrorCode.PROVIDER_NOT_CONFIGURED,
        ),
    ),
    Route(
        method="GET",
        path="/v1/transactions",
        handler=list_transactions,
        summary="List transactions",
        description=(
            "The newest first. `status` takes a list separated by commas; `startDate` and `endDate`"
            " take business days or public times, both inclusive. Go on with `nextCursor`."
        ),
        group="Transactions",
        access=Access.SECRET_KEY,
        limit=LimitGroup.TRANSACTIONS,
        query=TransactionQuery,
        answer=TransactionListReply,
    ),
    Route(
        method="GET",
        path="/v1/transactions/{id}",
        handler=read_transaction,
        summary="Read a transaction",
        group="Transactions",
        access=Access.SECRET_KEY,
        limit=LimitGroup.TRANSACTIONS,
        answer=TransactionReply,
        refusals=(ErrorCode.TRANSACTION_NOT_FOUND,),
    ),
    Route(
        method="POST",
        path="/v1/transactions/{id}/refund",
        handler=refund_transaction,
        summary="Refund a transaction",
        description=(
            "Gives back `amount`, or all that is left. A part keeps the transaction `paid`; the"
            " whole makes it `refunded`. Never refused for a short balance. The fee is not"
            " returned. PIX up to 90 days after the payment."
        ),
        group="Transactions",
        access=Access.SECRET_KEY,
        limit=LimitGroup.TRANSACTIONS,
        body=RefundBody,
        is_body_optional=True,
        answer=RefundReply,
        answer_status=201,
        is_idempotent=True,
        refusals=(
            ErrorCode.TRANSACTION_NOT_FOUND,
            ErrorCode.AMOUNT_BELOW_MINIMUM,
            ErrorCode.AMOUNT_ABOVE_MAXIMUM,
            ErrorCode.TRANSACTION_NOT_REFUNDABLE,
            ErrorCode.TRANSACTION_UNDER_DISPUTE,
            ErrorCode.REFUND_EXCEEDS_AMOUNT,
            ErrorCode.REFUND_WINDOW_EXPIRED,
        ),
    ),
    Route(
        method="POST",
        path="/v1/transactions/{id}/cancel",
        handler=cancel_transaction,
        summary="Cancel a transaction",
        description="Cancels a pending PIX or boleto.",
        group="Transactions",
        access=Access.SECRET_KEY,
        limit=LimitGroup.TRANSACTIONS,
        body=CancelBody,
        is_body_optional=True,
        answer=TransactionReply,
        refusals=(ErrorCode.TRANSACTION_NOT_FOUND, ErrorCode.INVALID_STATE),
    ),
)
