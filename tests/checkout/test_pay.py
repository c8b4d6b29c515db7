"""Paying a session: one payment alive at a time, each for the session's own amount."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from yarl import URL

from support.acquirer import callback, send, tell
from support.api import TEST_PEPPER, assert_refused, complaints
from support.storefront import ADDRESS, Basket, Storefront, buyer, raw_card
from vintem.brazil.installments import CardInterest
from vintem.checkout import service as checkout
from vintem.companies import service as companies
from vintem.kit.clock import parse_public_time, utc_now
from vintem.kit.errors import ErrorCode
from vintem.providers.port import NoticeKind
from vintem.runtime.crypto import Sealer
from vintem.transactions.phases import LEFT_ALONE

PAY_KEYS = {
    *("sessionId", "status", "transactionId", "amount", "pixQrCode", "pixQrCodeImage"),
    *("expiresAt", "boleto", "card", "successUrl", "payment", "refusedReason"),
}
OPEN, AWAITING = (1, "checkout.session.open"), (2, "checkout.session.awaiting_payment")


async def test_a_pix_is_made_paid_and_completes_the_session(store: Storefront) -> None:
    basket = await store.open(successUrl="https://loja.example/ok", externalRef="order-9")
    data = await basket.paid_by()
    assert set(data) == PAY_KEYS
    assert (data["status"], data["amount"]) == ("AWAITING_PAYMENT", 14_990)
    assert data["pixQrCode"].startswith("000201")
    assert data["successUrl"] == "https://loja.example/ok"
    assert (data["boleto"], data["card"], data["refusedReason"]) == (None, None, None)
    read = await basket.read()
    assert (read["status"], read["pageState"]) == ("AWAITING_PAYMENT", "pix_shown")
    assert set(read["payment"]) == {
        *("transactionId", "status", "method", "pixQrCode", "pixQrCodeImage", "expiresAt"),
        "expiresInSeconds",
    }
    assert read["payment"]["pixQrCode"] == data["pixQrCode"]
    assert 3_590 < read["payment"]["expiresInSeconds"] <= 3_600
    transaction = await store.shop.read(data["transactionId"])
    assert transaction["checkoutSessionId"] == basket.session_id
    assert transaction["externalRef"] == "order-9"
    assert transaction["items"][0]["title"] == "Curso de Violão"
    await store.shop.move(data["transactionId"], "paid")
    read = await basket.read()
    assert (read["status"], read["pageState"]) == ("COMPLETED", "paid")
    assert read["payment"]["pixQrCode"] is None
    assert_refused(await basket.call("GET"), ErrorCode.SESSION_COMPLETED, status=410)
    assert_refused(await basket.pay(), ErrorCode.SESSION_COMPLETED, status=410)
    assert_refused(await basket.coupon("TEN"), ErrorCode.SESSION_COMPLETED, status=410)
    assert await store.events(basket.session_id) == [
        *(OPEN, AWAITING, (3, "checkout.session.completed")),
    ]
    assert (await store.shop.balance())["available"] == 14_990
    assert await complaints(store.database) == {}


async def test_a_callback_of_the_bank_completes_it_too(store: Storefront) -> None:
    basket = await store.open()
    data = await basket.paid_by()
    told = callback(
        store.shop.tenant.company.public_id,
        NoticeKind.PAYMENT_RECEIVED,
        data["transactionId"],
        amount=14_990,
        endToEndId="E99999999202611150000000000000001",
    )
    assert (await send(store.api, told)).status == 200
    assert (await basket.read())["status"] == "COMPLETED"
    assert await complaints(store.database) == {}


async def test_paying_again_gives_the_pix_that_is_alive(store: Storefront) -> None:
    basket = await store.open()
    first = await basket.paid_by()
    again = await basket.pay(customer=buyer(name="Outra Pessoa"))
    assert (again.status, again.data["transactionId"]) == (200, first["transactionId"])
    assert again.data["pixQrCode"] == first["pixQrCode"]
    replies = await asyncio.gather(*(basket.pay() for _ in range(8)))
    assert {reply.data["transactionId"] for reply in replies} == {first["transactionId"]}
    assert (await basket.found()).payments_tried == 1


async def test_the_pix_ends_with_its_session(store: Storefront) -> None:
    basket = await store.open(expiresAt=5)
    data = await basket.paid_by()
    assert parse_public_time(data["expiresAt"]) <= (await basket.found()).expires_at


async def test_an_expired_pix_is_made_anew_up_to_six_times(store: Storefront) -> None:
    basket = await store.open()
    ids = set()
    for number in range(6):
        ids.add((await basket.paid_by())["transactionId"])
        await basket.age(timedelta(hours=1))
        read = await basket.read()
        assert (read["status"], read["pageState"]) == ("AWAITING_PAYMENT", "pix_expired")
        assert read["payment"]["pixQrCode"] is None
        if number % 2:
            # Whether or not the worker has written it makes no difference.
            await store.work()
            assert (await basket.read())["pageState"] == "pix_expired"
    assert len(ids) == 6
    assert "pix" not in (await basket.read())["paymentMethods"]
    reply = await basket.pay()
    assert_refused(reply, ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE, status=422)
    await store.work()
    statuses = [(await store.shop.read(each))["statusReason"] for each in ids]
    assert statuses == ["expired"] * 6
    assert await complaints(store.database) == {}


async def test_a_card_completes_the_session_at_once(store: Storefront) -> None:
    basket = await store.open()
    reply = await basket.pay_by_card()
    assert reply.status == 201
    assert (reply.data["status"], reply.data["payment"]["status"]) == ("COMPLETED", "paid")
    assert reply.data["card"] == {
        "brand": "visa",
        "lastDigits": "1111",
        "installments": 1,
        "installmentAmount": 14_990,
        "interestAmount": 0,
    }
    assert (reply.data["pixQrCode"], reply.data["expiresAt"]) == (None, None)
    assert await store.events(basket.session_id) == [
        *(OPEN, AWAITING, (3, "checkout.session.completed")),
    ]
    assert await complaints(store.database) == {}


async def test_a_refused_card_leaves_the_session_to_be_paid(store: Storefront) -> None:
    basket = await store.open()
    reply = await basket.pay_by_card("0002")
    assert reply.status == 201
    assert (reply.data["status"], reply.data["payment"]["status"]) == (
        *("AWAITING_PAYMENT", "failed"),
    )
    assert set(reply.data["refusedReason"]) == {"code", "message"}
    assert (await basket.read())["pageState"] == "declined"
    assert (await basket.paid_by())["status"] == "AWAITING_PAYMENT"
    assert (await basket.read())["pageState"] == "pix_shown"
    assert await store.events(basket.session_id) == [OPEN, AWAITING]


async def test_five_refused_cards_are_enough(store: Storefront) -> None:
    basket = await store.open()
    for _ in range(5):
        assert "credit_card" in (await basket.read())["paymentMethods"]
        assert (await basket.pay_by_card("9995")).status == 201
    assert (await basket.read())["paymentMethods"] == ["pix", "boleto"]
    reply = await basket.pay_by_card()
    assert_refused(reply, ErrorCode.CARD_ATTEMPTS_EXCEEDED, status=429)
    assert int(reply.headers["Retry-After"]) > 0
    assert (await basket.paid_by())["pixQrCode"]
    assert await complaints(store.database) == {}


async def test_a_card_under_way_is_shown_until_it_is_decided(store: Storefront) -> None:
    basket = await store.open()
    first = await basket.pay_by_card("0119")
    assert (first.data["payment"]["status"], (await basket.read())["pageState"]) == (
        *("processing", "processing"),
    )
    again = await basket.pay()
    assert (again.status, again.data["transactionId"]) == (200, first.data["transactionId"])
    await store.coupon()
    assert_refused(await basket.coupon("TEN"), ErrorCode.INVALID_STATE, status=409)
    assert_refused(await basket.call("DELETE", "/coupon"), ErrorCode.INVALID_STATE, status=409)
    await tell(store.api, store.database, now=utc_now() + timedelta(seconds=3))
    assert (await basket.read())["status"] == "COMPLETED"
    assert await complaints(store.database) == {}


async def test_a_blocked_card_is_in_review(store: Storefront) -> None:
    basket = await store.open()
    reply = await basket.pay_by_card("0069")
    assert (await basket.read())["pageState"] == "in_review"
    await store.shop.move(reply.data["transactionId"], "failed")
    assert (await basket.read())["pageState"] == "declined"
    assert (await basket.found()).cards_refused == 1


async def test_interest_is_added_by_the_companys_table(store: Storefront) -> None:
    interest = CardInterest(monthly_rate_basis_points=299, free_installments=3)
    company = store.shop.tenant.company
    await companies.set_card_interest(store.database, company.public_id, interest)
    basket = await store.open()
    await store.coupon("FEW", minimum_amount=0, percent=13)
    data = (await basket.coupon("FEW")).data
    total = data["totalAmount"]
    reply = await basket.pay_by_card(installments=12)
    card = reply.data["card"]
    assert card["interestAmount"] > 0
    assert reply.data["amount"] == total + card["interestAmount"]
    transaction = await store.shop.read(reply.data["transactionId"])
    assert (transaction["amount"], transaction["interestAmount"]) == (
        *(reply.data["amount"], card["interestAmount"]),
    )
    assert (transaction["installments"], transaction["installmentAmount"]) == (
        *(12, card["installmentAmount"]),
    )
    free = await (await store.open()).pay_by_card(installments=3)
    assert (free.data["amount"], free.data["card"]["interestAmount"]) == (14_990, 0)
    assert await complaints(store.database) == {}


@pytest.mark.parametrize("installments", [0, 13, 24, -1])
async def test_installments_that_are_not_offered_are_refused(
    store: Storefront, installments: int
) -> None:
    basket = await store.open()
    reply = await basket.pay_by_card(installments=installments)
    assert_refused(reply, ErrorCode.INVALID_INSTALLMENTS, status=422)
    reply = await basket.pay(installments=2)
    assert_refused(reply, ErrorCode.INVALID_INSTALLMENTS, status=422)
    assert (await basket.read())["status"] == "OPEN"


async def test_a_boleto_gives_the_session_more_time(store: Storefront) -> None:
    basket = await store.open()
    before = (await basket.found()).expires_at
    reply = await basket.pay_by_boleto()
    assert reply.status == 201, reply.json
    assert set(reply.data["boleto"]) == {
        *("url", "barcode", "digitableLine", "dueDate", "pixQrCode"),
    }
    session = await basket.found()
    assert session.expires_at > before + timedelta(days=3)
    transaction = await store.shop.read(reply.data["transactionId"])
    assert parse_public_time(transaction["expiresAt"]) == session.expires_at
    assert (await basket.read())["pageState"] == "boleto_shown"
    again = await basket.pay_by_boleto()
    assert again.data["transactionId"] == reply.data["transactionId"]
    await store.work(before + timedelta(minutes=1))
    assert (await basket.found()).status == "AWAITING_PAYMENT"
    await store.shop.move(reply.data["transactionId"], "paid")
    assert (await basket.read())["status"] == "COMPLETED"
    assert await complaints(store.database) == {}


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        ({"customer": None}, ErrorCode.VALIDATION_ERROR, 400),
        ({"customer": {}}, ErrorCode.VALIDATION_ERROR, 400),
        ({"amount": 1}, ErrorCode.VALIDATION_ERROR, 400),
        ({"totalAmount": 100}, ErrorCode.VALIDATION_ERROR, 400),
        ({"paymentMethod": "cash"}, ErrorCode.VALIDATION_ERROR, 400),
        ({"paymentMethod": "credit_card"}, ErrorCode.VALIDATION_ERROR, 400),
        ({"card": {"token": "card_x"}}, ErrorCode.VALIDATION_ERROR, 400),
        ({"paymentMethod": "credit_card", "card": raw_card()}, ErrorCode.VALIDATION_ERROR, 400),
        ({"paymentMethod": "boleto"}, ErrorCode.VALIDATION_ERROR, 400),
        ({"customer": buyer(phone="1")}, ErrorCode.VALIDATION_ERROR, 400),
        (
            {"paymentMethod": "credit_card", "card": {"token": "card_unknown"}},
            *(ErrorCode.CARD_TOKEN_INVALID, 422),
        ),
        (
            {"customer": buyer(document={"type": "cpf", "number": "52998224724"})},
            *(ErrorCode.INVALID_DOCUMENT, 422),
        ),
    ],
)
async def test_a_payment_that_cannot_be_made_is_refused(
    store: Storefront, body: dict[str, Any], code: ErrorCode, status: int
) -> None:
    basket = await store.open()
    assert_refused(await basket.pay(**body), code, status=status)
    assert (await basket.read())["status"] == "OPEN"
    assert (await basket.found()).payments_tried == 0


async def test_a_method_that_the_company_does_not_offer_is_refused(store: Storefront) -> None:
    await store.set_up(payment_methods=["boleto"])
    basket = await store.open()
    assert (await basket.read())["paymentMethods"] == ["boleto"]
    reply = await basket.pay()
    assert_refused(reply, ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE, status=422)


async def test_a_card_token_is_used_once(store: Storefront) -> None:
    basket = await store.open()
    token = await basket.card_token("0002")
    body: dict[str, Any] = {"paymentMethod": "credit_card", "card": {"token": token}}
    assert (await basket.pay(**body)).data["payment"]["status"] == "failed"
    reply = await basket.pay(**body)
    assert_refused(reply, ErrorCode.CARD_TOKEN_INVALID, status=422)
    invalid = await basket.call("POST", "/card-tokens", raw_card(number="4111111111111112"))
    assert_refused(invalid, ErrorCode.INVALID_CARD, status=422)
    await checkout.cancel_session(
        store.database, store.shop.scope, basket.session_id, now=utc_now()
    )
    over = await basket.call("POST", "/card-tokens", raw_card())
    assert_refused(over, ErrorCode.SESSION_CANCELLED, status=410)


async def test_the_same_key_gives_the_same_payment(store: Storefront) -> None:
    basket = await store.open()
    first = await basket.pay(key="once")
    again = await basket.pay(key="once")
    assert (first.status, again.status) == (201, 200)
    assert first.headers["X-Idempotency-Replayed"] == "false"
    assert again.headers["X-Idempotency-Replayed"] == "true"
    assert again.data["transactionId"] == first.data["transactionId"]
    other = await basket.pay(key="once", customer=buyer(name="Outra Pessoa"))
    assert_refused(other, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
    # Over or not, a recorded key replays.
    await store.shop.move(first.data["transactionId"], "paid")
    late = await basket.pay(key="once")
    assert (late.status, late.data["status"]) == (200, "COMPLETED")
    # The key is the session's: another session may use it.
    assert (await (await store.open()).pay(key="once")).status == 201
    bad = await basket.pay(key="ö" * 3)
    assert_refused(bad, ErrorCode.IDEMPOTENCY_KEY_INVALID, status=400)


async def test_the_same_key_charges_a_card_once(store: Storefront) -> None:
    basket = await store.open()
    token = await basket.card_token()
    body: dict[str, Any] = {"paymentMethod": "credit_card", "card": {"token": token}}
    replies = await asyncio.gather(*(basket.pay(key="once", **body) for _ in range(6)))
    assert {reply.data["transactionId"] for reply in replies} == {replies[0].data["transactionId"]}
    assert sorted(reply.status for reply in replies) == [200] * 5 + [201]


async def test_a_card_whose_body_is_slow_to_arrive_is_charged(store: Storefront) -> None:
    basket = await store.open()
    sent: dict[str, Any] = {
        "paymentMethod": "credit_card",
        "customer": buyer(),
        "card": {"token": await basket.card_token()},
    }
    body = msgspec.json.encode(sent)
    url = URL(store.api.base_url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = (
        f"POST {basket.path}/pay HTTP/1.1\r\nHost: {url.authority}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body[:10])
    # Longer than whoever asks an acquirer waits for it.
    await asyncio.sleep(LEFT_ALONE.total_seconds() + 0.2)
    writer.write(body[10:])
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 201"), answer
    assert (await basket.read())["status"] == "COMPLETED"
    assert await complaints(store.database) == {}


async def test_a_code_that_can_be_paid_no_more_has_no_picture(store: Storefront) -> None:
    await store.coupon()
    basket = await store.open()
    images = []
    for end in ("superseded", "expired"):
        image = (await basket.paid_by())["pixQrCodeImage"].removeprefix(store.api.base_url)
        images.append(image := image[image.index("/v1/") :])
        assert (await store.api.get(image)).status == 200
        if end == "superseded":
            await basket.coupon("TEN")
        else:
            await basket.age(timedelta(hours=1))
    for image in images:
        assert_refused(await store.api.get(image), ErrorCode.NOT_FOUND, status=404)


async def test_a_partial_refund_is_something_that_the_buyer_sees(store: Storefront) -> None:
    basket = await store.open()
    pix = await basket.paid_by()
    await store.shop.move(pix["transactionId"], "paid")
    before = (await basket.read())["stateVersion"]
    path = f"/v1/transactions/{pix['transactionId']}/refund"
    reply = await store.api.post(path, key=store.shop.key, json={"amount": 5_000})
    assert reply.status in {200, 201}, reply.json
    assert (await basket.read())["stateVersion"] > before
    assert await complaints(store.database) == {}


async def test_a_card_takes_the_place_of_a_pix(store: Storefront) -> None:
    basket = await store.open()
    pix = await basket.paid_by()
    card = await basket.pay_by_card("0002")
    superseded = await store.shop.read(pix["transactionId"])
    assert (superseded["status"], superseded["statusReason"]) == ("cancelled", "superseded")
    assert (await basket.read())["payment"]["transactionId"] == card.data["transactionId"]
    # Paid all the same: late, and not lost.
    await store.shop.move(pix["transactionId"], "paid")
    paid = await store.shop.read(pix["transactionId"])
    assert (paid["status"], paid["statusReason"]) == ("paid", "late_payment")
    read = await basket.read()
    assert (read["status"], read["payment"]["transactionId"]) == (
        *("COMPLETED", pix["transactionId"]),
    )
    assert await complaints(store.database) == {}


async def test_a_superseded_pix_that_is_paid_ends_what_took_its_place(store: Storefront) -> None:
    basket = await store.open()
    pix = await basket.paid_by()
    boleto = await basket.pay_by_boleto()
    await store.shop.move(pix["transactionId"], "paid")
    assert (await basket.read())["status"] == "COMPLETED"
    await store.work()
    ended = await store.shop.read(boleto.data["transactionId"])
    assert (ended["status"], ended["statusReason"]) == ("cancelled", "superseded")
    # A second payment is flagged, and neither dropped nor given back.
    await store.shop.move(boleto.data["transactionId"], "paid")
    session = await basket.found()
    assert (session.extra_payments, session.transaction_id) == (1, pix["transactionId"])
    second = await store.shop.read(boleto.data["transactionId"])
    assert (second["status"], second["refundedAmount"]) == ("paid", 0)
    assert (await store.events(basket.session_id))[-1] == (3, "checkout.session.completed")
    assert await complaints(store.database) == {}


async def test_a_buyer_may_choose_again(store: Storefront) -> None:
    basket = await store.open()
    pix = await basket.paid_by()
    await checkout.choose_another_way(store.database, await basket.found(), now=utc_now())
    read = await basket.read()
    assert (read["pageState"], read["payment"]) == ("open", None)
    assert (await store.shop.read(pix["transactionId"]))["statusReason"] == "superseded"
    assert (await basket.pay()).status == 201
    await checkout.choose_another_way(store.database, await basket.found(), now=utc_now())
    assert (await basket.found()).pix_made == 2


@pytest.mark.parametrize("end", ["expired", "cancelled"])
async def test_late_money_completes_what_was_over(store: Storefront, end: str) -> None:
    basket = await store.open()
    pix = await basket.paid_by()
    if end == "expired":
        await basket.age(timedelta(hours=48))
        await store.work()
    else:
        await checkout.cancel_session(
            store.database, store.shop.scope, basket.session_id, now=utc_now()
        )
    transaction = await store.shop.read(pix["transactionId"])
    assert transaction["status"] == "cancelled"
    assert transaction["statusReason"] == ("expired" if end == "expired" else "merchant")
    assert (await basket.read())["pageState"] == end
    await store.shop.move(pix["transactionId"], "paid")
    read = await basket.read()
    assert (read["status"], read["pageState"]) == ("COMPLETED", "paid")
    assert [kind for _, kind in await store.events(basket.session_id)] == [
        *("checkout.session.open", "checkout.session.awaiting_payment"),
        *(f"checkout.session.{end}", "checkout.session.completed"),
    ]
    assert await complaints(store.database) == {}


async def test_a_cancelled_payment_lets_the_buyer_pay_again(store: Storefront) -> None:
    basket = await store.open()
    pix = await basket.paid_by()
    path = f"/v1/transactions/{pix['transactionId']}/cancel"
    assert (await store.api.post(path, key=store.shop.key)).status == 200
    assert (await basket.read())["pageState"] == "open"
    assert (await basket.pay()).status == 201


async def test_a_refunded_session_stays_completed(store: Storefront) -> None:
    basket = await store.open()
    pix = await basket.paid_by()
    await store.shop.move(pix["transactionId"], "paid", "refunded")
    read = await basket.read()
    assert (read["status"], read["pageState"]) == ("COMPLETED", "paid")
    assert read["payment"]["status"] == "refunded"
    assert await complaints(store.database) == {}


async def test_what_a_buyer_sends_is_kept_sealed(store: Storefront) -> None:
    basket = await store.open(customer={"name": "Maria da Silva"})
    sealer = Sealer(TEST_PEPPER.encode())
    assert checkout.open_buyer(sealer, await basket.found()).name == "Maria da Silva"
    await basket.pay(customer=buyer(address=ADDRESS, phone="(11) 98765-4321"))
    kept = checkout.open_buyer(sealer, await basket.found())
    assert (kept.document, kept.address is not None) == ("52998224725", True)
    row = await store.database.fetchval(
        "select s::text from checkout_session s where company_id = $1", store.company_id
    )
    assert "52998224725" not in row


async def test_a_telephone_of_another_country_is_kept_from_the_session_to_the_payment(
    store: Storefront,
) -> None:
    basket = await store.open(customer={"phone": "0800 123 4567"})
    sealer = Sealer(TEST_PEPPER.encode())
    assert checkout.open_buyer(sealer, await basket.found()).phone == "08001234567"
    paid = await basket.paid_by(customer=buyer(phone="+1 (212) 555-0100"))
    assert checkout.open_buyer(sealer, await basket.found()).phone == "+12125550100"
    transaction = await store.shop.read(paid["transactionId"])
    assert transaction["customer"]["phone"] == "+12125550100"


async def test_what_is_polled_tells_nothing_of_the_buyer(store: Storefront) -> None:
    basket: Basket = await store.open(customer=buyer())
    await basket.pay()
    text = str(await basket.read())
    assert all(word not in text for word in ("Maria", "maria@", "982.247", "52998224725"))
