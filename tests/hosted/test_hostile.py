"""What somebody might try on a page that takes money, each of it refused or made harmless."""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from conftest import LOG_FOLDER, running_api
from support.api import REQUEST_ID, Api
from support.cards import VISA, number_ending_in
from support.storefront import Storefront, new_storefront
from support.visitor import BUYER, HtmlReply, Visitor
from vintem.api.checkout_order import check_return_url
from vintem.checkout import catalogue
from vintem.checkout.model import Appearance, Banner, Theme
from vintem.companies.model import Environment
from vintem.hosted.context import brand_of
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import new_token
from vintem.ledger.model import Scope
from vintem.runtime import log as logs
from vintem.runtime.db import Database
from vintem.settings import Settings

POLICY = re.compile(
    r"default-src 'none'; script-src 'self'; style-src 'nonce-([0-9A-Za-z_-]{22})'; "
    r"img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    r"base-uri 'none'; require-trusted-types-for 'script'; trusted-types co"
)
HEADERS = {
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "strict-transport-security": "max-age=31536000",
    "x-robots-tag": "noindex, nofollow",
}
TRANSPORT = {"date", "x-request-id", "content-type", "content-length", "content-security-policy"}
MARKUP = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'{{7*7}}${7*7}"
ACTIONS = ("pay", "coupon", "coupon/remove", "another-way", "new-pix", "restart", "simulate")


def assert_page(reply: HtmlReply, *, also: frozenset[str] = frozenset()) -> str:
    """Hold a page against its exact headers; gives its nonce."""
    assert {name: reply.headers.get(name) for name in HEADERS} == HEADERS
    assert {name.lower() for name in reply.headers} == TRANSPORT | set(HEADERS) | also
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = POLICY.fullmatch(reply.headers["content-security-policy"])
    assert policy, reply.headers["content-security-policy"]
    return policy[1]


