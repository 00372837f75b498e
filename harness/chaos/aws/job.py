"""AwsJob: the names, the folder and the environment of the jobs of one chaos run on the local AWS servers.

Made before anything is started; the storm starts its processes from here, and the checker reads the same places.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.chaos import expected
from harness.chaos.aws.job_parts import Part
from harness.fakes.aws import Endpoints
from harness.fakes.aws.endpoints import DISTURBING

__all__ = ["GRACE_SECONDS", "HOSTS", "LEASE_SECONDS", "AwsJob", "SitePlan", "make_job"]

LEASE_SECONDS: Final = 4.0
HEARTBEAT_SECONDS: Final = 1.0
GRACE_SECONDS: Final = 3.0
HOSTS: Final = 2
_ARMED: Final = (sys.executable, "-m", "harness.chaos.aws.armed_cli")


@dataclass(frozen=True)
class SitePlan:
    """What the site policy allows, and how long a page takes."""

    rate: float
    concurrency: int
    page_ms: float


@dataclass(frozen=True, kw_only=True)
class AwsJob:
    """`items` of all its `parts` together, each a job. `endpoints` are the true ones; workers may be led past
    forwarders by `detours` (variable: address)."""

    folder: Path
    items: int
    parts: tuple[Part, ...]
    name: str
    endpoints: Endpoints
    site: SitePlan
    site_url: str
    detours: dict[str, str] = field(default_factory=dict)

    def items_file(self, part: Part) -> Path:
        """One name a row."""
        return self.folder / "items" / f"{part.job_id}.csv"

    @property
    def attempts_log(self) -> Path:
        """One line for every attempt that any process began."""
        return self.folder / "attempts.log"

    @property
    def log(self) -> Path:
        """What all its processes say."""
        return self.folder / "processes.log"

    @property
    def faults(self) -> Path:
        """What was injected, a file for each process."""
        return self.folder / "faults"

    def host(self, number: int) -> Path:
        """The data folder of one of its machines: who has another one does not see the first one's lock files."""
        return self.folder / f"host-{number % HOSTS}"

    def create_arguments(self, part: Part) -> list[str]:
        """`swath jobs create …`: loads it, and leaves it to workers."""
        scraper, policy = self.folder / "county_scraper.py", self._policy_file(part)
        files = map(str, (scraper, "--items", self.items_file(part), "--policy", policy))
        kind = map(str, ("--concurrency", part.concurrency, "--priority", part.priority))
        return ["jobs", "create", *files, "--job-id", part.job_id, *kind, "--quiet"]

    def _policy_file(self, part: Part) -> Path:
        if part.retention_days is None:
            return self.folder / "policy.json"
        file = self.folder / f"{part.job_id}-policy.json"
        file.write_text(json.dumps(_POLICY | {"retention_days": part.retention_days}), encoding="utf-8")
        return file

    def write_items(self, part: Part) -> None:
        """Writes the items file of a part."""
        with self.items_file(part).open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["name"])
            rows.writerows([name] for name in self.item_ids(part))

    @staticmethod
    def item_ids(part: Part) -> list[str]:
        """Of the items of a part, in their order."""
        return expected.item_ids(part.first + part.items)[part.first :]

    def retries(self, job_id: str) -> dict[int, list[int]]:
        """Which items each later generation of a part must have run, by number; written before the order was given."""
        file = self.folder / f"{job_id}-retries.json"
        noted = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return {int(generation): seqs for generation, seqs in noted.items()}

    def note_retry(self, job_id: str, generation: int, seqs: list[int]) -> None:
        """That a retry of a part is about to be ordered."""
        noted = self.retries(job_id) | {generation: sorted(seqs)}
        (self.folder / f"{job_id}-retries.json").write_text(json.dumps(noted), encoding="utf-8")

    def command(self, arguments: list[str], *, host: int = 0, armed: bool = False) -> list[str]:
        """The real command line; armed, the same through armed.py, as on the machine of that number."""
        if not armed:
            return [sys.executable, "-m", "swath.entrypoints.cli.main", *arguments]
        return [*_ARMED, "--host", str(self.host(host)), "--", *arguments]

    @property
    def commands(self) -> list[str]:
        """The same for many, which come by stdin."""
        return [*_ARMED, "--host", str(self.host(0)), "--each"]

    def environment(self, more: Mapping[str, str] | None = None, *, direct: bool = False) -> dict[str, str]:
        """Ours without what would disturb, short leases, and what is given; `direct` takes no detours."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
        for name in DISTURBING:
            kept.pop(name, None)
        return {
            **kept,
            **self.endpoints.environment,
            **({} if direct else self.detours),
            "SWATH_DATA": str(self.host(0)),
            "SWATH_STORE": f"dynamodb://{self.name}",
            "SWATH_RESULTS": f"s3://{self.endpoints.bucket}/{self.name}",
            "SWATH_SITES": str(self.folder / "sites.yaml"),
            "SWATH_DEMO_URL": self.site_url,
            "SWATH_ALLOW_PRIVATE": self.site_url.removeprefix("http://"),
            "SWATH_LEASE_SECONDS": str(LEASE_SECONDS),
            "SWATH_HEARTBEAT_SECONDS": str(HEARTBEAT_SECONDS),
            "SWATH_GRACE_SECONDS": str(GRACE_SECONDS),
            **(more or {}),
        }


def make_job(job: AwsJob) -> AwsJob:
    """Writes items, policies and scraper into a new folder."""
    for folder in (job.folder, job.faults, job.folder / "items"):
        folder.mkdir(parents=True)
    for part in job.parts:
        job.write_items(part)
    (job.folder / "policy.json").write_text(json.dumps(_POLICY), encoding="utf-8")
    (job.folder / "sites.yaml").write_text(_site_policy(job.site), encoding="utf-8")
    shutil.copy(Path(__file__).with_name("county_scraper.py"), job.folder)
    job.attempts_log.touch()
    return job


# Flaky items fail once in every process that meets them; those that must fail do so after two retries.
_POLICY: Final = {
    "retries": {
        "max_retries": 100,
        "backoff": "fixed",
        "base_delay_seconds": 0.05,
        "kinds": {"server_error": {"max_retries": 2}},
    },
    # Some items must fail, and a job that stops because of them would prove nothing.
    "circuit_breaker": {"failure_threshold_percentage": 1.0, "consecutive_failures": 100_000},
}


def _site_policy(site: SitePlan) -> str:
    """With a breaker that what the items foretell cannot open."""
    return (
        "sites:\n  demo-county:\n"
        f"    rate: {{tokens: {site.rate}, per_seconds: 1}}\n"
        f"    concurrency: {site.concurrency}\n"
        "    breaker: {window: 1000, failures: 1000}\n"
    )
