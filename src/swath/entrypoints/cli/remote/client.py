"""Sends requests to a controller, and turns answers into domain values and errors into domain errors.

So a command prints and exits the same, whether the store is local or behind a controller.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from swath import __version__
from swath.domain.errors import BadInput, Conflict, StoreUnavailable, SwathError, UnknownName, UserError
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import ItemRecord
from swath.domain.job import Counts, Job, JobEnding, JobStatus, SiteOutlook, StopReason, WaitingFor
from swath.domain.secret import Secret
from swath.domain.storage_keys import Layout
from swath.domain.transitions import JobState
from swath.domain.webhook import Webhook, WebhookState
from swath.entrypoints.cli.remote.http import ControllerAddress, ControllerHttp, HttpResponse

__all__ = [
    "ControllerBusy",
    "ControllerClient",
    "RequestRefused",
    "item_from_view",
    "json_lines",
    "make_merge_patch",
    "status_from_view",
    "wait_until_deleted",
    "wait_until_ended",
    "wait_until_sent",
    "webhook_from_entry",
]

_JSON: Final = {"Content-Type": "application/json"}
_NOT_FOUND_CODES: Final = frozenset({"job_not_found", "item_not_found", "scraper_not_found"})
_DEFAULT_RETRY_SECONDS: Final = 5.0
_EMPTY_RESPONSE: Final = HttpResponse(200, {}, b"")  # for an error inside of an answer that had begun
Query = Mapping[str, Any]


class RequestRefused(BadInput):
    """The controller refuses what was sent; `details` says which parts of it, or how far a load came."""

    def __init__(self, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.details = details


class ControllerBusy(SwathError):
    """The controller wants no more just now."""

    def __init__(self, message: str, wait_seconds: float) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class ControllerClient:
    """Answers are the `data` of the envelope. Raises Unreachable, and UserError or SwathError by the error's code."""

    def __init__(self, address: ControllerAddress, key: Secret | None) -> None:
        self.address = address
        self.wire = ControllerHttp(address, {} if key is None else {"X-Service-Key": key.reveal()})
        self._has_key = key is not None

    async def ask(self, method: str, *path: str, query: Query | None = None, body: object = None) -> Any:
        """One request; `body` is sent as JSON."""
        raw = b"" if body is None else msgspec.json.encode(body)
        answer = await self.wire.ask(method, self._path(path, query), raw, {} if body is None else _JSON)
        return self.data_of(answer)

    async def send(
        self, *path: str, chunks: AsyncIterable[bytes], query: Query | None = None, headers: Mapping[str, str]
    ) -> Any:
        """Posts a stream."""
        return self.data_of(await self.wire.send(self._path(path, query), chunks, headers))

    def data_of(self, answer: HttpResponse) -> Any:
        """What a success carries. Raises as the class says."""
        try:
            body = json.loads(answer.body)
            success, data, error = body["success"], body["data"], body["error"]
        except (ValueError, TypeError, KeyError):
            raise self._foreign(answer) from None
        if success is True and answer.status < 300:
            return data
        raise self.failure_of(error, answer)

    def failure_of(self, error: Any, answer: HttpResponse = _EMPTY_RESPONSE) -> SwathError:
        """What an error of the API says."""
        with self.understanding():
            return self._failure(error["code"], error["message"], error["details"] or {}, answer)

    @contextmanager
    def understanding(self) -> Iterator[None]:
        """Around making values of an answer, whose shape another version may have changed. Raises SwathError."""
        try:
            yield
        except (KeyError, TypeError, AttributeError, ValueError, msgspec.MsgspecError) as error:
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            raise SwathError(
                f"{self.address.url} answered in a way that swath {__version__} does not understand, so it may be of "
                f"another version ({told})"
            ) from error

    def _path(self, segments: tuple[str, ...], query: Query | None) -> str:
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        return self.address.path(*segments) + (f"?{urlencode(asked, doseq=True)}" if asked else "")

    def _foreign(self, answer: HttpResponse) -> UserError:
        kind = answer.headers.get("content-type", "no type").partition(";")[0]
        where = f", and points to {answer.headers['location']}" if "location" in answer.headers else ""
        told = f"{self.address.url} is no Swath controller: it answered {answer.status} with {kind}{where}"
        return UserError(f"{told}; check --server")

    def _failure(self, code: str, message: str, details: Mapping[str, Any], answer: HttpResponse) -> SwathError:
        if code in _NOT_FOUND_CODES:
            return UnknownName(message)
        match code:
            case "validation_error" | "payload_too_large":
                return RequestRefused(message, details)
            case "conflict":
                return Conflict(message, details.get("row"))
            case "authentication_error" | "forbidden":
                return self._denied(code, message)
            case "store_unavailable":
                waiting_for = WaitingFor(details.get("waiting_for") or WaitingFor.STORE)
                told = f"{self.address.url} waits for the {waiting_for}: {message}"
                return StoreUnavailable(told, waiting_for)
            case "rate_limited":
                return ControllerBusy(f"{self.address.url}: {message}", _wait_seconds(answer))
            case "not_found" | "method_not_allowed":
                return UserError(f"{self.address.url} does not know that request, so it may be of another version")
        told = f"{message} (request {answer.headers.get('x-request-id', 'without an id')})"
        return SwathError(f"{self.address.url}: {code}: {told}")

    def _denied(self, code: str, message: str) -> UserError:
        if code == "forbidden":
            return UserError(f"{self.address.url} does not allow that: {message}")
        hint = "SWATH_SERVICE_KEY is the key that was sent" if self._has_key else "set SWATH_SERVICE_KEY"
        return UserError(f"{self.address.url} does not let us in: {message} ({hint})")


