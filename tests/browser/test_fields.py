"""What is typed: formatted on the way, with the caret where it was, and never refused for a dot."""

import pytest
from playwright.async_api import expect

from support.boutique import Boutique
from support.chromium import DESKTOP
from support.shopper import Door

TYPED = [
    ("document", "52998224725", "529.982.247-25"),
    ("document", "11222333000181", "11.222.333/0001-81"),
    ("document", "12abc34501de35", "12.ABC.345/01DE-35"),
    ("document", "12.abc.345/01de-35", "12.ABC.345/01DE-35"),
    ("phone", "11987654321", "(11) 98765-4321"),
    ("phone", "1133334444", "(11) 3333-4444"),
    ("phone", "5511987654321", "(11) 98765-4321"),
    ("cc_number", "4242424242424242", "4242 4242 4242 4242"),
    ("cc_number", "378282246310005", "3782 822463 10005"),
    ("cc_exp", "1231", "12/31"),
    ("cc_exp", "122031", "12/31"),
    ("cc_exp", "731", "07/31"),
    ("postal_code", "01310100", "01310-100"),
]
PASTED = [
    ("document", " 529 982 247 25 ", "529.982.247-25"),
    ("phone", "+55 (11) 98765-4321", "(11) 98765-4321"),
    ("cc_number", "4242-4242-4242-4242", "4242 4242 4242 4242"),
    ("cc_exp", "12 / 2031", "12/31"),
    ("postal_code", "01310-100", "01310-100"),
]
PANELS = {"cc_": "credit_card", "postal": "boleto"}


async def test_masks_format_what_is_typed_and_pasted(door: Door, store: Boutique) -> None:
    buyer = await door.enter(await store.open_session(), DESKTOP)
    page = buyer.page
    for name, typed, shown in TYPED + PASTED:
        for start, method in PANELS.items():
            if name.startswith(start):
                await buyer.choose(method)
        field = page.locator(f"#f-{name}")
        await field.fill("")
        if (name, typed, shown) in PASTED:
            await field.focus()
            await page.keyboard.insert_text(typed)
        else:
            await field.press_sequentially(typed)
        await expect(field).to_have_value(shown)


async def test_the_caret_stays_where_one_types(door: Door, store: Boutique) -> None:
    buyer = await door.enter(await store.open_session(), DESKTOP)
    field = buyer.page.locator("#f-document")
    await field.press_sequentially("5298224725")
    await field.evaluate("one => one.setSelectionRange(2, 2)")
    await buyer.page.keyboard.type("9")
    await expect(field).to_have_value("529.982.247-25")
    assert await field.evaluate("one => one.selectionStart") == 3
    await buyer.page.keyboard.press("Backspace")
    assert await field.evaluate("one => one.selectionStart") == 2
    await buyer.page.keyboard.type("9")
    await expect(field).to_have_value("529.982.247-25")


@pytest.mark.parametrize(
    "document", ["52998224725", "529.982.247-25", "12.abc.345/01de-35", "12ABC34501DE35"]
)
async def test_the_server_takes_a_document_however_it_is_written(
    door: Door, store: Boutique, document: str
) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit, java_script_enabled=False)
    for name, value in (("name", "Maria da Silva"), ("email", "maria@example.com"),
                        ("document", document), ("phone", "+55 11 98765-4321")):  # fmt: skip
        await buyer.page.locator(f"#f-{name}").fill(value)
    await buyer.press_pay()
    await buyer.sees_state("pix_shown")


async def test_a_wrong_document_is_named_beside_its_field(door: Door, store: Boutique) -> None:
    buyer = await door.enter(await store.open_session(), DESKTOP)
    await buyer.fill_in(document="52998224726")
    await buyer.page.locator("#f-email").focus()
    said = "Confira o CPF ou o CNPJ: os números não batem"
    await expect(buyer.page.locator("#f-document-e")).to_have_text(said)
    await expect(buyer.page.locator("#f-document")).to_have_attribute("aria-invalid", "true")
    await buyer.press_pay()
    await expect(buyer.page.locator("#f-document")).to_be_focused()
    await buyer.page.locator("#f-document").press("End")
    await buyer.page.locator("#f-document").press("Backspace")
    await expect(buyer.page.locator("#f-document-e")).to_have_text("")
    await buyer.page.locator("#f-document").press_sequentially("5")
    await buyer.press_pay()
    await buyer.sees_state("pix_shown")


async def test_the_server_names_every_wrong_field_and_keeps_what_was_typed(
    door: Door, store: Boutique
) -> None:
    buyer = await door.enter(await store.open_session(), DESKTOP, java_script_enabled=False)
    buyer.watch.statuses.add(422)
    page = buyer.page
    for name, value in (("name", "Maria"), ("email", "maria@"), ("document", "11111111111")):
        await page.locator(f"#f-{name}").fill(value)
    await buyer.press_pay()
    alert = page.locator(".alert[role=alert]")
    await expect(alert.locator("a")).to_have_count(3)
    for name, value in (("name", "Maria"), ("email", "maria@"), ("document", "11111111111")):
        field = page.locator(f"#f-{name}")
        assert "".join(c for c in await field.input_value() if c not in ".-") == value
        await expect(field).to_have_attribute("aria-invalid", "true")
        described = await field.get_attribute("aria-describedby")
        await expect(page.locator(f"#{described}")).not_to_be_empty()
        await alert.locator(f"a[href$='#f-{name}']").click()
        await expect(field).to_be_focused()


async def test_a_slip_in_the_address_is_hinted_at(door: Door, store: Boutique) -> None:
    buyer = await door.enter(await store.open_session(), DESKTOP)
    await buyer.fill_in(email="maria@gmial.com")
    hint = buyer.page.get_by_role("button", name="Você quis dizer maria@gmail.com?")
    await hint.click()
    await expect(buyer.page.locator("#f-email")).to_have_value("maria@gmail.com")


ATTRIBUTES = {
    "name": ("text", "name", None), "email": ("email", "email", "email"),
    "document": ("text", "off", "text"), "phone": ("tel", "tel-national", "tel"),
    "cc_number": ("text", "cc-number", "numeric"), "cc_exp": ("text", "cc-exp", "numeric"),
    "cc_csc": ("text", "cc-csc", "numeric"), "cc_name": ("text", "cc-name", None),
    "postal_code": ("text", "postal-code", "numeric"), "street": ("text", "address-line1", None),
}  # fmt: skip


async def test_keyboards_and_autofill_know_the_fields(door: Door, store: Boutique) -> None:
    buyer = await door.enter(await store.open_session())
    for name, expected in ATTRIBUTES.items():
        field = buyer.page.locator(f"#f-{name}")
        found = [await field.get_attribute(each) for each in ("type", "autocomplete", "inputmode")]
        assert tuple(found) == expected, name
    assert await buyer.page.locator("input[type=number]").count() == 0


async def test_an_empty_document_is_asked_for_and_a_wrong_one_is_doubted(
    door: Door, store: Boutique
) -> None:
    buyer = await door.enter(await store.open_session(), DESKTOP)
    field, fault = buyer.page.locator("#f-document"), buyer.page.locator("#f-document-e")
    await field.focus()
    await field.blur()
    await expect(fault).to_have_text("")
    await buyer.press_pay()
    await expect(fault).to_have_text("Informe o CPF ou o CNPJ")
    await field.fill("529.982.247-26")
    await field.blur()
    await expect(fault).to_have_text("Confira o CPF ou o CNPJ: os números não batem")
