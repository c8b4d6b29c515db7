"""Watches the disk for moments in which it has requests and ends none of them."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

SAMPLE_SECONDS: Final = 0.01
STOP_SECONDS_MIN: Final = 0.03
# Half of the hundredth part of a turn of 20 s.
STOPPED_SECONDS_MAX: Final = 0.1
TRIES_MAX: Final = 4
# Fields of /sys/dev/block/*/stat: reads, writes, discards and flushes that ended; those under way.
ENDED: Final = (0, 4, 11, 15)
UNDER_WAY: Final = 8

Measured = TypeVar("Measured")


class Disk:
    """The disk under a folder, watched while something is measured."""

    def __init__(self, folder: Path) -> None:
        device = folder.stat().st_dev
        self._stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
        self._stopped_seconds = 0.0
        self.repeated = 0

    def undisturbed(self, measure: Callable[[], Measured]) -> Measured:
        """Measure, and measure again while the disk stood still meanwhile; the last try counts.

        A disk that has much to do is slow, but ends one request after the other. One that ends none
        for a tenth of a second says nothing about those who wait for it.
        """
        for _ in range(TRIES_MAX - 1):
            measured = measure()
            if self._stopped_seconds <= STOPPED_SECONDS_MAX:
                return measured
            self.repeated += 1
        return measure()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the disk meanwhile, where Linux tells of it; what was before is forgotten."""
        self._stopped_seconds = 0.0
        if not self._stat.exists():
            yield
            return
        is_over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(is_over,))
        watch.start()
        try:
            yield
        finally:
            is_over.set()
            watch.join()

    def _watch(self, is_over: threading.Event) -> None:
        since = until = time.monotonic()
        before = self._read()
        while not is_over.wait(SAMPLE_SECONDS):
            now, current = time.monotonic(), self._read()
            has_ended = any(current[field] != before[field] for field in ENDED)
            if before[UNDER_WAY] and current[UNDER_WAY] and not has_ended:
                until = now
                continue
            if until - since > STOP_SECONDS_MIN:
                self._stopped_seconds += until - since
            since, until, before = now, now, current

    def _read(self) -> Sequence[int]:
        return [int(field) for field in self._stat.read_text().split()]
