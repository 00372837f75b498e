"""Builds the scraper registry; apart from the other services, because finding scrapers imports the whole SDK."""

from __future__ import annotations

from swath.domain.job import Job
from swath.sdk.registry import Registry
from swath.settings import Settings

__all__ = ["make_registry", "scraper_problem"]


def make_registry(settings: Settings) -> Registry:
    """Shipped, installed and local scrapers, found when they are asked for."""
    return Registry(settings.scrapers, default=settings.default_scraper, javascript=settings.allow_javascript)


def scraper_problem(settings: Settings, job: Job) -> str | None:
    """What is wrong when the scraper of a job is not on this machine any more; None when it is there."""
    if make_registry(settings).has(job.scraper_id, job.scraper_source):
        return None
    if job.scraper_source is not None:
        told = f"there is no file {job.scraper_source} any more"
    else:
        told = f"there is no scraper {job.scraper_id!r} any more, neither in SWATH_SCRAPERS nor in a package"
    return f"{told}; put it back and start `swath worker` anew, or cancel the job"
