"""The headers that the pipeline reads and writes, whatever the route."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from vintem.api.call import Header, Processed, Stream
from vintem.kit.clock import public_time
from vintem.runtime.rate_limit import Decision


def join_repeated(headers: Sequence[Header]) -> Mapping[bytes, bytes]:
    """Read a header that is sent several times as one list, so that none of them is chosen."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    return {name: b", ".join(listed) for name, listed in values.items()}


def limit_headers(decision: Decision) -> Sequence[Header]:
    """Tell the caller how much of a limit is left."""
    return (
        (b"x-ratelimit-limit", b"%d" % decision.limit),
        (b"x-ratelimit-remaining", b"%d" % decision.remaining),
        (b"x-ratelimit-reset", b"%d" % decision.reset),
    )


def processed_headers(processed: Processed) -> Sequence[Header]:
    """Tell the caller whether the answer repeats an earlier one."""
    return (
        (b"x-idempotency-replayed", b"true" if processed.is_replay else b"false"),
        processed_at_header(processed.at),
    )


def processed_at_header(moment: datetime) -> Header:
    """Tell when a covered call was first completed."""
    return (b"x-idempotency-processed-at", public_time(moment).encode())


def stream_headers(answer: Stream) -> Sequence[Header]:
    """Tell what comes in parts, and how much of it."""
    return (
        (b"content-type", answer.media_type.encode()),
        (b"x-content-type-options", b"nosniff"),
        *answer.headers,
        (b"content-length", b"%d" % answer.length),
    )
