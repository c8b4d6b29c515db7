"""What stands before a form and behind it: whose page, in which order, and what is not told."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from msgspec import structs

from conftest import running_api
from hosted.conftest import WIDE
from hosted.test_links import new_link, sessions_of, visitor_of
from support.api import Api
from support.cards import VISA, number_ending_in
from support.storefront import Storefront, new_storefront
from support.visitor import BUYER, Visitor
from vintem.checkout import catalogue
from vintem.kit.clock import utc_now
from vintem.kit.ids import new_token
from vintem.runtime.db import Database
from vintem.settings import Settings

OWN = "https://pay.example"
LARGE = b"name=" + b"a" * 300_000
GROUPED = "4111 1111-1111.1111"


@pytest.fixture(scope="module")
async def own(settings: Settings) -> AsyncIterator[Api]:
    """A server that knows its public address, and lets one address send three forms a minute."""
    changed = {**WIDE, "public_url": OWN, "public_coupons_per_minute": 3}
    async with running_api(replace(settings, **changed)) as running:  # type: ignore[arg-type]
        yield running


async def cards_kept(store: Storefront) -> int:
    count: int = await store.database.fetchval(
        "select count(*) from card_token where company_id = $1", store.company_id
    )
    return count


async def test_our_own_page_is_the_one_under_the_public_address(
    own: Api, database: Database
) -> None:
    visitor = Visitor.of(await (await new_storefront(own, database)).open())
    evil = {"origin": "http://evil.example", "host": "evil.example"}
    for headers in (evil, {"origin": own.base_url}, {"origin": "http://pay.example"}):
        assert (await visitor.post("another-way", headers=headers)).status == 403
    assert (await visitor.post("another-way", headers={"origin": OWN})).status == 303


async def test_a_form_is_counted_found_and_judged_before_it_is_read(
    own: Api, database: Database
) -> None:
    visitor = Visitor.of(await (await new_storefront(own, database)).open())
    unknown = Visitor(own, f"/s/{new_token()}")
    foreign = {"origin": "https://evil.example"}
    for one, headers, status in (
        (unknown, foreign, 404),
        (visitor, foreign, 403),
        (visitor, {"origin": OWN}, 413),
        (visitor, {"origin": OWN}, 429),
        (unknown, foreign, 429),
    ):
        sent = {"content-type": "application/x-www-form-urlencoded", **headers}
        reply = await one.send("POST", f"{one.path}/coupon", data=LARGE, headers=sent)
        assert reply.status == status


async def test_a_card_number_in_another_field_is_not_shown_again(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    fields = (
        *("name", "email", "document", "phone", "postal_code", "street", "street_number"),
        *("complement", "neighborhood", "city", "cc_name", "cc_document"),
    )
    for number in (VISA, GROUPED, f"x {VISA} 12/30 123"):
        for method in ("boleto", "credit_card"):
            reply = await visitor.pay(method, **dict.fromkeys(fields, number))
            assert (reply.status, reply.state) == (422, "open")
            assert "1111" not in reply.html


async def test_a_card_number_in_the_coupon_box_is_not_shown_again(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    reply = await visitor.post("coupon", {"code": GROUPED})
    assert reply.status == 422
    assert "1111" not in reply.html
    assert "NATAL" in (await visitor.post("coupon", {"code": "NATAL"})).html


async def test_numbers_of_companies_and_telephones_are_shown_again(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    # Both end with the digit that a card of that length would have.
    typed = {"document": "11.222.333/0035-20", "phone": "+55 11 98765-4309", "email": "x"}
    reply = await visitor.pay(**typed)
    assert reply.status == 422
    assert 'value="11.222.333/0035-20"' in reply.html
    assert 'value="+55 11 98765-4309"' in reply.html


async def test_a_card_that_cannot_be_tried_is_not_kept(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    nonce = (await visitor.look()).nonce
    assert (await visitor.pay_by_card(VISA, nonce=nonce, installments="24")).status == 422
    assert await cards_kept(store) == 0
    refused = number_ending_in("0002")
    for _ in range(2):
        # The same form again is shown what came of it.
        reply = await visitor.pay_by_card(refused, nonce=nonce)
        assert (reply.status, reply.state) == (422, "declined")
        assert await cards_kept(store) == 0
    for _ in range(4):
        await visitor.pay_by_card(refused)
    assert (await visitor.pay_by_card(VISA)).status == 429
    assert await cards_kept(store) == 0


async def test_forms_sent_at_once_leave_no_card_behind(store: Storefront) -> None:
    for is_one_form in (True, False):
        visitor = Visitor.of(await store.open())
        nonces = [(await visitor.look()).nonce for _ in range(4)]
        if is_one_form:
            nonces = nonces[:1] * 4
        sent = [visitor.pay_by_card(number_ending_in("0119"), nonce=one) for one in nonces]
        assert {reply.status for reply in await asyncio.gather(*sent)} == {303}
        assert await cards_kept(store) == 0


async def test_what_a_buyer_typed_is_not_told_to_whoever_has_the_link(store: Storefront) -> None:
    given = {"name": "Ana Souza", "email": "ana@example.com"}
    visitor = Visitor.of(await store.open(customer=given))
    # A merchant's own words are filled in, until the buyer says otherwise.
    assert 'value="Ana Souza"' in (await visitor.look()).html
    declined = await visitor.pay_by_card(number_ending_in("0002"))
    assert 'value="529.982.247-25"' in declined.html
    assert 'value="maria@example.com"' in declined.html
    again = await visitor.look()
    assert again.state == "declined"
    await visitor.pay()
    chosen = await visitor.follow(await visitor.post("another-way"))
    assert chosen.state == "open"
    for page in (again, chosen):
        for told in ("529", "maria@", "Maria", "Ana"):
            assert told not in page.html


async def test_one_browser_finds_its_open_session_again(store: Storefront) -> None:
    link, other = await new_link(store), await new_link(store)
    visitor = visitor_of(store, link)
    first = await visitor.post("")
    name, _, rest = first.headers["set-cookie"].partition("=")
    token, _, terms = rest.partition("; ")
    assert name == "vintem_session"
    assert terms == f"Max-Age=172800; Path=/l/{link.public_token}; HttpOnly; SameSite=Lax"
    assert first.location == f"/s/{token}#c"
    mine = {"cookie": f"a=b; vintem_session={token}"}
    again = await visitor.post("", headers=mine)
    assert again.location == first.location
    assert "set-cookie" not in again.headers
    assert await sessions_of(store) == 1
    # Nobody else's, not at another link, and not once it is over.
    assert (await visitor.post("")).location != first.location
    assert (await visitor_of(store, other).post("", headers=mine)).location != first.location
    for junk in ("", new_token(), "x"):
        sent = {"cookie": f"vintem_session={junk}"}
        assert (await visitor.post("", headers=sent)).location != first.location
    buyer = Visitor(store.api, f"/s/{token}")
    await buyer.post("pay", {"form_nonce": (await buyer.look()).nonce, **BUYER, "method": "pix"})
    assert (await visitor.post("", headers=mine)).location == first.location
    await buyer.post("simulate", {"to": "paid"})
    assert (await visitor.post("", headers=mine)).location != first.location
    await catalogue.change_link(
        store.database, structs.replace(link, is_active=False), now=utc_now()
    )
    assert (await visitor.post("", headers=mine)).status == 410
