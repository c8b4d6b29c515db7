"""A line over days, drawn as the points of an SVG."""

from collections.abc import Sequence
from datetime import date
from typing import Final

import msgspec

WIDTH: Final = 720
HEIGHT: Final = 200
MARGIN: Final = 8


class Chart(msgspec.Struct, frozen=True):
    """What a template draws: the line, the area below it, and the ends of its axes."""

    line: str
    area: str
    highest: int
    first: date
    last: date
    width: int = WIDTH
    height: int = HEIGHT


def draw(days: Sequence[tuple[date, int]]) -> Chart:
    """Draw amounts by day, the oldest on the left; nothing at all is a line on the ground."""
    assert days, "a period has a day at least"
    highest = max(amount for _, amount in days)
    steps = max(len(days) - 1, 1)
    inner_width, inner_height = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    points = []
    for place, (_, amount) in enumerate(days):
        left = MARGIN + inner_width * place // steps
        top = HEIGHT - MARGIN - (inner_height * amount // highest if highest else 0)
        points.append(f"{left},{top}")
    if len(points) == 1:
        points.append(f"{WIDTH - MARGIN},{points[0].partition(',')[2]}")
    line = " ".join(points)
    ground = HEIGHT - MARGIN
    area = f"{MARGIN},{ground} {line} {WIDTH - MARGIN},{ground}"
    return Chart(line, area, highest, days[0][0], days[-1][0])
