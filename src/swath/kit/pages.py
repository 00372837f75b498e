"""Pages: what `extract` gets, whether fetched a moment ago or read back from storage years later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.page import Page
from swath.web.page import DEFAULT_NAME, WebPage

__all__ = ["Fetched", "Pages", "named_pages"]

Fetched = WebPage | Mapping[str, WebPage] | Iterable[WebPage] | None


class Pages(Mapping[str, WebPage]):
    """The pages of one item by name; a missing name raises Failed, since the record cannot be read without it."""

    __slots__ = ("_pages",)

    def __init__(self, pages: Mapping[str, WebPage]) -> None:
        self._pages = pages

    @classmethod
    def stored(cls, pages: Iterable[Page]) -> Pages:
        """From what storage kept; forms on them can be read, but not sent."""
        return cls({page.name: WebPage(page) for page in pages})

    @property
    def main(self) -> WebPage:
        """The page of a scraper that has one: `html`, or the only one there is."""
        if DEFAULT_NAME not in self._pages and len(self._pages) == 1:
            return next(iter(self._pages.values()))
        return self[DEFAULT_NAME]

    def __getitem__(self, name: str) -> WebPage:
        try:
            return self._pages[name]
        except KeyError:
            known = ", ".join(self._pages) or "none"
            message = f"there is no page {name!r} to extract from; there is {known}"
            raise Failed(Failure.of(FailureKind.INTERNAL, message)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._pages

    def __iter__(self) -> Iterator[str]:
        return iter(self._pages)

    def __len__(self) -> int:
        return len(self._pages)


def named_pages(fetched: Fetched) -> list[tuple[str, WebPage]]:
    """The names under which the pages that `fetch` returned are stored.

    One page keeps the name it was fetched under; in a list, those without a name of their own are numbered from the
    second: html, html-2, …
    """
    if fetched is None:
        return []
    if isinstance(fetched, WebPage):
        return [(fetched.name, fetched)]
    if isinstance(fetched, Mapping):
        return list(fetched.items())
    named: list[tuple[str, WebPage]] = []
    for page in fetched:
        own = getattr(page, "name", DEFAULT_NAME)  # what is no page is refused when it is kept
        count = sum(1 for name, _ in named if name == own or str(name).startswith(f"{own}-"))
        named.append((own if not count else f"{own}-{count + 1}", page))
    return named
