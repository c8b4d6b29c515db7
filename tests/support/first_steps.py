"""The first steps of a newcomer with a browser alone, from the sign-in to a webhook delivered."""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import pyotp
from playwright.async_api import Page, expect

from support.boutique import CPF
from support.chromium import DESKTOP, Watch
from support.shopper import Door

Camera = Callable[[Page, str], Awaitable[None]]
"""Takes a picture of what a step has come to, under its name."""
PASSWORD = "violão azul na varanda 7"
STEPS = (
    "sign-in",
    "home",
    "webhook",
    "product",
    "link",
    "buyer",
    "paid",
    "sale",
    "balance",
    "rules",
    "withdrawal",
    "invitation",
    "approval",
    "completed",
    "deliveries",
)


@dataclass
class Member:
    """Somebody in front of the dashboard."""

    page: Page
    base_url: str
    watch: Watch
    name: str
    environment: str = "test"
    secret: str = ""

    async def go(self, path: str) -> None:
        await self.page.goto(self.address(path))

    def address(self, path: str) -> str:
        return f"{self.base_url}/dashboard/{self.environment}{path}"

    async def fill(self, fields: Mapping[str, str]) -> None:
        for name, value in fields.items():
            place = self.page.locator(f"main #f-{name}")
            if await place.evaluate("one => one.tagName") == "SELECT":
                await place.select_option(value)
            else:
                await place.fill(value)

    async def press(self, name: str) -> None:
        await self.page.locator("main").get_by_role("button", name=name).click()

    async def reads(self, text: str) -> None:
        await expect(self.page.locator("main")).to_contain_text(text)

    async def set_up_second_step(self) -> None:
        await self.go("/security")
        await self.fill({"totp-current": PASSWORD})
        await self.press("Ativar")
        self.secret = await self.page.locator("code.secret").inner_text()
        await self.fill({"code": self.code()})
        await self.press("Ativar")
        await self.reads("Guarde os códigos de reserva")

    def code(self, *, steps_later: int = 0) -> str:
        """What the authenticator shows, now or a step later: each code works once."""
        totp = pyotp.TOTP(self.secret.replace(" ", ""))
        return totp.at(int(time.time()), counter_offset=steps_later)


async def sign_in(door: Door, login: Mapping[str, str], camera: Camera | None = None) -> Member:
    context, watch = await door.context(DESKTOP)
    page = await context.new_page()
    await page.goto(login["url"])
    if camera is not None:
        await camera(page, "sign-in")
    await page.fill("input[name=email]", login["email"])
    await page.fill("input[name=password]", login["password"])
    await page.locator("main button").click()
    await expect(page.locator("h1")).to_have_text("Início")
    name = await page.locator(".me .who").inner_text()
    return Member(page, door.base_url, watch, name)


async def invite(owner: Member, email: str, role: str) -> str:
    """Ask somebody to join; the address that the page shows once."""
    await owner.go("/team")
    await owner.fill({"email": email, "role": role})
    await owner.press("Convidar")
    await owner.reads("Copie o link do convite agora")
    return await owner.page.locator("main .note .copy code").inner_text()


async def join(door: Door, link: str, name: str) -> Member:
    """Accept an invitation as somebody new."""
    context, watch = await door.context(DESKTOP)
    page = await context.new_page()
    await page.goto(link)
    member = Member(page, door.base_url, watch, name)
    await member.fill({"name": name, "password": PASSWORD, "again": PASSWORD})
    await member.press("Aceitar convite")
    await expect(page.locator("h1")).to_have_text("Início")
    return member


async def buy(door: Door, link: str, camera: Camera | None = None) -> None:
    """Open a payment link as a buyer, pay by PIX, and let the simulator be the bank."""
    context, _ = await door.context()
    page = await context.new_page()
    await page.goto(link)
    # What it sells is shown for a moment only: the page goes on by itself.
    await expect(page.locator("form[data-pay]")).to_be_visible()
    for name, value in (("name", "Maria da Silva"), ("email", "maria@example.com")):
        await page.locator(f"#f-{name}").fill(value)
    await page.locator("#f-document").fill(CPF)
    if camera is not None:
        await camera(page, "buyer")
    await page.locator("form[data-pay] button.primary").click()
    await expect(page.locator("main")).to_have_attribute("data-state", "pix_shown")
    await page.get_by_role("button", name="Marcar como pago").click()
    await expect(page.locator("h1")).to_have_text("Pagamento confirmado")
    if camera is not None:
        await camera(page, "paid")


