"""From what an integrator asks for to the withdrawal that is made, checked on the way."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from vintem.api.body import validation_refusal
from vintem.api.call import Call
from vintem.api.metadata import metadata_faults
from vintem.api.paging import read_moment, read_statuses
from vintem.api.postback import check_postback_url
from vintem.api.withdrawal_shapes import (
    AskedKeyType,
    AskedMethod,
    WithdrawalBody,
    WithdrawalQuery,
)
from vintem.brazil.br_code import BrCodeKind, parse_br_code
from vintem.brazil.documents import normalise_cnpj, normalise_cpf
from vintem.brazil.pix_keys import PixKeyKind, normalise_pix_key, parse_kind
from vintem.brazil.wallets import Coin, normalise_address, parse_network
from vintem.companies import model as companies
from vintem.companies.model import Environment
from vintem.kit.clock import public_time
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.kit.intent import Intent
from vintem.kit.money import AMOUNT_CENTS_MAX, AMOUNT_CENTS_MIN, Cents
from vintem.ledger.model import Purchase, Scope
from vintem.providers.payouts import Destination, PixDestination, Quote, WalletDestination
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.creation import NewWithdrawal
from vintem.withdrawals.model import Filter, Method, Status, Withdrawal, purchase, quantity_text
from vintem.withdrawals.record import masked_document, masked_key

log = structlog.get_logger()

QUOTE_SECONDS_MAX: Final = 5.0
PIX_FIELDS: Final = ("pixKey", "pixKeyType")
CRYPTO_FIELDS: Final = ("coin", "walletAddress", "walletNetwork")

_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Sums:
    """What a withdrawal costs and what arrives."""

    fee: Cents
    net_amount: Cents


def scope_of(call: Call) -> Scope:
    """Whose withdrawals a call can see."""
    return Scope(call.company.company_id, call.company.environment)


async def prepare(
    call: Call, order: WithdrawalBody, intent: Intent
) -> tuple[NewWithdrawal, Destination]:
    """Check an order and turn it into the withdrawal to be written."""
    check_form(order)
    is_crypto = order.method is AskedMethod.CRYPTO
    method = Method.CRYPTO if is_crypto else Method.PIX
    sums = check_amounts(call, order, method)
    document = _document(order)
    destination: Destination = (
        _wallet(call, order, document=document)
        if is_crypto
        else _pix(order, sums, document=document)
    )
    is_live = call.company.environment is Environment.LIVE
    allows_loopback = call.resources.allows_loopback_webhooks and not is_live
    check_postback_url(order.postback_url, allows_loopback=allows_loopback)
    if is_live:
        raise Refusal(ErrorCode.PROVIDER_NOT_CONFIGURED)
    bought = None
    if isinstance(destination, WalletDestination):
        quote = await _quote(call, destination.coin)
        bought = purchase(destination.network, quote, net_amount=sums.net_amount)
    made = _withdrawal(call, order, intent, method, sums, destination, bought, document)
    repetition = repetition_digest(call, order.amount, destination)
    return NewWithdrawal(made, intent, repetition, call.correlation_id), destination


async def _quote(call: Call, coin: Coin) -> Quote:
    """Ask for the price of a coin; without one nothing is promised."""
    try:
        async with asyncio.timeout(QUOTE_SECONDS_MAX):
            return await call.resources.payouts.quote(coin)
    except Exception as fault:
        log.warning("no price", coin=coin, cause=type(fault).__name__)
        raise Refusal(ErrorCode.PROVIDER_ERROR) from fault


def repetition_digest(call: Call, amount: Cents, destination: Destination) -> bytes:
    """What withdrawals of the same amount to the same destination have in common."""
    purpose = b"withdrawal repetition %d" % call.company.company_id
    plain = b"%d %b" % (amount, _identity(destination))
    return call.resources.sealer.digest(plain, purpose=purpose)


def check_form(order: WithdrawalBody) -> None:
    """Refuse what the declared shape cannot say."""
    given = {
        "pixKey": order.pix_key,
        "pixKeyType": order.pix_key_type,
        "coin": order.coin,
        "walletAddress": order.wallet_address,
        "walletNetwork": order.wallet_network,
    }
    is_crypto = order.method is AskedMethod.CRYPTO
    needed, foreign = (CRYPTO_FIELDS, PIX_FIELDS) if is_crypto else (PIX_FIELDS, CRYPTO_FIELDS)
    faults = [(field, "is required") for field in needed if given[field] is None]
    faults += [
        (field, f"is not for {order.method}") for field in foreign if given[field] is not None
    ]
    faults += metadata_faults(order.metadata)
    if faults:
        raise validation_refusal(
            [{"field": field, "message": message} for field, message in faults]
        )


def check_amounts(call: Call, order: WithdrawalBody, method: Method) -> Sums:
    """Work out the fee and what arrives, and refuse amounts that are too small or too large."""
    amount = order.amount
    if amount < AMOUNT_CENTS_MIN:
        raise _below_minimum("amount")
    if amount > AMOUNT_CENTS_MAX:
        raise _above_maximum("amount")
    charged = companies.Method.PIX_WITHDRAWAL
    if method is Method.CRYPTO:
        charged = companies.Method.CRYPTO_WITHDRAWAL
    fee = call.company.terms.fees.fee_cents(charged, amount)
    net_amount = amount if order.net_payout else amount - fee
    if net_amount < AMOUNT_CENTS_MIN:
        raise _below_minimum("netAmount")
    if net_amount + fee > AMOUNT_CENTS_MAX:
        raise _above_maximum("totalDebited")
    return Sums(fee, net_amount)


def filter_of(call: Call, query: WithdrawalQuery) -> Filter:
    """Turn a list's query into what is looked for."""
    return Filter(
        scope=scope_of(call),
        statuses=read_statuses(query.status, Status),
        method=None if query.method is None else query.method.method,
        created_from=read_moment("startDate", query.start_date, is_end=False),
        created_before=read_moment("endDate", query.end_date, is_end=True),
        external_ref=query.external_ref,
    )


