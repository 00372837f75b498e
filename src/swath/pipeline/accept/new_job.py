"""What every new job has to satisfy, however it was ordered: by a command, or over HTTP."""

from __future__ import annotations

from swath.domain.errors import BadInput
from swath.domain.job import JOB_ID_LIMIT
from swath.kit.scraper import Scraper

__all__ = ["check_job_id", "sites_of"]


def check_job_id(job_id: str, what: str = "job_id") -> None:
    """Raises BadInput."""
    if not 0 < len(job_id) <= JOB_ID_LIMIT or not job_id.isprintable():
        raise BadInput(f"{what} must be 1 to {JOB_ID_LIMIT} printable characters")
    if job_id in (".", ".."):  # programs fold those away in an address, however they are written
        raise BadInput(f"{what} must not be {job_id!r}: no address could lead to it")


def sites_of(scraper: Scraper) -> tuple[str, ...]:
    """The addresses that the scraper says it needs."""
    return (*scraper.sites, *([scraper.base_url] if scraper.base_url else []))
