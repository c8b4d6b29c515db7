"""CPF and CNPJ: the published examples, and agreement with an independent library."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum.br import cnpj as stdnum_cnpj
from stdnum.br import cpf as stdnum_cpf

from vintem.brazil import documents

CPFS = ["123.456.789-09", "529.982.247-25", "390.533.447-05", "111.444.777-35", "519.982.597-65"]
CNPJS = ["11.222.333/0001-81", "16.727.230/0001-97", "12.ABC.345/01DE-35"]

DIGITS = "0123456789"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
bare_cpfs = st.text(DIGITS, min_size=11, max_size=11)
cpf_stems = st.text(DIGITS, min_size=9, max_size=9)
cnpj_stems = st.text(DIGITS, min_size=12, max_size=12) | st.text(
    DIGITS + UPPER, min_size=12, max_size=12
)
check_digits = st.text(DIGITS, min_size=2, max_size=2)


def bare(text: str) -> str:
    return text.replace(".", "").replace("-", "").replace("/", "")


@pytest.mark.parametrize("masked", CPFS)
def test_a_published_cpf_is_valid_with_and_without_its_mask(masked: str) -> None:
    assert documents.normalise_cpf(masked) == bare(masked)
    assert documents.normalise_cpf(bare(masked)) == bare(masked)
    assert documents.normalise_cpf(f"  {masked} ") == bare(masked)
    assert documents.format_cpf(bare(masked)) == masked


@pytest.mark.parametrize("masked", CNPJS)
def test_a_published_cnpj_is_valid_with_and_without_its_mask(masked: str) -> None:
    assert documents.normalise_cnpj(masked) == bare(masked)
    assert documents.normalise_cnpj(bare(masked)) == bare(masked)
    assert documents.normalise_cnpj(f"  {masked} ") == bare(masked)
    assert documents.format_cnpj(bare(masked)) == masked


@given(cpf_stems)
def test_every_stem_has_exactly_the_check_digits_of_the_other_library(stem: str) -> None:
    valid = [f"{stem}{last:02d}" for last in range(100)]
    valid = [text for text in valid if documents.normalise_cpf(text)]
    expected = stem + stdnum_cpf._calc_check_digits(stem)
    assert valid == ([] if expected == stem[0] * 11 else [expected])


@given(bare_cpfs | cpf_stems.map(lambda stem: stem + stdnum_cpf._calc_check_digits(stem)))
def test_a_cpf_is_valid_exactly_when_the_other_library_agrees(text: str) -> None:
    all_equal = len(set(text)) == 1
    assert (documents.normalise_cpf(text) is not None) == (
        stdnum_cpf.is_valid(text) and not all_equal
    )


@given(cnpj_stems)
def test_every_cnpj_stem_is_valid_with_the_check_digits_of_the_other_library(stem: str) -> None:
    text = stem + stdnum_cnpj.calc_check_digits(stem)
    expected = None if len(set(text)) == 1 else text
    assert documents.normalise_cnpj(text) == expected
    assert documents.normalise_cnpj(documents.format_cnpj(text)) == expected


@given(cnpj_stems, check_digits)
def test_a_cnpj_is_valid_exactly_when_the_other_library_agrees(stem: str, digits: str) -> None:
    valid = documents.normalise_cnpj(stem + digits) is not None
    assert valid == stdnum_cnpj.is_valid(stem + digits)


@pytest.mark.parametrize("digit", DIGITS)
def test_a_document_of_one_repeated_digit_is_refused(digit: str) -> None:
    assert documents.normalise_cpf(digit * 11) is None
    assert documents.normalise_cnpj(digit * 14) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "529.982.247-26",
        "529.982.247-15",
        "231.002.999-00",
        "5299822472",
        "529982247255",
        "529.982.247/25",
        "529-982-247-25",
        "529..982.247-25",
        "52.9982247-25",
        "529 982 247 25",
        "529.982.247-25\n",
        "\t52998224725",
        "529982247-2a",
        "٥٢٩٩٨٢٢٤٧٢٥",
        "５２９９８２２４７２５",
        "5299822472５",
        "529.982.247–25",
        "+52998224725",
        "11222333000181",
    ],
)
def test_a_text_that_is_no_cpf_is_refused(text: str) -> None:
    assert documents.normalise_cpf(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "11.222.333/0001-82",
        "11.222.333/0001-91",
        "12.ABC.345/01DE-36",
        "12.abc.345/01de-35",
        "12.ABC.345/01De-35",
        "12ABC34501DE3A",
        "1122233300018",
        "112223330001811",
        "11.222.333-0001/81",
        "11 222 333 0001 81",
        "11.222.333/0001-81\n",
        "١١٢٢٢٣٣٣٠٠٠١٨١",
        "１１２２２３３３０００１８１",
        "12ÀBC34501DE35",
        "52998224725",
    ],
)
def test_a_text_that_is_no_cnpj_is_refused(text: str) -> None:
    assert documents.normalise_cnpj(text) is None


@given(st.text())
def test_what_is_accepted_is_canonical_whatever_the_text(text: str) -> None:
    for normalise in (documents.normalise_cpf, documents.normalise_cnpj):
        accepted = normalise(text)
        assert accepted is None or normalise(accepted) == accepted


def test_a_partly_masked_document_is_accepted() -> None:
    assert documents.normalise_cpf("529982247-25") == "52998224725"
    assert documents.normalise_cnpj("11222333/0001-81") == "11222333000181"


def test_a_hidden_document_shows_only_its_middle() -> None:
    assert documents.mask_cpf("52998224725") == "***.982.247-**"
    assert documents.mask_cnpj("11222333000181") == "**.222.333/****-**"
    assert documents.mask_cnpj("12ABC34501DE35") == "**.ABC.345/****-**"


@pytest.mark.parametrize("write", [documents.mask_cpf, documents.format_cpf])
def test_writing_a_cpf_that_is_not_canonical_is_a_bug(write: Callable[[str], str]) -> None:
    with pytest.raises(AssertionError):
        write("529.982.247-25")


@pytest.mark.parametrize("write", [documents.mask_cnpj, documents.format_cnpj])
def test_writing_a_cnpj_that_is_not_canonical_is_a_bug(write: Callable[[str], str]) -> None:
    with pytest.raises(AssertionError):
        write("11.222.333/0001-81")
