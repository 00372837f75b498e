"""Looks a scraper class over when it is loaded, and makes the one instance of it.

Comes after files.py and the import of a package, before the registry hands a scraper out. What is wrong with a class is
wrong for every item, so it is told once, as BadInput, before a job begins.
"""

from __future__ import annotations

import inspect
from typing import Final

from swath.domain.errors import BadInput
from swath.kit import models
from swath.kit.author_errors import one_line
from swath.kit.browser_scraper import BrowserScraper, check_wishes
from swath.kit.declare import check_declaration
from swath.kit.http_scraper import HttpScraper
from swath.kit.scraper import Scraper

__all__ = ["check_class", "make"]

_NO_FETCH: Final = (Scraper.fetch, HttpScraper.fetch, BrowserScraper.fetch)


def check_class(cls: type[Scraper]) -> None:
    """Raises BadInput when no item could be scraped with this class."""
    check_declaration(cls)
    _check_model(cls, "Input", models.Input)
    _check_model(cls, "Output", models.Output)
    if issubclass(cls, BrowserScraper):
        check_wishes(cls)
    for method in ("fetch", "extract", "validate_result", "start_url"):
        if not callable(getattr(cls, method)):
            raise BadInput(f'scraper "{cls.id}": {method} must be a method')
    for method in ("extract", "validate_result", "start_url"):
        function = getattr(cls, method)
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise BadInput(f'scraper "{cls.id}": {method} must not be async: write def {method}(self, …)')


def make(cls: type[Scraper]) -> Scraper:
    """The instance that serves all items. Raises BadInput when the class cannot be made without arguments."""
    try:
        made: object = cls()
    except BaseException as error:  # the constructor is an author's code, and sys.exit in it must not end a worker
        raise BadInput(f'scraper "{cls.id}" cannot be made: {one_line(error)}') from error
    if not isinstance(made, Scraper):
        raise BadInput(f'scraper "{cls.id}" cannot be made: its class makes {type(made).__name__}')
    check_declaration(made)
    if type(made).fetch in _NO_FETCH:
        session = "browser" if made.needs_browser else "web"
        raise BadInput(f'scraper "{cls.id}" has no fetch: write async def fetch(self, item, {session})')
    return made


def _check_model(cls: type[Scraper], which: str, ours: type[models.Input | models.Output]) -> None:
    model: object = getattr(cls, which)
    if not (isinstance(model, type) and issubclass(model, ours)):
        found = model.__name__ if isinstance(model, type) else type(model).__name__
        raise BadInput(f'scraper "{cls.id}": {which} must be a model, not {found}: write class {which}(swath.{which})')
