"""The figures of a chaos run on AWS: as a table for people, as JSON, and inside a Markdown page between two marks."""

from __future__ import annotations

import os
import platform
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.chaos.aws.chaos_run import ChaosRun
from harness.chaos.aws.check import Checked
from harness.chaos.aws.job import AwsJob
from harness.chaos.aws.site_rate import SiteRates
from harness.chaos.findings import Findings, Kind
from harness.tables import NO_HEAD, as_text, put_into

__all__ = ["Figures", "table", "write_page"]

_SERVERS = "DynamoDB Local, SeaweedFS, ministack"
_REQUESTS = ("conflict", "delayed", "lost_answer", "server_error", "throttled", "unprocessed")


@dataclass
class Figures:
    """Everything that is reported. Times in seconds."""

    command: str
    seed: int
    storm: dict[str, Any] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    paced: dict[str, Any] = field(default_factory=dict)
    outages: list[dict[str, Any]] = field(default_factory=list)
    found: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    machine: str = field(
        default_factory=lambda: f"{os.cpu_count()} cores, Python {platform.python_version()}, {_SERVERS}"
    )

    def add_storm(self, storm: ChaosRun, checked: Checked, faults: Counter[str], verify_code: int) -> None:
        """What the storm did, and what came of it."""
        job = storm.job
        begun, kept = checked.attempts_begun, checked.attempts_kept
        self.storm = {
            "items": checked.items,
            "jobs": len(job.parts),
            "large_jobs": [part.items for part in job.parts if part.large],
            "processes": storm.plan.processes,
            "strikes": dict(sorted(storm.counted.items())),
            "faults": dict(sorted(faults.items())),
            "attempts": begun,
            "wasted_attempts": begun - kept,
            "rows": checked.rows,
            "objects": checked.objects,
            "unseen_objects": checked.unseen_objects,
            "items_per_second": round(job.items / storm.seconds, 1),
            "seconds": round(storm.seconds, 1),
            "verify_exit_code": verify_code,
        }

    def add_pace(self, job: AwsJob, paced: SiteRates) -> None:
        """How the site was visited."""
        self.paced = {
            **{name: round(value, 3) for name, value in asdict(paced).items()},
            "rate": job.site.rate,
            "concurrency": job.site.concurrency,
            "well": paced.well(job.site),
        }

    def finish(self, findings: Findings, seconds: float) -> None:
        """The count of problems, at the end."""
        self.found = {kind.value: findings.found[kind] for kind in Kind}
        self.problems = [str(problem) for problem in findings.problems]
        self.seconds = round(seconds, 1)


def table(figures: Figures) -> str:
    """Two columns for a terminal."""
    return as_text([(NO_HEAD, _rows(figures))])


def write_page(page: Path, figures: Figures) -> None:
    """Replaces what stands between the marks of a page: of outages, if there were any, else of the storm."""
    put_into(page, [(NO_HEAD, _rows(figures))], "outages" if figures.outages else "figures")


def _rows(figures: Figures) -> list[tuple[str, str]]:
    return [
        *(_storm_rows(figures.storm) if figures.storm else ()),
        *(_message_rows(figures.messages) if figures.messages else ()),
        *(_pace_rows(figures.paced) if figures.paced else ()),
        *((str(outage["name"]), str(outage["told"])) for outage in figures.outages),
        *((name.replace("_", " "), f"{count:,}") for name, count in figures.found.items()),
        ("wall time", f"{figures.seconds:,.0f} s"),
        ("made by", f"`{figures.command}`"),
        ("machine", figures.machine),
    ]


def _storm_rows(storm: dict[str, Any]) -> list[tuple[str, str]]:
    strikes, faults = Counter(storm["strikes"]), Counter(storm["faults"])
    requests = f"{faults['requests dynamodb']:,} DynamoDB, {faults['requests sqs']:,} SQS"
    by_host = ", ".join(f"{strikes[f'SIGKILL on host {host}']:,} on host {host}" for host in (0, 1))
    done = [f"{faults[name]:,} {name.replace('_', ' ')}" for name in _REQUESTS]
    largest, *large = storm["large_jobs"]
    small = f"{storm['jobs'] - len(large) - 1:,} of 1 to 20 items"
    share = round(100 * storm["wasted_attempts"] / storm["attempts"], 2) if storm["attempts"] else 0.0
    return [
        ("items, processes", f"{storm['items']:,}, {storm['processes']} on 2 hosts"),
        ("jobs", f"one of {largest:,}, {len(large)} of {max(large):,}, {small}"),
        ("kill -9", f"{strikes['SIGKILL']:,} ({strikes['SIGKILL with lease']:,} with lease; {by_host})"),
        ("SIGSTOP beyond the lease", f"{strikes['SIGSTOP']:,} ({strikes['SIGSTOP with lease']:,} with lease)"),
        ("disturbances", _disturbances(strikes)),
        ("woke up without their lease", f"{strikes['woken without lease']:,}"),
        ("requests of workers and orders", requests),
        ("faults injected there", ", ".join(done)),
        ("attempts, wasted", f"{storm['attempts']:,}, {storm['wasted_attempts']:,} ({share} %)"),
        ("items/s under fire", f"{storm['items_per_second']:,.1f} for {storm['seconds']:,.0f} s"),
        ("rows and objects counted", f"{storm['rows']:,} and {storm['objects']:,}"),
        ("objects of sleepers, unseen", f"{storm['unseen_objects']:,}"),
        ("swath jobs verify, of each", f"exit code {storm['verify_exit_code']}"),
    ]


def _disturbances(counted: Counter[str]) -> str:
    """All but the strikes, which have rows of their own."""
    shown = {
        name: count for name, count in counted.items() if not name.startswith("SIG") and "woken without" not in name
    }
    return ", ".join(f"{count:,} {name}" for name, count in sorted(shown.items())) or "none"


def _message_rows(messages: dict[str, int]) -> list[tuple[str, str]]:
    told = {name: f"{count:,}" for name, count in messages.items()}
    sent = f"{told['lost']} lost, {told['doubled']} doubled, {told['late']} late by 3 s"
    received = f"{told['repeated']} came again, {told['reordered']} out of order, {told['lost_deletes']} deletes lost"
    return [("messages sent", f"{told['sent']}: {sent}"), ("messages received", f"{told['received']}: {received}")]


def _pace_rows(paced: dict[str, Any]) -> list[tuple[str, str]]:
    asked = f"{paced['requests']:,} requests, {paced['struck']:,} of them of workers struck meanwhile"
    return [
        ("the site saw", f"{asked}; {paced['used']:.0%} of the rate used"),
        (
            f"rate {paced['rate']:g}/s, worst window",
            f"{paced['excess']:+.2f} of what is allowed ({paced['excess_of_all']:+.2f} with those struck)",
        ),
        (
            f"{paced['concurrency']} requests at once, at most",
            f"{paced['most_open']} ({paced['most_open_of_all']} with those struck)",
        ),
        ("the site was away from its sockets", f"{paced['lag_seconds'] * 1000:.0f} ms at the worst"),
    ]
