"""Payment links: looking writes nothing, going on opens a session, and what is over says so."""

import asyncio
from datetime import timedelta

from msgspec.structs import replace

from support.storefront import Storefront
from support.visitor import BUYER, Visitor
from vintem.checkout import catalogue
from vintem.checkout.link import PaymentLink
from vintem.kit.clock import utc_now
from vintem.kit.ids import new_token


async def new_link(store: Storefront, inactive_message: str = "") -> PaymentLink:
    return await catalogue.create_link(
        store.database,
        store.shop.scope,
        name="Curso de Violão",
        product_id=store.product.product_id,
        quantity=2,
        now=utc_now(),
        inactive_message=inactive_message,
    )


async def sessions_of(store: Storefront) -> int:
    count: int = await store.database.fetchval(
        "select count(*) from checkout_session where company_id = $1", store.company_id
    )
    return count


def visitor_of(store: Storefront, link: PaymentLink) -> Visitor:
    return Visitor(store.api, f"/l/{link.public_token}")


async def test_looking_at_a_link_shows_what_it_sells_and_writes_nothing(
    store: Storefront,
) -> None:
    visitor = visitor_of(store, await new_link(store))
    landing = await visitor.look()
    assert (landing.status, landing.state) == (200, "link_landing")
    assert '<meta property="og:title" content="Curso de Violão">' in landing.html
    assert f'content="http://127.0.0.1:8080{visitor.path}"' in landing.html
    assert "R$ 299,80" in landing.text
    assert await sessions_of(store) == 0


async def test_going_on_opens_a_session_of_ones_own(store: Storefront) -> None:
    visitor = visitor_of(store, await new_link(store))
    sent = await asyncio.gather(*(visitor.post("") for _ in range(2)))
    assert len({reply.location for reply in sent}) == 2
    page = await visitor.follow(sent[0])
    assert (page.status, page.state) == (200, "open")
    assert "Pagar R$ 299,80" in page.text
    english = await visitor.post("", query="?lang=en")
    assert english.location.endswith("?lang=en#c")


async def test_a_link_that_is_over_says_what_its_company_wants(store: Storefront) -> None:
    link = await new_link(store, inactive_message="Voltamos em <dezembro>.")
    visitor = visitor_of(store, link)
    await catalogue.change_link(store.database, replace(link, is_active=False), now=utc_now())
    for reply in (await visitor.look(), await visitor.post("")):
        assert (reply.status, reply.state) == (410, "link_inactive")
        assert "Voltamos em &lt;dezembro&gt;." in reply.html
    ended = replace(link, ends_at=utc_now() - timedelta(seconds=1))
    await catalogue.change_link(store.database, ended, now=utc_now())
    assert (await visitor.look()).status == 410
    await catalogue.change_link(store.database, link, now=utc_now())
    assert (await visitor.look()).status == 200
    unsold = replace(store.product, is_active=False)
    await catalogue.change_product(store.database, unsold, now=utc_now())
    for reply in (await visitor.look(), await visitor.post("")):
        assert (reply.status, reply.state) == (410, "link_inactive")
    assert await sessions_of(store) == 0


async def test_an_unknown_link_and_a_strange_page_are_refused(store: Storefront) -> None:
    link = await new_link(store)
    for token in (new_token(), "x", link.link_id):
        lost = Visitor(store.api, f"/l/{token}")
        for reply in (await lost.look(), await lost.post("")):
            assert (reply.status, reply.state) == (404, "not_found")
    foreign = await visitor_of(store, link).post("", headers={"origin": "https://evil.example"})
    assert (foreign.status, foreign.state) == (403, "error")
    assert await sessions_of(store) == 0


async def test_an_ended_session_of_a_link_starts_again_without_its_buyer(store: Storefront) -> None:
    visitor = visitor_of(store, await new_link(store))
    path = (await visitor.post("")).location.partition("#")[0]
    first = Visitor(store.api, path)
    assert (await first.post("restart")).location == f"{path}#c"
    await first.post("pay", {"form_nonce": (await first.look()).nonce, **BUYER, "method": "pix"})
    await store.database.execute(
        "update checkout_session set expires_at = $2 where company_id = $1",
        store.company_id,
        utc_now() - timedelta(seconds=1),
    )
    expired = await first.look()
    assert (expired.status, expired.state) == (410, "expired")
    assert "Recomeçar" in expired.text
    again = await first.follow(await first.post("restart"))
    assert (again.status, again.state) == (200, "open")
    assert "Maria" not in again.html
    assert await sessions_of(store) == 2


async def test_a_link_that_takes_no_more_payments_says_so_wherever_one_is(
    store: Storefront,
) -> None:
    link = replace(await new_link(store), payments_max=1)
    await catalogue.change_link(store.database, link, now=utc_now())
    visitor = visitor_of(store, link)
    paths = [(await visitor.post("")).location.partition("#")[0] for _ in range(2)]
    first, second = (Visitor(store.api, path) for path in paths)
    form = {**BUYER, "method": "pix"}
    await first.post("pay", {"form_nonce": (await first.look()).nonce, **form})
    assert (await first.look()).state == "pix_shown"
    refused = await second.post("pay", {"form_nonce": (await second.look()).nonce, **form})
    assert (refused.status, refused.state) == (410, "open")
    assert "já recebeu todos os pagamentos" in refused.text
    assert (await visitor.look()).state == "link_inactive"
    await store.database.execute(
        "update checkout_session set expires_at = $2 where company_id = $1",
        store.company_id,
        utc_now() - timedelta(seconds=1),
    )
    assert (await second.post("restart")).location == visitor.path
