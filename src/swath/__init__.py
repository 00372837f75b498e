"""Swath runs bulk web-scraping jobs and proves that nothing was lost.

What scraper authors import comes from here, and is loaded when it is first used: `import swath` alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swath.domain.errors import Failed, NotFound
    from swath.domain.failure import Failure, FailureKind
    from swath.domain.page import Page
    from swath.kit.declare import scraper
    from swath.kit.models import Input, Money, Output
    from swath.kit.pages import Pages
    from swath.kit.scraper import HttpScraper
    from swath.web.form import Form
    from swath.web.page import WebPage
    from swath.web.session import WebSession

__all__ = [
    "Failed",
    "Failure",
    "FailureKind",
    "Form",
    "HttpScraper",
    "Input",
    "Money",
    "NotFound",
    "Output",
    "Page",
    "Pages",
    "WebPage",
    "WebSession",
    "scraper",
]

__version__ = "0.1.0"

_HOMES = {
    "Failed": "swath.domain.errors",
    "Failure": "swath.domain.failure",
    "FailureKind": "swath.domain.failure",
    "Form": "swath.web.form",
    "HttpScraper": "swath.kit.scraper",
    "Input": "swath.kit.models",
    "Money": "swath.kit.models",
    "NotFound": "swath.domain.errors",
    "Output": "swath.kit.models",
    "Page": "swath.domain.page",
    "Pages": "swath.kit.pages",
    "WebPage": "swath.web.page",
    "WebSession": "swath.web.session",
    "scraper": "swath.kit.declare",
}


if not TYPE_CHECKING:  # or a misspelt name would pass the type checker

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'swath' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
