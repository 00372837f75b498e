"""The figures of a fleet: as a table for people, as JSON, and inside a Markdown page between two marks."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from harness.fleet.job_run import JobCost
from harness.fleet.loading import Loaded
from harness.fleet.meters import MeteredRequests
from harness.fleet.slots import SlotUse
from harness.tables import NO_HEAD, Section, as_text, put_into

__all__ = ["MOST_DOLLARS", "Figures", "as_json", "problems", "table", "write_cost", "write_page"]

MOST_DOLLARS: Final = 1.0  # for DynamoDB and SQS and a million items
LEAST_SLOTS: Final = 0.9
_SERVERS: Final = "DynamoDB Local, SeaweedFS, ministack"


@dataclass(kw_only=True)
class Figures:
    """Everything that was measured; what was not asked for is missing. A short run is not `judged` by the aims."""

    command: str
    judged: bool = True
    mock: JobCost | None = None
    embedded: JobCost | None = None
    county: list[JobCost] = field(default_factory=list)
    scaled: list[SlotUse] = field(default_factory=list)
    slots: SlotUse | None = None
    loaded: Loaded | None = None
    seconds: float = 0.0
    machine: str = field(
        default_factory=lambda: f"{os.cpu_count()} cores, Python {platform.python_version()}, {_SERVERS}"
    )


def problems(figures: Figures) -> list[str]:
    """What must not be, and aims that were missed."""
    found = list(figures.loaded.problems) if figures.loaded else []
    if not figures.judged:
        return found
    for name, worked in _on_aws(figures):
        if (dollars := _state_dollars(worked)) > MOST_DOLLARS:
            found.append(f"{name}: ${dollars:.2f} for DynamoDB and SQS, at most {MOST_DOLLARS:g}")
    if figures.slots is not None and figures.slots.used.share < LEAST_SLOTS:
        found.append(f"{figures.slots.used.share:.1%} of the slots were used, at least {LEAST_SLOTS:.0%}")
    return found


def as_json(figures: Figures) -> str:
    """All of it."""
    return json.dumps(msgspec.to_builtins(figures), indent=2) + "\n"


def table(figures: Figures) -> str:
    """For a terminal."""
    return as_text(_sections(figures))


def write_page(page: Path, figures: Figures) -> None:
    """Replaces what stands between the marks of a page."""
    put_into(page, _sections(figures))


def write_cost(page: Path, figures: Figures) -> None:
    """The same with what a million items cost and nothing else, if that was measured."""
    if sections := _cost_sections(figures):
        put_into(page, sections)


def _sections(figures: Figures) -> list[Section]:
    asked, sections = _on_aws(figures), _cost_sections(figures)
    runs = [(name, run) for name, run in (*asked, ("example-mock, embedded", figures.embedded)) if run is not None]
    if runs:
        sections.append((("run", "items/s", "CPU of the workers, µs an item", "ending, s"), list(map(_run_row, runs))))
    if slow := [*figures.scaled, *([figures.slots] if figures.slots else [])]:
        head = ("pages of 200 ms", "items/s", "slots used", "requests an item", "DynamoDB and SQS, $ a million")
        sections.append((head, list(map(_slow_row, slow))))
    return [*sections, (NO_HEAD, _other_rows(figures))]


def _cost_sections(figures: Figures) -> list[Section]:
    runs = _on_aws(figures)
    return [(("a million items", *(name for name, _ in runs)), _cost_rows([run for _, run in runs]))] if runs else []


def _on_aws(figures: Figures) -> list[tuple[str, JobCost]]:
    """Those that asked AWS for something, by what they are called."""
    mock = [(f"example-mock, {figures.mock.order.items:,} items", figures.mock)] if figures.mock else []
    county = [(f"demo-county, {run.order.items:,} items, {run.order.layout}", run) for run in figures.county]
    return [(name, run) for name, run in (*mock, *county) if run.asked is not None]


def _state_dollars(worked: JobCost) -> float:
    """For the load too."""
    parts = [asked for asked in (worked.asked_to_load, worked.asked) if asked is not None]
    return sum(asked.million("dynamodb", "sqs") for asked in parts)


def _cost_rows(runs: list[JobCost]) -> list[tuple[str, ...]]:
    """Two steps for each figure: the load, and all that comes after."""
    pairs = [(run.asked_to_load, run.asked) for run in runs]

    def row(name: str, show: str, *values: float) -> tuple[str, ...]:
        return name, *(format(value, show) for value in values)

    def both(asked: tuple[MeteredRequests | None, MeteredRequests | None]) -> list[MeteredRequests]:
        return [one for one in asked if one is not None]

    rows = [
        row(f"requests an item, {name}", ".3f", *(sum(one.each(service) for one in both(pair)) for pair in pairs))
        for name, service in (("DynamoDB", "dynamodb"), ("SQS", "sqs"), ("S3", "s3"))
    ]
    rows += [
        row("write units an item", ".3f", *(sum(one.write_units / one.items for one in both(pair)) for pair in pairs)),
        row("read units an item", ".3f", *(sum(one.read_units / one.items for one in both(pair)) for pair in pairs)),
        row("declined writes an item", ".4f", *(sum(one.declined / one.items for one in both(pair)) for pair in pairs)),
    ]
    for name, services in (("DynamoDB", ["dynamodb"]), ("SQS", ["sqs"]), ("S3", ["s3"])):
        dollars = (sum(one.million(*services) for one in both(pair)) for pair in pairs)
        rows.append(row(f"{name}, $", ".3f", *dollars))
    rows.append(row(f"DynamoDB and SQS, $ (at most {MOST_DOLLARS:g})", ".3f", *map(_state_dollars, runs)))
    return rows


def _run_row(named: tuple[str, JobCost]) -> tuple[str, ...]:
    name, run = named
    processes = f"{name}, {run.order.workers} processes"
    return processes, f"{run.items_per_second:,.0f}", f"{1e6 * run.cpu_each:,.0f}", f"{run.ending_seconds:,.1f}"


def _slow_row(slow: SlotUse) -> tuple[str, ...]:
    plan, asked = slow.used.plan, slow.asked
    bound = f"limit {plan.limit}" if plan.max_items is None else f"{plan.max_items} items at once each"
    requests = sum(asked.requests.values()) / asked.items
    return (
        f"{plan.workers} processes, {bound}",
        f"{slow.used.items_per_second:,.1f}",
        f"{slow.used.share:.1%}",
        f"{requests:.2f}",
        f"{asked.million('dynamodb', 'sqs'):.2f}",
    )


def _other_rows(figures: Figures) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    if figures.mock is not None and figures.embedded is not None:
        ratio = figures.mock.cpu_each / figures.embedded.cpu_each
        rows.append(("CPU of the workers, AWS against embedded", f"{ratio:.2f}"))
    if figures.loaded is not None:
        rows += _loaded_rows(figures.loaded)
    met = "met, as far as they were measured" if figures.judged else "not judged: the run is too short for them"
    return [
        *rows,
        ("aims", "; ".join(problems(figures)) or met),
        ("wall time", f"{figures.seconds:,.0f} s"),
        ("made by", f"`{figures.command}`"),
        ("machine", figures.machine),
    ]


def _loaded_rows(loaded: Loaded) -> list[tuple[str, ...]]:
    asked = loaded.asked_again
    killed = f"{loaded.killed_seconds:,.1f} s until `kill -9` at {loaded.killed_rows:,}"
    return [
        (
            f"load of {loaded.rows:,} rows",
            f"{loaded.rows_per_second:,.0f} rows/s: {killed}, {loaded.again_seconds:,.1f} s",
        ),
        ("memory of the loader", f"{loaded.peak_bytes / (1 << 20):,.0f} MiB at the peak"),
        ("its requests, a million rows", f"{asked.each('dynamodb') * 1e6:,.0f}, ${asked.million('dynamodb'):.3f}"),
        ("rows counted by botocore", "; ".join(loaded.problems) or f"all {loaded.rows:,}, each once"),
    ]
