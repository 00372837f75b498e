"""`swath jobs list|status|item`: shows jobs, and one item with its attempts, files and evidence."""

from __future__ import annotations

import datetime as dt
import json

import click
import msgspec

from swath.backends.clock import SystemClock
from swath.domain.errors import UnknownName
from swath.domain.failure import Failure
from swath.domain.item import Attempt, ItemRecord, SuccessOutcome
from swath.domain.job import Job, JobStatus
from swath.domain.manifest import item_details
from swath.domain.storage_keys import PackLocation
from swath.domain.transitions import ItemState
from swath.domain.waiting_messages import item_wait_message
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.client import JobsClient, open_jobs
from swath.entrypoints.cli.output import describe, duration_text, print_json, print_table, status_json
from swath.pipeline.results.provenance import Evidence, EvidenceValue
from swath.settings import Settings

__all__ = ["job_state_text", "list_jobs", "show_item", "show_status"]


async def list_jobs(settings: Settings, limit: int, *, as_json: bool) -> ExitCode:
    """Prints the newest jobs."""
    async with open_jobs(settings, only_looks=True) as jobs:
        found = await jobs.jobs(limit)
    if as_json:
        print_json([status_json(status) for status in found])
        return ExitCode.COMPLETE
    print_table(
        ("job", "status", "done", "failed", "items/s", "ETA", "scraper"),
        [
            (
                status.job.job_id,
                job_state_text(status),
                f"{status.counts.ended:,}/{status.counts.total:,}",
                f"{status.counts.failed:,}",
                *_rate_and_eta(status),
                status.job.scraper_id,
            )
            for status in found
        ],
        shorten=("job", "scraper"),
    )
    return ExitCode.COMPLETE


def job_state_text(status: JobStatus) -> str:
    """The state, and what it waits for."""
    return f"{status.state.value}, waits for {status.waiting_for}" if status.waiting_for else status.state.value


def _rate_and_eta(status: JobStatus) -> tuple[str, str]:
    """Items a second, and the ETA: rounded as in JSON first, so that it is the same by way of a controller."""
    shown = status.as_json()
    return f"{shown['items_per_second']:,.1f}", duration_text(shown["eta_seconds"])


