"""The table of due work, and the loop that does it until told to stop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from vintem.checkout import card_tries, ending
from vintem.dashboard import exporting
from vintem.dashboard.pages import EXPORTS
from vintem.exports import service as exports
from vintem.figures import service as figures
from vintem.intents import service as intents
from vintem.kit.clock import utc_now
from vintem.ledger import service as ledger
from vintem.members import service as members
from vintem.requests import service as requests
from vintem.resources import Resources
from vintem.runtime import metrics
from vintem.runtime.db import DatabaseUnavailableError
from vintem.runtime.shared_limits import forget_idle_windows
from vintem.transactions import card_tokens
from vintem.transactions import service as transactions
from vintem.webhooks import dispatch as deliveries
from vintem.webhooks import service as webhooks
from vintem.webhooks import sink
from vintem.webhooks.dispatch import Dispatcher
from vintem.withdrawals import dispatch

log = structlog.get_logger()

STOP_SECONDS_MAX: Final = 10.0
IDLE_WINDOW_SECONDS: Final = 3_600
"""No window is longer."""
DISPATCH_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class Duty:
    """One kind of due work: how often it is looked for, and what does it."""

    kind: str
    every_seconds: float
    run: Callable[[Resources], Awaitable[int]]
    """Does what is due now and says how many pieces that was."""


async def forget_idle_rate_windows(resources: Resources) -> int:
    """Delete the shared rate windows that no key uses any more."""
    database = resources.database
    companies = await database.fetch("select distinct company_id from rate_window")
    return sum(
        [
            await forget_idle_windows(
                database, company_id=row["company_id"], idle_seconds=IDLE_WINDOW_SECONDS
            )
            for row in companies
        ]
    )


async def move_transactions(resources: Resources) -> int:
    """Do to payments what is due: they expire."""
    return await transactions.move_due(resources.database, now=utc_now())


async def end_sessions(resources: Resources) -> int:
    """End checkout sessions whose time is over."""
    return await ending.expire_due(resources.database, now=utc_now())


async def finish_charges(resources: Resources) -> int:
    """Ask what became of charges that were begun and not decided."""
    return await resources.transactions.finish(now=utc_now())


async def send_simulated_callbacks(resources: Resources) -> int:
    """Let the sandbox's own acquirer tell the API what has happened since."""
    return await resources.simulator.tell_due(resources.callback_url, now=utc_now())


async def do_waiting_callbacks(resources: Resources) -> int:
    """Look again at what providers told us too early."""
    return await transactions.look_again(resources.database, now=utc_now())


async def release_money(resources: Resources) -> int:
    """Make available what was waiting for today."""
    return await ledger.release_due(resources.database, now=utc_now())


async def forget_card_tokens(resources: Resources) -> int:
    """Delete the cards of tokens that nobody used in time."""
    return await card_tokens.forget_expired(resources.database, now=utc_now())


async def forget_card_tries(resources: Resources) -> int:
    """Delete what is known of cards that were tried more than an hour ago."""
    return await card_tries.forget_old(resources.database, now=utc_now())


async def send_withdrawals(resources: Resources) -> int:
    """Send withdrawals that are due, and ask about those whose outcome is not known."""
    return await resources.dispatcher.run()


async def watch_withdrawals(resources: Resources) -> int:
    """Raise the alarm about withdrawals whose outcome has not been known for too long."""
    return await dispatch.count_overdue(resources.database, now=utc_now())


async def forget_implicit_intents(resources: Resources) -> int:
    """Delete the memory of requests without a key that is older than a day."""
    return await intents.forget_old(resources.database, now=utc_now())


async def forget_sign_ins(resources: Resources) -> int:
    """Delete tries to sign in, ended sign-ins and links that nobody asks about any more."""
    return await members.forget_old(resources.database, now=utc_now())


async def disable_unreachable_webhooks(resources: Resources) -> int:
    """Stop calling endpoints that have taken nothing for days."""
    return await deliveries.disable_unreachable(resources.database)


async def end_refused_deliveries(resources: Resources) -> int:
    """End what waits for endpoints that want no more, or were deleted."""
    return await webhooks.end_all_refused(resources.database, now=utc_now())


async def retire_webhook_lanes(resources: Resources) -> int:
    """Delete the lanes of postbacks that nothing is sent on any more."""
    return await webhooks.retire_lanes(resources.database, now=utc_now())


