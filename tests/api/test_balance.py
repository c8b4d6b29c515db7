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
