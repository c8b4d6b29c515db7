"""From a template to the text of a page; no input or output besides reading the templates once."""

from datetime import date, datetime
from pathlib import Path
from typing import Final

import jinja2
from markupsafe import Markup, escape

from vintem.companies.model import Environment
from vintem.dashboard.files import SCRIPT, SCRIPT_HTMX, STYLE
from vintem.dashboard.menu import MENU
from vintem.dashboard.roles import ROLE_NAMES
from vintem.dashboard.subjects import target_of
from vintem.dashboard.visit import ROOT, address
from vintem.hosted import words
from vintem.hosted.context import image_of
from vintem.hosted.render import Minified
from vintem.hosted.static_files import ICON
from vintem.kit.clock import BUSINESS_ZONE
from vintem.members.model import Permission, may

FOLDER: Final = Path(__file__).parent / "templates"
NOTHING: Final = "—"


def render(template: str, **context: object) -> str:
    """Write a page."""
    return _TEMPLATES.get_template(template).render(context)


def money(cents: int | None) -> str:
    """Write an amount, also one that is owed."""
    if cents is None:
        return NOTHING
    return ("−" if cents < 0 else "") + words.money(abs(cents))


def moment(value: datetime | None) -> Markup | str:
    """Write day and time as Brasilia's clocks show them, for machines in UTC."""
    if value is None:
        return NOTHING
    local = value.astimezone(BUSINESS_ZONE)
    return _time(value.isoformat(), f"{local:%d/%m/%Y %H:%M}")


def day(value: date | None) -> Markup | str:
    """Write a day."""
    return NOTHING if value is None else _time(value.isoformat(), f"{value:%d/%m/%Y}")


def _time(machine: str, people: str) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(machine, people)


_SYSTEMS: Final = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS", "Mac"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"),
    ("Chrome", "Chrome"),
    ("CriOS", "Chrome"),
    ("Safari", "Safari"),
)


def browser(user_agent: str) -> str:
    """Name a browser and its system from what it says of itself."""
    name = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return " em ".join(part for part in (name, system) if part) or "Navegador desconhecido"


def copyable(text: str) -> Markup:
    """Show an id with a button that copies it, where a script runs."""
    return Markup(
        '<span class="copy"><code>{0}</code><button type="button" data-copy="{0}">'
        '<span class="hide">Copiar {0}</span></button></span>'
    ).format(escape(text))


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=Minified(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "money": money,
        "moment": moment,
        "day": day,
        "percent": words.percent,
        "copyable": copyable,
        "kept_picture": image_of,
        "browser": browser,
        "target": target_of,
    }
    environment.globals |= {
        "ROOT": ROOT,
        "MENU": MENU,
        "Environment": Environment,
        "Permission": Permission,
        "may": may,
        "address": address,
        "style_file": STYLE,
        "script_file": SCRIPT,
        "htmx_file": SCRIPT_HTMX,
        "icon_file": ICON,
        "said": "",
        "ROLE_NAMES": ROLE_NAMES,
    }
    return environment


_TEMPLATES: Final = _templates()