async def test_every_page_has_exactly_its_headers_and_a_fresh_nonce(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    lost = Visitor(store.api, f"/s/{new_token()}")
    replies = [
        await visitor.look(),
        await visitor.look(),
        await visitor.look("?f=1"),
        await visitor.pay(name=""),
        await lost.look(),
    ]
    nonces = [assert_page(reply) for reply in replies]
    assert len(set(nonces)) == len(nonces)
    for nonce, reply in zip(nonces, replies, strict=True):
        assert set(re.findall(r'nonce="([^"]*)"', reply.html)) <= {nonce}
        assert not re.search(r"<[^>]*\s(?:style|on[a-z]+)\s*=", reply.html)
        assert not re.search(r"<script(?![^>]*\bsrc=)", reply.html)
    sent = await visitor.pay()
    assert_page(sent, also=frozenset({"location"}))


async def test_a_packed_page_is_the_same_page(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    packed = await visitor.look("?lang=es", headers={"accept-encoding": "br, gzip;q=0.5"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "Finalizar el pago" in packed.text
    plain = await visitor.look("?lang=es", headers={"accept-encoding": "gzip;q=0"})
    assert "content-encoding" not in plain.headers
    assert int(packed.headers["content-length"]) * 2 < len(plain.body)


async def test_files_of_pages_never_change_and_are_what_the_page_demands(
    store: Storefront,
) -> None:
    visitor = Visitor.of(await store.open())
    page = (await visitor.look()).html
    script = re.search(r'<script src="(/static/[^"]+)" defer integrity="([^"]+)"', page)
    assert script
    file = await visitor.send("GET", script[1])
    assert (file.status, file.headers["cache-control"]) == (
        200,
        "public, max-age=31536000, immutable",
    )
    assert file.headers["content-type"] == "text/javascript; charset=utf-8"
    assert file.headers["x-content-type-options"] == "nosniff"
    packed = await visitor.send("GET", script[1], headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.body == file.body
    for wrong in ("checkout.000000000000.js", "scripts.json", "..%2f..%2fviews.py", "a.b.c"):
        assert (await visitor.send("GET", f"/static/{wrong}")).status == 404


async def test_texts_of_merchants_and_buyers_are_never_markup(
    store: Storefront, database: Database
) -> None:
    scope = store.shop.scope
    product = await catalogue.create_product(
        database, scope, name=MARKUP, unit_amount=9_990, now=utc_now()
    )
    appearance = Appearance(
        version=0,
        display_name=MARKUP[:100],
        theme=Theme.DARK,
        logo_url="https://cdn.example.com/logo.png",
        logo_media="../../evil",
        banners=(
            Banner(1, "https://cdn.example.com/b.png", MARKUP, MARKUP, None, f"{'f' * 64}-760x240"),
            Banner(2, "https://cdn.example.com/c.png", MARKUP, MARKUP, None, "javascript:1"),
        ),
    )
    await catalogue.publish_appearance(database, scope, appearance, now=utc_now())
    await database.execute(
        """
        update checkout_appearance
        set banners = replace(banners, '"href":null', '"href":"javascript:alert(1)"')
        where company_id = $1
        """,
        store.company_id,
    )
    await store.database.execute(
        """
        update company set name = $2, legal_name = $2, support_email = $3,
            support_url = 'javascript:alert(1)', support_phone = '<script>'
        where company_id = $1
        """,
        store.company_id,
        MARKUP,
        'a@b.co"><script>',
    )
    basket = await store.open(
        productId=product.product_id, externalRef=MARKUP, customer={"name": MARKUP}
    )
    visitor = Visitor.of(basket)
    pages = [
        await visitor.look(),
        await visitor.look(f"?lang={MARKUP}&coupon={MARKUP}&check={MARKUP}".replace(" ", "+")),
        await visitor.post("coupon", {"code": MARKUP}),
        await visitor.pay(name=MARKUP, email=MARKUP, document=MARKUP, city=MARKUP, state="<b>"),
        await visitor.pay("credit_card", cc_name=MARKUP, cc_number=MARKUP, cc_document=MARKUP),
    ]
    await visitor.pay()
    pages.append(await visitor.look())
    await visitor.post("simulate", {"to": "paid"})
    pages.append(await visitor.look())
    for page in pages:
        assert "<script>" not in page.html
        assert "<img src=x" not in page.html
        assert "javascript:" not in page.html
        assert "cdn.example.com" not in page.html
        assert "49" not in re.findall(r"\{\{(\d+)\}\}", page.html)
        assert set(re.findall(r'<img[^>]* src="([^"]*)"', page.html)) <= {f"/media/{'f' * 64}"}


@pytest.mark.parametrize(
    "color", ["red;}", "#fff", "#12345g", "#000000;background:url(//evil.example)", "#ABCDEFF"]
)
def test_a_colour_that_is_none_is_never_written_into_the_style(color: str) -> None:
    brand = brand_of(Appearance(version=1, display_name="Loja", primary_color=color))
    assert re.fullmatch("#[0-9a-f]{6}", brand.primary_color)


async def test_a_tampered_form_is_not_paid(store: Storefront) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    for changed in (
        {"amount": "100"},
        {"total": "1"},
        {"couponCode": "FREE"},
        {"form_nonce": "A" * 22 + ".100"},
        {"form_nonce": ""},
        {"form_nonce": "A" * 22},
        {"form_nonce": "../../x.14990"},
    ):
        fields = {"form_nonce": (await visitor.look()).nonce, **BUYER, "method": "pix", **changed}
        refused = await visitor.post("pay", fields)
        assert (refused.status, refused.state) == (422, "open"), changed
        assert "Esta página estava desatualizada" in refused.text
    for installments in ("24", "0", "13", "99", "1.5", "-3", "²"):
        refused = await visitor.pay_by_card(VISA, installments=installments)
        assert (refused.status, refused.state) == (422, "open"), installments
        assert "Escolha o número de parcelas" in refused.text
    assert (await visitor.pay("crypto")).status == 422
    assert (await basket.found()).payments_tried == 0


@pytest.mark.parametrize(
    ("content_type", "data", "status"),
    [
        ("application/json", b'{"method":"pix"}', 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("text/plain", b"method=pix", 415),
        ("application/x-www-form-urlencoded", b"name=" + b"a" * 17_000, 413),
        ("application/x-www-form-urlencoded", b"method=pix&method=boleto", 422),
        ("application/x-www-form-urlencoded", b"name=%FF", 422),
    ],
)
async def test_a_body_that_is_no_form_of_ours_is_refused_as_a_page(
    store: Storefront, content_type: str, data: bytes, status: int
) -> None:
    visitor = Visitor.of(await store.open())
    headers = {"content-type": content_type, "origin": store.api.base_url}
    refused = await visitor.send("POST", f"{visitor.path}/pay", data=data, headers=headers)
    assert refused.status == status
    assert_page(refused)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1"},
        {"origin": "null"},
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
        {"origin": "http://127.0.0.1.evil.example"},
        {"origin": "https://loja.example.com"},
    ],
)
async def test_a_form_of_another_site_is_refused_before_it_is_read(
    store: Storefront, headers: dict[str, str]
) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    for action in ACTIONS:
        refused = await visitor.post(action, {"nonsense": "1"}, headers=headers)
        assert (refused.status, refused.state) == (403, "error"), action
        assert_page(refused)
        assert "Nenhuma cobrança foi feita" in refused.text
    assert (await basket.found()).payments_tried == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": ""},
        {"origin": "null", "sec-fetch-site": "same-origin"},
        {"origin": "https://loja.example.com"},
    ],
)
async def test_a_form_of_our_own_page_or_the_companys_is_taken(
    store: Storefront, headers: dict[str, str]
) -> None:
    await store.set_up(domains=("loja.example.com",))
    visitor = Visitor.of(await store.open())
    nonce = (await visitor.look()).nonce
    fields = {"form_nonce": nonce, **BUYER, "method": "pix"}
    assert (await visitor.post("pay", fields, headers=headers)).status == 303


async def test_an_unknown_token_is_one_page_whatever_its_form(store: Storefront) -> None:
    basket = await store.open()
    known = basket.token
    near = known[:-1] + ("A" if known[-1] != "A" else "B")
    pages = set()
    for token in (near, new_token(), "x", "A" * 500, "%00", "..%2f..", basket.session_id, "%F0%9F"):
        visitor = Visitor(store.api, f"/s/{token}")
        for reply in (
            await visitor.look(),
            await visitor.post("pay", {"form_nonce": "x"}),
            await visitor.send("GET", f"/s/{token}/receipt.pdf"),
        ):
            if reply.headers["content-type"] == "application/json":
                # An encoded slash is the path of nothing at all.
                assert "%2f" in token
                continue
            assert (reply.status, reply.state) == (404, "not_found"), token
            assert_page(reply)
            assert store.product.name not in reply.html
            pages.add(re.sub(r'(?:nonce|action)="[^"]*"', "", reply.html))
    assert len(pages) == 1


@pytest.mark.parametrize("path", ["/s/", "/s/a/b/c/d", "/l/", "/l/x/y"])
async def test_an_address_below_pages_that_is_none_is_a_page_too(door: Api, path: str) -> None:
    reply = await Visitor(door, "").send("GET", path)
    assert (reply.status, reply.state) == (404, "not_found")


async def test_another_method_is_refused_as_a_page(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    reply = await visitor.send("DELETE", visitor.path)
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")
    assert_page(reply, also=frozenset({"allow"}))
    head = await visitor.send("HEAD", visitor.path)
    assert (head.status, head.body) == (200, b"")


async def test_a_header_cannot_be_put_into_an_answer(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    for query in ("?lang=en%0d%0aset-cookie:%20a=b", "?lang=%0aen&coupon=%0d%0a"):
        for reply in (
            await visitor.look(query),
            await visitor.post("coupon/remove", query=query),
            await visitor.post("another-way", query=query),
        ):
            assert "set-cookie" not in reply.headers
            assert reply.headers.get("location", visitor.path).startswith(visitor.path)


async def test_no_address_leads_anywhere_but_to_our_own_pages(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    for target in REDIRECT_CORPUS[::7]:
        sent = urlencode({"next": target, "successUrl": target, "lang": target, "coupon": target})
        for reply in (
            await visitor.post("another-way", query=f"?{sent}"),
            await visitor.send("GET", f"{visitor.path}/pay?{sent}"),
        ):
            assert re.fullmatch(
                re.escape(visitor.path) + r"(\?lang=(pt-BR|en|es))?#c", reply.location
            )


REDIRECT_CORPUS = [
    f"{start}evil.example{end}"
    for start in (
        "https://",
        "//",
        "\\\\",
        "/\\",
        "https:",
        "javascript:alert(1)//",
        "\t//",
        "%2f%2f",
    )
    for end in ("", "/", "%0d%0a", "@loja.example.com", "?x=1", "#c", "/https://loja.example.com")
]


def test_an_address_to_return_to_is_judged_when_the_session_is_opened() -> None:
    corpus = (*REDIRECT_CORPUS, *HOST_CORPUS)
    assert len(corpus) > 200
    for target in corpus:
        with pytest.raises(Refusal) as refused:
            check_return_url(
                target, "successUrl", environment="live", domains=("loja.example.com",)
            )
        assert refused.value.code is ErrorCode.INVALID_URL, target


HOST_CORPUS = [
    f"https://{host}{end}"
    for host in (
        *("evil.example", "loja.example.com.evil.example", "evilloja.example.com"),
        *("loja.example.com@evil.example", "loja.example.com%40evil.example", "evil.example\\"),
        *("loja.example.com:443@evil.example", "[::1]", "127.1", "2130706433", "0x7f000001"),
        *("xn--lja-8qa.example.com", "loja。example.com.evil.example", "evil.example#"),
        *("loja.example.com\u200b.evil.example", "LOJA.EXAMPLE.COM.evil.example", "example.com"),
        *("a.loja.example.com", "loja.example.co", "loja-example.com", "user:pw@loja.example.com"),
        *("loja.example.com\t", " loja.example.com", "loja.example.com\n"),
        *(
            "",
            ".",
            "..",
            "loja..example.com",
            ".loja.example.com",
            "evil.example/.loja.example.com",
        ),
    )
    for end in ("", "/", "/ok", "?a=//loja.example.com", "/@loja.example.com")
]


async def test_a_live_page_has_no_simulator_and_takes_no_orders_for_one(
    store: Storefront, database: Database
) -> None:
    product = await catalogue.create_product(
        database,
        Scope(store.company_id, Environment.LIVE),
        name="Curso",
        unit_amount=9_990,
        now=utc_now(),
    )
    reply = await store.api.post(
        "/v1/checkout/sessions",
        key=store.shop.tenant.ck_live,
        json={"productId": product.product_id},
    )
    visitor = Visitor(store.api, "/s/" + reply.data["checkoutUrl"].rpartition("/s/")[2])
    page = await visitor.look()
    assert page.state == "open"
    assert "Modo de teste" not in page.text
    assert "simulate" not in page.html
    for to in ("paid", "session_expired", "pix_expired"):
        refused = await visitor.post("simulate", {"to": to})
        assert (refused.status, refused.state) == (403, "error")
    for reply_html in (await visitor.pay(), await visitor.pay_by_card(VISA)):
        assert (reply_html.status, reply_html.state) == (503, "open")
        assert "A loja não está recebendo pagamentos agora" in reply_html.text
    assert (await visitor.look()).state == "open"


def read_logs() -> str:
    return "".join(path.read_text() for path in Path(os.environ[LOG_FOLDER]).glob("*.log"))


async def test_neither_tokens_nor_cards_are_written_to_the_log(store: Storefront) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    number = number_ending_in("0002", first="515151")
    await visitor.pay_by_card(number, cc_csc="957")
    await visitor.post("pay", {"cc_number": number, "cc_csc": "957", "oops": number})
    await visitor.look()
    await Visitor(store.api, f"/s/{basket.token}x").look()
    logs.flush_access()
    written = read_logs()
    assert basket.token not in written
    assert number not in written
    assert '"route":"/s/{token}/pay"' in written
    assert '"code":"VALIDATION_ERROR"' in written


@pytest.fixture(scope="module")
async def narrow(settings: Settings) -> AsyncIterator[Api]:
    """A server with the limits that everybody has."""
    async with running_api(settings) as running:
        yield running


async def test_forms_are_limited_by_address_and_looking_is_not(
    narrow: Api, database: Database
) -> None:
    store = await new_storefront(narrow, database)
    visitor = Visitor.of(await store.open())
    for _ in range(30):
        assert (await visitor.look()).status == 200
    for _ in range(10):
        assert (await visitor.pay(name="")).status == 422
    over = await visitor.pay(name="Ana Lima")
    assert (over.status, over.state) == (429, "open")
    assert 'value="Ana Lima"' in over.html
    assert 1 <= int(over.headers["retry-after"]) <= 60
    assert "Muitas tentativas. Aguarde" in over.text
    foreign = {"origin": "https://evil.example"}
    assert (await visitor.post("pay", {"name": "Eva"}, headers=foreign)).state == "error"
    for _ in range(10):
        assert (await visitor.post("coupon/remove")).status == 303
    over = await visitor.post("coupon", {"code": "TEN"})
    assert (over.status, over.state) == (429, "open")
    lost = Visitor(narrow, f"/s/{new_token()}")
    refused = await lost.post("pay", {})
    assert (refused.status, refused.state) == (429, "error")
    assert REQUEST_ID.search(refused.text)


@pytest.mark.parametrize(("path", "status"), [("/s/test/fails", 500), ("/s/test/away", 503)])
async def test_a_fault_of_ours_is_a_page_with_the_number_to_quote(
    door: Api, path: str, status: int
) -> None:
    broken = await Visitor(door, "").send("GET", path, headers={"accept-language": "en"})
    assert (broken.status, broken.state) == (status, "error")
    assert broken.headers["x-request-id"] in broken.text
    assert "Nothing was charged" in broken.text
    assert "Traceback" not in broken.html
    assert "sk_live" not in broken.html
    assert_page(broken, also=frozenset({"retry-after"} if status == 503 else ()))
