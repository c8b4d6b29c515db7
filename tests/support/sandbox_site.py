"""A platform whose sandbox may call this machine, itself included, and who sits in front of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from conftest import client
from support.api import Api, Shop, Tenant, new_tenant
from support.routes import TEST_ROUTES
from support.team import Browser, sign_in
from vintem.api import reference
from vintem.api.pipeline import Pipeline
from vintem.api.routes import TABLE
from vintem.app import PAGES, REFUSAL_PAGES
from vintem.members.model import Role
from vintem.resources import Resources, open_resources
from vintem.runtime.db import Database
from vintem.runtime.listening import listen
from vintem.server import make_server, run_server
from vintem.settings import Settings


@dataclass(frozen=True)
class Site:
    """One running server, what it runs on, and its address."""

    resources: Resources
    api: Api

    @property
    def database(self) -> Database:
        return self.resources.database

    async def shop(self) -> Shop:
        tenant = await new_tenant(self.database, transactions_per_second=1_000_000)
        return Shop(self.api, self.database, tenant)

    async def browser(self, tenant: Tenant, role: Role = Role.DEVELOPER) -> Browser:
        return await sign_in(self.api, self.database, tenant, role)


@asynccontextmanager
async def running_site(settings: Settings) -> AsyncIterator[Site]:
    """A server that knows its own address, as one has that listens on a port of its settings."""
    listener = listen("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    lenient = replace(settings, allow_loopback_webhooks=True, callback_url=address)
    async with open_resources(lenient, shared_limits=False) as resources:
        app = Pipeline(
            resources,
            (*TABLE, *reference.routes(TABLE), *PAGES, *TEST_ROUTES),
            refusal_pages=REFUSAL_PAGES,
        )
        server = make_server(app, drain_seconds=1)
        task = asyncio.create_task(run_server(server, [listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        async with client() as session:
            yield Site(resources, Api(address, session))
        server.should_exit = True
        await task
