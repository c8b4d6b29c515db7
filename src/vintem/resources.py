"""What handlers and workers use: opened here, closed here, nowhere else."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from vintem.checkout import moves as checkout_moves
from vintem.checkout.reading import SessionReader
from vintem.companies.keyring import Keyring
from vintem.companies.model import Environment, Network
from vintem.ledger.service import BalanceReader
from vintem.providers.faults import Faults
from vintem.providers.payout_simulator import PayoutSimulator
from vintem.providers.simulator import SIMULATOR, Simulator
from vintem.requests.service import RequestLog
from vintem.runtime import failpoints
from vintem.runtime.crypto import Sealer, derive
from vintem.runtime.db import Database
from vintem.runtime.mail import Mail, MailServer, MailTls
from vintem.runtime.outbound import Outbound
from vintem.runtime.rate_limit import Limiter, MemoryLimiter, PublicLimit
from vintem.runtime.shared_limits import SharedLimiter
from vintem.settings import Settings, http_address, public_address
from vintem.transactions import following
from vintem.transactions.service import Transactions
from vintem.withdrawals.dispatch import Dispatcher

IDLE_WINDOW_SECONDS = 120
LONGEST_WINDOW_SECONDS = 3_600


@dataclass(slots=True)
class Life:
    """Whether this process is about to stop."""

    is_draining: bool = False


@dataclass(frozen=True, slots=True)
class Resources:
    """Everything that lives as long as the process."""

    database: Database
    transactions: Transactions
    payouts: PayoutSimulator
    dispatcher: Dispatcher
    simulator: Simulator
    callback_secrets: Mapping[str, bytes]
    """What each provider signs its callbacks with."""
    callback_url: str
    """Where the sandbox's own provider finds the API."""
    balances: BalanceReader
    sessions: SessionReader
    keyring: Keyring
    requests: RequestLog
    """What companies have called, written off the way of the calls."""
    sealer: Sealer
    outbound: Outbound
    limiter: Limiter
    public_limiter: MemoryLimiter
    public_limits: Mapping[PublicLimit, int]
    pepper: bytes
    public_url: str
    is_public_url_given: bool
    """Whether an operator has said it; else it is only where we listen."""
    environment_hosts: Mapping[str, Environment]
    trusted_proxies: Sequence[Network]
    is_metrics_public: bool
    allows_loopback_webhooks: bool
    allows_live_raw_cards: bool
    mail: Mail
    life: Life = field(default_factory=Life)


@asynccontextmanager
async def open_resources(settings: Settings, *, shared_limits: bool) -> AsyncIterator[Resources]:
    """Open everything, keep it fresh, and close it in the right order."""
    following.follow_with(checkout_moves.follow)
    database = Database(settings.database_url, settings.database_options)
    await database.open()
    pepper = settings.pepper.encode()
    keyring = Keyring(database, pepper=pepper)
    failpoints.arm(Path(settings.failpoints) if settings.failpoints else None)
    sealer = Sealer(pepper)
    payouts = PayoutSimulator(database)
    dispatcher = Dispatcher(database, payouts, sealer, Environment.TEST)
    callback_secret = derive(pepper, b"callbacks of " + SIMULATOR.encode())
    simulator = Simulator(
        database,
        secret=callback_secret,
        faults=Faults(settings.simulator_seed, settings.simulator_faults),
    )
    transactions = Transactions(database, simulator, is_one_of_several=shared_limits)
    balances = BalanceReader(database)
    sessions = SessionReader(database)
    outbound = Outbound()
    requests = RequestLog(database)
    public_limiter = MemoryLimiter()
    memory_limiter = MemoryLimiter(seconds_max=LONGEST_WINDOW_SECONDS)
    shared_limiter = SharedLimiter(database) if shared_limits else None
    resources = Resources(
        database=database,
        transactions=transactions,
        payouts=payouts,
        dispatcher=dispatcher,
        simulator=simulator,
        callback_secrets={simulator.name: callback_secret},
        callback_url=settings.callback_url or _own_address(settings),
        balances=balances,
        sessions=sessions,
        keyring=keyring,
        requests=requests,
        sealer=sealer,
        outbound=outbound,
        limiter=shared_limiter or memory_limiter,
        public_limiter=public_limiter,
        public_limits=_public_limits(settings),
        pepper=pepper,
        public_url=public_address(settings),
        is_public_url_given=bool(settings.public_url),
        environment_hosts=_environment_hosts(settings),
        trusted_proxies=settings.trusted_proxies,
        is_metrics_public=settings.metrics_public,
        allows_loopback_webhooks=settings.allow_loopback_webhooks,
        allows_live_raw_cards=settings.live_raw_cards,
        mail=_mail(settings),
    )
    chores = [
        asyncio.create_task(keyring.keep_fresh(), name="keyring"),
        asyncio.create_task(requests.keep_writing(), name="request log"),
        asyncio.create_task(_forget_idle(memory_limiter, public_limiter), name="idle windows"),
    ]
    try:
        yield resources
    finally:
        await _close(resources, chores, shared_limiter)


