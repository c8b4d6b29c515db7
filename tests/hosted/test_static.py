"""Scripts run only if somebody has written down which they are."""

import pytest

from vintem.hosted.static import InventoryError, InventoryLine, check_inventory, integrity_of

SCRIPT = b"'use strict';"
LINE = InventoryLine("page.js", integrity_of(SCRIPT), "us", "watches the payment")


def test_a_script_with_the_written_hash_is_accepted() -> None:
    check_inventory({"page.js": SCRIPT, "page.css": b"p{}"}, [LINE])


@pytest.mark.parametrize(
    ("contents", "inventory"),
    [
        ({"page.js": SCRIPT + b"//"}, [LINE]),
        ({"page.js": SCRIPT, "other.js": SCRIPT}, [LINE]),
        ({"page.js": SCRIPT}, []),
        ({}, [LINE]),
    ],
)
def test_a_script_that_differs_from_the_inventory_stops_the_start(
    contents: dict[str, bytes], inventory: list[InventoryLine]
) -> None:
    with pytest.raises(InventoryError):
        check_inventory(contents, inventory)
