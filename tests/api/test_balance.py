"""The first business route, through the whole pipeline."""

from support.api import Api, Tenant


async def test_a_new_company_has_nothing(api: Api, tenant: Tenant) -> None:
    reply = await api.get("/v1/balance", key=tenant.sk_test)
    assert reply.status == 200
    timestamp = reply.data.pop("updatedAt")
    assert timestamp.endswith("Z")
    assert reply.data == {
        "currency": "BRL",
        "available": 0,
        "waitingFunds": 0,
        "reserve": 0,
        "inTransit": 0,
        "debt": 0,
        "nextReleases": [],
    }


async def test_a_new_company_has_nothing_in_the_short_form_and_no_statement(
    api: Api, tenant: Tenant
) -> None:
    short = await api.get("/v1/balance/available", key=tenant.sk_test)
    assert short.data == {"amount": 0, "waitingFunds": 0, "reserve": 0, "maxAntecipable": 0}
    entries = await api.get("/v1/balance/entries", key=tenant.sk_live)
    assert entries.data == {
        "entries": [],
        "pagination": {
            "page": 1,
            "pageSize": 20,
            "total": 0,
            "totalPages": 0,
            "totalCapped": False,
            "nextCursor": None,
        },
    }