async def forget_old_deliveries(resources: Resources) -> int:
    """Delete the deliveries of webhooks that nobody can list any more."""
    return await webhooks.forget_old(resources.database, now=utc_now())


async def count_figures(resources: Resources) -> int:
    """Count what companies sell, for those who look at it."""
    return await figures.count_due(resources.database, resources.sealer, now=utc_now())


async def begin_figures(resources: Resources) -> int:
    """Begin to count for companies that are new."""
    return await figures.begin_new(resources.database, now=utc_now())


async def make_exports(resources: Resources) -> int:
    """Make the files of long lists that somebody waits for."""
    return await exporting.make_waiting(resources, EXPORTS, now=utc_now())


async def forget_old_exports(resources: Resources) -> int:
    """Delete the files that nobody may fetch any more."""
    return await exports.forget_old(resources.database, now=utc_now())


async def forget_old_requests(resources: Resources) -> int:
    """Delete the calls that are older than they are kept."""
    return await requests.forget_old(resources.database, now=utc_now())


async def forget_sink_calls(resources: Resources) -> int:
    """Delete what arrived at the sandbox's own webhook addresses a day ago."""
    return await sink.forget_old(resources.database, now=utc_now())


DUTIES: Final[Sequence[Duty]] = (
    Duty("due transactions", 0.5, move_transactions),
    Duty("due sessions", 0.5, end_sessions),
    Duty("charges to finish", 0.5, finish_charges),
    Duty("simulated callbacks", 0.5, send_simulated_callbacks),
    Duty("waiting callbacks", 5.0, do_waiting_callbacks),
    Duty("money to release", 5.0, release_money),
    Duty("withdrawals", 0.5, send_withdrawals),
    Duty("figures to count", 2.0, count_figures),
    Duty("overdue withdrawals", 30.0, watch_withdrawals),
    Duty("exports", 1.0, make_exports),
    Duty("unreachable webhooks", 30.0, disable_unreachable_webhooks),
    Duty("refused webhook deliveries", 30.0, end_refused_deliveries),
    Duty("expired card tokens", 30.0, forget_card_tokens),
    Duty("companies to count", 60.0, begin_figures),
    Duty("old card tries", 30.0, forget_card_tries),
    Duty("idle rate windows", 60.0, forget_idle_rate_windows),
    Duty("old implicit intents", 600.0, forget_implicit_intents),
    Duty("old webhook deliveries", 600.0, forget_old_deliveries),
    Duty("idle webhook lanes", 600.0, retire_webhook_lanes),
    Duty("old sign-ins", 600.0, forget_sign_ins),
    Duty("old exports", 600.0, forget_old_exports),
    Duty("old sink calls", 600.0, forget_sink_calls),
    Duty("old requests", 3_600.0, forget_old_requests),
)


async def work(
    resources: Resources, stopping: asyncio.Event, duties: Sequence[Duty] = DUTIES
) -> None:
    """Do all due work until told to stop; what is in hand is finished first."""
    dispatcher = Dispatcher(
        resources.database,
        resources.sealer,
        resources.outbound,
        allows_loopback=resources.allows_loopback_webhooks,
    )
    all_duties = (
        *duties,
        Duty("webhook deliveries", DISPATCH_SECONDS, lambda _: dispatcher.tick()),
    )
    log.info("worker started", duties=[duty.kind for duty in all_duties])
    tasks = [asyncio.create_task(_repeat(duty, resources, stopping)) for duty in all_duties]
    await stopping.wait()
    _done, unfinished = await asyncio.wait(tasks, timeout=STOP_SECONDS_MAX)
    for task in unfinished:
        task.cancel()
    try:
        await dispatcher.close()
    except DatabaseUnavailableError as away:
        log.warning("leases of deliveries end by themselves", cause=str(away))
    log.info("worker stopped", unfinished=len(unfinished))


async def _repeat(duty: Duty, resources: Resources, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        try:
            pieces = await duty.run(resources)
            metrics.WORK_DONE.labels(duty.kind).inc(pieces)
        except DatabaseUnavailableError as away:
            metrics.WORK_FAILED.labels(duty.kind).inc()
            log.warning("work waits for the database", kind=duty.kind, cause=str(away))
        except Exception:
            metrics.WORK_FAILED.labels(duty.kind).inc()
            log.exception("work failed and is tried again", kind=duty.kind)
        try:
            async with asyncio.timeout(duty.every_seconds):
                await stopping.wait()
        except TimeoutError:
            continue
