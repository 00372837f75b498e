"""Swath runs bulk web-scraping jobs and proves that nothing was lost.

What scraper authors import comes from here, and is loaded when it is first used: `import swath` alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swath.browser.session.session import BrowserSession
    from swath.domain.errors import Failed, NotFound
    from swath.domain.failure import Failure, FailureKind
    from swath.domain.page import Page
    from swath.kit.action_scraper import ActionScraper
    from swath.kit.browser_scraper import BrowserScraper
    from swath.kit.declare import scraper
    from swath.kit.html import assert_fields_present, assert_html_contains, extract_text, parse_html, select_one
    from swath.kit.http_scraper import HttpScraper
    from swath.kit.models import Date, Input, Maybe, Money, Output
    from swath.kit.pages import Pages
    from swath.web.form import Form
    from swath.web.page import WebPage
    from swath.web.reading.dates import parse_date
    from swath.web.reading.links import Link
    from swath.web.reading.money import parse_money
    from swath.web.reading.pairs import Pairs
    from swath.web.session import WebSession

__all__ = [
    "ActionScraper",
    "BrowserScraper",
    "BrowserSession",
    "Date",
    "Failed",
    "Failure",
    "FailureKind",
    "Form",
    "HttpScraper",
    "Input",
    "Link",
    "Maybe",
    "Money",
    "NotFound",
    "Output",
    "Page",
    "Pages",
    "Pairs",
    "WebPage",
    "WebSession",
    "assert_fields_present",
    "assert_html_contains",
    "extract_text",
    "parse_date",
    "parse_html",
    "parse_money",
    "scraper",
    "select_one",
]

__version__ = "0.1.0"

_HOMES = {
    "ActionScraper": "swath.kit.action_scraper",
    "BrowserScraper": "swath.kit.browser_scraper",
    "BrowserSession": "swath.browser.session.session",
    "Date": "swath.kit.models",
    "Failed": "swath.domain.errors",
    "Failure": "swath.domain.failure",
    "FailureKind": "swath.domain.failure",
    "Form": "swath.web.form",
    "HttpScraper": "swath.kit.http_scraper",
    "Input": "swath.kit.models",
    "Link": "swath.web.reading.links",
    "Maybe": "swath.kit.models",
    "Money": "swath.kit.models",
    "NotFound": "swath.domain.errors",
    "Output": "swath.kit.models",
    "Page": "swath.domain.page",
    "Pages": "swath.kit.pages",
    "Pairs": "swath.web.reading.pairs",
    "WebPage": "swath.web.page",
    "WebSession": "swath.web.session",
    "assert_fields_present": "swath.kit.html",
    "assert_html_contains": "swath.kit.html",
    "extract_text": "swath.kit.html",
    "parse_date": "swath.web.reading.dates",
    "parse_html": "swath.kit.html",
    "parse_money": "swath.web.reading.money",
    "scraper": "swath.kit.declare",
    "select_one": "swath.kit.html",
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
