"""The Withdrawals group."""

import msgspec

from vintem.api.call import Access, Answer, Body, Call, Data, Processed, Route
from vintem.api.paging import read_page, shown_pagination
from vintem.api.withdrawal_order import filter_of, prepare, scope_of
from vintem.api.withdrawal_shapes import (
    WithdrawalBody,
    WithdrawalList,
    WithdrawalListReply,
    WithdrawalQuery,
    WithdrawalReply,
)
from vintem.companies.model import LimitGroup
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id
from vintem.kit.intent import IntentSource
from vintem.kit.paging import Cursor
from vintem.withdrawals import creation
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.model import Withdrawal
from vintem.withdrawals.record import record_of


class CancelWithdrawalBody(Body, frozen=True):
    """Nothing needs to be said."""


async def create_withdrawal(call: Call) -> Answer:
    """Hold the money and create a withdrawal, once an intent."""
    intent, database = call.intent, call.resources.database
    assert intent is not None
    try:
        made, destination = await prepare(call, call.body_as(WithdrawalBody), intent)
        created = await creation.create(database, made)
    except Refusal as refusal:
        # A recorded key replays, whatever the checks say today; a form that is wrong comes first.
        if intent.source is not IntentSource.CLIENT or refusal.code is ErrorCode.VALIDATION_ERROR:
            raise
        earlier = await creation.find_replay(database, scope_of(call), intent)
        if earlier is None:
            raise
        return _replay(call, earlier)
    if created.is_replay:
        return _replay(call, created.withdrawal)
    shown = record_of(created.withdrawal, destination)
    return Data(msgspec.Raw(shown), 201, Processed(is_replay=False, at=call.now))


async def read_withdrawal(call: Call) -> Answer:
    """Show a withdrawal as it stands."""
    withdrawal = await withdrawals.get(
        call.resources.database, scope_of(call), withdrawal_id_of(call)
    )
    return Data(msgspec.Raw(_shown(call, withdrawal)))


async def list_withdrawals(call: Call) -> Answer:
    """List withdrawals, the newest first."""
    query, database = call.query_as(WithdrawalQuery), call.resources.database
    page = read_page(page=query.page, page_size=query.page_size, cursor=query.cursor)
    wanted = filter_of(call, query)
    found = await withdrawals.list_page(
        database, wanted, cursor=page.cursor, offset=page.offset, rows_max=page.page_size + 1
    )
    shown = found[: page.page_size]
    last = shown[-1] if len(found) > page.page_size else None
    where = shown_pagination(
        page,
        counted_rows=await withdrawals.count(database, wanted),
        next_cursor=None if last is None else Cursor(last.created_at, last.withdrawal_id),
    )
    return Data(
        WithdrawalList(
            withdrawals=[msgspec.Raw(record_of(each)) for each in shown],
            pagination=where,
        )
    )


async def cancel_withdrawal(call: Call) -> Answer:
    """Call a withdrawal off that nobody has sent."""
    withdrawal = await withdrawals.cancel(
        call.resources.database, scope_of(call), withdrawal_id_of(call), now=call.now
    )
    return Data(msgspec.Raw(_shown(call, withdrawal)))


def withdrawal_id_of(call: Call) -> str:
    """The id in the path; one of the wrong form is simply unknown."""
    withdrawal_id = call.params["id"]
    if not is_id(withdrawal_id, Prefix.WITHDRAWAL):
        raise Refusal(ErrorCode.WITHDRAWAL_NOT_FOUND)
    return withdrawal_id


def _replay(call: Call, withdrawal: Withdrawal) -> Answer:
    processed = Processed(is_replay=True, at=withdrawal.created_at)
    return Data(msgspec.Raw(_shown(call, withdrawal)), 200, processed)


def _shown(call: Call, withdrawal: Withdrawal) -> bytes:
    destination = withdrawals.open_destination(call.resources.sealer, withdrawal)
    return record_of(withdrawal, destination)


ROUTES = (
    Route(
        method="POST",
        path="/v1/withdrawals",
        handler=create_withdrawal,
        summary="Create a withdrawal",
        description=(
            "Sends money to a PIX key or, as USDT or BTC, to a wallet. `totalDebited` is held at"
            " once; it leaves when the withdrawal is `completed` and comes back when it is `failed`"
            " or `cancelled`. Send `X-Idempotency-Key`, and the same key when you try again."
        ),
        group="Withdrawals",
        access=Access.SECRET_KEY,
        limit=LimitGroup.WITHDRAWALS,
        body=WithdrawalBody,
        answer=WithdrawalReply,
        answer_status=201,
        is_idempotent=True,
        refusals=(
            ErrorCode.WITHDRAWALS_PAUSED,
            ErrorCode.DUPLICATE_SUSPECTED,
            ErrorCode.AMOUNT_BELOW_MINIMUM,
            ErrorCode.AMOUNT_ABOVE_MAXIMUM,
            ErrorCode.INVALID_DOCUMENT,
            ErrorCode.INVALID_PIX_KEY,
            ErrorCode.INVALID_WALLET_ADDRESS,
            ErrorCode.UNSUPPORTED_NETWORK,
            ErrorCode.INVALID_URL,
            ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED,
            ErrorCode.INSUFFICIENT_BALANCE,
            ErrorCode.PROVIDER_ERROR,
            ErrorCode.PROVIDER_NOT_CONFIGURED,
        ),
    ),
    Route(
        method="GET",
        path="/v1/withdrawals",
        handler=list_withdrawals,
        summary="List withdrawals",
        description=(
            "The newest first, documents masked. `status` takes a list separated by commas;"
            " `startDate` and `endDate` take business days or public times, both inclusive."
        ),
        group="Withdrawals",
        access=Access.SECRET_KEY,
        limit=LimitGroup.REQUESTS,
        query=WithdrawalQuery,
        answer=WithdrawalListReply,
    ),
    Route(
        method="GET",
        path="/v1/withdrawals/{id}",
        handler=read_withdrawal,
        summary="Read a withdrawal",
        group="Withdrawals",
        access=Access.SECRET_KEY,
        limit=LimitGroup.REQUESTS,
        answer=WithdrawalReply,
        refusals=(ErrorCode.WITHDRAWAL_NOT_FOUND,),
    ),
    Route(
        method="PATCH",
        path="/v1/withdrawals/{id}/cancel",
        handler=cancel_withdrawal,
        summary="Cancel a withdrawal",
        description="Calls a withdrawal off before it is `processing`; its money comes back.",
        group="Withdrawals",
        access=Access.SECRET_KEY,
        limit=LimitGroup.REQUESTS,
        body=CancelWithdrawalBody,
        is_body_optional=True,
        answer=WithdrawalReply,
        refusals=(ErrorCode.WITHDRAWAL_NOT_FOUND, ErrorCode.WITHDRAWAL_NOT_CANCELLABLE),
    ),
)
