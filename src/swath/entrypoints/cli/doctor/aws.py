"""Checks of what is on AWS: the table, the queues, the place for results. Of what is not, they say so and no more."""

from __future__ import annotations

import asyncio
from typing import Final

from swath.backends.host.private_files import stands_in_place
from swath.bootstrap.services import require_aws
from swath.domain.errors import StoreUnavailable, UserError
from swath.entrypoints.cli.doctor.finding import Check, Finding, Subject, fail, ok, warn
from swath.entrypoints.cli.output import counted
from swath.settings import DynamoPlace, FolderPlace, S3Place

__all__ = ["check_queue", "check_results", "check_table"]

PATIENCE_SECONDS: Final = 3.0


def check_table(subject: Subject) -> Finding:
    """The table is there, ours and active."""
    return _asked(_table, subject)


def check_queue(subject: Subject) -> Finding:
    """The queues are there, and nothing lies among the dead letters."""
    if not isinstance(subject.settings.places.store, DynamoPlace):
        return ok("none is needed: workers ask the store")
    return _asked(_queue, subject)


def check_results(subject: Subject) -> Finding:
    """Results can be written, and where all machines see them."""
    places = subject.settings.places
    if isinstance(places.results, FolderPlace) and stands_in_place(places.results.folder):
        return fail(
            f"a file, or a link that leads nowhere, stands where the folder {places.results.folder} belongs",
            "put the folder in its place, or mount what the link leads to; jobs wait until then",
        )
    if places.doubt is not None:
        return warn(places.doubt, "with workers on one machine alone this is in order")
    if not isinstance(places.results, S3Place):
        return ok(f"go to the folder {places.results.folder}")
    return _asked(_results, subject)


def _asked(check: Check, subject: Subject) -> Finding:
    try:
        require_aws()
        return check(subject)
    except UserError as error:
        return fail(str(error), "do as it says")
    except StoreUnavailable as error:
        return fail(str(error), "check the network, the region and the AWS endpoint variables")


def _table(subject: Subject) -> Finding:
    from swath.backends.aws.survey import TableState, look_at_table
    from swath.entrypoints.cli.aws.reach import reach

    async def look() -> TableState:
        async with reach(subject.settings, PATIENCE_SECONDS) as there:
            return await look_at_table(there.of_table, there.table or "")

    table = asyncio.run(look())
    if table.state == "missing":
        return fail(f"there is no table {table.name!r}", "make it: `swath aws init`")
    if table.state == "foreign":
        return fail(table.why, "set SWATH_STORE=dynamodb://TABLE to a name of your own, then `swath aws init`")
    if table.why:
        return fail(table.why, "do as it says")
    if not table.usable:
        return fail(f"the table {table.name!r} is {table.state.lower()}", "wait until it is active")
    if table.billing != "PAY_PER_REQUEST":
        return warn(f"the table {table.name!r} has a fixed capacity", "on-demand capacity does not throttle a fleet")
    return ok(f"DynamoDB table {table.name!r} is {table.state.lower()}")


def _queue(subject: Subject) -> Finding:
    from swath.backends.aws.survey import QueueState, look_at_queues
    from swath.entrypoints.cli.aws.reach import reach

    async def look() -> list[QueueState]:
        async with reach(subject.settings, PATIENCE_SECONDS) as there:
            return [] if there.queues is None else await look_at_queues(there.of_queues, there.queues)

    queues = asyncio.run(look())
    missing = [queue.name for queue in queues if queue.state == "missing"]
    if missing:
        return fail(
            f"there is no queue {', '.join(missing)}", "make it: `swath aws init`; until then workers only poll"
        )
    if dead := queues[-1].waiting + queues[-1].taken:
        told = f"{counted(dead, 'hint')} in {queues[-1].name!r} that no worker could settle"
        return warn(told, "nothing is lost; look at the workers' logs, then purge that queue")
    return ok(f"SQS queues of {queues[0].name!r}; no dead letters")


def _results(subject: Subject) -> Finding:
    from swath.backends.aws.results.bucket import try_bucket
    from swath.entrypoints.cli.aws.reach import reach

    async def look() -> str:
        async with reach(subject.settings, PATIENCE_SECONDS) as there:
            if there.bucket is not None:
                await try_bucket(there.of_bucket, there.bucket)
        return str(subject.settings.places.results)

    return ok(f"{asyncio.run(look())} can be written")
