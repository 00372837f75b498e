"""The figures of a simulation: as a table for people, as JSON, and inside a Markdown page between two marks."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.simulate.actual import LowerBound
from harness.simulate.fairness import BOUND
from harness.simulate.simulation import Simulated

__all__ = ["Figures", "figures_of", "table", "write_page"]

BEGIN: Final = "<!-- figures: begin -->"
END: Final = "<!-- figures: end -->"


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is reported. Times are seconds of fake time, but for `wall_seconds` and `cpu_seconds`."""

    command: str
    seed: int
    workers: int
    items_at_once: int
    items: int
    jobs: int
    sites: int
    job_limits: int
    site_concurrency: int
    events: int
    problems: list[str]
    passed_over: float
    most_runnable: int
    starved_seconds: float
    quiet_seconds: float
    express_seconds: list[float]
    seconds: float
    ideal: LowerBound
    ideal_seconds: float
    slowest: dict[str, float]
    slots_used: float
    leases: int
    commits: int
    claims_in_vain: int
    kills: int
    rescued: int
    lost_leases: int
    attempts: int
    wasted_attempts: int
    not_run: int
    starts_after_open: int
    wall_seconds: float
    cpu_seconds: float


def figures_of(simulated: Simulated, command: str) -> Figures:
    """Takes them from what is left of a run."""
    world = simulated.world
    plan, truth, turns = world.plan, world.truth, world.turns
    jobs = [job for job in truth.jobs.values() if job.ended_at is not None and not job.plan.doomed]
    took = {job.plan.job.job_id: (job.ended_at or 0.0) - job.plan.arrives_at for job in jobs}
    alone = {job.plan.job.job_id: job.useful_seconds / job.plan.limit for job in jobs}
    latest = max(jobs, key=lambda job: job.ended_at or 0.0, default=None)
    return Figures(
        command=command,
        seed=plan.seed,
        workers=plan.size.workers,
        items_at_once=plan.size.items_at_once,
        items=sum(job.items for job in plan.jobs),
        jobs=len(plan.jobs),
        sites=len(plan.concurrency),
        job_limits=sum(job.limit for job in plan.jobs),
        site_concurrency=sum(plan.concurrency.values()),
        events=world.events.played,
        problems=simulated.problems,
        passed_over=turns.worst,
        most_runnable=turns.most_runnable,
        starved_seconds=turns.longest_seconds,
        quiet_seconds=truth.quiet_seconds,
        express_seconds=sorted((job.first_sent or 0.0) - job.plan.arrives_at for job in jobs if job.plan.items == 1),
        seconds=simulated.seconds,
        ideal=simulated.ideal,
        ideal_seconds=simulated.ideal.seconds,
        slowest={} if latest is None else _about(latest.plan.job.job_id, took, alone),
        slots_used=truth.used / max(1, truth.capacity),
        leases=turns.leases,
        commits=world.commits,
        claims_in_vain=world.claims_in_vain,
        kills=simulated.kills,
        rescued=simulated.rescued,
        lost_leases=world.lost_leases,
        attempts=truth.attempts,
        wasted_attempts=truth.wasted_attempts,
        not_run=sum(job.plan.items - job.ended for job in truth.jobs.values()),
        starts_after_open=max((job.starts_after_open or 0 for job in truth.jobs.values()), default=0),
        wall_seconds=simulated.wall_seconds,
        cpu_seconds=simulated.cpu_seconds,
    )


def _about(job_id: str, took: dict[str, float], alone: dict[str, float]) -> dict[str, float]:
    return {"number": float(job_id.rpartition("-")[2]), "took_seconds": took[job_id], "alone_seconds": alone[job_id]}


def table(figures: Figures) -> str:
    """Two columns for a terminal."""
    rows = _rows(figures)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def write_page(page: Path, figures: Figures) -> None:
    """Replaces what stands between the marks of a page."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page} has no place for figures: {BEGIN} … {END}")
    lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in _rows(figures))]
    page.write_text("\n".join([before + BEGIN, "", *lines, "", END + after]), encoding="utf-8")


def _rows(figures: Figures) -> list[tuple[str, str]]:
    f, ideal, slowest = figures, figures.ideal, figures.slowest
    bounds = f"jobs {ideal.by_jobs:,.0f} s, sites {ideal.by_sites:,.0f} s, workers {ideal.by_workers:,.0f} s"
    return [
        ("workers, items at once in each", f"{f.workers:,}, {f.items_at_once}"),
        ("items, jobs, sites", f"{f.items:,}, {f.jobs}, {f.sites}"),
        ("all job limits, all site limits", f"{f.job_limits:,} items, {f.site_concurrency:,} requests"),
        ("limits broken, items lost or ended twice", "; ".join(f.problems[:3]) or "none"),
        ("items never run (the doomed job)", f"{f.not_run:,}"),
        ("attempts begun after its circuit opened", f"{f.starts_after_open:,}"),
        ("passed over, at worst", f"{f.passed_over:.2f} leases for each runnable job (bound {BOUND})"),
        ("runnable jobs for one claim, at most", f"{f.most_runnable}"),
        ("longest that a job with work and a slot got nothing", f"{f.starved_seconds:.1f} s"),
        ("longest that a job with items in slots sent nothing", f"{f.quiet_seconds:.1f} s"),
        ("order to request of scrapes of one item", _waits(f.express_seconds)),
        ("time to finish", f"{f.seconds:,.0f} s"),
        ("ideal", f"{f.ideal_seconds:,.0f} s ({bounds})"),
        ("against the ideal", f"{f.seconds / f.ideal_seconds:.2f}" if f.ideal_seconds else "-"),
        *([("the last job", _last(slowest))] if slowest else []),
        ("possible requests that were open", f"{100 * f.slots_used:.1f} %"),
        ("leases, items in each", f"{f.leases:,}, {(f.items - f.not_run) / max(1, f.leases):.1f}"),
        ("commits, items in each", f"{f.commits:,}, {(f.items - f.not_run) / max(1, f.commits):.2f}"),
        ("claims in vain", f"{f.claims_in_vain:,}"),
        ("kills, leases rescued", f"{f.kills:,}, {f.rescued:,}"),
        ("leases lost by workers that lived", f"{f.lost_leases:,}"),
        ("attempts, wasted", f"{f.attempts:,}, {f.wasted_attempts:,}"),
        ("events", f"{f.events:,}"),
        ("wall time, CPU time", f"{f.wall_seconds:,.0f} s, {f.cpu_seconds:,.0f} s"),
        ("made by", f"`{f.command}`"),
        ("machine", f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"),
    ]


def _waits(seconds: list[float]) -> str:
    return ", ".join(f"{each:.2f} s" for each in seconds) or "-"


def _last(slowest: dict[str, Any]) -> str:
    took, alone = slowest["took_seconds"], slowest["alone_seconds"]
    return f"took {took:,.0f} s; with its limit always full {alone:,.0f} s"
