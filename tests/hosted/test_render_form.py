"""The payment form asks as its table says, keeps what was typed, and trusts no text."""

import re
from collections.abc import Mapping

import msgspec
import pytest

from support import page_views
from support.html_page import Element, find, read
from vintem.hosted import render, views
from vintem.hosted.views import Field, Language, Method, Problem, Theme
from vintem.hosted.words import CATALOGUES

# type, inputmode, autocomplete; None: the attribute is not there.
ASKED: Mapping[str, tuple[str | None, str | None, str | None]] = {
    "name": ("text", None, "name"),
    "email": ("email", "email", "email"),
    "document": ("text", "text", "off"),
    "phone": ("tel", "tel", "tel-national"),
    "postal_code": ("text", "numeric", "postal-code"),
    "street": ("text", None, "address-line1"),
    "street_number": ("text", None, None),
    "complement": ("text", None, "address-line2"),
    "neighborhood": ("text", None, "address-level3"),
    "city": ("text", None, "address-level2"),
    "state": (None, None, "address-level1"),
    "cc_number": ("text", "numeric", "cc-number"),
    "cc_exp": ("text", "numeric", "cc-exp"),
    "cc_csc": ("text", "numeric", "cc-csc"),
    "cc_name": ("text", None, "cc-name"),
    "cc_document": ("text", "text", "off"),
    "installments": (None, None, "off"),
    "code": ("text", None, "off"),
}
HOSTILE = "\"><script>alert(1)</script>'&<b>{{ 7*7 }}{% x %}"


def form(name: str = "open_card", language: Language = Language.PORTUGUESE) -> Element:
    """Read the page of the form."""
    return read(page_views.html(name, language, Theme.LIGHT))


def named(root: Element) -> dict[str, Element]:
    """Give the fields by their names."""
    return {
        one.attributes["name"]: one
        for one in root.walk()
        if one.tag in {"input", "select", "textarea"} and "name" in one.attributes
    }


def rendered(state: views.Open, summary: views.Summary = page_views.NO_COUPON) -> Element:
    """Read the page of a form."""
    page = msgspec.structs.replace(page_views.page("open"), state=state, summary=summary)
    return read(render.render_page(page).decode())


@pytest.mark.parametrize("language", Language)
def test_every_field_is_asked_for_exactly_as_agreed(language: Language) -> None:
    fields = named(form(language=language))
    for name, (kind, keyboard, autocomplete) in ASKED.items():
        attributes = fields[name].attributes
        assert attributes.get("type") == kind, name
        assert attributes.get("inputmode") == keyboard, name
        assert attributes.get("autocomplete") == autocomplete, name
    for name in ("document", "cc_document", "code"):
        assert fields[name].attributes["autocapitalize"] == "characters"
    assert fields["cc_csc"].attributes["maxlength"] == "4"
    assert set(fields) == {*ASKED, "method", "form_nonce", "lang"}
    assert set(Field) <= set(fields)


def test_the_form_is_sent_whole_and_checked_by_the_server() -> None:
    forms = find(form(), "form", action=f"{page_views.HERE}/pay?lang=pt-BR")
    assert [one.attributes["method"] for one in forms] == ["post"]
    assert "novalidate" in forms[0].attributes
    assert "disabled" not in page_views.html("open", Language.PORTUGUESE, Theme.LIGHT)


def test_what_was_typed_comes_back_except_the_card() -> None:
    typed = views.Typed(
        name="Ana Souza",
        email="ana@exemplo.com",
        document="529.982.247-25",
        phone="(11) 98765-4321",
        postal_code="01310-100",
        street="Avenida Paulista",
        street_number="1000",
        complement="ap 3",
        neighborhood="Bela Vista",
        city="São Paulo",
        state="SP",
        card_name="ANA SOUZA",
        card_document="11.222.333/0001-81",
        installments=6,
    )
    root = rendered(msgspec.structs.replace(page_views.OPEN, typed=typed, chosen=Method.BOLETO))
    fields = named(root)
    for name in ("name", "email", "document", "phone", "street", "city", "complement"):
        assert fields[name].attributes["value"] == getattr(typed, name)
    assert fields["cc_name"].attributes["value"] == "ANA SOUZA"
    assert fields["cc_document"].attributes["value"] == "11.222.333/0001-81"
    for name in ("cc_number", "cc_exp", "cc_csc"):
        assert "value" not in fields[name].attributes
    chosen = [one for one in find(root, "option") if "selected" in one.attributes]
    assert [one.text for one in chosen] == [
        "6x de R$\xa023,97 com juros — total R$\xa0143,82",
        "SP",
        "Português",
    ]
    checked = [one for one in find(root, "input") if "checked" in one.attributes]
    assert [one.attributes["value"] for one in checked] == ["boleto"]


def test_the_holder_of_a_card_is_first_taken_to_be_the_buyer() -> None:
    assert named(form())["cc_name"].attributes["value"] == "Maria da Silva"


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("problem", Problem)
def test_a_problem_is_told_beside_its_field_and_above_the_form(
    problem: Problem, language: Language
) -> None:
    field = next((one for one in Field if problem.startswith(one.value)), Field.NAME)
    error = views.FieldError(field=field, problem=problem)
    page = page_views.page("open", language)
    state = msgspec.structs.replace(page_views.OPEN, errors=(error,))
    root = read(render.render_page(msgspec.structs.replace(page, state=state)).decode())
    sentence = CATALOGUES[language][f"problem.{problem}"]
    alert = find(root, "div", role="alert")[0]
    assert sentence in alert.text
    assert "data-focus" in alert.attributes
    if field is Field.METHOD:
        assert find(root, "p", id="f-method-e")[0].text == sentence
        return
    asked = named(root)[field]
    assert asked.attributes["aria-invalid"] == "true"
    assert find(root, "p", id=asked.attributes["aria-describedby"])[0].text == sentence


