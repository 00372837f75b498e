"""BrowserScraper: the class that authors subclass when a site shows nothing without running its scripts.

Like HttpScraper but for `fetch`, which drives a page in a real browser. Nothing here needs the browser to be installed:
scrapers are listed, and their stored pages read again, without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

from swath.domain.errors import BadInput
from swath.kit.pages import Fetched
from swath.kit.scraper import Scraper, ScraperKind

if TYPE_CHECKING:
    from swath.browser.session.session import BrowserSession

__all__ = ["BLOCKABLE", "BrowserScraper", "Screenshot", "check_wishes"]

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

    async def fetch(self, item: Any, browser: BrowserSession, /) -> Fetched:
        """Gets the pages of an item: one, several by name, or a list. They are stored, and handed to `extract`."""
        del item, browser
        raise NotImplementedError(f"{type(self).__name__} has no fetch")


def check_wishes(cls: type[BrowserScraper]) -> None:
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
