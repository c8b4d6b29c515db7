"""Named points where a test lets the process die, or an answer be lost; elsewhere they do nothing.

A point is armed by a file of its name in the folder that the operator of a test names. Whoever
reaches it removes the file, so that it happens once: a process started again gets past it.
"""

import os
import signal
from enum import StrEnum
from pathlib import Path

import structlog

log = structlog.get_logger()


class Failpoint(StrEnum):
    """Every point, in the order of a withdrawal's life."""

    HELD = "withdrawal-held"
    CREATED = "withdrawal-created"
    CLAIMING = "withdrawal-claiming"
    CLAIMED = "withdrawal-claimed"
    EXECUTED = "payout-executed"
    ANSWER_LOST = "payout-answer-lost"
    ANSWERED = "withdrawal-answered"
    CAPTURED = "withdrawal-captured"
    RETURNED = "withdrawal-returned"
    SETTLED = "withdrawal-settled"
    ASKED = "withdrawal-asked"


class _Armed:
    folder: Path | None = None


def arm(folder: Path | None) -> None:
    """Look for armed points in a folder, or nowhere."""
    _Armed.folder = folder


def is_hit(point: Failpoint) -> bool:
    """Say whether a point was armed; it is not any more."""
    if _Armed.folder is None:
        return False
    try:
        (_Armed.folder / point).unlink()
    except FileNotFoundError:
        return False
    log.warning("failpoint hit", point=point)
    return True


def die_at(point: Failpoint) -> None:
    """Let the process die at a point that is armed, as if the power had gone."""
    if is_hit(point):
        os.kill(os.getpid(), signal.SIGKILL)
