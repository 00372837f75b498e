"""`swath demo` and `swath demo-site`: serves the demo county, and scrapes it end to end."""

from __future__ import annotations

import asyncio
import csv
import os
import random
import time
from pathlib import Path

import click
import msgspec

from swath.backends.private_files import make_folder, make_private_file
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, open_services
from swath.demo.county import DemoCountyServer, FaultSettings, serve_forever
from swath.domain.job import JobStatus
from swath.entrypoints.cli.exit_codes import ExitCode, exit_code_of
from swath.entrypoints.cli.load_job import load_job
from swath.entrypoints.cli.output import command, describe, print_json, status_json
from swath.entrypoints.cli.progress import show_progress
from swath.entrypoints.cli.run import run_until_ended
from swath.entrypoints.cli.run_args import RunArgs
from swath.entrypoints.cli.runtime import begin, run_async, stop_on_signals
from swath.pipeline.results.verify.verifier import VerifyReport, verify
from swath.settings import Settings

__all__ = ["demo", "demo_site"]


@click.command()
@click.option("--parcels", type=click.IntRange(1, 1_000_000), default=600, show_default=True, help="How many.")
@click.option("--concurrency", type=click.IntRange(1, 1_000), default=16, show_default=True, help="Items at once.")
@click.option("--json", "as_json", is_flag=True, help="Print the job's status as JSON at the end.")
def demo(parcels: int, concurrency: int, as_json: bool) -> int:
    """Scrape a county of our own, end to end: serve it, run a job over it, verify the result.

    The county answers slowly and fails now and then, as real ones do. Nothing leaves this machine.
    """
    return run_async(_run_demo(begin(), parcels, concurrency, as_json))


async def _run_demo(settings: Settings, parcels: int, concurrency: int, as_json: bool) -> ExitCode:
    stop = asyncio.Event()
    stop_on_signals(stop, "stopping the demo", settings.grace_seconds)
    job_id = f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    make_folder(settings.data, settings.data_mode)
    items = await asyncio.to_thread(_write_parcels, settings.data / "demo" / f"{job_id}.csv", parcels)
    troubles = FaultSettings(latency_ms=20, latency_jitter_ms=20, failure_rate=0.005, rate_429=0.0025, seed=1)
    order = RunArgs(scraper="demo-county", items=str(items), job_id=job_id, concurrency=concurrency)
    async with (
        DemoCountyServer(troubles) as county,
        open_services(msgspec.structs.replace(settings, demo_url=county.base_url)) as services,
    ):
        os.environ["SWATH_DEMO_URL"] = county.base_url  # noqa: TID251 tells the scraper, as a person would
        click.echo(f"The demo county is at {county.base_url}; {parcels:,} parcels to look up: {items}", err=True)
        async with show_progress(quiet=as_json) as display:
            registry = make_registry(settings)
            status = await load_job(services, registry, order, display, stop)
            status = await run_until_ended(services, registry, status, display, stop)
        if not status.state.terminal:
            return ExitCode.INTERRUPTED
        report = await verify(services.store, services.storage, job_id)
        if as_json:
            print_json(status_json(status))
        else:
            traffic = f"{county.counters.requests:,} requests for {parcels:,} parcels"
            await _print_result(services, status, report, traffic)
        return exit_code_of(status) if report.ok else ExitCode.VERIFY_FAILED


def _write_parcels(path: Path, parcels: int) -> Path:
    """A CSV such as a person would have. Which parcels they are is the same each time."""
    chance = random.Random(7)  # noqa: S311 a demo, not a secret
    ids = chance.sample(range(10**8), parcels)
    make_folder(path.parent)
    make_private_file(path)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["parcel_id"])
        writer.writerows([f"{n // 10**5:03}-{n // 10**3 % 100:02}-{n % 10**3:03}"] for n in ids)
    return path


async def _print_result(services: Services, status: JobStatus, report: VerifyReport, traffic: str) -> None:
    job_id = status.job.job_id
    location = services.storage.location(job_id)
    click.echo(f"job {job_id} is {describe(status)} ({traffic})")
    click.echo(f"results:   {location}")
    if (key := await _sample_record_key(services, job_id)) is not None:
        record = (await services.storage.get(job_id, key)).decode("utf-8")
        click.echo(f"a record:  {location}/{key}\n           {record[:300]} …")
    click.echo(f"manifest:  {location}/job_metadata.json")
    balance = "balances" if report.ok else "DOES NOT BALANCE"
    counts = status.counts
    click.echo(
        f"accounts:  {counts.total:,} items in = {counts.success:,} success (of which {counts.not_found:,} not found) "
        f"+ {counts.failed:,} failed + {counts.skipped:,} skipped + {counts.cancelled:,} cancelled: it {balance}"
    )
    click.echo(f"check it:  {command('jobs', 'verify', job_id)}")


async def _sample_record_key(services: Services, job_id: str) -> str | None:
    items = await services.store.items(job_id, limit=100)
    keys = (artifact.key for item in items for artifact in item.artifacts)
    return next((key for key in keys if key.endswith("/data.json")), None)


@click.command("demo-site")
@click.option("--port", type=click.IntRange(0, 65_535), default=8010, show_default=True, help="0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--latency-ms", type=float, default=0.0, show_default=True, help="Each answer takes so long.")
@click.option("--latency-jitter-ms", type=float, default=0.0, show_default=True)
@click.option("--failure-rate", type=float, default=0.0, show_default=True, help="Share of requests answered 500.")
@click.option("--rate-429", type=float, default=0.0, show_default=True, help="Share of requests answered 429.")
@click.option("--block-rate", type=float, default=0.0, show_default=True, help="Share of requests answered 403.")
@click.option("--drop-rate", type=float, default=0.0, show_default=True, help="Share of connections cut.")
@click.option("--seed", type=int, default=0, show_default=True)
def demo_site(host: str, port: int, **switches: float) -> None:
    """Only serve the demo county, until Ctrl-C. `SWATH_DEMO_URL` tells the scraper demo-county where it is."""
    try:
        chosen = FaultSettings().changed(switches)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        serve_forever(host, port, chosen, lambda url: click.echo(f"The demo county is at {url}"))
    except OSError as error:
        raise click.ClickException(f"cannot serve on {host}:{port}: {error.strerror}; choose another --port") from None
