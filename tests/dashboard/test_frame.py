"""The frame of every page: who may come in, and what it shows them."""

import pytest

from support.api import Api, Tenant
from support.team import Browser, sign_in
from vintem.members.model import Role
from vintem.runtime.db import Database


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/live", "/dashboard/test"])
async def test_signed_out_every_page_leads_to_the_sign_in(api: Api, path: str) -> None:
    reply = await Browser(api).get(path)
    assert (reply.status, reply.headers["location"].partition("?")[0]) == (
        303,
        "/dashboard/sign-in",
    )


async def test_each_role_sees_the_menu_of_what_it_may(
    api: Api, database: Database, tenant: Tenant
) -> None:
    owner = await sign_in(api, database, tenant, Role.OWNER)
    support = await sign_in(api, database, tenant, Role.SUPPORT)
    whole = (await owner.get("/dashboard/test")).body.decode()
    part = (await support.get("/dashboard/test")).body.decode()
    for label in ("Transações", "Produtos", "Webhooks"):
        assert f">{label}<" in whole
        assert f">{label}<" in part
    for label in ("Saques", "Equipe", "Simuladores", "Exportações"):
        assert f">{label}<" in whole
        assert f">{label}<" not in part


async def test_the_environment_cannot_be_mistaken(
    api: Api, database: Database, tenant: Tenant
) -> None:
    owner = await sign_in(api, database, tenant, Role.OWNER)
    test, live = await owner.get("/dashboard/test"), await owner.get("/dashboard/live")
    assert b"<title>TESTE" in test.body
    assert b"Nenhum dinheiro aqui" in test.body
    assert b"TESTE" not in live.body
