"""From the fields of a form to the withdrawal that a member asks for, or what is wrong there."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from vintem.api.withdrawal_order import prepare
from vintem.api.withdrawal_shapes import AskedKeyType, AskedMethod, WithdrawalBody
from vintem.brazil.wallets import Coin
from vintem.companies import service as companies
from vintem.dashboard.forms import Form
from vintem.dashboard.money_words import KEY_TYPES, NETWORKS
from vintem.dashboard.typed import cents_of
from vintem.dashboard.visit import Visit
from vintem.hosted.words import money
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import new_token
from vintem.kit.intent import Intent, IntentSource, fingerprint
from vintem.providers.payouts import Destination
from vintem.withdrawals.creation import NewWithdrawal

KEY_CHARACTERS_MAX: Final = 600
ADDRESS_CHARACTERS_MAX: Final = 120
DESCRIPTION_CHARACTERS_MAX: Final = 140

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")

Errors = Mapping[str, str]
"""What is wrong, by the field; what concerns no field is under the empty name."""


class WithdrawalForm(Form, frozen=True):
    """A withdrawal as it is typed."""

    method: str = ""
    amount: str = ""
    whole: str = ""
    """Ticked: the recipient gets the whole amount, and the fee comes on top of it."""
    key_type: str = ""
    key: str = ""
    network: str = ""
    address: str = ""
    description: str = ""
    intent: str = ""


def order_of(form: WithdrawalForm) -> tuple[WithdrawalBody | None, Errors]:
    """Read the order that a form stands for, or say what is wrong."""
    errors: dict[str, str] = {}
    is_crypto = form.method == AskedMethod.CRYPTO
    amount = cents_of(form.amount)
    if amount is None:
        errors["amount"] = "Digite o valor em reais, como 1.234,56."
    if len(form.description) > DESCRIPTION_CHARACTERS_MAX:
        errors["description"] = f"Use até {DESCRIPTION_CHARACTERS_MAX} caracteres."
    errors |= _wallet_errors(form) if is_crypto else _key_errors(form)
    if errors or amount is None:
        return None, errors
    coin, _, network = form.network.partition(".")
    return WithdrawalBody(
        method=AskedMethod.CRYPTO if is_crypto else AskedMethod.PIX,
        amount=amount,
        net_payout=bool(form.whole),
        pix_key=None if is_crypto else form.key,
        pix_key_type=None if is_crypto else AskedKeyType(form.key_type),
        coin=Coin(coin) if is_crypto else None,
        wallet_address=form.address if is_crypto else None,
        wallet_network=network if is_crypto else None,
        description=form.description or None,
    ), {}


def _key_errors(form: WithdrawalForm) -> Errors:
    errors = {}
    if form.key_type not in KEY_TYPES:
        errors["key_type"] = "Escolha o tipo da chave."
    if not form.key:
        errors["key"] = "Digite a chave Pix."
    elif len(form.key) > KEY_CHARACTERS_MAX:
        errors["key"] = "Esta chave é longa demais."
    return errors


def _wallet_errors(form: WithdrawalForm) -> Errors:
    errors = {}
    if form.network.partition(".")[0] not in list(Coin):
        errors["network"] = "Escolha a moeda e a rede."
    if not form.address:
        errors["address"] = "Digite o endereço da carteira."
    elif len(form.address) > ADDRESS_CHARACTERS_MAX:
        errors["address"] = "Este endereço é longo demais."
    return errors


def new_intent() -> str:
    """What makes two sendings of one confirmed form the same wish."""
    return new_token()


def intent_of(visit: Visit, order: WithdrawalBody, token: str) -> Intent:
    """The wish that a confirmed form stands for, or a refusal of a form that is not ours."""
    if _TOKEN.fullmatch(token) is None:
        raise Refusal(ErrorCode.VALIDATION_ERROR, "The form was not confirmed.")
    digest = fingerprint(
        pepper=visit.resources.pepper,
        method="POST",
        path=visit.call.path,
        body=msgspec.json.encode(order),
    )
    # Whoever confirms the same again may have made a mistake: the company's protection decides.
    return Intent(f"{visit.member.person_id}_{token}", IntentSource.GENERATED, digest)


async def prepare_for(
    visit: Visit, order: WithdrawalBody, intent: Intent
) -> tuple[NewWithdrawal, Destination]:
    """Check an order as the API does, with the member in the place of a key."""
    payee = await companies.find_payee(
        visit.resources.database, visit.member.company_id, visit.environment
    )
    caller = replace(payee, key_id=visit.member.person_id)
    return await prepare(replace(visit.call, caller=caller), order, intent)


def errors_of(refusal: Refusal, form: WithdrawalForm) -> Errors:
    """Say a refusal at the field that it concerns; one that concerns no form is raised again."""
    details = refusal.details
    match refusal.code:
        case ErrorCode.AMOUNT_BELOW_MINIMUM:
            return {"amount": _below_minimum(details)}
        case ErrorCode.AMOUNT_ABOVE_MAXIMUM:
            return {"amount": f"O valor máximo é {_money(details['maximum'])}."}
        case ErrorCode.INVALID_PIX_KEY:
            return {"key": _wrong_key(details, form)}
        case ErrorCode.INVALID_WALLET_ADDRESS:
            return {"address": "Este endereço não é válido nesta rede. Copie-o de novo e confira."}
        case ErrorCode.UNSUPPORTED_NETWORK:
            return {"network": "Esta moeda não é enviada por esta rede."}
        case ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED:
            return {"amount": _above_limit(details)}
        case ErrorCode.INSUFFICIENT_BALANCE:
            return {"amount": f"O saldo disponível é {_money(details['available'])}."}
        case ErrorCode.DUPLICATE_SUSPECTED:
            return {"": f"Um saque igual acabou de ser pedido: {details['existingId']}."}
        case code if code in _GENERAL:
            return {"": _GENERAL[code]}
        case _:
            raise refusal


_GENERAL: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.WITHDRAWALS_PAUSED: "Os saques estão pausados. Nada foi movido.",
    ErrorCode.PROVIDER_NOT_CONFIGURED: (
        "A produção ainda não tem um provedor de pagamentos conectado. Nada foi movido."
    ),
    ErrorCode.PROVIDER_ERROR: "Não há cotação agora. Tente de novo em alguns minutos.",
    ErrorCode.IDEMPOTENCY_KEY_REUSED: "Esta confirmação já foi usada. Comece um novo saque.",
}


def _below_minimum(details: Mapping[str, object]) -> str:
    minimum = _money(details["minimum"])
    if details["field"] == "netAmount":
        return f"Depois da taxa, o destinatário precisa receber pelo menos {minimum}."
    return f"O valor mínimo é {minimum}."


def _wrong_key(details: Mapping[str, object], form: WithdrawalForm) -> str:
    if "codeAmount" in details:
        code, net = _money(details["codeAmount"]), _money(details["netAmount"])
        return f"O código é de {code}, mas o destinatário receberia {net}."
    if form.key_type == AskedKeyType.COPYPASTE:
        return "Este código não pode ser pago: só códigos estáticos com uma chave Pix válida."
    return f"Esta não é uma chave Pix válida do tipo {KEY_TYPES[form.key_type]}."


def _above_limit(details: Mapping[str, object]) -> str:
    maximum = _money(details["maximum"])
    if details["limit"] == "day":
        return f"O limite por dia da empresa é {maximum}, taxas incluídas."
    return f"O limite por saque da empresa é {maximum}, taxa incluída."


def _money(cents: object) -> str:
    assert isinstance(cents, int)
    return money(cents)


NETWORK_OPTIONS: Final = (("", "Escolha"), *NETWORKS.items())
KEY_TYPE_OPTIONS: Final = (("", "Escolha"), *KEY_TYPES.items())
