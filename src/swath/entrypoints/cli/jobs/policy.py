"""`swath jobs policy`: how a job is run, shown or changed while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from swath.domain.policy import ExecutionPolicy
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.intake import with_concurrency
from swath.entrypoints.cli.jobs.opened import Jobs, open_jobs
from swath.entrypoints.cli.output import print_json
from swath.pipeline.accept.policy_change import settled
from swath.pipeline.accept.policy_file import read_policy
from swath.settings import Settings

__all__ = ["show_or_change_policy"]


async def show_or_change_policy(
    settings: Settings, job_id: str, file: Path | None, concurrency: int | None, *, as_json: bool
) -> ExitCode:
    """A file replaces the policy as a whole; `concurrency` changes that field of it, or of the present one."""
    given = None if file is None else read_policy(file)
    async with open_jobs(settings) as jobs:
        former, policy = await settled(lambda: _changed(jobs, job_id, given, concurrency))
    if as_json:
        print_json(_whole(policy))
    elif given is None and concurrency is None:
        click.echo(yaml.safe_dump(_whole(former), sort_keys=False), nl=False)
    else:
        changes = list(_changes(_whole(former), _whole(policy)))
        click.echo("\n".join(changes) if changes else f"job {job_id} has this policy already")
    return ExitCode.COMPLETE


async def _changed(
    jobs: Jobs, job_id: str, given: ExecutionPolicy | None, concurrency: int | None
) -> tuple[ExecutionPolicy, ExecutionPolicy]:
    """What the job had and has. Raises Outdated if one field is to change and somebody changed another meanwhile."""
    former = (await jobs.status(job_id)).job.policy
    wanted = given or former
    if concurrency is not None:
        wanted = with_concurrency(wanted, concurrency)
    if given is None and concurrency is None:
        return former, former
    status = await jobs.change_policy(job_id, wanted, former if given is None else None)
    return former, status.job.policy


def _whole(policy: ExecutionPolicy) -> dict[str, Any]:
    return policy.model_dump(mode="json")


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _changes(before, after, f"{path}{name}.")
        elif before != after:
            yield f"{path}{name}: {_spoken(before)} → {_spoken(after)}"


def _spoken(value: object) -> str:
    return "none" if value is None else str(value)
