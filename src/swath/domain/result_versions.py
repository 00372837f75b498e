"""Versions of a job's results: the first is made by the job itself, each later one by a job over the stored pages.

The version that readers get is a pointer kept with the job that was scraped.
"""

from __future__ import annotations

import hashlib
from typing import Final

from swath.domain.errors import BadInput, Conflict
from swath.domain.item import ItemRecord
from swath.domain.job import JOB_ID_LIMIT, Job, JobStatus
from swath.domain.transitions import JobState

__all__ = [
    "DIFF_KEY",
    "GENERATION_LABEL",
    "SAMPLE_LABEL",
    "SCRAPER_VERSION_LABEL",
    "SOURCE_LABEL",
    "VERSION_LABEL",
    "check_job_ended",
    "check_version",
    "current_job_id",
    "is_all_from_current_pages",
    "is_from_current_pages",
    "is_sample",
    "version_job_id",
    "version_of",
]

VERSION_LABEL: Final = "version"  # labels of a job that makes a version: which,
SCRAPER_VERSION_LABEL: Final = "scraper_version"  # by which scraper,
SOURCE_LABEL: Final = "source_sha256"  # of which file, if it is not installed,
GENERATION_LABEL: Final = "scraped_generation"  # from the pages of which generation,
SAMPLE_LABEL: Final = "sample"  # and of how many items, if not of all

DIFF_KEY: Final = "diff.json"  # beside the results of such a job: what it says otherwise than the version before

_ID_SUFFIX_CHARACTERS: Final = 12


def version_job_id(job_id: str, version: int) -> str:
    """The job that makes, or made, that version of the job's results."""
    if version == 1:
        return job_id
    ending = f".v{version}"
    if len(job_id) + len(ending) > JOB_ID_LIMIT:  # two long ids must not share their versions
        mark = "~" + hashlib.sha256(job_id.encode()).hexdigest()[:_ID_SUFFIX_CHARACTERS]
        job_id = job_id[: JOB_ID_LIMIT - len(ending) - len(mark)] + mark
    return job_id + ending


def current_job_id(status: JobStatus) -> str:
    """The job whose results readers get."""
    return version_job_id(status.job.job_id, status.current_version)


def version_of(job: Job) -> int | None:
    """Which version a job makes; None for one that was scraped."""
    number = job.labels.get(VERSION_LABEL, "")
    return int(number) if job.extracts is not None and number.isdecimal() else None


def is_sample(job: Job) -> bool:
    """Whether it makes a version of some of the items only, which readers never get in the place of all."""
    return job.extracts is not None and SAMPLE_LABEL in job.labels


def is_from_current_pages(job: Job, first: ItemRecord) -> bool:
    """Whether the version that a job makes was read from the pages that the item of the scraped job has now. One that
    has ended anew since the version was begun may have others."""
    return first.state.terminal and first.generation <= _generation_of(job)


def is_all_from_current_pages(job: Job, scraped: JobStatus) -> bool:
    """Whether that holds for every item of the scraped job, as far as the version has them."""
    return scraped.state.terminal and scraped.generation <= _generation_of(job)


def _generation_of(job: Job) -> int:
    """Of the scraped job, when the version was begun."""
    generation = job.labels.get(GENERATION_LABEL, "")
    return int(generation) if generation.isdecimal() else 1


def check_job_ended(job_id: str, state: JobState) -> None:
    """Raises Conflict: a version is made of all that a job has brought."""
    if not state.terminal:
        raise Conflict(f"job {job_id!r} is {state}; its pages can be read again when it has ended")


def check_version(job_id: str, version: int, versions: int) -> None:
    """Raises BadInput when the job has had `versions` of its results and never one of that number."""
    if not 1 <= version <= versions:
        known = "version 1" if versions == 1 else f"versions 1 to {versions}"
        raise BadInput(f"job {job_id!r} has no version {version} of its results; it has {known}")
