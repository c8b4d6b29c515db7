"""The people of a company in front of the dashboard, over real HTTP."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlencode

import argon2

from support.api import Api, HttpReply, Tenant
from vintem.kit.clock import utc_now
from vintem.kit.ids import new_token
from vintem.members import service as members
from vintem.members.model import Role
from vintem.runtime.db import Database

PASSWORD = "correta cavalo bateria grampo"
COOKIE = "vintem_dashboard"

Fields = Mapping[str, str | Sequence[str]]
"""What a form sends; several texts where a field may be chosen more than once."""


@dataclass(frozen=True)
class Browser:
    """A browser without a script, signed in as somebody or as nobody."""

    api: Api
    token: str = ""

    async def get(self, path: str, **headers: str) -> HttpReply:
        return await self._call("GET", path, headers)

    async def head(self, path: str) -> HttpReply:
        return await self._call("HEAD", path, {})

    async def post(self, path: str, fields: Fields, **headers: str) -> HttpReply:
        """Send a form with the token that the pages of this browser carry."""
        csrf = await self.csrf()
        return await self.post_raw(path, {"csrf": csrf, **fields}, **headers)

    async def post_raw(self, path: str, fields: Fields, **headers: str) -> HttpReply:
        return await self._call("POST", path, headers, fields)

    async def csrf(self) -> str:
        reply = await self.get("/dashboard/test/security")
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', reply.body.decode())
        assert found, reply.body
        return found[1]

    async def _call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        fields: Fields | None = None,
    ) -> HttpReply:
        cookies = {"cookie": f"{COOKIE}={self.token}"} if self.token else {}
        if fields is not None:
            headers = {"content-type": "application/x-www-form-urlencoded", **headers}
        async with self.api.session.request(
            method,
            self.api.base_url + path,
            data=None if fields is None else urlencode(fields, doseq=True),
            headers={**cookies, **headers},
            allow_redirects=False,
        ) as response:
            return HttpReply(response.status, response.headers, await response.read())


@cache
def password_hash(password: str = PASSWORD) -> str:
    """The hash of a password, made once: it costs as much as it does in earnest."""
    return argon2.PasswordHasher().hash(password)


def new_email(role: Role) -> str:
    return f"{role}-{new_token()[:8].lower().strip('-_')}x@loja.example"


async def new_person(database: Database, tenant: Tenant, role: Role, *, email: str) -> str:
    """A new person with a role, who could sign in with PASSWORD."""
    async with database.atomic() as block:
        return await members.create_person(
            block,
            tenant.company.company_id,
            email=email,
            name=f"Pessoa {role}",
            password_hash=password_hash(),
            role=role,
            now=utc_now(),
        )


async def sign_in(api: Api, database: Database, tenant: Tenant, role: Role) -> Browser:
    """Let a new person with a role sit down at a browser."""
    person_id = await new_person(database, tenant, role, email=new_email(role))
    token = await members.begin(
        database,
        person_id=person_id,
        company_id=tenant.company.company_id,
        ip="203.0.113.9",
        user_agent="test",
        now=utc_now(),
    )
    return Browser(api, token)