def _wait_seconds(answer: HttpResponse) -> float:
    try:
        return min(60.0, max(1.0, float(answer.headers.get("retry-after", _DEFAULT_RETRY_SECONDS))))
    except ValueError:
        return _DEFAULT_RETRY_SECONDS


def status_from_view(view: Mapping[str, Any]) -> JobStatus:
    """A JobView. Raises KeyError, TypeError or ValueError for what is none."""
    counts = msgspec.convert(view["counts"], Counts)
    pace, closed_seconds = _rate_and_closed_seconds(view["items_per_second"], view["eta_seconds"], counts.remaining)
    return JobStatus(
        job=_job_from_view(view),
        state=JobState(view["status"]),
        generation=view["generation"],
        counts=counts,
        failures=msgspec.convert(view["failures"], dict[str, int]),
        items_per_second=pace,
        started_at=view["started_at"],
        ended_at=view["ended_at"],
        loaded_rows=view["loaded_rows"],
        stopping=None if view["stopping"] is None else StopReason(view["stopping"]),
        circuit_opened=view["circuit"]["reason"],
        waiting_for=None if view["waiting_for"] is None else WaitingFor(view["waiting_for"]),
        held_by=view.get("held_by"),  # a controller of an older version does not say
        ending=msgspec.convert(view["ending"], JobEnding | None),
        waiting_reason=view.get("waiting_reason"),
        deleting=view["deleting"],
        cost=view["cost"],
        manifest=None
        if view["cache_hits"] is None
        else {"cache_hits": view["cache_hits"], "missing_items": view.get("missing_items", 0)},  # all that a view has
        sites=msgspec.convert(view["sites"], tuple[SiteOutlook, ...]),
        closed_seconds=closed_seconds,
        versions=view["versions"],
        current_version=view["current_version"],
        scraper_versions=tuple(view["scraper_versions"]),
    )


def _job_from_view(view: Mapping[str, Any]) -> Job:
    return Job(
        job_id=view["job_id"],
        scraper_id=view["scraper_id"],
        scraper_version=view["scraper_version"],
        name=view["name"],
        labels=msgspec.convert(view["labels"], dict[str, str]),
        callback_url=view["callback_url"],
        priority=view["priority"],
        layout=Layout(view["layout"]),
        extracts=view["extracts"],
        policy=ExecutionPolicy.model_validate(view["execution_policy"]),
        created_at=view["created_at"],
    )


