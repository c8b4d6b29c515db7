"""The files that the dashboard's pages load, named by their content."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vintem.hosted.static_files import StaticFile, read_static

FOLDER: Final = Path(__file__).parent / "static"
PATH: Final = "/dashboard/static"

STYLE: Final = read_static(FOLDER / "dashboard.css", PATH)
SCRIPT: Final = read_static(FOLDER / "dashboard.js", PATH)
SCRIPT_HTMX: Final = read_static(FOLDER / "htmx.min.js", PATH)

FILES: Final[Mapping[str, StaticFile]] = {file.name: file for file in (STYLE, SCRIPT, SCRIPT_HTMX)}