def _pix(order: WithdrawalBody, sums: Sums, *, document: str | None) -> PixDestination:
    assert order.pix_key is not None
    assert order.pix_key_type is not None
    if order.pix_key_type is AskedKeyType.COPYPASTE:
        return _copied_code(order.pix_key, sums, document=document)
    kind = parse_kind(order.pix_key_type)
    assert kind is not None
    key = normalise_pix_key(kind, order.pix_key)
    if key is None:
        raise _wrong_key(f"This is not a PIX key of the kind {kind}.")
    return PixDestination(key, kind, document=document)


def _copied_code(text: str, sums: Sums, *, document: str | None) -> PixDestination:
    code = parse_br_code(text)
    if code is None:
        raise _wrong_key("The code cannot be read, or its checksum is wrong.")
    if code.kind is not BrCodeKind.STATIC or code.key is None:
        raise _wrong_key("Only static codes can be paid.")
    if code.cash_agent_ispb is not None:
        raise _wrong_key("Codes that give cash cannot be paid.")
    if code.amount_cents is not None and code.amount_cents != sums.net_amount:
        raise _wrong_key(
            "The code is for another amount than the recipient would get.",
            codeAmount=code.amount_cents,
            netAmount=sums.net_amount,
        )
    # The directory's forms exclude one another but for CPF and mobile, which a code writes apart.
    keys = (normalise_pix_key(kind, code.key) for kind in PixKeyKind)
    if code.key not in keys:
        raise _wrong_key("The code holds no PIX key.")
    return PixDestination(code.key, AskedKeyType.COPYPASTE, code=text.strip(), document=document)


def _wallet(call: Call, order: WithdrawalBody, *, document: str | None) -> WalletDestination:
    assert order.coin is not None
    assert order.wallet_address is not None
    assert order.wallet_network is not None
    network = parse_network(order.coin, order.wallet_network)
    if network is None:
        raise Refusal(ErrorCode.UNSUPPORTED_NETWORK, details={"field": "walletNetwork"})
    is_live = call.company.environment is Environment.LIVE
    address = normalise_address(network, order.wallet_address, is_live=is_live)
    if address is None:
        raise Refusal(ErrorCode.INVALID_WALLET_ADDRESS, details={"field": "walletAddress"})
    return WalletDestination(order.coin, network, address, document=document)