def _rate_and_closed_seconds(items_per_second: float, eta_seconds: float | None, remaining: int) -> tuple[float, float]:
    """Pace and closed time that give the ETA which was told: it is reckoned, and the pace came rounded."""
    if eta_seconds is None:
        return items_per_second, 0.0
    if items_per_second <= 0:  # less than a hundredth
        return (remaining / eta_seconds if eta_seconds > 0 else 0.0), 0.0
    return items_per_second, eta_seconds - remaining / items_per_second


def item_from_view(view: Mapping[str, Any]) -> ItemRecord:
    """A OneItemView. Raises KeyError or ValueError for what is none."""
    return msgspec.convert({**view, "finding": view["outcome"]}, ItemRecord)


def webhook_from_entry(entry: Mapping[str, Any]) -> Webhook:
    """An entry of the delivery log, as far as that tells; its address may be masked."""
    return msgspec.convert({**entry, "summary": {"status": entry["status"]}}, Webhook)


def make_merge_patch(
    former: Mapping[str, Any], wanted: Mapping[str, Any], *, only_changes: bool = False
) -> dict[str, Any]:
    """The part (RFC 7396) that makes the one of the other: a name that is to go is null.

    `only_changes` leaves out what is equal, which others may change meanwhile.
    """
    part: dict[str, Any] = {name: None for name in former if name not in wanted}
    for name, value in wanted.items():
        before = former.get(name)
        if only_changes and name in former and before == value:
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            part[name] = make_merge_patch(before, value, only_changes=only_changes)
        else:
            part[name] = value
    return part


MAX_LINE_BYTES: Final = 64 << 20


async def json_lines(
    client: ControllerClient, *path: str, query: Mapping[str, Any] | None = None, told: Callable[[int, int], None]
) -> AsyncGenerator[dict[str, Any], None]:
    """The lines but for progress, which `told` hears of: how many items are done, of how many. Raises as Client does,
    and Unreachable when the answer breaks off."""
    asked = f"?{urlencode(query, doseq=True)}" if query else ""
    async with client.wire.streaming(client.address.path(*path) + asked, {}) as stream:
        if stream.status != 200:
            client.data_of(await stream.whole())
        async for line in _split_lines(stream.pieces()):
            with client.understanding():
                found = json.loads(line)
            if "progress" in found:
                with client.understanding():
                    told(found["progress"]["done"], found["progress"]["total"])
            elif "error" in found:
                raise client.failure_of(found["error"])
            else:
                yield found


async def _split_lines(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    held = b""
    async for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        if len(held) > MAX_LINE_BYTES:
            raise ValueError("a line without an end")
        for line in lines:
            yield line


WAIT_SECONDS: Final = 10.0  # as with a store that is here
WEBHOOK_WAIT_SECONDS: Final = 15.0  # that a receiver may take, and a little
POLL_SECONDS: Final = 0.2


async def wait_until_ended(client: ControllerClient, status: JobStatus) -> JobStatus:
    """The job once it has ended, or as it stands then."""
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while not status.state.terminal and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(POLL_SECONDS)
        view = await client.ask("GET", "jobs", status.job.job_id, "status")
        with client.understanding():
            status = status_from_view(view)
    return status


async def wait_until_deleted(client: ControllerClient, job_id: str) -> bool:
    """Whether a job that is being deleted is gone."""
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        try:
            await client.ask("GET", "jobs", job_id, "status")
        except UnknownName:
            return True
        await asyncio.sleep(POLL_SECONDS)
    return False


async def wait_until_sent(client: ControllerClient, job_id: str, webhook_id: str) -> Mapping[str, Any]:
    """The webhook's entry in the log after its next try, or as it stands then."""
    deadline = asyncio.get_running_loop().time() + WEBHOOK_WAIT_SECONDS
    while True:
        log = await client.ask("GET", "jobs", job_id, "webhooks")
        with client.understanding():
            entry: Mapping[str, Any] = next(one for one in log if one["webhook_id"] == webhook_id)
            tried = entry["tries"] or entry["state"] != WebhookState.PENDING
        if tried or asyncio.get_running_loop().time() >= deadline:
            return entry
        await asyncio.sleep(POLL_SECONDS)
