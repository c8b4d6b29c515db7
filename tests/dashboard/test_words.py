"""What pages say of statuses and hide of people."""

from collections.abc import Mapping

import pytest

from vintem.dashboard import statuses
from vintem.dashboard.masks import mask_document, mask_email, mask_name, mask_phone

TABLES = [table for name, table in vars(statuses).items() if name.isupper()]


@pytest.mark.parametrize("table", TABLES)
def test_every_status_has_its_word(table: Mapping[str, object]) -> None:
    assert set(table) == set(type(next(iter(table))))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("52998224725", "***.982.247-**"),
        ("529.982.247-25", "***.982.247-**"),
        ("***.982.247-**", "***.982.247-**"),
        ("12ABC34501DE35", "**.ABC.345/****-**"),
        ("11222333000181", "**.222.333/****-**"),
        ("123", "***"),
        ("", "***"),
    ],
)
def test_documents_show_their_middle(number: str, shown: str) -> None:
    assert mask_document(number) == shown


@pytest.mark.parametrize(
    ("email", "shown"),
    [
        ("joana@dominio.com", "j***@d***.com"),
        ("a@b.com.br", "a***@b***.br"),
        ("x@localhost", "***"),
        ("nothing", "***"),
        ("@a.com", "***"),
        ("", "***"),
    ],
)
def test_addresses_show_their_first_letters(email: str, shown: str) -> None:
    assert mask_email(email) == shown


@pytest.mark.parametrize(
    ("phone", "shown"), [("+5511987654321", "*** 4321"), ("4321", "***"), ("", "***")]
)
def test_phones_show_their_end(phone: str, shown: str) -> None:
    assert mask_phone(phone) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [("Joana da Silva", "Joana d. S."), ("Joana", "Joana"), ("", "***")],
)
def test_names_show_the_first(name: str, shown: str) -> None:
    assert mask_name(name) == shown
