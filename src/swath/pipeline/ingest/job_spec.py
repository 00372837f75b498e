"""Checks a new job: id, sites, policy (a file or an API body), callback URL, robots.txt; and changes policies later.

A job of which robots.txt denies every item is refused before it starts. The check stops at the first item that may
be
fetched, and a site that does not answer denies nothing here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import ValidationError

from swath.domain.errors import BadInput, Failed, Outdated, SiteUnavailable, StoreUnavailable
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.job import JOB_ID_LIMIT, Job
from swath.domain.validation_messages import describe_validation, quoted_list
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.http.client.request_gate import Network, SiteRequestGate
from swath.fetch.sites.strict_yaml import parse_yaml
from swath.pipeline.ingest.sources.decoding import open_bytes, read_chunks
from swath.pipeline.ingest.sources.json_rows import has_more_values
from swath.ports.job_store import JobStore
from swath.sdk.scraper import Scraper

__all__ = [
    "POLICY_LIMIT_BYTES",
    "OpenNetwork",
    "check_callback_url",
    "check_job_id",
    "inputs_in_memory",
    "parse_policy",
    "read_policy",
    "refuse_if_robots_deny",
    "refuse_if_robots_deny_all",
    "retry_while_outdated",
    "sites_of",
]


def check_job_id(job_id: str, what: str = "job_id") -> None:
    """Raises BadInput."""
    if not 0 < len(job_id) <= JOB_ID_LIMIT or not job_id.isprintable():
        raise BadInput(f"{what} must be 1 to {JOB_ID_LIMIT} printable characters")
    if job_id in (".", ".."):  # programs fold those away in an address, however they are written
        raise BadInput(f"{what} must not be {job_id!r}: no address could lead to it")


def sites_of(scraper: Scraper) -> tuple[str, ...]:
    """The addresses that the scraper says it needs."""
    return (*scraper.sites, *([scraper.base_url] if scraper.base_url else []))


POLICY_LIMIT_BYTES: Final = 1 << 20
_MAX_VALUES: Final = 1_000  # a policy has some thirty
_STREAMS: Final = ("/dev/stdin", "/dev/fd/")  # whoever names these knows what is to come


def read_policy(path: str | Path) -> ExecutionPolicy:
    """The policy in the file, which is JSON if its name ends so and else YAML. Raises BadInput, in one line."""
    name = str(path)
    text = _read(name)
    try:
        return _validated(name, _parse_json(text) if name.lower().endswith(".json") else parse_yaml(text))
    except RecursionError:
        raise BadInput(f"{name}: is nested too deep for a policy") from None
    except (ValueError, yaml.YAMLError) as error:
        raise BadInput(f"{name}: {_error_position(error)}") from None


def _read(name: str) -> str:
    raw = b""
    if not name.startswith(_STREAMS) and Path(name).exists() and not (Path(name).is_file() or Path(name).is_dir()):
        raise BadInput(f"{name}: is a pipe or a device, not a file; name a file")  # which might never say anything
    with open_bytes(name, None) as file:
        for chunk in read_chunks(name, file):
            raw += chunk
            if len(raw) > POLICY_LIMIT_BYTES:
                raise BadInput(f"{name}: is larger than 1 MiB, which no policy is; name the right file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{name}: line {line}: is not UTF-8 text; save it as UTF-8") from None


def _validated(name: str, content: object) -> ExecutionPolicy:
    if not isinstance(content, dict):
        sections = quoted_list(list(ExecutionPolicy.model_fields))
        raise BadInput(f"{name}: {'is empty' if content is None else 'is not a mapping'}; it may have {sections}")
    try:
        return parse_policy(content)
    except ValidationError as error:
        raise BadInput(f"{name}: {describe_validation(error, ExecutionPolicy)}") from None
    except TypeError:
        raise BadInput(f"{name}: has a date or another value that JSON does not know; write it in quotes") from None


def parse_policy(content: object) -> ExecutionPolicy:
    """The policy that somebody wrote. Raises pydantic's ValidationError, another ValueError for too much of it, and
    TypeError for what JSON does not know."""
    if has_more_values(content, _MAX_VALUES):
        raise ValueError(f"has more than {_MAX_VALUES:,} values, which no policy has")
    # By way of JSON, where strict means: no "8" for 8 and no true for 1, but enums may be written as text.
    return ExecutionPolicy.model_validate_json(json.dumps(content), strict=True)


def _parse_json(text: str) -> object:
    return json.loads(text, object_pairs_hook=_object) if text.strip() else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return made


def _error_position(error: ValueError | yaml.YAMLError) -> str:
    match error:
        case json.JSONDecodeError():
            return f"line {error.lineno}: is not valid JSON: {error.msg}"
        case yaml.MarkedYAMLError(problem=str(problem), problem_mark=yaml.Mark(line=line)):
            return f"line {line + 1}: {problem}"
    return " ".join(str(error).split())


T = TypeVar("T")

_TRIES: Final = 20  # with the pauses between them some two seconds
_PAUSE_SECONDS: Final = (0.005, 0.2)


async def retry_while_outdated(change: Callable[[], Awaitable[T]]) -> T:
    """Lets `change` read, decide and store anew while others are faster. Raises Outdated when they always are."""
    for tries in range(_TRIES - 1):
        with suppress(Outdated):
            return await change()
        await asyncio.sleep(_pause_seconds(tries))
    return await change()


def _pause_seconds(tries: int) -> float:
    """Of some length between nothing and ever more, so that those who met do not meet again."""
    first, most = _PAUSE_SECONDS
    return random.uniform(0, min(first * 2**tries, most))  # noqa: S311 no secret


RESOLVE_SECONDS: Final = 5.0
_CHECKED_LATER: Final = frozenset(
    {FailureKind.DNS_TEMPORARY}
)  # nobody can tell now; it is looked at again when it is used


async def check_callback_url(guard: EgressGuard, url: str) -> None:
    """Raises BadInput when nothing may be sent there."""
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            await guard.check(url)
    except TimeoutError:
        return
    except Failed as failed:
        if failed.failure.kind not in _CHECKED_LATER:
            raise BadInput(failed.failure.message) from None


OpenNetwork = Callable[[], AbstractAsyncContextManager[Network]]
Inputs = Callable[[], AsyncGenerator[dict[str, Any], None]]

ROBOTS_TIMEOUT_SECONDS: Final = 30.0  # for a site that is slow to tell; then the job finds out by itself
_PAGE_ITEMS: Final = 1_000


async def refuse_if_robots_deny_all(store: JobStore, job: Job, scraper: Scraper, reach: OpenNetwork) -> None:
    """The same for a job whose items are in the store."""

    async def stored() -> AsyncGenerator[dict[str, Any], None]:
        after = 0
        while records := await store.items(job.job_id, after, _PAGE_ITEMS):
            for record in records:
                yield record.input
            after = records[-1].seq

    await refuse_if_robots_deny(stored, job, scraper, reach)


async def refuse_if_robots_deny(inputs: Inputs, job: Job, scraper: Scraper, reach: OpenNetwork) -> None:
    """Raises BadInput when not one item begins at an address that may be fetched.

    `reach` opens the way to the sites; a job that says nothing of where its items begin needs none.
    """
    async with contextlib.aclosing(inputs()) as looked_at:
        first = await anext(looked_at, None)
    if first is None or scraper.start_url(scraper.parse_input(first)) is None:
        return
    async with reach() as network:
        passage = SiteRequestGate(network, job, lambda: None, contextlib.nullcontext, looks=True)
        try:
            async with asyncio.timeout(ROBOTS_TIMEOUT_SECONDS), contextlib.aclosing(inputs()) as all_inputs:
                denied = await _first_if_all_denied(all_inputs, scraper, passage)
        except (TimeoutError, Failed, SiteUnavailable, StoreUnavailable):
            return
        finally:
            passage.end(None, None)
    if denied is not None:
        raise BadInput(
            f"robots.txt denies every item of the job, {denied} for one; with the owner's consent "
            f"set `robots: ignore` for the site in the file named by SWATH_SITES"
        )


def inputs_in_memory(inputs: Iterable[dict[str, Any]]) -> Inputs:
    """Inputs that are at hand."""

    async def given() -> AsyncGenerator[dict[str, Any], None]:
        for one in inputs:
            yield one

    return given


async def _first_if_all_denied(
    inputs: AsyncIterator[dict[str, Any]], scraper: Scraper, passage: SiteRequestGate
) -> str | None:
    """The first address, if all are denied; None when one is not, or says nothing of where it begins."""
    first = None
    async for one in inputs:
        await asyncio.sleep(0)  # what robots.txt says is known soon, and there may be many items
        url = scraper.start_url(scraper.parse_input(one))
        if url is None or await passage.robots_allow(url):
            return None
        first = first or url
    return first
