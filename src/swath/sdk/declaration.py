"""`@scraper(…)` gives a class its id, version and description; a scraper class is checked when it is loaded.

The decorator registers nothing: the registry searches. A mistake in a class is reported once, before a job begins.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeGuard, TypeVar

import msgspec

from swath.domain.errors import BadInput
from swath.sdk import models
from swath.sdk.scraper import BrowserScraper, HttpScraper, Scraper, check_browser_options, one_line_error

__all__ = [
    "ScraperInfo",
    "check_declaration",
    "check_scraper_class",
    "first_line",
    "is_declared",
    "make_instance",
    "scraper",
]

_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
ScraperClass = TypeVar("ScraperClass", bound=type[Scraper])


class ScraperInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A scraper as it is listed. `origin` says where it comes from: `shipped`, a package, or a file.

    `kind` is http, browser or recording; empty where that is not known before it is loaded.
    """

    id: str
    name: str
    version: str
    description: str = ""
    sites: tuple[str, ...] = ()
    origin: str = ""
    kind: str = ""


def scraper(
    scraper_id: str,
    *,
    name: str | None = None,
    version: str = "1",
    description: str | None = None,
    sites: Sequence[str] = (),
) -> Callable[[ScraperClass], ScraperClass]:
    """Declares a scraper. Write the arguments as literals: listings read them from the file without running it.

    `version` goes into every result; raise it when the extraction changes. The docstring serves as description.
    """
    given = {"name": name, "description": description}
    _check_texts(
        scraper_id, {"version": version} | {what: word for what, word in given.items() if word is not None}, sites
    )

    def declare(cls: ScraperClass) -> ScraperClass:
        cls.id = scraper_id
        cls.name = name or scraper_id
        cls.version = version
        cls.description = description if description is not None else first_line(cls.__doc__)
        cls.sites = tuple(sites)
        return cls

    return declare


def is_declared(thing: object) -> TypeGuard[type[Scraper]]:
    """Whether this class itself, and not one that it inherits from, was declared."""
    return isinstance(thing, type) and issubclass(thing, Scraper) and bool(vars(thing).get("id"))


def check_declaration(declared: type[Scraper] | Scraper) -> None:
    """Raises BadInput when a class, or what its constructor made of it, set something by itself that is no text."""
    words = {what: getattr(declared, what) for what in ("name", "version", "description")}
    if declared.base_url is not None:
        words["base_url"] = declared.base_url
    _check_texts(declared.id, words, declared.sites)


def _check_texts(scraper_id: object, words: Mapping[str, object], sites: object) -> None:
    """These go into every row of a job, and a row with something else in it could not be read back."""
    if not _is_text(scraper_id):
        raise BadInput(f'the scraper id must be text, not {_kind(scraper_id)}: write @scraper("some-id")')
    if not _ID.fullmatch(scraper_id):
        raise BadInput(f"{scraper_id!r} is no scraper id: small letters, digits, dots, dashes and underscores")
    for what, word in words.items():
        if not _is_text(word):
            better = word if isinstance(word, (int, float)) else "…"
            raise BadInput(f'scraper "{scraper_id}": {what} must be text: write {what}="{better}"')
    if isinstance(sites, str) or not isinstance(sites, Sequence) or not all(map(_is_text, sites)):
        better = sites if isinstance(sites, str) and _is_text(sites) else "site.example"
        raise BadInput(f'scraper "{scraper_id}": sites must be a list of text: write sites=["{better}"]')


def _is_text(value: object) -> TypeGuard[str]:
    """Text that can be written: not half of a surrogate pair, and no kind of str but the members of an enum."""
    if not isinstance(value, str) or not (type(value) is str or isinstance(value, Enum)):
        return False
    return value == value.encode("utf-8", "replace").decode()


def _kind(value: object) -> str:
    return "this" if type(value) is str else type(value).__name__


def first_line(docstring: str | None) -> str:
    """The summary of a docstring."""
    return (docstring or "").strip().partition("\n")[0]


_NO_FETCH: Final = (Scraper.fetch, HttpScraper.fetch, BrowserScraper.fetch)


def check_scraper_class(cls: type[Scraper]) -> None:
    """Raises BadInput when no item could be scraped with this class."""
    check_declaration(cls)
    _check_model(cls, "Input", models.Input)
    _check_model(cls, "Output", models.Output)
    if issubclass(cls, BrowserScraper):
        check_browser_options(cls)
    for method in ("fetch", "extract", "validate_result", "start_url"):
        if not callable(getattr(cls, method)):
            raise BadInput(f'scraper "{cls.id}": {method} must be a method')
    for method in ("extract", "validate_result", "start_url"):
        function = getattr(cls, method)
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise BadInput(f'scraper "{cls.id}": {method} must not be async: write def {method}(self, …)')


def make_instance(cls: type[Scraper]) -> Scraper:
    """The instance that serves all items. Raises BadInput when the class cannot be made without arguments."""
    try:
        made: object = cls()
    except BaseException as error:  # the constructor is an author's code, and sys.exit in it must not end a worker
        raise BadInput(f'scraper "{cls.id}" cannot be made: {one_line_error(error)}') from error
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
