"""What pages say of what was just tried: once, and of the last try only."""

from support.cards import VISA, number_ending_in
from support.storefront import Storefront
from support.visitor import Visitor
from vintem.kit.clock import utc_now
from vintem.runtime.crypto import Sealer
from vintem.webhooks import service as webhooks
from vintem.webhooks.service import Place, Wishes

SEALER = Sealer(b"a pepper of this test alone, 32 characters")

REFUSED = "O banco não autorizou este cartão"


async def test_a_boleto_is_made_by_a_button_that_says_so(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    for language, words in (
        ("pt-BR", "Gerar boleto"),
        ("en", "Generate boleto"),
        ("es", "Generar boleto"),
    ):
        shown = await visitor.look(f"?lang={language}")
        assert f'<span class="by-slip">{words}</span></button>' in shown.html
    await store.set_up(payment_methods=["pix"])
    assert "by-slip" not in (await Visitor.of(await store.open()).look()).html


async def test_a_refusal_is_told_once(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    declined = await visitor.pay_by_card(number_ending_in("0002"))
    assert declined.text.count(REFUSED) == 1
    assert declined.text.count("outro cartão") == 1
    assert 'data-choose="m-pix"' in declined.html


async def test_an_old_refusal_does_not_stand_beside_a_new_fault(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    await visitor.pay_by_card(number_ending_in("0002"))
    wrong = await visitor.pay_by_card(VISA, name="Maria")
    assert (wrong.status, wrong.state) == (422, "declined")
    assert "Escreva nome e sobrenome" in wrong.text
    assert REFUSED not in wrong.text
    stale = await visitor.pay_by_card(VISA, nonce="x")
    assert "Esta página estava desatualizada" in stale.text
    assert REFUSED not in stale.text
    assert REFUSED in (await visitor.look()).text


async def test_the_script_knows_an_empty_document_from_a_wrong_one(store: Storefront) -> None:
    shown = (await Visitor.of(await store.open()).look()).html
    field = shown[shown.index('<input id="f-document"') :]
    field = field[: field.index(">")]
    assert 'data-missing="Informe o CPF ou o CNPJ"' in field
    assert 'data-error="Confira o CPF ou o CNPJ: os números não batem"' in field


async def test_the_simulator_says_that_the_session_ends_soon(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    words = "Feito: esta sessão expira em até 20 s."
    assert words not in (await visitor.look("?simulated=session_expired")).text
    asked = await visitor.post("simulate", {"to": "session_expired"})
    assert words in (await visitor.follow(asked)).text
    assert words not in (await visitor.look()).text


async def test_a_page_knows_when_the_shop_has_heard_of_the_payment(store: Storefront) -> None:
    database, place = store.database, Place(store.company_id, "test")
    wishes = Wishes(url="https://loja.example/hook", events=["checkout.session.completed"])
    endpoint, _ = await webhooks.register(database, SEALER, place, wishes, now=utc_now())
    visitor = Visitor.of(await store.open(successUrl="https://loja.example/ok"))
    told = f"{visitor.path}/told"
    await visitor.pay()
    assert (await visitor.send("GET", told)).status == 202
    await visitor.post("simulate", {"to": "paid"})
    assert f'data-told="{told}"' in (await visitor.look()).html
    waiting = await visitor.send("GET", told)
    assert (waiting.status, waiting.headers["cache-control"]) == (202, "no-store")
    # Nobody listens there any more.
    await webhooks.delete(database, place, endpoint.endpoint_id, now=utc_now())
    assert (await visitor.send("GET", told)).status == 204
    assert (await visitor.send("GET", f"/s/{'x' * 43}/told")).status == 404


async def test_a_shop_that_wants_no_calls_is_not_waited_for(store: Storefront) -> None:
    visitor = Visitor.of(await store.open(successUrl="https://loja.example/ok"))
    await visitor.pay()
    await visitor.post("simulate", {"to": "paid"})
    assert (await visitor.send("GET", f"{visitor.path}/told")).status == 204
