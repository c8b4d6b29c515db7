"""Files are served under names that change with them, and only known scripts run."""

import base64
import hashlib

import msgspec
import pytest

from support.storefront import Storefront
from support.visitor import Visitor
from vintem.hosted import static_files
from vintem.hosted.static_files import INVENTORY, SCRIPT, STATIC_FILES, KnownScript, StaticFile
from vintem.runtime import log as logs


@pytest.mark.parametrize("static", STATIC_FILES.values(), ids=lambda static: static.media_type)
def test_a_file_is_named_and_demanded_by_its_content(static: StaticFile) -> None:
    assert hashlib.sha256(static.body).hexdigest().startswith(static.name.split(".")[1])
    digest = base64.b64encode(hashlib.sha384(static.body).digest()).decode()
    assert static.integrity == f"sha384-{digest}"
    assert static.path == f"/static/{static.name}"


def test_the_inventory_lists_the_script_with_its_hash_and_reason() -> None:
    (script,) = msgspec.json.decode(INVENTORY.read_bytes(), type=list[KnownScript])
    assert script.sha384 == SCRIPT.integrity, f"scripts.json must say {SCRIPT.integrity}"
    assert script.owner
    assert script.reason


def test_a_script_that_the_inventory_does_not_know_stops_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = msgspec.structs.replace(SCRIPT, integrity="sha384-other")
    monkeypatch.setattr(static_files, "SCRIPT", changed)
    with pytest.raises(AssertionError):
        static_files.check_inventory()


def test_no_file_reaches_outside_its_own_origin() -> None:
    for static in STATIC_FILES.values():
        text = static.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text
        assert '"//' not in text
        assert "@import" not in text
        assert "url(" not in text


def test_the_script_makes_no_markup_and_no_code_of_texts() -> None:
    script = SCRIPT.body.decode()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Date"):
        assert word not in script
    assert script.count("createPolicy") == 1


async def test_what_a_page_fetches_by_itself_is_said_quietly(
    store: Storefront, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[logs.AccessLine] = []
    monkeypatch.setattr(logs, "write_access", noted.append)
    basket = await store.open()
    visitor = Visitor.of(basket)
    await visitor.look()
    await basket.call("GET", "?poll=1")
    await visitor.send("GET", SCRIPT.path)
    await visitor.send("GET", "/static/nothing.0.js")
    assert [(line.level, line.status) for line in noted] == [
        *(("info", 201), ("info", 200), ("debug", 200), ("debug", 200), ("info", 404)),
    ]
