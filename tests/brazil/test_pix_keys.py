"""PIX keys: each kind in the form of the directory, decided by the declared kind alone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.brazil import pix_keys
from vintem.brazil.pix_keys import PixKeyKind, normalise_pix_key

EVP = "123e4567-e89b-12d3-a456-426655440000"
LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
DIRECTORY_FORMS = {
    PixKeyKind.CPF: r"[0-9]{11}",
    PixKeyKind.CNPJ: r"[0-9A-Z]{14}",
    PixKeyKind.PHONE: r"\+55[0-9]{2}9[0-9]{8}",
    PixKeyKind.EMAIL: rf"[a-z0-9.!#$'*+\/=?^_`{{|}}~-]+@{LABEL}(?:\.{LABEL})*",
    PixKeyKind.EVP: r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
}


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (PixKeyKind.CPF, "123.456.789-09", "12345678909"),
        (PixKeyKind.CPF, "529.982.247-25", "52998224725"),
        (PixKeyKind.CPF, "390.533.447-05", "39053344705"),
        (PixKeyKind.CPF, "111.444.777-35", "11144477735"),
        (PixKeyKind.CNPJ, "11.222.333/0001-81", "11222333000181"),
        (PixKeyKind.CNPJ, "16.727.230/0001-97", "16727230000197"),
        (PixKeyKind.CNPJ, "12.ABC.345/01DE-35", "12ABC34501DE35"),
        (PixKeyKind.PHONE, "11987654321", "+5511987654321"),
        (PixKeyKind.PHONE, "5511987654321", "+5511987654321"),
        (PixKeyKind.PHONE, "+5511987654321", "+5511987654321"),
        (PixKeyKind.EMAIL, "Ana.Sa-1+pix@Example.COM.br", "ana.sa-1+pix@example.com.br"),
        (PixKeyKind.EVP, "123E4567-E89B-12D3-A456-426655440000", EVP),
        (PixKeyKind.EVP, f" {EVP} ", EVP),
    ],
)
def test_a_key_is_given_in_the_form_of_the_directory(
    kind: PixKeyKind, text: str, expected: str
) -> None:
    assert normalise_pix_key(kind, text) == expected


def test_the_declared_kind_decides_between_cpf_and_mobile() -> None:
    assert normalise_pix_key(PixKeyKind.CPF, "51998259765") == "51998259765"
    assert normalise_pix_key(PixKeyKind.PHONE, "51998259765") == "+5551998259765"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (PixKeyKind.CPF, "11.222.333/0001-81"),
        (PixKeyKind.CPF, "111.111.111-11"),
        (PixKeyKind.CPF, "529.982.247-26"),
        (PixKeyKind.CNPJ, "529.982.247-25"),
        (PixKeyKind.CNPJ, "12.abc.345/01de-35"),
        (PixKeyKind.CNPJ, "00.000.000/0000-00"),
        (PixKeyKind.PHONE, "1133334444"),
        (PixKeyKind.PHONE, "20987654321"),
        (PixKeyKind.PHONE, "+12025550123"),
        (PixKeyKind.EMAIL, ""),
        (PixKeyKind.EMAIL, "fulano"),
        (PixKeyKind.EMAIL, "@example.com"),
        (PixKeyKind.EMAIL, "fulano@"),
        (PixKeyKind.EMAIL, "fulano@-example.com"),
        (PixKeyKind.EMAIL, "fulano@example-.com"),
        (PixKeyKind.EMAIL, "fulano@example..com"),
        (PixKeyKind.EMAIL, "fulano@example.com."),
        (PixKeyKind.EMAIL, "ful ano@example.com"),
        (PixKeyKind.EMAIL, "fulano@a@example.com"),
        (PixKeyKind.EMAIL, "fulano%1@example.com"),
        (PixKeyKind.EMAIL, "fulano&1@example.com"),
        (PixKeyKind.EMAIL, '"fulano"@example.com'),
        (PixKeyKind.EMAIL, "joão@example.com"),
        (PixKeyKind.EMAIL, "\u212aarl@example.com"),
        (PixKeyKind.EMAIL, "fulano@example.com\n"),
        (PixKeyKind.EMAIL, "fulano@" + "a" * 64 + ".com"),
        (PixKeyKind.EVP, "123e4567e89b12d3a456426655440000"),
        (PixKeyKind.EVP, "{123e4567-e89b-12d3-a456-426655440000}"),
        (PixKeyKind.EVP, "123e4567-e89b-12d3-a456-42665544000"),
        (PixKeyKind.EVP, "123e4567-e89b-12d3-a456-42665544000g"),
        (PixKeyKind.EVP, "123e4567-e89b-12d3-a456-426655440000\n"),
        (PixKeyKind.EVP, "123e4567-e89b-12d3-a456-42665544000٠"),
    ],
)
def test_a_key_that_its_kind_does_not_allow_is_refused(kind: PixKeyKind, text: str) -> None:
    assert normalise_pix_key(kind, text) is None


def test_an_email_may_have_77_characters_and_no_more() -> None:
    longest = "a" * (77 - len("@example.com")) + "@example.com"
    assert normalise_pix_key(PixKeyKind.EMAIL, longest) == longest
    assert normalise_pix_key(PixKeyKind.EMAIL, "a" + longest) is None


@given(st.sampled_from(PixKeyKind), st.text() | st.text("aZ9.@-+_ 0", max_size=30))
def test_what_is_accepted_has_the_form_of_the_directory(kind: PixKeyKind, text: str) -> None:
    accepted = normalise_pix_key(kind, text)
    if accepted is not None:
        assert re.fullmatch(DIRECTORY_FORMS[kind], accepted)
        assert normalise_pix_key(kind, accepted) == accepted


@given(st.uuids())
def test_every_uuid_is_a_random_key_whatever_its_version(uuid: object) -> None:
    assert normalise_pix_key(PixKeyKind.EVP, str(uuid).upper()) == str(uuid)


@pytest.mark.parametrize("kind", PixKeyKind)
def test_a_kind_is_read_in_any_case(kind: PixKeyKind) -> None:
    assert pix_keys.parse_kind(kind.value) is kind
    assert pix_keys.parse_kind(kind.value.upper()) is kind
    assert pix_keys.parse_kind(kind.value.title()) is kind


@pytest.mark.parametrize("text", ["random", "RANDOM", "Random"])
def test_random_is_another_name_of_evp(text: str) -> None:
    assert pix_keys.parse_kind(text) is PixKeyKind.EVP


@pytest.mark.parametrize("text", ["", "copypaste", "cpf ", "chave", "e-mail", "ｃｐｆ"])
def test_an_unknown_kind_is_none(text: str) -> None:
    assert pix_keys.parse_kind(text) is None
