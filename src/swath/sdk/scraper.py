"""Base classes of scrapers: Scraper, HttpScraper and BrowserScraper. `fetch` gets the pages, `extract` reads them.

An unexpected exception in a scraper's code becomes a failure with the author's line. Nothing here needs a browser to
be
installed.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args
from urllib.parse import urljoin

from pydantic import ValidationError

from swath.domain.errors import BadInput, Failed, LeaseLost, NotFound, SiteUnavailable, SwathError
from swath.domain.failure import Failure, FailureKind
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.page.attempt_output import AttemptOutput
from swath.fetch.http.page.page import WebPage
from swath.sdk import models
from swath.sdk.pages import FetchedPages, Pages, named_pages

if TYPE_CHECKING:
    from swath.fetch.browser.tab.session import BrowserSession

__all__ = [
    "BLOCKABLE",
    "BrowserScraper",
    "HttpScraper",
    "Scraper",
    "ScraperKind",
    "Screenshot",
    "author_failure",
    "check_browser_options",
    "one_line_error",
]

_LINE_LIMIT_CHARS: Final = 500


def author_failure(error: Exception, module_file: str | None) -> Failure:
    """`module_file` is where the scraper is written; the innermost line there is the one to look at."""
    if isinstance(error, TimeoutError):
        return Failure.of(FailureKind.TIMEOUT, f"the scraper waited too long: {error}".rstrip(": "))
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == module_file] or list(frames)
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return Failure.of(FailureKind.INTERNAL, f"{type(error).__name__}: {error}{where}")


def one_line_error(error: BaseException) -> str:
    """The name of an error and what it says, on one line that is not long, for the message of a BadInput."""
    try:
        said = " ".join(str(error).encode("utf-8", "replace").decode().split())
    except BaseException:  # noqa: BLE001 an author's own exception may not even be able to tell what it is
        said = ""
    return f"{type(error).__name__}: {said[:_LINE_LIMIT_CHARS]}".removesuffix(": ")


ScraperKind = Literal["http", "browser", "recording"]


class Scraper:
    """One instance serves all items at once, so it keeps nothing between them.

    `@scraper(…)` fills in id, name, version, description and sites. Raise NotFound to say that there is no such record.
    """

    kind: ClassVar[ScraperKind] = "http"
    needs_browser: ClassVar[bool] = False
    id: ClassVar[str] = ""
    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    description: ClassVar[str] = ""
    sites: ClassVar[tuple[str, ...]] = ()
    base_url: ClassVar[str | None] = None

    Input: ClassVar[type[models.Input]] = models.Input
    Output: ClassVar[type[models.Output]] = models.Output

    async def fetch(self, item: Any, session: Any, /) -> FetchedPages:
        """Gets the pages of an item: one, several by name, or a list. They are stored, and handed to `extract`."""
        raise NotImplementedError(f"{type(self).__name__} has no fetch")

    def extract(self, pages: Pages) -> Any:
        """Reads the record: an Output, a dict of its fields, or a list of these.

        Must follow from the pages alone: it is run again over the stored ones. Without it only pages are collected.
        """
        raise NotImplementedError(f"{type(self).__name__} has no extract")

    def validate_result(self, record: Any) -> None:
        """A last look at a record that fits the output model; raise ValueError to refuse it."""

    def start_url(self, item: Any) -> str | None:
        """Where an item begins: its `url`, if its input has one, else `base_url`. Override it when neither is true.

        Asked before anything is fetched, to find out whose site it is and whether robots.txt lets us in.
        """
        url = str(getattr(item, "url", None) or "").strip()
        if not url or self.base_url is None or "://" in url:
            return url or self.base_url
        return urljoin(self.base_url, url)

    @property
    def has_extract(self) -> bool:
        """Whether there are records at all, or pages only."""
        return type(self).extract is not Scraper.extract

    def parse_input(self, raw: dict[str, Any]) -> models.Input:
        """The checked input. Raises Failed invalid_input, naming the fields."""
        try:
            return self.Input.model_validate(raw)
        except ValidationError as error:
            raise Failed(Failure.of(FailureKind.INVALID_INPUT, models.explain(error))) from None

    async def collect(self, item: models.Input, session: AttemptOutput) -> Pages:
        """Fetches, and leaves every page that is to be stored with the session, under its name.

        Raises what `fetch` means to raise; any other exception becomes Failed internal, with the author's line.
        """
        try:
            fetched = await self.fetch(item, session)
            if not isinstance(fetched, WebPage) and isinstance(fetched, Iterator):
                fetched = list(fetched)  # a generator is the author's code too
        except SwathError:
            raise
        except Exception as error:
            raise _raised_by_fetch(error) or Failed(self.blame(error)) from error
        try:
            for name, page in named_pages(fetched):
                _keep(session, name, page)
        except (TypeError, ValueError) as error:  # no line of the author's is at hand: fetch has returned
            message = f"what fetch returned cannot be stored: {error}"
            raise Failed(Failure.of(FailureKind.INTERNAL, message)) from error
        return Pages(session.pages)

    def blame(self, error: Exception) -> Failure:
        """The failure for an exception that the author did not mean to raise."""
        return author_failure(error, inspect.getsourcefile(type(self)))


def _raised_by_fetch(error: Exception) -> SwathError | None:
    """What a group of tasks was stopped by, if nothing but what `fetch` may raise; the gravest of it."""
    if not isinstance(error, ExceptionGroup):
        return None
    leaves = [_raised_by_fetch(one) if isinstance(one, ExceptionGroup) else one for one in error.exceptions]
    meant = [leaf for leaf in leaves if isinstance(leaf, _BY_SEVERITY)]
    if len(meant) < len(leaves):
        return None  # there is a mistake of the author's among them
    return min(meant, key=lambda leaf: _BY_SEVERITY.index(type(leaf)) if type(leaf) in _BY_SEVERITY else 0)


_BY_SEVERITY: Final = (LeaseLost, SiteUnavailable, Failed, NotFound)


def _keep(session: AttemptOutput, name: str, page: WebPage) -> None:
    before = session.pages.get(name)
    if before is not None:
        if before is page:
            return  # fetch has kept it already, and it was looked over then
        if before.page is not getattr(page, "page", before.page):
            raise ValueError(f"two pages are named {name!r}; give one of them another name")
    session.keep(page, name)
    # A page that was fetched under one name and is returned under another is stored once, under the latter.
    if len(session.pages) > 1:
        for other in [key for key, one in session.pages.items() if one is page and key != name]:
            del session.pages[other]


class HttpScraper(Scraper):
    """See Scraper. `fetch` gets a session of its own for each attempt, with cookies of its own."""

    kind: ClassVar[ScraperKind] = "http"

    async def fetch(self, item: Any, web: WebSession, /) -> FetchedPages:
        """Gets the pages of an item: one, several by name, or a list. They are stored, and handed to `extract`."""
        del item, web
        raise NotImplementedError(f"{type(self).__name__} has no fetch")


Screenshot = Literal["never", "failure", "always"]

BLOCKABLE: Final = ("font", "image", "media", "stylesheet")


class BrowserScraper(Scraper):
    """See Scraper. Each attempt has a context of its own: cookies and storage of nobody else.

    `keep_session` lets items that follow each other on one site share them; `mobile` asks for a telephone; `block`
    names what is not loaded (image, font, media, stylesheet); `screenshot` says when one is stored.
    """

    kind: ClassVar[ScraperKind] = "browser"
    needs_browser: ClassVar[bool] = True
    keep_session: ClassVar[bool] = False
    mobile: ClassVar[bool] = False
    block: ClassVar[tuple[str, ...]] = ()
    screenshot: ClassVar[Screenshot] = "failure"

    async def fetch(self, item: Any, browser: BrowserSession, /) -> FetchedPages:
        """Gets the pages of an item: one, several by name, or a list. They are stored, and handed to `extract`."""
        del item, browser
        raise NotImplementedError(f"{type(self).__name__} has no fetch")


def check_browser_options(cls: type[BrowserScraper]) -> None:
    """Raises BadInput when a class asks for something of the browser that there is not."""
    block: object = cls.block
    if not isinstance(block, (tuple, list)) or not set(block) <= set(BLOCKABLE):
        raise BadInput(f'scraper "{cls.id}": block must name some of {", ".join(BLOCKABLE)}: write block = ("image",)')
    if cls.screenshot not in get_args(Screenshot):
        known = ", ".join(get_args(Screenshot))
        raise BadInput(f'scraper "{cls.id}": screenshot must be one of {known}: write screenshot = "failure"')
    for what in ("keep_session", "mobile"):
        if not isinstance(getattr(cls, what), bool):
            raise BadInput(f'scraper "{cls.id}": {what} must be True or False')