async def show_status(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Prints one job."""
    async with open_jobs(settings, only_looks=True) as jobs:
        status = await jobs.status(job_id)
    if as_json:
        print_json(status_json(status))
        return ExitCode.COMPLETE
    click.echo(f"job {job_id} is {describe(status)}")
    if not status.state.terminal:
        per_second, eta = _rate_and_eta(status)
        click.echo(f"{per_second} items/s, ETA {eta}")
    click.echo(f"results: {jobs.location(job_id)}")
    return ExitCode.COMPLETE


MAX_VALUE_CHARS = 200


async def show_item(settings: Settings, job_id: str, item_id: str, field: str | None, *, as_json: bool) -> ExitCode:
    """Prints it; of its values those of one field, if that is given."""
    async with open_jobs(settings, only_looks=True) as jobs:
        status = await jobs.status(job_id)
        record = await jobs.item(job_id, item_id)
        evidence = await jobs.evidence(job_id, item_id)
    if field is not None:
        evidence = _one_field(evidence, field)
    job, waits = status.job, item_wait_message(status, record, SystemClock().now())
    if as_json:
        more = {"location": jobs.location(job_id), "evidence": msgspec.to_builtins(evidence)}
        print_json(item_details(job, record) | {"waits_for": waits} | more)
        return ExitCode.COMPLETE
    if field is None:
        _print_item(record, job, jobs, waits)
    _print_evidence(evidence, job_id)
    return ExitCode.COMPLETE


def _one_field(evidence: Evidence, field: str) -> Evidence:
    """One field, with what lies below it."""
    values = tuple(one for one in evidence.values if one.field == field or one.field.startswith(f"{field}."))
    if not values and evidence.values:
        raise UnknownName.of("field", field, (one.field for one in evidence.values), "leave out --field to see all")
    return msgspec.structs.replace(evidence, values=values)


def _print_evidence(evidence: Evidence, job_id: str) -> None:
    elsewhere = "" if evidence.job_id == job_id else f" of job {evidence.job_id}"
    for page in evidence.pages:
        cached = ", from the cache" if page.from_cache else ""
        _print_line(f"page {page.name}", f"{page.url} ({page.status}, {_time_text(page.fetched_at)}{cached})")
        _print_line("  sha256", page.sha256)
        _print_line("  stored", "not kept" if page.artifact is None else f"{page.artifact}{elsewhere}")
    _print_line("record", _version_text(evidence))
    several = evidence.values and evidence.values[-1].record > 1
    for value in evidence.values:
        number = f"{value.record}: " if several else ""
        _print_line("value", f"{number}{value.field} = {_shortened(value.value)} ({_source_text(value)})")
    for damage in evidence.damage:
        _print_line("damage", damage)


def _version_text(evidence: Evidence) -> str:
    """Which version it is of, and by whom; how that has ended, where it has no values."""
    words = [f"version {evidence.version}", f"by {evidence.scraper_id} {evidence.scraper_version}".rstrip()]
    words += [f"generation {evidence.generation}"] if evidence.generation else []
    words += [] if evidence.proxy_tier is None else [f"proxy {evidence.proxy_tier}"]
    by = ", ".join(words)
    ended = _outcome_text(evidence.state, evidence.outcome, evidence.reason, evidence.failure)
    return by if evidence.values else f"{by}: {ended}"


def _source_text(value: EvidenceValue) -> str:
    """Never more than is known: of several pages, those in which its text occurs."""
    if len(value.pages) > 1 and value.found_in:
        return f"found in {', '.join(value.found_in)}"
    return f"from {', '.join(value.pages)}" if value.pages else "its pages are not known"


def _shortened(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[: MAX_VALUE_CHARS - 1]}…"


def _print_item(record: ItemRecord, job: Job, jobs: JobsClient, waits: str | None) -> None:
    _print_line("item", record.item_id)
    _print_line("state", _item_state_text(record))
    if record.not_before is not None:
        _print_line("not before", _time_text(record.not_before))
    if waits is not None:
        _print_line("waits", waits)
    if record.suspect:
        _print_line("suspect", "a worker died while it ran; it runs alone next time")
    _print_line("scraper", f"{job.scraper_id} {record.scraper_version}".rstrip())
    _print_line("input", json.dumps(record.input, ensure_ascii=False))
    _print_line(
        "tries", f"{record.tries.own} own, {record.tries.infrastructure} infrastructure, {record.tries.crashes} crashes"
    )
    for number, attempt in enumerate(record.attempts, start=1):
        _print_line(f"attempt {number}", _attempt_text(attempt))
    for artifact in record.artifacts:
        place = jobs.place_of(job.job_id, record.item_id, artifact)
        # In a pack that is what its record takes, or the line that it shares with another file.
        size = "" if PackLocation.of(artifact.key) else f" ({artifact.size:,} bytes)"
        _print_line("artifact", place + size)
    for past in record.earlier:
        end = past.end
        ended = _outcome_text(end.state, end.finding, end.reason, end.failure)
        _print_line(f"generation {past.generation}", f"{ended}, {_time_text(past.ended_at)}")
        for number, attempt in enumerate(end.attempts, start=1):
            _print_line(f"  attempt {number}", _attempt_text(attempt))


def _print_line(what: str, text: str) -> None:
    """Text comes from files and sites, so it must not move the cursor."""
    line = f"{what + ':':14} {text}"
    click.echo("".join(c if c.isprintable() else "·" for c in line))


def _item_state_text(record: ItemRecord) -> str:
    words = [_outcome_text(record.state, record.finding, record.reason, record.failure)]
    if record.ended_at is not None:
        words.append(f"generation {record.generation}, {_time_text(record.ended_at)}")
    return ", ".join(words)


def _outcome_text(state: ItemState, finding: SuccessOutcome | None, reason: str | None, failure: Failure | None) -> str:
    words = [state.value, *(str(word) for word in (finding, reason) if word is not None)]
    return ", ".join(words if failure is None else [*words, f"{failure.kind}: {failure.message}"])


def _attempt_text(attempt: Attempt) -> str:
    took = attempt.ended_at - attempt.started_at
    came = "success" if attempt.failure is None else f"{attempt.failure.kind}: {attempt.failure.message}"
    sent = f"{attempt.requests:,} requests, {attempt.bytes:,} bytes, proxy {attempt.proxy_tier}"
    if attempt.cache_hits:
        sent += f", {attempt.cache_hits:,} from the cache"
    return f"{_time_text(attempt.started_at)}, {took:.3f} s, {came}, {sent}, by {attempt.worker}"


def _time_text(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
