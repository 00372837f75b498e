"""The registry as the settings name it; apart from services.py, because finding scrapers takes all of the kit."""

from __future__ import annotations

from swath.kit.registry import Registry
from swath.settings import Settings

__all__ = ["make_registry"]


def make_registry(settings: Settings) -> Registry:
    """Shipped, installed and local scrapers, found when they are asked for."""
    return Registry(settings.scrapers, default=settings.default_scraper, javascript=settings.allow_javascript)
