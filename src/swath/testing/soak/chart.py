"""A soak as an SVG picture: memory of the largest worker, items per second and size of the log, over the items done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swath.testing.soak.watch import Run

__all__ = ["draw"]

WIDTH: Final = 760
PANEL_HEIGHT: Final = 130
LEFT, TOP, GAP = 70, 30, 40
BUCKETS: Final = 100

Points = Sequence[tuple[float, float]]


def draw(run: Run, items: int) -> str:
    """Three panels, one above the other."""
    memory = [(sample.ended, sample.resident_bytes / (1 << 20)) for sample in run.samples]
    log = [(sample.ended, sample.log_bytes / (1 << 20)) for sample in run.samples]
    panels = [
        _panel(0, "memory of the largest worker, MiB", _thinned(memory, items), items, "#1f6feb"),
        _panel(1, "items per second", _thinned(_pace(run), items), items, "#1a7f37"),
        _panel(2, "write-ahead log of the store, MiB", _thinned(log, items), items, "#9a6700"),
    ]
    height = TOP + 3 * (PANEL_HEIGHT + GAP)
    middle = LEFT + (WIDTH - LEFT - 20) / 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            *panels,
            f'<text x="{middle:.0f}" y="{height - 6}" text-anchor="middle">items done, of {items:,}</text>',
            "</svg>",
            "",
        ]
    )


def _pace(run: Run) -> list[tuple[float, float]]:
    pairs = zip(run.samples, run.samples[1:], strict=False)
    return [(b.ended, (b.ended - a.ended) / (b.seconds - a.seconds)) for a, b in pairs if b.ended > a.ended]


def _thinned(points: Points, items: int) -> list[tuple[float, float]]:
    """The mean of each hundredth of the job, so that the file stays small."""
    buckets: dict[int, list[float]] = {}
    for ended, value in points:
        buckets.setdefault(int(ended * BUCKETS / items), []).append(value)
    return [(bucket / BUCKETS, sum(values) / len(values)) for bucket, values in sorted(buckets.items())]


def _panel(number: int, title: str, points: Points, items: int, colour: str) -> str:
    top = TOP + number * (PANEL_HEIGHT + GAP)
    bottom, width = top + PANEL_HEIGHT, WIDTH - LEFT - 20
    highest = _round_up(max((value for _, value in points), default=1.0))
    drawn = " ".join(
        f"{LEFT + share * width:.1f},{bottom - value / highest * PANEL_HEIGHT:.1f}" for share, value in points
    )
    marks = []
    for part in (0, 0.5, 1):
        y = f"{bottom - part * PANEL_HEIGHT:.0f}"
        marks.append(f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y}" y2="{y}" stroke="#d0d7de"/>')
        marks.append(f'<text x="{LEFT - 8}" y="{y}" dy="4" text-anchor="end">{part * highest:,g}</text>')
    shares = [
        f'<text x="{LEFT + share * width:.0f}" y="{bottom + 16}" text-anchor="middle">{share * items:,.0f}</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    return "\n".join(
        [
            f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{title}</text>',
            *marks,
            *shares,
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{drawn}"/>',
        ]
    )


def _round_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value)
