"""`swath jobs item`: everything that is known of one item, and the evidence for each of its values."""

from __future__ import annotations

import datetime as dt
import json

import click
import msgspec

from swath.backends.clock import SystemClock
from swath.domain.attempt import Attempt, Finding
from swath.domain.errors import UnknownName
from swath.domain.failure import Failure
from swath.domain.held import waits_for
from swath.domain.item import ItemRecord
from swath.domain.job import Job
from swath.domain.layout import PackedAt
from swath.domain.manifest import entry_with_past
from swath.domain.transitions import ItemState
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.opened import Jobs, open_jobs
from swath.entrypoints.cli.output import print_json
from swath.pipeline.results.evidence import Evidence, Value
from swath.settings import Settings

__all__ = ["show_item"]

LONGEST_VALUE = 200


async def show_item(settings: Settings, job_id: str, item_id: str, field: str | None, *, as_json: bool) -> ExitCode:
    """Prints it; of its values those of one field, if that is given."""
    async with open_jobs(settings, only_looks=True) as jobs:
        status = await jobs.status(job_id)
        record = await jobs.item(job_id, item_id)
        evidence = await jobs.evidence(job_id, item_id)
    if field is not None:
        evidence = _only(evidence, field)
    job, waits = status.job, waits_for(status, record, SystemClock().now())
    if as_json:
        more = {"location": jobs.location(job_id), "evidence": msgspec.to_builtins(evidence)}
        print_json(entry_with_past(job, record) | {"waits_for": waits} | more)
        return ExitCode.COMPLETE
    if field is None:
        _tell(record, job, jobs, waits)
    _tell_evidence(evidence, job_id)
    return ExitCode.COMPLETE


def _only(evidence: Evidence, field: str) -> Evidence:
    """One field, with what lies below it."""
    values = tuple(one for one in evidence.values if one.field == field or one.field.startswith(f"{field}."))
    if not values and evidence.values:
        raise UnknownName.of("field", field, (one.field for one in evidence.values), "leave out --field to see all")
    return msgspec.structs.replace(evidence, values=values)


def _tell_evidence(evidence: Evidence, job_id: str) -> None:
    elsewhere = "" if evidence.job_id == job_id else f" of job {evidence.job_id}"
    for page in evidence.pages:
        cached = ", from the cache" if page.from_cache else ""
        _line(f"page {page.name}", f"{page.url} ({page.status}, {_moment(page.fetched_at)}{cached})")
        _line("  sha256", page.sha256)
        _line("  stored", "not kept" if page.artifact is None else f"{page.artifact}{elsewhere}")
    _line("record", _made(evidence))
    several = evidence.values and evidence.values[-1].record > 1
    for value in evidence.values:
        number = f"{value.record}: " if several else ""
        _line("value", f"{number}{value.field} = {_short(value.value)} ({_from(value)})")
    for damage in evidence.damage:
        _line("damage", damage)


def _made(evidence: Evidence) -> str:
    """Which version it is of, and by whom; how that has ended, where it has no values."""
    words = [f"version {evidence.version}", f"by {evidence.scraper_id} {evidence.scraper_version}".rstrip()]
    words += [f"generation {evidence.generation}"] if evidence.generation else []
    words += [] if evidence.proxy_tier is None else [f"proxy {evidence.proxy_tier}"]
    by = ", ".join(words)
    ended = _how(evidence.state, evidence.outcome, evidence.reason, evidence.failure)
    return by if evidence.values else f"{by}: {ended}"


def _from(value: Value) -> str:
    """Never more than is known: of several pages, those in which its text occurs."""
    if len(value.pages) > 1 and value.found_in:
        return f"found in {', '.join(value.found_in)}"
    return f"from {', '.join(value.pages)}" if value.pages else "its pages are not known"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _tell(record: ItemRecord, job: Job, jobs: Jobs, waits: str | None) -> None:
    _line("item", record.item_id)
    _line("state", _stands(record))
    if record.not_before is not None:
        _line("not before", _moment(record.not_before))
    if waits is not None:
        _line("waits", waits)
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
        # In a pack that is what its record takes, or the line that it shares with another file.
        size = "" if PackedAt.of(artifact.key) else f" ({artifact.size:,} bytes)"
        _line("artifact", place + size)
    for past in record.earlier:
        end = past.end
        ended = _how(end.state, end.finding, end.reason, end.failure)
        _line(f"generation {past.generation}", f"{ended}, {_moment(past.ended_at)}")
        for number, attempt in enumerate(end.attempts, start=1):
            _line(f"  attempt {number}", _tried(attempt))


def _line(what: str, text: str) -> None:
    """Text comes from files and sites, so it must not move the cursor."""
    line = f"{what + ':':14} {text}"
    click.echo("".join(c if c.isprintable() else "·" for c in line))


def _stands(record: ItemRecord) -> str:
    words = [_how(record.state, record.finding, record.reason, record.failure)]
    if record.ended_at is not None:
        words.append(f"generation {record.generation}, {_moment(record.ended_at)}")
    return ", ".join(words)


def _how(state: ItemState, finding: Finding | None, reason: str | None, failure: Failure | None) -> str:
    words = [state.value, *(str(word) for word in (finding, reason) if word is not None)]
    return ", ".join(words if failure is None else [*words, f"{failure.kind}: {failure.message}"])


def _tried(attempt: Attempt) -> str:
    took = attempt.ended_at - attempt.started_at
    came = "success" if attempt.failure is None else f"{attempt.failure.kind}: {attempt.failure.message}"
    sent = f"{attempt.requests:,} requests, {attempt.bytes:,} bytes, proxy {attempt.proxy_tier}"
    if attempt.cache_hits:
        sent += f", {attempt.cache_hits:,} from the cache"
    return f"{_moment(attempt.started_at)}, {took:.3f} s, {came}, {sent}, by {attempt.worker}"


def _moment(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
