"""Swath runs bulk web-scraping jobs and proves that nothing was lost.

What scraper authors import comes from here, and is loaded when it is first used: `import swath` alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swath.domain.errors import Failed, NotFound
    from swath.domain.failure import Failure, FailureKind
    from swath.domain.result import Page
    from swath.fetch.browser.tab.session import BrowserSession
    from swath.fetch.http.client.session import WebSession
    from swath.fetch.http.page.form import Form
    from swath.fetch.http.page.page import WebPage
    from swath.fetch.http.page.parsing.tables_and_pairs import Pairs
    from swath.fetch.http.page.parsing.text_and_links import Link
    from swath.fetch.http.page.parsing.values import parse_date, parse_money
    from swath.sdk.action_scraper import ActionScraper
    from swath.sdk.declaration import scraper
    from swath.sdk.models import Date, Input, Maybe, Money, Output
    from swath.sdk.pages import Pages, assert_fields_present, assert_html_contains, extract_text, parse_html, select_one
    from swath.sdk.scraper import BrowserScraper, HttpScraper

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
    "ActionScraper": "swath.sdk.action_scraper",
    "BrowserScraper": "swath.sdk.scraper",
    "BrowserSession": "swath.fetch.browser.tab.session",
    "Date": "swath.sdk.models",
    "Failed": "swath.domain.errors",
    "Failure": "swath.domain.failure",
    "FailureKind": "swath.domain.failure",
    "Form": "swath.fetch.http.page.form",
    "HttpScraper": "swath.sdk.scraper",
    "Input": "swath.sdk.models",
    "Link": "swath.fetch.http.page.parsing.text_and_links",
    "Maybe": "swath.sdk.models",
    "Money": "swath.sdk.models",
    "NotFound": "swath.domain.errors",
    "Output": "swath.sdk.models",
    "Page": "swath.domain.result",
    "Pages": "swath.sdk.pages",
    "Pairs": "swath.fetch.http.page.parsing.tables_and_pairs",
    "WebPage": "swath.fetch.http.page.page",
    "WebSession": "swath.fetch.http.client.session",
    "assert_fields_present": "swath.sdk.pages",
    "assert_html_contains": "swath.sdk.pages",
    "extract_text": "swath.sdk.pages",
    "parse_date": "swath.fetch.http.page.parsing.values",
    "parse_html": "swath.sdk.pages",
    "parse_money": "swath.fetch.http.page.parsing.values",
    "scraper": "swath.sdk.declaration",
    "select_one": "swath.sdk.pages",
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
