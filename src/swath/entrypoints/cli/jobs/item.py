"""`swath jobs item`: everything that is known of one item."""

from __future__ import annotations

import datetime as dt
import json

import click

from swath.domain.attempt import Attempt, Ended
from swath.domain.item import ItemRecord
from swath.domain.job import Job
from swath.domain.manifest import entry_with_past
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.opened import Jobs, open_jobs
from swath.entrypoints.cli.output import print_json
from swath.settings import Settings

__all__ = ["show_item"]


async def show_item(settings: Settings, job_id: str, item_id: str, *, as_json: bool) -> ExitCode:
    """Prints it."""
    async with open_jobs(settings, only_looks=True) as jobs:
        job = (await jobs.status(job_id)).job
        record = await jobs.item(job_id, item_id)
    if as_json:
        print_json(entry_with_past(job, record) | {"location": jobs.location(job_id)})
    else:
        _tell(record, job, jobs)
    return ExitCode.COMPLETE


def _tell(record: ItemRecord, job: Job, jobs: Jobs) -> None:
    _line("item", record.item_id)
    _line("state", _stands(record))
    if record.not_before is not None:
        _line("not before", _moment(record.not_before))
    if record.suspect:
        _line("suspect", "a worker died while it ran; it runs alone next time")
    _line("scraper", f"{job.scraper_id} {record.scraper_version}".rstrip())
    _line("input", json.dumps(record.input, ensure_ascii=False))
    _line(
        "tries", f"{record.tries.own} own, {record.tries.infrastructure} infrastructure, {record.tries.crashes} crashes"
    )
    for number, attempt in enumerate(record.attempts, start=1):
        _line(f"attempt {number}", _tried(attempt))
    for artifact in record.artifacts:
        place = jobs.place_of(job.job_id, record.item_id, artifact)
        _line("artifact", f"{place} ({artifact.size:,} bytes)")
    for past in record.earlier:
        _line(f"generation {past.generation}", f"{_ended(past.end)}, {_moment(past.ended_at)}")
        for number, attempt in enumerate(past.end.attempts, start=1):
            _line(f"  attempt {number}", _tried(attempt))


def _line(what: str, text: str) -> None:
    """Text comes from files and sites, so it must not move the cursor."""
    click.echo(f"{what + ':':14} {''.join(c if c.isprintable() else '·' for c in text)}")


def _stands(record: ItemRecord) -> str:
    words = [record.state.value]
    words += [str(word) for word in (record.finding, record.reason) if word is not None]
    if record.failure is not None:
        words.append(f"{record.failure.kind}: {record.failure.message}")
    if record.ended_at is not None:
        words.append(f"generation {record.generation}, {_moment(record.ended_at)}")
    return ", ".join(words)


def _ended(end: Ended) -> str:
    words = [end.state.value, *(str(word) for word in (end.finding, end.reason) if word is not None)]
    return ", ".join(words if end.failure is None else [*words, f"{end.failure.kind}: {end.failure.message}"])


def _tried(attempt: Attempt) -> str:
    took = attempt.ended_at - attempt.started_at
    came = "success" if attempt.failure is None else f"{attempt.failure.kind}: {attempt.failure.message}"
    sent = f"{attempt.requests:,} requests, {attempt.bytes:,} bytes, proxy {attempt.proxy_tier}"
    if attempt.cache_hits:
        sent += f", {attempt.cache_hits:,} from the cache"
    return f"{_moment(attempt.started_at)}, {took:.3f} s, {came}, {sent}, by {attempt.worker}"


def _moment(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
