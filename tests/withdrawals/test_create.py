"""Asking for money: it is held at once, shown in full to its owner, and told to the world."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from support.api import Api
from vintem.api.withdrawal_shapes import WithdrawalReply
from vintem.runtime.db import Database
from vintem.withdrawals.model import MOVES, Status
from withdrawals.till import Till, crypto_body, new_till, pix_body

EVP = "123e4567-e89b-12d3-a456-426655440000"
FIELDS = {
    "id", "status", "method", "amount", "fee", "netAmount", "totalDebited", "pixKey", "pixKeyType",
    "coin", "walletAddress", "walletNetwork", "cryptoAmount", "exchangeRate", "txHash",
    "confirmations", "endToEndId", "beneficiary", "failureCode", "failureReason", "externalRef",
    "description", "metadata", "createdAt", "processedAt", "completedAt", "cancelledAt",
}  # fmt: skip


def test_every_status_has_its_row_in_the_table_of_moves() -> None:
    assert set(MOVES) == {None, *Status}


async def test_a_withdrawal_holds_what_it_debits(till: Till) -> None:
    reply = await till.ask(pix_body(1_500, externalRef="ref-1", description="fornecedor"))
    assert reply.status == 201
    made = reply.data
    assert set(made) >= FIELDS
    declared = {field.encode_name for field in msgspec.structs.fields(WithdrawalReply)}
    assert set(made) == declared
    assert (made["status"], made["method"], made["amount"]) == ("pending", "pix", 1_500)
    assert (made["fee"], made["netAmount"], made["totalDebited"]) == (0, 1_500, 1_500)
    assert (made["pixKey"], made["pixKeyType"]) == ("cliente@example.com", "email")
    assert (made["externalRef"], made["description"]) == ("ref-1", "fornecedor")
    assert made["id"].startswith("wd_")
    assert await till.read(made["id"]) == made
    assert await till.balance() == {"available": 98_500, "inTransit": 1_500}
    entries = (await till.api.get("/v1/balance/entries", key=till.key)).data["entries"]
    assert (entries[0]["kind"], entries[0]["amount"], entries[0]["balanceAfter"]) == (
        "withdrawal", -1_500, 98_500,
    )  # fmt: skip
    assert entries[0]["reference"] == made["id"]
    await till.check()


@pytest.mark.parametrize(
    ("kind", "key", "shown", "listed", "shown_kind"),
    [
        ("cpf", "529.982.247-25", "52998224725", "***.982.247-**", "cpf"),
        ("cnpj", "11.222.333/0001-81", "11222333000181", "**.222.333/****-**", "cnpj"),
        ("cnpj", "12.ABC.345/01DE-35", "12ABC34501DE35", "**.ABC.345/****-**", "cnpj"),
        ("email", "Ana@Example.COM", "ana@example.com", "ana@example.com", "email"),
        ("phone", "11987654321", "+5511987654321", "+5511987654321", "phone"),
        ("evp", EVP.upper(), EVP, EVP, "evp"),
        ("random", EVP, EVP, EVP, "evp"),
    ],
)
async def test_each_kind_of_key_is_taken_and_masked_in_lists(
    till: Till, kind: str, key: str, shown: str, listed: str, shown_kind: str
) -> None:
    made = await till.take(pixKey=key, pixKeyType=kind)
    assert (made["pixKey"], made["pixKeyType"]) == (shown, shown_kind)
    [first] = (await till.list())["withdrawals"]
    assert (first["pixKey"], first["pixKeyType"]) == (listed, shown_kind)
    body = await told(till, made["id"])
    assert body["data"]["pixKey"] == listed


async def test_fiat_is_another_name_of_pix(till: Till) -> None:
    assert (await till.take(method="fiat"))["method"] == "pix"


async def test_the_fee_comes_out_of_the_amount_or_on_top_of_it(
    api: Api, database: Database
) -> None:
    till = await new_till(api, database)
    await till.charge("pix_withdrawal", fixed=100, percent=150)
    await till.fund(100_000)
    taken = await till.take(10_000)
    assert (taken["fee"], taken["netAmount"], taken["totalDebited"]) == (250, 9_750, 10_000)
    added = await till.take(10_000, netPayout=True)
    assert (added["fee"], added["netAmount"], added["totalDebited"]) == (250, 10_000, 10_250)
    assert await till.balance() == {"available": 79_750, "inTransit": 20_250}
    await till.work()
    await till.work(after=3)
    assert await till.balance() == {"available": 79_750}
    fees = await database.fetchval(
        """
        select sum(amount)::bigint
        from posting cross join lateral unnest(codes, amounts) as leg (code, amount)
        where company_id = $1 and kind = 'withdrawal_paid' and code = 'fee'
        """,
        till.company_id,
    )
    assert fees == 500
    await till.check()


@pytest.mark.parametrize("body_of", [pix_body, crypto_body])
async def test_a_beneficiary_is_shown_whole_to_its_owner_and_masked_in_lists(
    till: Till, body_of: Callable[..., dict[str, Any]]
) -> None:
    beneficiary = {"name": "Ana Sá", "document": "529.982.247-25"}
    reply = await till.ask(body_of(beneficiary=beneficiary), idempotency_key="k-1")
    made = reply.data
    assert made["beneficiary"] == {"name": "Ana Sá", "document": "52998224725"}
    assert (await till.read(made["id"]))["beneficiary"] == made["beneficiary"]
    again = await till.ask(body_of(beneficiary=beneficiary), idempotency_key="k-1")
    assert (again.status, again.data["beneficiary"]) == (200, made["beneficiary"])
    [first] = (await till.list())["withdrawals"]
    assert first["beneficiary"] == {"name": "Ana Sá", "document": "***.982.247-**"}
    assert "52998224725" not in json.dumps(await told(till, made["id"]))
    stored = await till.database.fetchval(
        "select w::text from withdrawal w where withdrawal_id = $1", made["id"]
    )
    assert "52998224725" not in stored
    assert b"52998224725".hex() not in stored


async def test_an_event_tells_of_the_new_withdrawal(till: Till) -> None:
    headers = {"x-correlation-id": "corr-7", "X-Idempotency-Key": "key-7"}
    reply = await till.api.post("/v1/withdrawals", key=till.key, json=pix_body(), headers=headers)
    body = await told(till, reply.data["id"])
    assert body["eventId"] == f"wd:{reply.data['id']}:PENDING"
    assert (body["event"], body["sequence"], body["previousStatus"]) == (
        "withdrawal.pending", 1, None,
    )  # fmt: skip
    assert body["metadata"] == {"correlationId": "corr-7", "idempotencyKey": "key-7"}
    assert body["data"] == reply.data


async def told(till: Till, withdrawal_id: str) -> Any:
    body = await till.database.fetchval(
        "select body from webhook_event where company_id = $1 and entity_id = $2 and sequence = 1",
        till.company_id,
        withdrawal_id,
    )
    return json.loads(body)
