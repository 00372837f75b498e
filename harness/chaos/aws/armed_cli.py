"""Runs the real command line with AWS behaving as on bad days: `python -m harness.chaos.aws.armed_cli -- worker`.

`SWATH_FAULTS` are the rates of aws_faults.py as JSON, `SWATH_FAULTS_SEED` the seed, `SWATH_FAULTS_LOG` the folder for
what was injected. `SWATH_FREEZE_AT=point:N` stops the process there, as in harness.armed_cli.
`SWATH_BROKEN=fence` switches the fence off. `--host DIR` is another machine, with that data folder;
`--each` runs the command lines that come by stdin. Only this module reads those variables: a normal process cannot be
armed.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from harness import armed_cli
from harness.fakes.aws_faults import Faults, Rates
from harness.processes import FREEZE_AT
from swath.backends.aws.client.client import Answer, AwsClients, Send
from swath.backends.aws.s3.staging import StagingNotes
from swath.backends.aws.store import leases, outcomes
from swath.backends.aws.store.job_row import HeldLease, JobRow, LeasePurpose
from swath.backends.aws.store.job_rows import JobChange
from swath.backends.aws.store.store_context import StoreContext
from swath.domain.item import EndedItem, HandedBackItem
from swath.domain.lease import Lease, LeaseDirective, SlotGrant, SlotReport

__all__ = ["arm", "main"]

NOTE_SECONDS: Final = 0.5
_STORE_AWAY: Final = 1  # the exit code of a command that lost its store
_BEYOND_ROWS: Final = 900_000  # of ends: those that the lease wrote while it had a fence stay as they are


def main(arguments: Sequence[str]) -> None:
    """Arms this process and becomes `swath` with these arguments."""
    words = list(arguments)
    if words[:1] == ["--host"]:
        os.environ["SWATH_DATA"] = words[1]
        words = words[2:]
    arm(os.environ)
    if words == ["--each"]:
        sys.exit(max((_code_of_order(json.loads(line)) for line in sys.stdin), default=0))
    _become(words[words[:1] == ["--"] :])


def _become(words: Sequence[str]) -> None:
    sys.argv = ["swath", *words]
    runpy.run_module("swath.entrypoints.cli.main", run_name="__main__", alter_sys=True)


def _code_of_order(words: Sequence[str]) -> int:
    """The same order again, as it asks for when an answer of the store was lost for good: of a job there is one."""
    code = _code_of(words)
    return _code_of(words) if code == _STORE_AWAY and list(words[:2]) == ["jobs", "create"] else code


def _code_of(words: Sequence[str]) -> int:
    """The exit code of one of many commands, which a process of its own would cost a second each."""
    try:
        _become(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def arm(environment: Mapping[str, str]) -> None:
    """Does what the variables ask for; a word that is not understood ends the process, or a test would show nothing."""
    if given := environment.get("SWATH_FAULTS"):
        rates = msgspec.json.decode(given, type=Rates)
        log = environment.get("SWATH_FAULTS_LOG")
        _inject(rates, int(environment.get("SWATH_FAULTS_SEED", "0")) + os.getpid(), None if log is None else Path(log))
    armed_cli.arm({name: value for name, value in environment.items() if name == FREEZE_AT})
    if broken := environment.get("SWATH_BROKEN"):
        if broken != "fence":
            sys.exit(f"SWATH_BROKEN={broken}: only `fence` can be broken")
        _break_fence()


def _inject(rates: Rates, seed: int, log: Path | None) -> None:
    """Every AwsClients that is made from now on has faults of its own."""
    made: list[Faults] = []
    asked: Counter[str] = Counter()
    real = AwsClients.__init__

    def armed(clients: AwsClients, region: str | None = None, **more: Any) -> None:
        faults = Faults(seed + 1_000_003 * len(made), rates)
        made.append(faults)

        async def intercept(service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
            asked[f"requests {service}"] += 1
            return await faults(service, operation, params, send)

        real(clients, region, **{**more, "intercept": intercept})

    _replace(AwsClients, "__init__", armed)
    if log is not None:
        _keep_noting(log / f"{os.getpid()}.json", made, asked)


def _keep_noting(file: Path, made: list[Faults], asked: Counter[str]) -> None:
    """Again and again, because whoever is killed cannot say it at the end."""
    writing = threading.Lock()

    def note() -> None:
        noted = Counter(asked)
        for faults in list(made):
            noted.update(dict(faults.injected))  # a copy in one go: its owner goes on counting
            noted.update({f"messages {what}": count for what, count in dict(faults.messages).items()})
        fresh = file.with_suffix(".new")
        with writing:
            fresh.write_text(json.dumps(noted), encoding="ascii")
            fresh.replace(file)

    def keep_noting() -> None:
        waiting = threading.Event()
        while not waiting.wait(NOTE_SECONDS):
            note()

    atexit.register(note)
    threading.Thread(target=keep_noting, name="chaos-notes", daemon=True).start()


def _break_fence() -> None:
    """Every guard against a worker that has lost its lease: the commit, the renewal, the room."""
    _replace(outcomes, "_finish", _finish_also_the_lost)
    _replace(leases, "renew", _renew_also_the_lost)
    _replace(StagingNotes, "is_open", _is_always_open)


def _replace(owner: object, name: str, value: object) -> None:
    getattr(owner, name)  # raises when the guard has another name by now
    setattr(owner, name, value)


_finish = outcomes._finish  # noqa: SLF001 breaking it is the purpose
_renew = leases.renew


async def _finish_also_the_lost(
    ledger: StoreContext,
    lease: Lease,
    ended: Sequence[EndedItem],
    handed_back: Sequence[HandedBackItem],
    report: SlotReport,
) -> SlotGrant:
    grant = await _finish(ledger, lease, ended, handed_back, report)
    if grant.directive is not LeaseDirective.LOST:
        return grant

    async def decide(head: JobRow) -> JobChange[SlotGrant]:
        held = HeldLease(lease.fence, lease.worker_id, ledger.presence.host, LeasePurpose.RUN, head.revision)
        held.end_rows = _BEYOND_ROWS
        rows = outcomes.write_outcomes(head, held, ended, ledger.times().now)
        for end in ended:
            outcomes.count_end(head, end)
        accepted = frozenset([*(end.seq for end in ended), *(back.seq for back in handed_back)])
        return JobChange(
            SlotGrant(directive=LeaseDirective.GO_ON, slots=report.ceiling, target=report.ceiling, accepted=accepted),
            rows,
        )

    return await ledger.heads.change(lease.job.job_id, decide)


async def _renew_also_the_lost(
    ledger: StoreContext, worker_id: str, fences: Collection[int]
) -> dict[int, LeaseDirective]:
    answers = await _renew(ledger, worker_id, fences)
    return {fence: LeaseDirective.GO_ON if said is LeaseDirective.LOST else said for fence, said in answers.items()}


async def _is_always_open(rooms: StagingNotes, job: str, fence: int) -> bool:
    del rooms, job, fence
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