@pytest.mark.parametrize("decline", views.Decline)
def test_a_declined_card_is_explained_and_pix_is_offered(decline: views.Decline) -> None:
    root = rendered(msgspec.structs.replace(page_views.OPEN, decline=decline))
    alert = find(root, "div", role="alert")[0]
    assert CATALOGUES[Language.PORTUGUESE][f"decline.{decline}"] in alert.text
    assert "Nenhum valor foi cobrado." in alert.text
    assert find(alert, "a", href="#m-pix")[0].text == "Pagar com Pix"
    assert find(root, "main")[0].attributes["data-state"] == "declined"


@pytest.mark.parametrize("notice", views.Notice)
def test_a_refusal_is_told_above_the_form(notice: views.Notice) -> None:
    refused = views.Refused(notice=notice, wait_seconds=42)
    alert = find(
        rendered(msgspec.structs.replace(page_views.OPEN, refused=refused)), "div", role="alert"
    )[0]
    sentence = CATALOGUES[Language.PORTUGUESE][f"notice.{notice}"]
    assert alert.text == sentence.format(n=42)


@pytest.mark.parametrize("problem", views.CouponProblem)
def test_a_wrong_coupon_is_told_where_it_was_typed(problem: views.CouponProblem) -> None:
    box = views.CouponBox(typed="NADA10", problem=problem, wait_seconds=9)
    summary = msgspec.structs.replace(page_views.NO_COUPON, coupon=box)
    root = rendered(page_views.OPEN, summary)
    assert named(root)["code"].attributes["value"] == "NADA10"
    assert find(root, "p", id="f-code-e")[0].text != ""
    assert (
        "open"
        in next(
            one for one in find(root, "details") if one.attributes["class"] == "coupon"
        ).attributes
    )


def test_only_the_offered_ways_to_pay_are_shown() -> None:
    state = msgspec.structs.replace(page_views.OPEN, methods=(Method.PIX,), card=None)
    fields = named(rendered(state))
    assert "cc_number" not in fields
    assert "postal_code" not in fields


def test_installments_show_rate_cost_and_both_totals() -> None:
    root = form()
    options = [one.text for one in find(root, "option") if "data-button" in one.attributes]
    assert options[0] == "1x de R$\xa0129,90 à vista"
    assert options[2] == "3x de R$\xa043,30 sem juros"
    assert options[-1] == "12x de R$\xa013,04 com juros — total R$\xa0156,48"
    table = find(root, "table")[0]
    assert find(table, "caption")[0].text == "À vista: R$\xa0129,90"
    last = find(table, "tr")[-1]
    assert last.text.split("  ")[0] == "12x R$\xa013,04 2,99% 42,36% R$\xa0156,48"
    assert [one.text for one in find(table, "th", scope="col")] == [
        *("Parcelas", "Valor", "Juros a.m.", "CET a.a.", "Total"),
    ]


def test_texts_of_merchants_and_buyers_stay_texts() -> None:
    page = page_views.page("open", dressed=page_views.brand(name=HOSTILE))
    typed = views.Typed(name=HOSTILE, email=HOSTILE, document=HOSTILE, card_name=HOSTILE)
    item = views.Item(name=HOSTILE, quantity=1, unit_cents=100)
    banner = views.Banner(
        image=views.Image(url="/media/a", width=2, height=1, alt=HOSTILE),
        href="https://a.example/?a=1&b=2",
        title=HOSTILE,
    )
    brand = msgspec.structs.replace(page.frame.brand, banners=(banner,))
    contact = views.Contact(email=HOSTILE, phone=HOSTILE)
    frame = msgspec.structs.replace(
        page.frame, brand=brand, contact=contact, order_reference=HOSTILE
    )
    coupon = views.CouponBox(typed=HOSTILE, problem=views.CouponProblem.INVALID)
    summary = msgspec.structs.replace(page_views.NO_COUPON, items=(item,), coupon=coupon)
    state = msgspec.structs.replace(page_views.OPEN, typed=typed)
    html = render.render_page(
        msgspec.structs.replace(page, frame=frame, summary=summary, state=state)
    ).decode()
    root = read(html)
    assert "<script>" not in html
    assert "<b>" not in re.sub(r"<b>Ajuda|<b class", "", html)
    assert find(root, "title")[0].text == f"Finalizar pagamento – {HOSTILE}"
    assert named(root)["name"].attributes["value"] == HOSTILE
    assert find(root, "bdi")[0].text == HOSTILE
    assert find(root, "a", rel="noopener noreferrer nofollow")


@pytest.mark.parametrize("name", ["pix_shown", "paid", "link_landing", "link_inactive"])
def test_texts_of_other_states_stay_texts(name: str) -> None:
    page = page_views.page(name, dressed=page_views.brand(name=HOSTILE))
    texts: Mapping[str, dict[str, object]] = {
        "pix_shown": {"receiver_name": HOSTILE, "code": HOSTILE},
        "paid": {"receiver_name": HOSTILE, "payer_name": HOSTILE, "card_brand": HOSTILE},
        "link_landing": {
            "message": HOSTILE,
            "item": views.Item(name=HOSTILE, quantity=2, unit_cents=100),
        },
        "link_inactive": {"message": HOSTILE},
    }
    state = msgspec.structs.replace(page.state, **texts[name])
    html = render.render_page(msgspec.structs.replace(page, state=state)).decode()
    read(html)
    assert "<script>" not in html
    assert "alert(1)&lt;/script&gt;" in html