def _document(order: WithdrawalBody) -> str | None:
    if order.beneficiary is None or order.beneficiary.document is None:
        return None
    text = order.beneficiary.document
    number = normalise_cpf(text) or normalise_cnpj(text)
    if number is None:
        raise Refusal(ErrorCode.INVALID_DOCUMENT, details={"field": "beneficiary.document"})
    return number


def _withdrawal(
    call: Call,
    order: WithdrawalBody,
    intent: Intent,
    method: Method,
    sums: Sums,
    destination: Destination,
    bought: Purchase | None,
    document: str | None,
) -> Withdrawal:
    caller, sealer = call.company, call.resources.sealer
    withdrawal_id = new_id(Prefix.WITHDRAWAL)
    record = _record(call, order, withdrawal_id, method, sums, destination, bought, document)
    purpose = b"%b %d" % (withdrawals.DESTINATION_PURPOSE, caller.company_id)
    return Withdrawal(
        company_id=caller.company_id,
        withdrawal_id=withdrawal_id,
        environment=caller.environment,
        status=Status.PENDING,
        method=method,
        amount=order.amount,
        fee=sums.fee,
        net_amount=sums.net_amount,
        external_ref=order.external_ref,
        destination_sealed=withdrawals.seal_destination(sealer, destination),
        destination_digest=sealer.digest(_identity(destination), purpose=purpose),
        requested_by=caller.key_id,
        idempotency_key=intent.key,
        fingerprint=intent.fingerprint,
        sequence=1,
        details=_encode(record).decode(),
        bought=bought,
        created_at=call.now,
        updated_at=call.now,
        due_at=call.now,
    )


def _identity(destination: Destination) -> bytes:
    """What two withdrawals to the same place have in common, however the place was named."""
    if isinstance(destination, PixDestination):
        return f"pix {destination.key}".encode()
    return f"{destination.coin} {destination.network} {destination.address}".encode()


def _record(
    call: Call,
    order: WithdrawalBody,
    withdrawal_id: str,
    method: Method,
    sums: Sums,
    destination: Destination,
    bought: Purchase | None,
    document: str | None,
) -> Mapping[str, object]:
    """Write down what the world is shown, every field of it, documents masked."""
    now = public_time(call.now)
    pix = destination if isinstance(destination, PixDestination) else None
    wallet = destination if isinstance(destination, WalletDestination) else None
    beneficiary = None
    if order.beneficiary is not None:
        masked = None if document is None else masked_document(document)
        beneficiary = {"name": order.beneficiary.name, "document": masked}
    return {
        "id": withdrawal_id,
        "companyId": call.company.company_public_id,
        "environment": call.company.environment,
        "status": Status.PENDING,
        "method": method,
        "amount": order.amount,
        "fee": sums.fee,
        "netAmount": sums.net_amount,
        "totalDebited": sums.net_amount + sums.fee,
        "pixKey": None if pix is None else masked_key(pix),
        "pixKeyType": None if pix is None else pix.key_type,
        "coin": None if wallet is None else wallet.coin,
        "walletAddress": None if wallet is None else wallet.address,
        "walletNetwork": None if wallet is None else wallet.network,
        "cryptoAmount": None if bought is None else quantity_text(bought),
        "exchangeRate": None if bought is None else bought.exchange_rate,
        "txHash": None,
        "confirmations": None,
        "endToEndId": None,
        "beneficiary": beneficiary,
        "failureCode": None,
        "failureReason": None,
        "externalRef": order.external_ref,
        "description": order.description,
        "metadata": order.metadata or {},
        "postbackUrl": order.postback_url,
        "createdAt": now,
        "updatedAt": now,
        "processedAt": None,
        "completedAt": None,
        "cancelledAt": None,
    }


def _wrong_key(message: str, **details: object) -> Refusal:
    return Refusal(ErrorCode.INVALID_PIX_KEY, message, details={"field": "pixKey", **details})


def _below_minimum(field: str) -> Refusal:
    details = {"field": field, "minimum": AMOUNT_CENTS_MIN}
    return Refusal(ErrorCode.AMOUNT_BELOW_MINIMUM, details=details)


def _above_maximum(field: str) -> Refusal:
    details = {"field": field, "maximum": AMOUNT_CENTS_MAX}
    return Refusal(ErrorCode.AMOUNT_ABOVE_MAXIMUM, details=details)
