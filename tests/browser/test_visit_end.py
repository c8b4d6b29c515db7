"""A visit to the dashboard that is left alone says so before it ends."""

from playwright.async_api import Browser, expect

from support.api import Api, Tenant
from support.team import COOKIE, sign_in
from vintem.members.model import Role
from vintem.runtime.db import Database

MINUTE_MS = 60_000


async def test_a_page_warns_before_the_visit_ends_and_goes_on_when_asked(
    browser: Browser, api: Api, database: Database, tenant: Tenant
) -> None:
    member = await sign_in(api, database, tenant, Role.OWNER)
    context = await browser.new_context(base_url=api.base_url)
    cookie = {"name": COOKIE, "value": member.token, "url": f"{api.base_url}/dashboard"}
    await context.add_cookies([cookie])  # type: ignore[list-item]
    page = await context.new_page()
    await page.clock.install()
    await page.goto("/dashboard/test/security")
    notice = page.get_by_role("alertdialog")
    await page.clock.fast_forward(27 * MINUTE_MS)
    await expect(notice).to_be_hidden()
    await page.clock.fast_forward(2 * MINUTE_MS)
    await expect(notice).to_contain_text("sua sessão termina em 1 minuto")
    stay = page.get_by_role("button", name="Continuar conectado")
    await expect(stay).to_be_focused()
    await stay.click()
    await expect(notice).to_be_hidden()
    await page.clock.fast_forward(27 * MINUTE_MS)
    await expect(notice).to_be_hidden()

    await database.execute(
        "update sign_in set ended_at = now() where company_id = $1", tenant.company.company_id
    )
    await page.clock.fast_forward(4 * MINUTE_MS)
    await expect(page.get_by_role("heading", name="Entrar")).to_be_visible()
    await expect(page.get_by_role("status")).to_have_text(
        "Por segurança, sua sessão terminou. Entre de novo."
    )
    await context.close()