async def _close(
    resources: Resources, chores: Sequence[asyncio.Task[None]], limiter: SharedLimiter | None
) -> None:
    for chore in chores:
        chore.cancel()
    # One that has died must not keep the rest from being closed.
    await asyncio.wait(chores)
    await resources.requests.close()
    await resources.dispatcher.close()
    await resources.transactions.close()
    await resources.balances.close()
    await resources.sessions.close()
    await resources.outbound.close()
    await resources.mail.close()
    if limiter is not None:
        await limiter.close()
    await resources.database.close()


async def _forget_idle(*limiters: MemoryLimiter) -> None:
    while True:
        await asyncio.sleep(IDLE_WINDOW_SECONDS)
        for limiter in limiters:
            limiter.forget_idle(idle_seconds=limiter.seconds_max)


def _public_limits(settings: Settings) -> Mapping[PublicLimit, int]:
    return {
        PublicLimit.WRONG_KEYS: settings.public_wrong_keys_per_minute,
        PublicLimit.PICTURES: settings.public_pictures_per_minute,
        PublicLimit.MEDIA: settings.public_media_per_minute,
        PublicLimit.READS: settings.public_reads_per_minute,
        PublicLimit.READS_OF_ONE: settings.public_reads_of_one_per_minute,
        PublicLimit.COUPONS: settings.public_coupons_per_minute,
        PublicLimit.PAYMENTS: settings.public_payments_per_minute,
        PublicLimit.CARD_TOKENS: settings.public_card_tokens_per_minute,
        PublicLimit.LINK_SESSIONS: settings.public_link_sessions_per_minute,
        PublicLimit.REFUSED_CARDS: settings.public_refused_cards_per_hour,
        PublicLimit.REFUSALS_OF_CARD: settings.public_refusals_of_card_per_hour,
        PublicLimit.REFUSALS_OF_TEST_CARD: settings.public_refusals_of_test_card_per_hour,
        PublicLimit.WRONG_CODES: settings.public_wrong_codes_per_hour,
        PublicLimit.SIGN_INS: settings.public_sign_ins_per_minute,
    }


def _mail(settings: Settings) -> Mail:
    server = MailServer(
        host=settings.smtp_host,
        port=settings.smtp_port,
        user=settings.smtp_user,
        password=settings.smtp_password,
        sender=settings.smtp_from,
        tls=MailTls(settings.smtp_tls),
    )
    return Mail(server, is_logged=settings.mail_to_log)


def _own_address(settings: Settings) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return http_address(host, settings.port)


def _environment_hosts(settings: Settings) -> dict[str, Environment]:
    hosts = {}
    if settings.live_host:
        hosts[settings.live_host] = Environment.LIVE
    if settings.sandbox_host:
        hosts[settings.sandbox_host] = Environment.TEST
    return hosts
