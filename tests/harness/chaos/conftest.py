"""A small job that ran undisturbed, for the checker to look at."""

import subprocess
from pathlib import Path

import pytest

from harness.chaos.job import ChaosJob, make_job


@pytest.fixture(scope="session")
def undisturbed_job(tmp_path_factory: pytest.TempPathFactory) -> ChaosJob:
    job = make_job(tmp_path_factory.mktemp("chaos") / "job", items=120, mean_seconds=0.001, concurrency=16)
    done = subprocess.run(
        job.command(job.run_arguments), env=job.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3, done.stderr  # some items must fail
    return job


@pytest.fixture
def job(undisturbed_job: ChaosJob, tmp_path: Path) -> ChaosJob:
    """A copy that a test may spoil."""
    import shutil

    shutil.copytree(undisturbed_job.folder, tmp_path / "job")
    return ChaosJob(folder=tmp_path / "job", items=undisturbed_job.items)
