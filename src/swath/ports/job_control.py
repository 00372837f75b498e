"""JobControl: what a person does to a job after it was ordered.

Each call happens as a whole or not at all, and returns the job as it is then. All raise UnknownName for a job that
does
not exist, and Conflict for one that is being deleted (except `delete`, which may be repeated).
"""

from __future__ import annotations

from typing import Protocol

from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import RetrySelection
from swath.domain.job import JobStatus
from swath.domain.lease import Lease

__all__ = ["JobControl"]


class JobControl(Protocol):
    """Durable: workers learn of a change with their next word to the lease book."""

    async def pause(self, job_id: str) -> JobStatus:
        """`pending` or `running` → `paused`: nothing more is leased, what runs may finish, workers hand back the rest.

        A paused job is returned as it is. Raises Conflict for one that is loading, stopping or has ended.
        """
        ...

    async def resume(self, job_id: str) -> JobStatus:
        """`paused` → `running`, or `pending` if it never ran, with a new, closed circuit.

        What is held or has begun and waits counts as released by the new circuit (domain/circuit.py). A job that is not
        paused, or is stopping, is returned as it is; if its ending is put off, it may be tried again at once. Raises
        Conflict for one that has ended, naming `retry`.
        """
        ...

    async def cancel(self, job_id: str) -> JobStatus:
        """Asks the job to stop: nothing more is leased, what runs may finish, the rest gets cancelled by its ending.

        A terminal job, or one that stops already, is returned unchanged: the first reason to stop stays.
        """
        ...

    async def change_policy(
        self, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None = None
    ) -> JobStatus:
        """The job goes on by another policy, whatever state it is in. An equal one changes nothing.

        Leases handed out under the former one are told to stop, so everything that starts later obeys the new one.
        A lower `max_concurrent_workers` holds as soon as what runs beyond it has ended; nothing starts before.

        `expected` is the policy that this one was made of; None if it is to hold whatever there was. Raises Outdated
        when the job has another by now, unless that is this one.
        """
        ...

    async def retry(self, job_id: str, selection: RetrySelection) -> JobStatus:
        """Begins a new generation of an ended job: the selected items are `pending` again, the job too.

        They start with no tries and no attempts; their former ends stay known (`JobStore.item`). The circuit is new.
        Items not selected keep their ends. The former manifest stays with the job until the new end replaces it.
        Raises Conflict when the job has not ended, BadInput when nothing fits the selection.
        """
        ...

    async def delete(self, job_id: str) -> JobStatus:
        """Marks an ended or `loading` job for deletion. Whoever claims that (ports/endings.py) removes it in pieces.

        Raises Conflict for a job that is to be cancelled first.
        """
        ...

    async def add_version(self, job_id: str) -> int:
        """Counts one more version of an ended job's results, for whoever makes it (R6), and answers with its number.

        Raises Conflict when the job has not ended.
        """
        ...

    async def set_current(self, job_id: str, version: int, *, under: Lease | None = None) -> JobStatus:
        """Makes a version the one that readers get. Raises BadInput when there was never one of that number.

        `under` is the right to end the job that makes the version. Raises LeaseLost, and changes nothing, when it was
        taken away.
        """
        ...
