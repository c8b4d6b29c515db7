"""Forms as browsers send them, and as others might."""

import pytest

from vintem.hosted.forms import FIELDS_MAX, Form, decode_form
from vintem.kit.errors import ErrorCode, Refusal


class Buyer(Form, frozen=True):
    name: str = ""
    email: str = ""


def test_plus_signs_and_percents_are_read_as_browsers_write_them() -> None:
    form = decode_form(b"name=Jo%C3%A3o+da+Silva&email=a%2Bb%40example.com", Buyer)
    assert form == Buyer(name="João da Silva", email="a+b@example.com")


def test_an_empty_form_has_empty_fields() -> None:
    assert decode_form(b"", Buyer) == Buyer()
    assert decode_form(b"name=", Buyer) == Buyer()


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (b"name=+Ana++", "Ana"),
        (b"name=Ana%0D%0ASet-Cookie:+x", "Ana Set-Cookie: x"),
        (b"name=Ana%00Lima", "Ana Lima"),
        (b"name=%E2%80%AEanA", "anA"),
    ],
)
def test_what_cannot_be_seen_is_not_kept(sent: bytes, read: str) -> None:
    assert decode_form(sent, Buyer).name == read


@pytest.mark.parametrize(
    "sent",
    [
        b"name=Ana&amount=1",
        b"name=Ana&name=Bia",
        b"name=%ZZ",
        b"name=%",
        b"name=%FF%FE",
        b"name=\xff",
        b"name",
        b"&&",
        b"&".join(b"f%d=1" % number for number in range(FIELDS_MAX + 1)),
        b'{"name": "Ana"}',
    ],
)
def test_a_form_that_no_page_of_ours_sends_is_refused_whole(sent: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        decode_form(sent, Buyer)
    assert refused.value.code is ErrorCode.VALIDATION_ERROR


def test_a_refusal_repeats_nothing_that_was_sent() -> None:
    with pytest.raises(Refusal) as refused:
        decode_form(b"4242424242424242=1&name=Ana", Buyer)
    assert "4242" not in f"{refused.value.message} {refused.value.details}"
