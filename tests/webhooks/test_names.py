"""Name servers that hang: nobody else waits for them, and no delivery is tried in vain."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from support.api import Shop
from support.platform import until
from support.sink import Sink
from support.webhooks import QUICK, deliveries, delivering, register, until_delivered
from vintem.resources import Resources
from vintem.runtime import names
from vintem.runtime.db import Database
from vintem.runtime.names import Names, NamesBusyError
from vintem.runtime.outbound import ForbiddenAddressError, Outbound

HANGING_SECONDS_MAX = 60.0
PUBLIC = "93.184.216.34"


class Hostile:
    """A name server that does not answer for some hosts until it is let go, and counts."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[str] = []

    def ask(self, host: str, port: int) -> Sequence[str]:
        del port
        self.asked.append(host)
        if host.startswith("hangs"):
            self.let_go.wait(HANGING_SECONDS_MAX)
        return [PUBLIC]


@pytest.fixture
async def hostile() -> AsyncIterator[Hostile]:
    server = Hostile()
    yield server
    server.let_go.set()


async def resolve(found: Names, host: str, *, asker: str, is_proven: bool = False) -> object:
    return await found.resolve(host, 443, asker=asker, is_proven=is_proven)


async def test_names_that_hang_delay_no_other(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "RESOLVE_SECONDS_MAX", HANGING_SECONDS_MAX)
    found = Names(hostile.ask)

    async def ask_for_all() -> list[object]:
        asking = (resolve(found, f"hangs{n}.com.br", asker=f"{n}") for n in range(300))
        return await asyncio.gather(*asking)

    hanging = asyncio.create_task(ask_for_all())
    await until(lambda: len(hostile.asked) == 300, seconds=30)
    async with asyncio.timeout(HANGING_SECONDS_MAX / 4):
        assert await resolve(found, "loja.com.br", asker="good") == [PUBLIC]
    monkeypatch.setattr(names, "RESOLVE_SECONDS_MAX", 0.1)
    assert await ask_for_all() == [None] * 300
    assert len(hostile.asked) == 301
    hostile.let_go.set()
    assert await hanging == [[PUBLIC]] * 300


async def test_an_asker_has_one_thread_for_a_name_however_often_it_asks(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "RESOLVE_SECONDS_MAX", 0.05)
    found = Names(hostile.ask)
    for _ in range(5):
        assert await resolve(found, "hangs.com.br", asker="one") is None
    await until(lambda: hostile.asked, seconds=10)
    assert hostile.asked == ["hangs.com.br"]
    # Another one who wants the same name does not join a question that hangs already.
    assert await resolve(found, "hangs.com.br", asker="two") is None
    await until(lambda: len(hostile.asked) > 1, seconds=10)
    # Nothing is remembered: an answer is for those who wait for it.
    monkeypatch.setattr(names, "RESOLVE_SECONDS_MAX", 10.0)
    for _ in range(3):
        assert await resolve(found, "loja.com.br", asker="one") == [PUBLIC]
    assert hostile.asked == ["hangs.com.br"] * 2 + ["loja.com.br"] * 3


async def test_when_every_thread_hangs_those_that_are_proven_have_theirs(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "RESOLVE_SECONDS_MAX", 0.2)
    monkeypatch.setattr(names, "OTHER_THREADS_MAX", 3)
    found = Names(hostile.ask)
    await asyncio.gather(*(resolve(found, f"hangs{n}.com.br", asker="bad") for n in range(3)))
    monkeypatch.setattr(names, "RESOLVE_SECONDS_MAX", 10.0)
    with pytest.raises(NamesBusyError):
        await resolve(found, "loja.com.br", asker="new")
    assert await resolve(found, "loja.com.br", asker="old", is_proven=True) == [PUBLIC]
    hostile.let_go.set()
    while True:
        try:
            assert await resolve(found, "loja.com.br", asker="new") == [PUBLIC]
            break
        except NamesBusyError:
            await asyncio.sleep(0.01)


async def test_those_that_are_proven_use_the_threads_of_the_others_too(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "RESOLVE_SECONDS_MAX", 0.2)
    monkeypatch.setattr(names, "PROVEN_THREADS_MAX", 1)
    monkeypatch.setattr(names, "OTHER_THREADS_MAX", 1)
    found = Names(hostile.ask)
    for number in range(2):
        await resolve(found, f"hangs{number}.com.br", asker="old", is_proven=True)
    for is_proven in (False, True):
        with pytest.raises(NamesBusyError):
            await resolve(found, "loja.com.br", asker="other", is_proven=is_proven)


async def test_a_name_that_hangs_is_a_failed_try_with_its_reason(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "RESOLVE_SECONDS_MAX", 0.1)
    outbound = Outbound(ask=hostile.ask)
    with pytest.raises(ForbiddenAddressError, match="was not resolved within"):
        await outbound.check("https://hangs.com.br/", allows_loopback=False)
    await outbound.close()


async def test_a_busy_machine_of_ours_is_no_try_of_theirs(
    shop: Shop,
    sink: Sink,
    resources: Resources,
    database: Database,
    hostile: Hostile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(names, "OTHER_THREADS_MAX", 1)
    monkeypatch.setattr(names, "RESOLVE_SECONDS_MAX", 0.2)
    hanging, waiting, near = [await register(shop, sink.url(f"/{name}")) for name in "abc"]
    for endpoint, host in ((hanging, "hangs.com.br"), (waiting, "loja.com.br")):
        await database.execute(
            "update webhook_endpoint set url = $3 where company_id = $1 and endpoint_id = $2",
            shop.scope.company_id,
            endpoint["id"],
            f"https://{host}/",
        )
    outbound = Outbound(ask=hostile.ask)
    # The only thread hangs.
    with pytest.raises(ForbiddenAddressError):
        await outbound.check("https://hangs.com.br/", allows_loopback=False)
    await shop.create()
    async with delivering(replace(resources, outbound=outbound), QUICK):
        await until_delivered(shop, near["id"], 1)
        await asyncio.sleep(0.5)
        for endpoint in (hanging, waiting):
            [delivery] = await deliveries(shop, endpoint["id"])
            assert (delivery["status"], delivery["attempts"]) == ("pending", [])
    await outbound.close()
