"""Codes to copy and paste: static ones are paid, the published vectors decide which those are."""

import pytest

from support.api import Api, assert_refused
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from withdrawals.till import Till, new_till, pix_body

S1 = (
    "00020126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-4266554400005204000053039865802BR"
    "5913Fulano de Tal6008BRASILIA62070503***63041D3D"
)
S2 = (
    "00020101021226700014br.gov.bcb.pix2548pix.example.com/8b3da2f39a4140d1a91abd93113bd4415204"
    "000053039865802BR5913Fulano de Tal6008BRASILIA62070503***630464E4"
)
S3 = (
    "00020101021226700014br.gov.bcb.pix2548pix.example.com/8b3da2f39a4140d1a91abd93113bd4415204"
    "000053039865802BR5913Fulano de Tal6008BRASILIA62070503***80740014br.gov.bcb.pix2552pix.exa"
    "mple.com/rec/2353c790eefb11eaadc10242ac1200026304FB42"
)
S4 = (
    "00020104141234567890123426580014BR.GOV.BCB.PIX0136123e4567-e12b-12d1-a456-4266554400002730"
    "0012BR.COM.OUTRO011001234567895204000053039865406123.455802BR5917NOME DO RECEBEDOR6008BRAS"
    "ILIA61087007490062190515RP12345678-201980390012BR.COM.OUTRO01190123.ABCD.3456.WXYZ6304AD38"
)
S5 = (
    "00020126180014br.gov.bcb.pix5204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***8"
    "0800014br.gov.bcb.pix2558pix.example.com/qr/v2/rec/2353c790eefb11eaadc10242ac120002630462C9"
)
C2 = (
    "00020126330014BR.GOV.BCB.PIX011197212482404520400005303986540530.005802BR"
    "5918Victor Julio Rocha6006RECIFE62110507VIPSURF630425A1"
)
C4 = (
    "00020126530014br.gov.bcb.pix0119saskenuba@gmail.com0208[Pix.ae]520400005303986540550.00580"
    "2BR5903Pix6003Pix62070503***63048287"
)
C5 = (
    "00020101021126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-4266554400005204000053039865"
    "802BR5913Fulano de Tal6008BRASILIA62070503***630448CD"
)
C6 = (
    "00020101021226800014br.gov.bcb.pix2558qrcode.mkip.com.br/v1/747287ac-cec8-4049-b008-7c61b9"
    "453c745204000053039865802BR5916VOXPAGPAGAMENTOS6008SAOPAULO62070503***630417E8"
)
# Its key is eleven digits that are no CPF.
C1 = (
    "00020126330014BR.GOV.BCB.PIX01111234567890052040000530398654041.005802BR"
    "5914Nome Sobrenome6015Cidade Ficticia62100506LOJA016304C8E4"
)


@pytest.mark.parametrize(
    ("code", "amount"),
    [
        pytest.param(S1, 777, id="S1 any amount"),
        pytest.param(C5, 777, id="C5 any amount"),
        pytest.param(S4, 12_345, id="S4"),
        pytest.param(C2, 3_000, id="C2"),
        pytest.param(C4, 5_000, id="C4"),
    ],
)
async def test_a_static_code_is_paid(till: Till, code: str, amount: int) -> None:
    made = await till.take(amount, pixKey=code, pixKeyType="copypaste")
    assert (made["pixKey"], made["pixKeyType"]) == (code, "copypaste")
    await till.work()
    await till.work(after=3)
    assert await till.status(made["id"]) == "completed"
    await till.check()


@pytest.mark.parametrize(
    ("code", "amount"),
    [
        pytest.param(S1[:-1] + "E", 777, id="wrong checksum"),
        pytest.param(S2, 777, id="dynamic"),
        pytest.param(S3, 777, id="composite"),
        pytest.param(S5, 777, id="recurrence only"),
        pytest.param(C6, 777, id="dynamic of a real provider"),
        pytest.param(S4, 12_346, id="another amount"),
        pytest.param(C2, 2_999, id="another amount by a cent"),
        pytest.param(C1, 100, id="a key that is none"),
        pytest.param("", 777, id="nothing"),
        pytest.param("cliente@example.com", 777, id="a key instead of a code"),
    ],
)
async def test_any_other_code_is_refused(till: Till, code: str, amount: int) -> None:
    reply = await till.ask(pix_body(amount, pixKey=code, pixKeyType="copypaste"))
    assert_refused(reply, ErrorCode.INVALID_PIX_KEY, status=422)
    assert await till.balance() == {"available": 100_000}


async def test_the_code_s_amount_is_what_the_recipient_gets(api: Api, database: Database) -> None:
    till = await new_till(api, database)
    await till.charge("pix_withdrawal", fixed=200)
    await till.fund(10_000)
    made = await till.take(3_200, pixKey=C2, pixKeyType="copypaste")
    assert (made["netAmount"], made["totalDebited"]) == (3_000, 3_200)
    reply = await till.ask(pix_body(3_000, pixKey=C2, pixKeyType="copypaste"))
    assert_refused(reply, ErrorCode.INVALID_PIX_KEY, status=422)
    details = reply.json["error"]["details"]
    assert (details["codeAmount"], details["netAmount"]) == (3_000, 2_800)


async def test_a_document_in_a_code_is_masked_in_lists(till: Till) -> None:
    made = await till.take(3_000, pixKey=C2, pixKeyType="copypaste")
    assert "97212482404" in made["pixKey"]
    [listed] = (await till.list())["withdrawals"]
    assert "97212482404" not in listed["pixKey"]
    assert "***.124.824-**" in listed["pixKey"]


async def test_a_code_and_its_key_are_one_destination(till: Till) -> None:
    key = "123e4567-e12b-12d1-a456-426655440000"
    code = await till.take(pixKey=S1, pixKeyType="copypaste")
    plain = await till.take(pixKey=key, pixKeyType="evp")
    digests = await till.database.fetch(
        "select distinct destination_digest from withdrawal where withdrawal_id = any($1)",
        [code["id"], plain["id"]],
    )
    assert len(digests) == 1
