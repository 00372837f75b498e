"""`example-mock`: a scraper without a network. Shows the contract, and gives load tests something cheap to run."""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec
from pydantic import ConfigDict

from swath import HttpScraper, Input, Output, Page, Pages, WebPage, WebSession, scraper

__all__ = ["ExampleMock"]

_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Example</title></head>
<body><h1>Example record</h1>
<dl>
{rows}</dl>
</body></html>
"""


class AnyInput(Input):
    """Whatever is given."""

    model_config = ConfigDict(extra="allow")


class Mirrored(Output):
    """What the page said: the input, and how many fields it has."""

    fields: dict[str, Any]
    count: int


@scraper(
    "example-mock",
    name="Example: no network",
    version="1",
    description="Makes a small page of any input and reads it back; nothing is fetched.",
)
class ExampleMock(HttpScraper):
    """The same input always makes the same page and record."""

    Input = AnyInput
    Output = Mirrored

    def start_url(self, item: AnyInput) -> None:  # noqa: ARG002 a field named `url` is like any other here
        return None

    async def fetch(self, item: AnyInput, web: WebSession) -> WebPage:  # noqa: ARG002 the worker hands over both
        fields = item.model_extra or {}
        rows = "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(msgspec.json.encode(value).decode())}</dd>\n"
            for name, value in fields.items()
        )
        body = _PAGE.format(rows=rows).encode()
        return WebPage(Page(name="html", url="mock:example", status=200, body=body))

    def extract(self, pages: Pages) -> Mirrored:
        page = pages.main.expect("h1", "Example record")
        names = [node.text() for node in page.css("dt")]
        values = [msgspec.json.decode(node.text()) for node in page.css("dd")]
        fields = dict(zip(names, values, strict=True))
        return Mirrored(fields=fields, count=len(fields))
