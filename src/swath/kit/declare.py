"""`@scraper(…)`: gives a scraper class its id, version and description. Nothing is registered: the registry looks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeGuard, TypeVar

import msgspec

from swath.domain.errors import BadInput
from swath.kit.scraper import HttpScraper

__all__ = ["ScraperInfo", "first_line", "is_declared", "scraper"]

_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
ScraperClass = TypeVar("ScraperClass", bound=type[HttpScraper])


class ScraperInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A scraper as it is listed. `origin` says where it comes from: `shipped`, a package, or a file."""

    id: str
    name: str
    version: str
    description: str = ""
    sites: tuple[str, ...] = ()
    origin: str = ""


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
    if not _ID.fullmatch(scraper_id):
        raise BadInput(f"{scraper_id!r} is no scraper id: small letters, digits, dots, dashes and underscores")

    def declare(cls: ScraperClass) -> ScraperClass:
        cls.id = scraper_id
        cls.name = name or scraper_id
        cls.version = version
        cls.description = description if description is not None else first_line(cls.__doc__)
        cls.sites = tuple(sites)
        return cls

    return declare


def is_declared(thing: object) -> TypeGuard[type[HttpScraper]]:
    """Whether this class itself, and not one that it inherits from, was declared."""
    return isinstance(thing, type) and issubclass(thing, HttpScraper) and bool(vars(thing).get("id"))


def first_line(docstring: str | None) -> str:
    """The summary of a docstring."""
    return (docstring or "").strip().partition("\n")[0]
