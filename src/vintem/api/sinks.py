"""The sandbox's own webhook address of a company, for who has no server to be called at yet."""

import asyncio
from typing import Final

from vintem.api.call import Access, Answer, Call, Content, Route
from vintem.companies import service as companies
from vintem.kit.errors import ErrorCode, Refusal
from vintem.webhooks import sink

PLAIN_TEXT: Final = "text/plain; charset=utf-8"


async def take_call(call: Call) -> Answer:
    """Keep what was sent, and answer as the company wishes."""
    public_id, resources = call.params["company"], call.resources
    is_told = sink.is_token(public_id, call.params["token"], pepper=resources.pepper)
    company = await companies.find_company(resources.database, public_id) if is_told else None
    if company is None or not resources.allows_loopback_webhooks:
        raise Refusal(ErrorCode.NOT_FOUND)
    status, seconds = await sink.take(
        resources.database, company.company_id, call.raw.headers, call.raw.body, now=call.now
    )
    await asyncio.sleep(seconds)
    return Content(b"sandbox\n", PLAIN_TEXT, status)


ROUTES = (
    Route(
        method="POST",
        path="/sandbox/sinks/{company}/{token}",
        handler=take_call,
        summary="The sandbox's own webhook address of a company",
        group="Operations",
        access=Access.PUBLIC,
        is_body_raw=True,
        is_described=False,
    ),
)
