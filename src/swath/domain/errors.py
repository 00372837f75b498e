"""The one exception tree.

SwathError
├── UserError            somebody asked for something impossible; one line says what to do
│   ├── BadInput         a file, a row, a policy or an option is wrong
│   ├── UnknownName      no such job, item, scraper, field or key (with near matches)
│   ├── NewerStore       a newer version of Swath has written the store; this process must be upgraded
│   └── Conflict         the same id with other content
│       └── Outdated     what the caller had read has changed meanwhile; read it again
├── StoreUnavailable     the store or the disk does not answer now; try again later
│   └── FolderUnusable   the results folder of one job is damaged; the other jobs go on
├── StoreReplaced        the store's file was removed or replaced while it was open; only stopping helps
├── StoreDamaged         the store holds something that cannot be read; `jobs verify` says so too
├── LeaseLost            the worker no longer holds what it works on; its results are void
├── SiteHeld             a site is not to be visited now (closed, or its circuit is open); the item waits
├── Unbalanced           a job's rows, counters and manifest do not add up, so it must not end
├── NotFound             raised by a scraper: the site has no such record (a success)
└── Failed               raised by fetching and extraction: carries a Failure, which is data

Only `Failed` and `NotFound` may come out of a scraper; anything else is our bug and becomes `internal`.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swath.domain.failure import Failure
    from swath.domain.job import WaitingFor

__all__ = [
    "BadInput",
    "Conflict",
    "Failed",
    "FolderUnusable",
    "LeaseLost",
    "NewerStore",
    "NotFound",
    "Outdated",
    "SiteUnavailable",
    "StoreDamaged",
    "StoreReplaced",
    "StoreUnavailable",
    "SwathError",
    "Unbalanced",
    "UnknownName",
    "UserError",
]


class SwathError(Exception):
    """The root of every exception that Swath raises on purpose."""


class UserError(SwathError):
    """A mistake of the person or program that asked; the message says what to do."""


class BadInput(UserError):
    """A file, a row, a policy or an option that cannot be used."""


class UnknownName(UserError):
    """No job, item, scraper, field or key of that name."""

    @classmethod
    def of(cls, what: str, name: str, known: Iterable[str], hint: str) -> UnknownName:
        """Says which names come near, or where to look when none does."""
        by_lower = {other.lower(): other for other in known}
        near = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
        suggestion = f"did you mean {' or '.join(repr(by_lower[n]) for n in near)}?" if near else hint
        return cls(f"there is no {what} {name!r}; {suggestion}")


class Conflict(UserError):
    """The id is taken by something with other content. `row` is the first row that differs, where that is known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row

    @classmethod
    def being_deleted(cls, job_id: str) -> Conflict:
        """Workers finish a deletion; where there are none, a person does."""
        finish = shlex.join(["swath", "jobs", "delete", job_id, "--yes"])
        return cls(f"job {job_id!r} is being deleted, which workers finish, or `{finish}`")

    @classmethod
    def other_order(cls, job_id: str, fields: Sequence[str]) -> Conflict:
        """The id is taken by a job for which something else was asked."""
        differ = f"its {' and '.join(fields)} {'differs' if len(fields) == 1 else 'differ'}"
        return cls(f"job {job_id!r} exists with another order: {differ}; choose another job id")

    @classmethod
    def item_twice(cls, item_id: str, first_row: int, row: int) -> Conflict:
        """Where every item has to be new, an earlier row has its id."""
        return cls(f"row {row} has the id of row {first_row}: {item_id!r}; each item needs an id of its own", row)

    @classmethod
    def other_length(cls, job_id: str, rows: int, given: int | None) -> Conflict:
        """Of the `rows` that it was loaded with, the first `given` came again and no more; None: more came."""
        told = "this file has more" if given is None else f"this file ends after {given:,} rows"
        first = rows + 1 if given is None else given + 1
        return cls(f"job {job_id!r} was loaded with other items: it has {rows:,} rows, and {told}", first)


class NewerStore(UserError):
    """The store holds what only a newer version of Swath understands; this process must not read or change it."""


class Outdated(Conflict):
    """What the caller had read, and decided by, has changed meanwhile; nothing was done."""

    @classmethod
    def policy(cls, job_id: str) -> Outdated:
        """Somebody was faster with another policy."""
        return cls(f"others change the policy of job {job_id!r} at this moment; look at it and change it again")


class StoreUnavailable(SwathError):
    """The store cannot answer now (locked, full, gone); nothing was changed. `waiting_for` is what has to come back.

    `for_callers` is the message for the API's callers, when the message itself names paths of this machine.
    """

    def __init__(self, message: str, waiting_for: WaitingFor, for_callers: str | None = None) -> None:
        super().__init__(message)
        self.waiting_for = waiting_for
        self.for_callers = message if for_callers is None else for_callers


class FolderUnusable(StoreUnavailable):
    """The results folder of one job cannot be used; the message names it and the reason. Nothing is wrong with the disk
    as a whole: other jobs go on, and this one does when somebody has repaired the folder."""


class StoreReplaced(SwathError):
    """The store's file is not the one that this process has open: somebody removed it or put another one in its place.

    Whatever is written now would be lost, so the process stops at once. `path` is the file, `what` became of it.
    """

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"the store's file {path} was {what} while it was in use, so this process stops and nothing more counts; "
            "see that the right store is in its place, then run the same command again"
        )
        self.path = path
        self.what = what


class StoreDamaged(SwathError):
    """A row of the store cannot be read or written: somebody edited it, or the disk did. `job_id` is whose it is, where
    that is known: all other jobs can go on."""

    def __init__(self, message: str, job_id: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


class LeaseLost(SwathError):
    """The lease ran out or was taken away; whatever was done under it does not count."""


class SiteUnavailable(SwathError):
    """The site is left alone for a while, so the item goes back to wait; that is no try of it.

    `circuit_open`: because the site fails, which is for somebody who waits at the other end to know at once.
    """

    def __init__(self, site: str, why: str, wait_seconds: float, *, circuit_open: bool = False) -> None:
        super().__init__(f"site {site} is left alone: {why}")
        self.site = site
        self.why = why
        self.wait_seconds = wait_seconds
        self.circuit_open = circuit_open


class Unbalanced(SwathError):
    """What was counted in two ways differs; both sides are given by name."""

    def __init__(
        self, job_id: str, counted: Mapping[str, int], expected: Mapping[str, int], by: tuple[str, str]
    ) -> None:
        differing = [name for name in {**counted, **expected} if counted.get(name, 0) != expected.get(name, 0)]
        told = ", ".join(f"{name} {counted.get(name, 0)} against {expected.get(name, 0)}" for name in differing)
        super().__init__(f"job {job_id!r} does not balance: {by[0]} against {by[1]}: {told}")
        self.counted = counted
        self.expected = expected


class NotFound(SwathError):
    """The site says that there is no such record. It is an answer, so the item succeeds with `not_found`."""


class Failed(SwathError):
    """An attempt did not succeed, for the reason given."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.kind}: {failure.message}")
        self.failure = failure
