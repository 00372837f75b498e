"""What S3 denies or does not answer for the objects of one job, while it serves the rest of the place.

A bucket policy or an encryption key may concern a single prefix, and S3 throttles by prefix. results.py marks its
methods with `of_job`: such trouble is then FolderUnusable, which puts off that job alone. Trouble with the whole place
stays what it is: an error for a person, or something that everybody waits for.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from swath.backends.aws.results.bucket import PROBE
from swath.backends.aws.results.object_errors import Denied, Unanswered
from swath.domain.errors import FolderUnusable, StoreUnavailable, SwathError
from swath.domain.job import WaitingFor

if TYPE_CHECKING:
    from swath.backends.aws.results.objects import Objects

__all__ = ["judged", "of_job"]

M = TypeVar("M", bound=Callable[..., Awaitable[Any]])

PROBE_SECONDS: Final = 3.0


class Storage(Protocol):
    """What `of_job` needs of results storage."""

    async def whose(self, job_id: str, error: Denied | Unanswered) -> SwathError:
        """What to raise for it."""
        ...


def of_job(method: M) -> M:
    """For a method whose first argument is a job: raises FolderUnusable for trouble with that job's objects alone."""

    @functools.wraps(method)
    async def asked(self: Storage, job_id: str, *rest: Any, **named: Any) -> Any:
        try:
            return await method(self, job_id, *rest, **named)
        except (Denied, Unanswered) as error:
            raise await self.whose(job_id, error) from error

    return asked  # type: ignore[return-value]  # it takes and gives what the method does


async def judged(objects: Objects, job_id: str, location: str, error: Denied | Unanswered) -> SwathError:
    """Tries the same kind of request beside the jobs: only when that works the trouble is of this job alone."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await objects.try_place(error.operation, PROBE)
    except Denied:
        return error
    except (SwathError, TimeoutError):
        return error if isinstance(error, Unanswered) else StoreUnavailable(str(error), WaitingFor.DISK)
    return FolderUnusable(f"cannot use the results of job {job_id!r} in {location}: {error}", WaitingFor.DISK)
