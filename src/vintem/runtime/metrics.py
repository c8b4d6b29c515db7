"""What Prometheus may read of this process."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

MEDIA_TYPE: Final = CONTENT_TYPE_LATEST

REGISTRY: Final = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

_REQUEST_SECONDS: Final = Histogram(
    "vintem_http_request_seconds",
    "Answered calls by route, method and status, and how long they took.",
    ("route", "method", "status"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=REGISTRY,
)
_REFUSALS: Final = Counter(
    "vintem_refusals_total",
    "Refused calls by error code.",
    ("code",),
    registry=REGISTRY,
)
WORK_DONE: Final = Counter(
    "vintem_work_done_total",
    "Pieces of due work done by the worker, by kind.",
    ("kind",),
    registry=REGISTRY,
)
WORK_FAILED: Final = Counter(
    "vintem_work_failed_total",
    "Runs of due work that raised, by kind.",
    ("kind",),
    registry=REGISTRY,
)
WITHDRAWALS_OVERDUE: Final = Gauge(
    "vintem_withdrawals_overdue",
    "Withdrawals whose outcome has not been known for 30 minutes or more.",
    registry=REGISTRY,
)
PAYOUT_CONTRADICTIONS: Final = Counter(
    "vintem_payout_contradictions_total",
    "Final words of a provider that contradict the record; somebody must look.",
    registry=REGISTRY,
)
IMPLICIT_REPETITIONS: Final = Counter(
    "vintem_implicit_repetitions_total",
    "Requests repeated without an idempotency key, by operation and what is done about them.",
    ("operation", "protection"),
    registry=REGISTRY,
)
WEBHOOK_TRIES: Final = Counter(
    "vintem_webhook_tries_total",
    "Tries of webhook deliveries by what came of them: delivered, retried or failed.",
    ("outcome",),
    registry=REGISTRY,
)

EXTRA_PAYMENTS: Final = Counter(
    "vintem_extra_payments_total",
    "Times a checkout session was paid although it had been paid before.",
    registry=REGISTRY,
)

UNCLAIMED_MONEY: Final = Counter(
    "vintem_unclaimed_money_total",
    "Times money came in that belongs to no payment and was booked to suspense, by cause.",
    ("cause",),
    registry=REGISTRY,
)

# Looking a labelled child up costs as much as counting; routes, methods and statuses are few.
_request_children: Final[dict[tuple[str, str, int], Histogram]] = {}


def count_request(*, route: str, method: str, status: int, seconds: float) -> None:
    """Count one answered call; `method` must be one of a route's own, never the caller's text."""
    key = (route, method, status)
    child = _request_children.get(key)
    if child is None:
        child = _request_children[key] = _REQUEST_SECONDS.labels(route, method, str(status))
    child.observe(seconds)


def count_refusal(code: str) -> None:
    """Count one refusal."""
    _REFUSALS.labels(code).inc()


def render() -> bytes:
    """Write every metric in Prometheus's text form."""
    return generate_latest(REGISTRY)
