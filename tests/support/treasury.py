"""The people of a company around its money: requests by form, codes, what the trail keeps."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyotp

from support.api import TEST_PEPPER, Api, HttpReply
from support.team import Browser, sign_in
from vintem.kit.clock import utc_now
from vintem.members import second_factor
from vintem.members import service as members
from vintem.members.model import Role
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from withdrawals.till import Till, new_till

WITHDRAWAL = re.compile(r"wd_[0-9a-z]{26}")
PIX = {"method": "pix", "amount": "10,00", "key_type": "email", "key": "cliente@example.com"}


@dataclass(frozen=True)
class Team:
    """A company with money, and the people who may be at its dashboard."""

    till: Till
    owner: Browser
    finance: Browser

    async def join(self, role: Role) -> Browser:
        return await sign_in(self.till.api, self.till.database, self.till.shop.tenant, role)


async def new_team(api: Api, database: Database, *, funds: int) -> Team:
    till = await new_till(api, database, funds=funds)
    tenant = till.shop.tenant
    return Team(
        till,
        await sign_in(api, database, tenant, Role.OWNER),
        await sign_in(api, database, tenant, Role.FINANCE),
    )


def text_of(reply: HttpReply) -> str:
    return reply.body.decode().replace("\N{NO-BREAK SPACE}", " ")


def hidden_fields(reply: HttpReply) -> dict[str, str]:
    """What the confirm page would send."""
    form = text_of(reply).partition('action="/dashboard/test/withdrawals"')[2]
    fields = re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)"', form)
    return {name: value for name, value in fields if name != "csrf"}


async def confirm(browser: Browser, fields: Mapping[str, str]) -> HttpReply:
    return await browser.post("/dashboard/test/withdrawals/confirm", fields)


async def request(browser: Browser, **changed: str) -> str:
    """Ask for a withdrawal by the two forms; its id."""
    confirmed = await confirm(browser, {**PIX, **changed})
    assert confirmed.status == 200, text_of(confirmed)
    made = await browser.post("/dashboard/test/withdrawals", hidden_fields(confirmed))
    assert made.status == 303, text_of(made)
    found = WITHDRAWAL.search(made.headers["location"])
    assert found, made.headers
    return found[0]


async def enrol(team: Team, browser: Browser) -> list[str]:
    """Give somebody an authenticator; codes that work, each of them once."""
    database, sealer = team.till.database, Sealer(TEST_PEPPER.encode())
    person_id, now = await person_of(team, browser), utc_now()
    secret = await second_factor.offer(database, sealer, person_id, now=now)
    code = pyotp.TOTP(secret).at(now)
    codes = await second_factor.enrol(database, sealer, person_id, code, now=now)
    assert codes is not None
    return list(codes)


async def person_of(team: Team, browser: Browser) -> str:
    member = await members.find_signed_in(team.till.database, browser.token, now=utc_now())
    assert member is not None
    return member.person_id


async def acts(team: Team) -> list[str]:
    rows = await team.till.database.fetch(
        "select action from act where company_id = $1 order by sequence", team.till.company_id
    )
    return [row["action"] for row in rows]
