"""Bad lines, impatient fingers, many tabs: the page comes to the truth, and nobody pays twice."""

import asyncio
import time
from datetime import timedelta

from playwright.async_api import Route, expect

from support.boutique import PRICE, Boutique
from support.chromium import DESKTOP
from support.platform import promised
from support.shopper import Door
from support.sink import running_sink
from vintem.kit.clock import utc_now

RECOVERED_SECONDS_MAX = 2.0


async def test_a_page_that_was_offline_shows_what_happened_meanwhile(
    door: Door, store: Boutique
) -> None:
    visit = await store.open_session()
    payment = await store.pay(visit)
    buyer = await door.enter(visit)
    await buyer.sees_state("pix_shown")
    buyer.watch.is_offline = True
    await buyer.context.set_offline(True)
    await store.simulate(payment["transactionId"], "paid")
    notice = buyer.page.get_by_text("Sem conexão. Tentando de novo…").first
    await expect(notice).to_be_visible()
    await buyer.sees_state("pix_shown")
    await buyer.context.set_offline(False)
    back = time.monotonic()
    await buyer.sees("Pagamento confirmado")
    assert time.monotonic() - back <= promised(RECOVERED_SECONDS_MAX)
    await expect(notice).to_be_hidden()


async def test_a_page_waits_as_long_as_it_is_told(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    await store.pay(visit)
    asked: list[float] = []

    async def refuse_first(route: Route) -> None:
        asked.append(time.monotonic())
        if len(asked) == 1:
            await route.fulfill(status=429, headers={"Retry-After": "6"}, body="{}")
        else:
            await route.continue_()

    buyer = await door.enter(visit)
    buyer.watch.statuses.add(429)
    await buyer.page.route("**/v1/checkout/sessions/**", refuse_first)
    while len(asked) < 2:
        await asyncio.sleep(0.1)
    assert 5.5 <= asked[1] - asked[0] <= promised(9.0)
    await expect(buyer.page.locator("#offline")).to_be_hidden()


async def test_failures_of_ours_are_told_and_forgotten(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    payment = await store.pay(visit)
    failures = 0

    async def fail_thrice(route: Route) -> None:
        nonlocal failures
        failures += 1
        if failures <= 3:
            await route.fulfill(status=500, body="{}")
        else:
            await route.continue_()

    context, watch = await door.context()
    watch.statuses.add(500)
    page = await context.new_page()
    await page.clock.install()
    await page.goto(visit.url)
    await page.route("**/v1/checkout/sessions/**", fail_thrice)
    notice = page.locator("#offline")
    for _ in range(10):
        await page.clock.run_for(5_000)
        if failures >= 3:
            break
    await expect(notice).to_be_visible()
    await store.simulate(payment["transactionId"], "paid")
    for _ in range(10):
        await page.clock.run_for(5_000)
        if await page.locator("main").get_attribute("data-state") == "paid":
            break
    await expect(page.locator("h1")).to_have_text("Pagamento confirmado")
    await expect(notice).to_be_hidden()


async def test_a_hidden_tab_asks_less_and_looks_at_once_when_it_is_back(
    door: Door, store: Boutique
) -> None:
    visit = await store.open_session()
    payment = await store.pay(visit)
    context, watch = await door.context()
    page = await context.new_page()
    await page.clock.install()
    await page.goto(visit.url)

    def asked() -> int:
        return sum("poll=1" in request.url for request in watch.requests)

    hide = (
        "is => { Object.defineProperty(document, 'hidden', {value: is, configurable: true});"
        " Object.defineProperty(document, 'visibilityState', {value: is ? 'hidden' : 'visible',"
        " configurable: true}); document.dispatchEvent(new Event('visibilitychange')) }"
    )
    await page.evaluate(hide, True)
    await page.clock.run_for(4_000)
    first = asked()
    await page.clock.run_for(12_000)
    assert asked() - first <= 1
    await store.simulate(payment["transactionId"], "paid")
    await page.evaluate(hide, False)
    await expect(page.locator("h1")).to_have_text("Pagamento confirmado")


async def test_two_tabs_come_to_the_same_end(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    first = await door.enter(visit, DESKTOP)
    second = await door.enter(visit)
    await first.fill_in()
    await second.fill_in()
    await first.press_pay()
    await first.sees_state("pix_shown")
    await second.sees_state("pix_shown")
    code = await first.page.locator("#pix-code").input_value()
    assert await second.page.locator("#pix-code").input_value() == code
    (payment,) = await store.transactions_of(visit)
    await store.simulate(payment["id"], "paid")
    await first.sees("Pagamento confirmado")
    await second.sees("Pagamento confirmado")


async def test_an_impatient_finger_pays_once(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit)
    await buyer.fill_in()
    await buyer.choose("credit_card")
    await buyer.fill_in_card("4242424242424242")
    button = buyer.page.locator("form[data-pay] button.primary")
    await button.dblclick(no_wait_after=True)
    await buyer.sees("Pagamento confirmado")
    assert len(await store.transactions_of(visit)) == 1


async def test_two_forms_sent_at_once_make_one_payment(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit, java_script_enabled=False)
    fields = {
        "form_nonce": await buyer.page.locator("[name=form_nonce]").input_value(),
        "name": "Maria da Silva",
        "email": "maria@example.com",
        "document": "52998224725",
        "method": "credit_card",
        "cc_number": "4242424242424242",
        "cc_exp": "12/31",
        "cc_csc": "123",
        "cc_name": "MARIA",
        "installments": "1",
    }
    headers = {"Origin": store.base_url}

    async def send() -> int:
        async with store.api.session.post(
            f"{visit.url}/pay", data=fields, headers=headers, allow_redirects=False
        ) as reply:
            return reply.status

    statuses = await asyncio.gather(*(send() for _ in range(4)))
    assert set(statuses) <= {303, 409, 422, 410}, statuses
    assert 303 in statuses
    paid = [each for each in await store.transactions_of(visit) if each["status"] == "paid"]
    assert [each["amount"] for each in paid] == [PRICE]
    assert len(await store.transactions_of(visit)) == 1


async def test_coming_back_from_the_shop_shows_how_things_stand(
    door: Door, store: Boutique
) -> None:
    async with running_sink() as shop:
        shop.answer("/carrinho", 200, body="<title>Loja</title>")
        visit = await store.open_session(cancelUrl=shop.url("/carrinho"))
        payment = await store.pay(visit)
        buyer = await door.enter(visit, DESKTOP, strangers=(shop.base_url,))
        buyer.watch.statuses.update({404, 200})
        await buyer.page.locator("a.back").click()
        await buyer.page.wait_for_url("**/carrinho")
        await store.simulate(payment["transactionId"], "paid")
        await buyer.page.go_back()
        await buyer.sees("Pagamento confirmado")
        arrived = shop.at("/carrinho")
        assert arrived
        assert all(visit.token not in each.headers.get("referer", "") for each in arrived)


async def test_a_refresh_on_any_state_changes_nothing(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit, DESKTOP)
    await buyer.fill_in()
    await buyer.press_pay()
    await buyer.sees_state("pix_shown")
    code = await buyer.page.locator("#pix-code").input_value()
    await buyer.page.reload()
    assert await buyer.page.locator("#pix-code").input_value() == code
    await buyer.page.go_back()
    await buyer.sees_state("pix_shown")
    assert len(await store.transactions_of(visit)) == 1


async def test_the_paid_page_goes_back_to_the_shop_unless_one_stays(
    door: Door, store: Boutique
) -> None:
    async with running_sink() as shop:
        shop.answer("/obrigado", 200, body="<title>Obrigado</title>")
        success = shop.url("/obrigado")
        visit = await store.open_session(successUrl=f"{success}?sessao={{SESSION_ID}}")
        payment = await store.pay(visit)
        buyer = await door.enter(visit, strangers=(shop.base_url,))
        buyer.watch.statuses.add(404)
        await store.simulate(payment["transactionId"], "paid")
        await buyer.sees("Pagamento confirmado")
        await expect(buyer.page.get_by_role("button", name="Ficar nesta página")).to_be_visible()
        await buyer.page.wait_for_url(f"{success}?sessao={visit.session_id}")
        # Whoever comes back stays, and may also have stayed from the start.
        await buyer.page.go_back()
        await buyer.sees("Pagamento confirmado")
        await expect(buyer.page.locator(".leaving")).to_be_hidden()


async def test_nobody_arrives_at_the_shop_before_it_has_heard(door: Door, store: Boutique) -> None:
    async with running_sink() as shop:
        shop.answer("/hook", 200, seconds=4.0)
        visit = await store.open_session(
            successUrl=shop.url("/obrigado"), postbackUrl=shop.url("/hook")
        )
        payment = await store.pay(visit)
        buyer = await door.enter(visit)
        paid_at = time.monotonic()
        await store.simulate(payment["transactionId"], "paid")
        await buyer.sees("Pagamento confirmado")
        stay = buyer.page.get_by_role("button", name="Ficar nesta página")
        await expect(stay).to_be_visible()
        assert time.monotonic() - paid_at > 4.0
        await stay.click()
        await expect(stay).to_be_hidden()


async def test_a_session_of_many_weeks_is_not_asked_for_at_once(
    door: Door, store: Boutique
) -> None:
    visit = await store.open_session()
    # More milliseconds than the timer of a browser can count.
    await store.set_session_end(visit, utc_now() + timedelta(days=40))
    buyer = await door.enter(visit)
    polls: list[str] = []
    buyer.page.on("request", lambda request: polls.append(request.url))
    await buyer.page.reload()
    await buyer.page.wait_for_timeout(1_500)
    assert not [url for url in polls if "poll=1" in url]
