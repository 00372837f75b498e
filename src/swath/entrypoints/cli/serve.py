"""`swath serve`: the controller. What it does is in serving.py, imported when it is called."""

from __future__ import annotations

import click
import msgspec

from swath.entrypoints.cli.session import begin, run_async
from swath.settings import parse_host

__all__ = ["serve"]


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen. Default: SWATH_HOST, 127.0.0.1.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="N", help="0 takes a free one. Default: SWATH_PORT, 8000."
)
@click.option(
    "--workers",
    type=click.IntRange(0, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="One works in this process, more in processes of their own, 0 leaves it to `swath worker`.",
)
@click.option("--processes", is_flag=True, help="Even one worker in a process of its own.")
@click.option("--no-worker", is_flag=True, help="The same as --workers 0.")
def serve(host: str | None, port: int | None, workers: int, processes: bool, no_worker: bool) -> int:
    """Serve the REST API, and work on the jobs that it takes.

    SIGTERM or SIGINT: takes no more requests, ends event streams, lets requests and items finish within the grace
    period, hands back the rest, exits 0. A second one leaves at once.
    """
    settings = begin(serves=True)
    given: dict[str, str | int] = {} if host is None else {"host": parse_host(host, "--host")}
    if port is not None:
        given["port"] = port
    from swath.entrypoints.cli.serving import Staff, serve_api

    workers = 0 if no_worker else workers
    staff = Staff(workers, apart=workers > 1 or (processes and workers > 0))
    return run_async(serve_api(msgspec.structs.replace(settings, **given), staff))
