"""The figures of the API: judged by their aims, as a table for people, as JSON, and inside a Markdown page."""

from __future__ import annotations

import os
import platform
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.api_load.latency import Timed
from harness.api_load.loading import KilledLoad, WholeLoad
from harness.bench.sync_scrape import AIM_MS, COMMITS, SyncCost
from harness.soak.aims import Aim
from harness.tables import NO_HEAD, Row, Section, as_text, put_into

__all__ = ["Figures", "aims_of", "as_json", "problems", "table", "write_page"]

MOST_MIB: Final = 250
MOST_TIMES: Final = 1.5
NEAR_MS: Final = 2.0
QUIET_SHARE: Final = 0.5  # of the cores busy before the run: beyond it the times are not ours alone


@dataclass(kw_only=True)
class Figures:
    """Everything that was measured. `load_before` is how many processes wanted a core in the minute before."""

    command: str
    items: int
    small: int
    judged: bool
    load_before: float
    wholes: list[WholeLoad]
    killed: list[KilledLoad]
    timed: list[Timed]
    sync: SyncCost
    seconds: float = 0.0


def problems(figures: Figures) -> list[str]:
    """What must not be, whatever the size and the time: rows lost, doubled or changed."""
    return [f"{one.form}: {told}" for one in _loads(figures) for told in one.problems]


def _loads(figures: Figures) -> list[WholeLoad | KilledLoad]:
    return [*figures.wholes, *figures.killed]


def aims_of(figures: Figures) -> list[Aim]:
    """Everything that is judged."""
    aims = []
    for form in dict.fromkeys(one.form for one in figures.wholes):
        peak = max(one.peak_bytes for one in _loads(figures) if one.form == form) / (1 << 20)
        aims.append(_at_most(f"memory of the controller, {form}, MiB", peak, MOST_MIB, "peak of all its loads"))
    for one in figures.timed:
        if one.judged:
            aims += [
                _near(f"{one.question}, p50", one.large_p50, one.small_p50),
                _near(f"{one.question}, p95", one.large_p95, one.small_p95),
            ]
    told = f"median {figures.sync.sync_ms:.1f} ms, bare fetch {figures.sync.fetch_ms:.1f} ms, {COMMITS} fsyncs apart"
    aims.append(_at_most("`sync` beside the fetch, ms", figures.sync.own_ms, AIM_MS, told))
    return aims


def _near(name: str, large: float, small: float) -> Aim:
    """No more than so many times, or so few milliseconds beyond it: below that it is the noise of the machine."""
    return _at_most(f"{name}, ms", large, max(MOST_TIMES * small, small + NEAR_MS), f"{small:.2f} in the small job")


def _at_most(name: str, reached: float, wanted: float, told: str) -> Aim:
    return Aim(name, reached, wanted, at_least=False, told=told)


def as_json(figures: Figures) -> str:
    """All of it, and how the aims were met."""
    told: dict[str, Any] = msgspec.to_builtins(figures)
    told |= {"aims": [asdict(aim) | {"met": aim.met} for aim in aims_of(figures)], "problems": problems(figures)}
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n"


def table(figures: Figures) -> str:
    """For a terminal."""
    return as_text(_sections(figures))


def write_page(page: Path, figures: Figures) -> None:
    """Replaces what stands between the marks of a page."""
    put_into(page, _sections(figures))


def _sections(figures: Figures) -> list[Section]:
    sizes = f"{figures.small:,} items", f"{figures.items:,} items"
    return [
        (("load", "items/s", "sent, MiB", "peak memory, MiB", "rows counted by SQL"), [*map(_whole, figures.wholes)]),
        (
            (
                "`kill -9`",
                "stored when killed",
                "how it went on",
                "again, s",
                "peak memory, MiB",
                "rows counted by SQL",
            ),
            [*map(_killed, figures.killed)],
        ),
        (
            ("ms over HTTP", f"p50, {sizes[0]}", f"p50, {sizes[1]}", f"p95, {sizes[0]}", f"p95, {sizes[1]}"),
            _times(figures),
        ),
        (("aim", "reached", "figures"), [(aim.name, _reached(aim), aim.told) for aim in aims_of(figures)]),
        (NO_HEAD, _other_rows(figures)),
    ]


def _whole(one: WholeLoad) -> Row:
    sent, peak = one.sent_bytes / (1 << 20), one.peak_bytes / (1 << 20)
    return one.form, f"{one.items_per_second:,.0f}", f"{sent:,.1f}", f"{peak:,.0f}", _counted(one)


def _killed(one: KilledLoad) -> Row:
    peak = one.peak_bytes / (1 << 20)
    return one.form, f"{one.killed_items:,}", one.way, f"{one.again_seconds:,.1f}", f"{peak:,.0f}", _counted(one)


def _counted(one: WholeLoad | KilledLoad) -> str:
    return "; ".join(one.problems) or f"all {one.items:,}, each once"


def _times(figures: Figures) -> list[Row]:
    return [
        (one.question, *(f"{ms:.2f}" for ms in (one.small_p50, one.large_p50, one.small_p95, one.large_p95)))
        for one in figures.timed
    ]


def _reached(aim: Aim) -> str:
    return f"{aim.reached:.2f} (at most {aim.wanted:.2f}{'' if aim.met else ': MISSED'})"


def _other_rows(figures: Figures) -> list[Row]:
    cores, sync = os.cpu_count() or 1, figures.sync
    loaded = figures.load_before > QUIET_SHARE * cores
    judged = "all met" if all(aim.met for aim in aims_of(figures)) else "some were missed"
    return [
        ("`sync`", f"{sync.sync_ms:.1f} ms median, {sync.sync_p95_ms:.1f} ms p95, {sync.least_ms:.1f} ms at best"),
        (
            "a bare fetch, an fsync",
            f"{sync.fetch_ms:.1f} ms, {sync.fsync_ms:.2f} ms; {sync.commits:.1f} commits a scrape",
        ),
        ("aims", judged if figures.judged else "not judged: the run is too short for them"),
        ("load of the machine before", f"{figures.load_before:.1f}{': **taken at load**' if loaded else ''}"),
        ("wall time", f"{figures.seconds:,.0f} s"),
        ("made by", f"`{figures.command}`"),
        ("machine", f"{cores} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"),
    ]
