"""Builds the ASGI application from the route tables of the web edges."""

from vintem.api import reference
from vintem.api.pipeline import Pipeline
from vintem.api.routes import TABLE
from vintem.hosted import pages
from vintem.resources import Resources


def build_app(resources: Resources) -> Pipeline:
    """Put every route behind the pipeline; a wrong table stops the start here."""
    return Pipeline(
        resources,
        (*TABLE, *reference.routes(TABLE), *pages.ROUTES),
        refusal_pages=pages.REFUSAL_PAGES,
    )
