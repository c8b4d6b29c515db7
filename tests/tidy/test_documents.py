"""The documents name everything that the program has, and nothing that it has not."""

import re
from dataclasses import fields
from pathlib import Path

import typer.main

from vintem.__main__ import app
from vintem.api.envelope import STATUS
from vintem.api.routes import TABLE
from vintem.hosted import pages
from vintem.kit.errors import MEANING, ErrorCode
from vintem.settings import Settings

ROOT = Path(__file__).parents[2]
ERROR_ROW = re.compile(r"^\| `([A-Z_]+)` \| (\d{3}) \| (.+) \|$", re.MULTILINE)
SETTING_ROW = re.compile(r"^\| `([A-Z_]+)` \| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)\)")


def document(name: str) -> str:
    return (ROOT / name).read_text()


def test_every_error_code_is_documented_with_its_status_and_meaning() -> None:
    documented = {code: (int(status), meaning) for code, status, meaning in
                  ERROR_ROW.findall(document("docs/errors.md"))}  # fmt: skip
    assert documented == {code: (STATUS[code], MEANING[code]) for code in ErrorCode}


def test_every_setting_is_documented_with_its_default() -> None:
    documented = {
        variable: (default.strip("`") if default != "empty" else "", allowed, meaning)
        for variable, default, allowed, meaning in SETTING_ROW.findall(document("docs/running.md"))
    }
    declared = {
        field.metadata["variable"]: (
            field.metadata["default"],
            field.metadata["allowed"],
            field.metadata["meaning"],
        )
        for field in fields(Settings)
    }
    assert documented == declared


def test_every_route_is_documented() -> None:
    integrators, operators = document("docs/interface.md"), document("docs/running.md")
    for route in TABLE:
        page = integrators if route.is_described else operators
        assert f"{route.method} {route.path}" in page, route.path
    buyers = document("docs/pages.md")
    for route in pages.ROUTES:
        is_way_back = route.handler is pages.go_to_page
        assert is_way_back or f"{route.method} {route.path}" in buyers, route.path


def test_every_command_is_documented() -> None:
    operators = document("docs/running.md")
    for name in command_names(typer.main.get_command(app)):
        # The version is told by the command itself; the processes are started by their parent.
        assert name == "version" or f"vintem {name}" in operators, name


def command_names(group: object, prefix: str = "") -> list[str]:
    names: list[str] = []
    for name, command in getattr(group, "commands", {}).items():
        if command.hidden:
            continue
        inner = command_names(command, f"{prefix}{name} ")
        names += inner or [f"{prefix}{name}"]
    return names


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in document("README.md")
    assert document(".ci/run").strip().endswith("exec make test")
    targets = set(re.findall(r"^([a-z]+):.*## ", document("Makefile"), re.MULTILINE))
    assert {"setup", "run", "test", "check", "bench", "fmt"} <= targets


def test_every_link_between_documents_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in LINK.findall(page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_house_plan_names_every_room() -> None:
    plan = document("docs/architecture.md")
    for path in sorted((ROOT / "src/vintem").iterdir()):
        if path.name not in {"__init__.py", "__pycache__", "py.typed"}:
            assert path.name in plan, path.name