async def register_sink(member: Member) -> None:
    """Let webhooks go to the address of the sandbox's own."""
    await member.go("/simulators/sink")
    await member.press("Cadastrar como webhook")
    await member.reads("Cadastrado como webhook")


async def create_product(member: Member, name: str, price: str) -> None:
    await member.go("/products/new")
    await member.fill({"name": name, "price": price})
    await member.press("Criar produto")
    await member.reads("Produto criado")


async def create_link(member: Member, name: str, product: str, *, coupon: str = "") -> str:
    """Make a payment link; its address."""
    await member.go("/links/new")
    chosen = member.page.locator("#f-product_id option", has_text=product)
    await member.fill({"name": name, "coupon_code": coupon})
    value = await chosen.first.get_attribute("value")
    assert value is not None
    await member.page.locator("#f-product_id").select_option(value)
    await member.press("Criar link")
    await member.reads("Link criado")
    return await member.page.locator("#share ~ p .copy code").first.inner_text()


async def require_approval(member: Member, *, above: str = "0,00") -> None:
    """Let every withdrawal above an amount wait for a second person."""
    await member.go("/withdrawals/rules")
    await member.fill({"automatic_cents_max": above})
    await member.press("Continuar")
    await member.press("Mudar as regras")
    await member.reads("Regras de saque salvas")


async def request_withdrawal(member: Member, amount: str) -> str:
    """Ask for money by PIX; the id of the withdrawal."""
    await member.go("/withdrawals/new")
    await member.fill({"amount": amount, "key_type": "email", "key": "dona@loja.example"})
    await member.press("Continuar")
    await member.press("Confirmar saque")
    await member.reads("Ele aguarda a aprovação de outra pessoa")
    found = re.search(r"wd_[0-9a-z]{26}", member.page.url)
    assert found, member.page.url
    return found[0]


async def approve(member: Member, withdrawal_id: str, code: str) -> None:
    await member.go(f"/approvals/{withdrawal_id}")
    await member.fill({"code": code})
    await member.press("Aprovar")
    await member.reads("Saque aprovado")


async def walk(door: Door, login: Mapping[str, str], camera: Camera) -> None:
    """Walk all of the first steps, and take a picture of each."""
    owner = await sign_in(door, login, camera)
    await camera(owner.page, "home")
    await register_sink(owner)
    await camera(owner.page, "webhook")
    await create_product(owner, "Aula de violão", "49,90")
    await camera(owner.page, "product")
    link = await create_link(owner, "Aula avulsa", "Aula de violão")
    await camera(owner.page, "link")
    await buy(door, link, camera)
    await owner.go("/transactions")
    await owner.reads("Paga")
    await camera(owner.page, "sale")
    await owner.go("/balance")
    await owner.reads("R$ 49,90")
    await camera(owner.page, "balance")
    await require_approval(owner)
    await camera(owner.page, "rules")
    withdrawal_id = await request_withdrawal(owner, "20,00")
    await camera(owner.page, "withdrawal")
    invitation = await invite(owner, "socia@loja.example", "admin")
    await camera(owner.page, "invitation")
    second = await join(door, invitation, "Bia Reis")
    await second.set_up_second_step()
    await second.go(f"/approvals/{withdrawal_id}")
    await camera(second.page, "approval")
    await approve(second, withdrawal_id, second.code(steps_later=1))
    await until_says(owner, f"/withdrawals/{withdrawal_id}", "Concluído", ".head")
    await camera(owner.page, "completed")
    await until_says(owner, "/deliveries", "withdrawal.completed")
    await camera(owner.page, "deliveries")


async def until_says(member: Member, path: str, text: str, where: str = "main") -> None:
    """Look at a page again until it says something."""
    for _ in range(60):
        await member.go(path)
        if text in await member.page.locator(where).first.inner_text():
            return
        await member.page.wait_for_timeout(500)
    raise AssertionError(f"{path} never says {text}")
