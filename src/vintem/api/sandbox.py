"""The sandbox: makes happen what buyers, banks and analysts would do."""

import msgspec

from vintem.api.call import Access, Answer, Body, Call, Data, Route
from vintem.api.transaction_order import scope_of, unseal_document
from vintem.api.transaction_shapes import TransactionReply
from vintem.companies.model import Environment, LimitGroup
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id
from vintem.transactions import service as transactions
from vintem.transactions.model import PaymentMethod, Status
from vintem.transactions.record import record_of


class SimulateBody(Body, frozen=True):
    """Where the record shall go."""

    status: Status


async def simulate_transaction(call: Call) -> Answer:
    """Force a legal move of a payment."""
    if call.company.environment is not Environment.TEST:
        raise Refusal(ErrorCode.SANDBOX_ONLY)
    transaction_id = call.params["id"]
    if not is_id(transaction_id, Prefix.TRANSACTION):
        raise Refusal(ErrorCode.TRANSACTION_NOT_FOUND)
    resources = call.resources
    moved = await resources.transactions.move(
        scope_of(call), transaction_id, call.body_as(SimulateBody).status, now=call.now
    )
    if moved.payment_method is PaymentMethod.CREDIT_CARD:
        # The acquirer had plans of its own for it: somebody else has decided now.
        await resources.simulator.forget(moved.company_id, transaction_id)
    refunds = await transactions.refunds_of(resources.database, [moved])
    document = unseal_document(resources.sealer, moved)
    return Data(msgspec.Raw(record_of(moved, refunds, document=document)))


ROUTES = (
    Route(
        method="POST",
        path="/v1/sandbox/transactions/{id}/simulate",
        handler=simulate_transaction,
        summary="Move a transaction",
        description=(
            "Moves a test transaction to `status`, as the buyer, the bank or an analyst would."
            " Answers once the move, its postings and its event are committed. A PIX is refunded"
            " here no later than by a refund: up to 90 days after the payment."
        ),
        group="Sandbox",
        access=Access.SECRET_KEY,
        limit=LimitGroup.REQUESTS,
        body=SimulateBody,
        answer=TransactionReply,
        refusals=(
            ErrorCode.SANDBOX_ONLY,
            ErrorCode.TRANSACTION_NOT_FOUND,
            ErrorCode.INVALID_STATE,
            ErrorCode.REFUND_WINDOW_EXPIRED,
        ),
    ),
)
