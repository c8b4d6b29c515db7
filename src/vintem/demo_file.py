"""demo.json: what the demo of a data folder keeps, and commands of the same folder find."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vintem.companies.model import Environment, KeyType

KEYS: Final = {
    "testSecretKey": (KeyType.SECRET, Environment.TEST),
    "testCheckoutKey": (KeyType.CHECKOUT, Environment.TEST),
    "liveSecretKey": (KeyType.SECRET, Environment.LIVE),
    "liveCheckoutKey": (KeyType.CHECKOUT, Environment.LIVE),
}


@dataclass(frozen=True, slots=True)
class DemoOwner:
    """Who signs in to the demo's dashboard."""

    email: str
    password: str | None
    """None once the owner has chosen another, which nobody knows here."""


@dataclass(frozen=True, slots=True)
class DemoCompany:
    """What demo.json keeps: the company's public id, its keys by their name there, and where it is.

    That is where the API was when it last started; commands of the same folder find it by this.
    """

    company_id: str
    keys: Mapping[str, str]
    base_url: str | None = None
    owner: DemoOwner | None = None


def read_demo(file: Path) -> DemoCompany | None:
    """Read demo.json, or nothing when there is none yet."""
    if not file.exists():
        return None
    content = json.loads(file.read_text())
    keys = {name: content[name] for name in KEYS}
    owner = content.get("dashboard")
    return DemoCompany(
        content["companyId"],
        keys,
        content.get("baseUrl"),
        None if owner is None else DemoOwner(owner["email"], owner["password"]),
    )


def shown(demo: DemoCompany) -> Mapping[str, object]:
    """What demo.json and the ready file hold."""
    content: dict[str, object] = {
        "baseUrl": demo.base_url,
        "companyId": demo.company_id,
        **demo.keys,
    }
    if demo.owner is not None:
        content["dashboard"] = {
            "url": None if demo.base_url is None else f"{demo.base_url}/dashboard",
            "email": demo.owner.email,
            "password": demo.owner.password,
        }
    return content
