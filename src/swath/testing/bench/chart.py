"""A benchmark as an SVG picture: bars for CPU an item, items a second and peak memory, one a contestant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from swath.testing.bench.figures import Result

__all__ = ["draw"]

WIDTH: Final = 760
LEFT, RIGHT, TOP = 230, 70, 30
BAR, STEP, GAP = 16, 22, 44

Value = Callable[[Result], float]


def draw(results: Sequence[Result]) -> str:
    """Three panels, one above the other, of those who fetch pages over HTTP."""
    shown = [result for result in results if result.kind == "pages"]
    panels = (
        ("CPU ms an item (less is better)", lambda result: result.cpu_ms, "{:,.2f}"),
        ("items a second (more is better)", lambda result: result.items_per_second, "{:,.0f}"),
        ("peak memory, MB (less is better)", lambda result: result.peak_bytes / 1e6, "{:,.0f}"),
    )
    panel_height = STEP * len(shown) + GAP
    height = TOP + len(panels) * panel_height
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            *(
                _panel(TOP + n * panel_height, title, shown, value, form)
                for n, (title, value, form) in enumerate(panels)
            ),
            "</svg>",
            "",
        ]
    )


def _panel(top: int, title: str, results: Sequence[Result], value: Value, form: str) -> str:
    longest = max((value(result) for result in results), default=0.0) or 1.0
    lines = [f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{title}</text>']
    for number, result in enumerate(results):
        y = top + number * STEP
        length = max(0.0, value(result)) / longest * (WIDTH - LEFT - RIGHT)
        middle = f'y="{y + BAR / 2:.0f}" dy="4"'
        lines += [
            f'<text x="{LEFT - 8}" {middle} text-anchor="end">{escape(result.told)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{_colour(result)}"/>',
            f'<text x="{LEFT + length + 6:.1f}" {middle}>{form.format(value(result))}</text>',
        ]
    return "\n".join(lines)


def _colour(result: Result) -> str:
    """Ours, the ceiling, theirs."""
    return {"swath": "#1f6feb", "script": "#1a7f37"}.get(result.name.split()[0], "#9a6700")
