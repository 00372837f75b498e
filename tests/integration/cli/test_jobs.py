"""J5, C2: what `swath jobs` says where it takes a fault to hear it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from swath.bootstrap.services import Services, open_services
from swath.domain.errors import StoreUnavailable, SwathError
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.transitions import JobState
from swath.entrypoints.cli import local_maintenance
from swath.entrypoints.cli.jobs import control
from swath.entrypoints.cli.jobs.show import job_state_text
from swath.settings import load_settings


@pytest.mark.req("J5", "Z9")
async def test_a_deletion_broken_off_by_a_full_disk_has_begun_and_can_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(services: Services, job_id: str, note: Callable[[str], None]) -> bool:
        raise StoreUnavailable("the disk is full", WaitingFor.DISK)

    settings = load_settings({"SWATH_DATA": str(tmp_path)})
    async with open_services(settings) as services:
        await services.store.submit(Job(job_id="big", scraper_id="any"))
    monkeypatch.setattr(local_maintenance, "remove_job", full)
    with pytest.raises(
        SwathError, match=r"disk is full; the deletion has begun, and `.*jobs delete big --yes` finishes"
    ):
        await control.delete_job(settings, "big", sure=True, as_json=False)


@pytest.mark.req("C1", "Z9")
def test_a_list_says_what_a_job_waits_for() -> None:
    status = JobStatus(job=Job(job_id="j", scraper_id="any"), state=JobState.RUNNING, waiting_for=WaitingFor.DISK)
    assert job_state_text(status) == "running, waits for disk"
