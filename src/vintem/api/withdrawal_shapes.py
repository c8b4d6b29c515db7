"""What the Withdrawals group takes and gives, field by field."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from vintem.api.call import MUST, Body, Query, Reply
from vintem.api.paging import PaginationReply, page_faults, read_moment, read_statuses
from vintem.brazil.wallets import Coin
from vintem.kit.clock import PublicTime
from vintem.withdrawals.model import Method, Status


class AskedMethod(StrEnum):
    """How the money shall leave; `fiat` is another name of `pix`."""

    PIX = "pix"
    FIAT = "fiat"
    CRYPTO = "crypto"

    @property
    def method(self) -> Method:
        """What it is called in records."""
        return Method.CRYPTO if self is AskedMethod.CRYPTO else Method.PIX


class AskedKeyType(StrEnum):
    """What a PIX key is; `random` is another name of `evp`."""

    CPF = "cpf"
    CNPJ = "cnpj"
    EMAIL = "email"
    PHONE = "phone"
    EVP = "evp"
    RANDOM = "random"
    COPYPASTE = "copypaste"


class BeneficiaryBody(Body, frozen=True):
    """Whose the destination is."""

    name: Annotated[str, Meta(min_length=1, max_length=120)] | None = None
    document: Annotated[str, Meta(min_length=1, max_length=24)] | None = None


class WithdrawalBody(Body, frozen=True):
    """Money to be sent."""

    method: AskedMethod
    amount: Annotated[int, Meta(examples=[10_000])]
    net_payout: bool = False
    # The examples stand around the choice, so that the description's own example shows them.
    pix_key: Annotated[
        Annotated[str, Meta(max_length=600)] | None, Meta(examples=["cliente@example.com"])
    ] = None
    pix_key_type: Annotated[AskedKeyType | None, Meta(examples=["email"])] = None
    coin: Coin | None = None
    wallet_address: Annotated[str, Meta(max_length=120)] | None = None
    wallet_network: Annotated[str, Meta(max_length=20)] | None = None
    description: Annotated[str, Meta(max_length=140)] | None = None
    external_ref: Annotated[str, Meta(max_length=120)] | None = None
    postback_url: Annotated[str, Meta(max_length=2_048)] | None = None
    metadata: dict[str, str | int | float | bool | None] | None = None
    beneficiary: BeneficiaryBody | None = None


class WithdrawalQuery(Query, frozen=True):
    """Which withdrawals are listed."""

    status: str | None = None
    method: AskedMethod | None = None
    start_date: str | None = None
    end_date: str | None = None
    external_ref: str | None = None
    page: int | None = None
    page_size: int = 20
    cursor: str | None = None

    def faults(self) -> list[dict[str, str]]:
        """All that is wrong, each fault with its parameter."""
        faults: list[dict[str, str]] = []
        read_statuses(self.status, Status, faults)
        read_moment("startDate", self.start_date, faults, is_end=False)
        read_moment("endDate", self.end_date, faults, is_end=True)
        return faults + page_faults(page=self.page, page_size=self.page_size, cursor=self.cursor)


class SimulateWithdrawalBody(Body, frozen=True):
    """Where a withdrawal shall go, and why it fails if that is where."""

    status: Status
    failure_code: (
        Annotated[
            str,
            Meta(
                pattern=r"^[A-Z][A-Z0-9_]{0,63}$(?!\n)",
                extra={MUST: "must be capital letters, digits and _, such as PIX_KEY_NOT_FOUND"},
            ),
        ]
        | None
    ) = None


class BeneficiaryReply(Reply, frozen=True):
    """Whose the destination is; lists show only the middle of the document."""

    name: str | None
    document: str | None


class WithdrawalReply(Reply, frozen=True):
    """A withdrawal."""

    id: str
    company_id: str
    environment: Literal["live", "test"]
    status: Status
    method: Method
    amount: int
    fee: int
    net_amount: int
    total_debited: int
    pix_key: str | None
    pix_key_type: Literal["cpf", "cnpj", "email", "phone", "evp", "copypaste"] | None
    coin: Coin | None
    wallet_address: str | None
    wallet_network: str | None
    crypto_amount: str | None
    exchange_rate: str | None
    tx_hash: str | None
    confirmations: int | None
    end_to_end_id: str | None
    beneficiary: BeneficiaryReply | None
    failure_code: str | None
    failure_reason: str | None
    external_ref: str | None
    description: str | None
    metadata: dict[str, str | int | float | bool | None]
    postback_url: str | None
    created_at: PublicTime
    updated_at: PublicTime
    processed_at: PublicTime | None
    completed_at: PublicTime | None
    cancelled_at: PublicTime | None


class WithdrawalList(Reply, frozen=True):
    """A page of withdrawals that are written already."""

    withdrawals: list[msgspec.Raw]
    pagination: PaginationReply


class WithdrawalListReply(Reply, frozen=True):
    """A page of withdrawals, the newest first, documents masked."""

    withdrawals: list[WithdrawalReply]
    pagination: PaginationReply
