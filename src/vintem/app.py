"""Builds the ASGI application from the route tables of the web edges."""

from typing import Final

from vintem.api import reference
from vintem.api.pipeline import Pipeline
from vintem.api.routes import TABLE
from vintem.dashboard import pages as dashboard
from vintem.hosted import pages as hosted
from vintem.resources import Resources

PAGES: Final = (*hosted.ROUTES, *dashboard.ROUTES)
REFUSAL_PAGES: Final = {**hosted.REFUSAL_PAGES, **dashboard.REFUSAL_PAGES}


def build_app(resources: Resources) -> Pipeline:
    """Put every route behind the pipeline; a wrong table stops the start here."""
    return Pipeline(
        resources,
        (*TABLE, *reference.routes(TABLE), *PAGES),
        refusal_pages=REFUSAL_PAGES,
    )
