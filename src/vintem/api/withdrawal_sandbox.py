"""The sandbox of withdrawals: makes happen what a second person or the provider would do."""

import msgspec

from vintem.api.body import validation_refusal
from vintem.api.call import Access, Answer, Call, Data, Route
from vintem.api.withdrawal_order import scope_of
from vintem.api.withdrawal_shapes import SimulateWithdrawalBody, WithdrawalReply
from vintem.companies.model import Environment, LimitGroup
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id
from vintem.providers.payout_simulator import OTHER_REASON, REASONS
from vintem.providers.payouts import Paid, Rejected
from vintem.resources import Resources
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.dispatch import order_of
from vintem.withdrawals.model import Failure, Status, Withdrawal
from vintem.withdrawals.record import record_of

FAILURE_CODE = "SIMULATED_FAILURE"


async def simulate_withdrawal(call: Call) -> Answer:
    """Force a legal move of a withdrawal."""
    if call.company.environment is not Environment.TEST:
        raise Refusal(ErrorCode.SANDBOX_ONLY)
    withdrawal_id, order = call.params["id"], call.body_as(SimulateWithdrawalBody)
    if not is_id(withdrawal_id, Prefix.WITHDRAWAL):
        raise Refusal(ErrorCode.WITHDRAWAL_NOT_FOUND)
    if order.failure_code is not None and order.status is not Status.FAILED:
        raise validation_refusal([{"field": "failureCode", "message": "is for failed only"}])
    resources, scope = call.resources, scope_of(call)
    found = await withdrawals.get(resources.database, scope, withdrawal_id)
    withdrawals.refuse_illegal(found, order.status)
    code = order.failure_code or FAILURE_CODE
    moved = await withdrawals.force(
        resources.database,
        scope,
        withdrawal_id,
        order.status,
        answer=await provider_s_word(resources, found, order.status, code),
        failure=failure_of(code),
        now=call.now,
    )
    destination = withdrawals.open_destination(resources.sealer, moved)
    return Data(msgspec.Raw(record_of(moved, destination)))


def failure_of(code: str) -> Failure:
    """Why a withdrawal failed, in the provider's words."""
    return Failure(code, REASONS.get(code, OTHER_REASON))


async def provider_s_word(
    resources: Resources, withdrawal: Withdrawal, status: Status, code: str
) -> Paid | Rejected | None:
    """Let the provider end what is on its way as was asked; it cannot take back what it did."""
    if withdrawal.status is not Status.PROCESSING:
        return None
    is_failed = status is Status.FAILED
    order = order_of(withdrawal, resources.sealer)
    answer = await resources.payouts.force(order, failure_code=code if is_failed else None)
    if isinstance(answer, Rejected) is not is_failed:
        raise Refusal(
            ErrorCode.INVALID_STATE,
            "The provider has ended this withdrawal in another way; it says so in a moment.",
            details={"status": withdrawal.status},
        )
    assert isinstance(answer, Paid | Rejected)
    return answer


ROUTES = (
    Route(
        method="POST",
        path="/v1/sandbox/withdrawals/{id}/simulate",
        handler=simulate_withdrawal,
        summary="Move a withdrawal",
        description=(
            "Moves a test withdrawal to `status`, as a second person or the provider would;"
            " `failureCode` says why it failed. Answers once the move, its postings and its event"
            " are committed."
        ),
        group="Sandbox",
        access=Access.SECRET_KEY,
        limit=LimitGroup.REQUESTS,
        body=SimulateWithdrawalBody,
        answer=WithdrawalReply,
        refusals=(
            ErrorCode.SANDBOX_ONLY,
            ErrorCode.WITHDRAWAL_NOT_FOUND,
            ErrorCode.INVALID_STATE,
        ),
    ),
)
