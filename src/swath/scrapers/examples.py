"""Example scrapers: `example-mock` (no network), `example-http` (echoes its input), `example-fail` (always fails)."""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec
from pydantic import ConfigDict

from swath import Failed, Failure, FailureKind, HttpScraper, Input, Output, Page, Pages, WebPage, WebSession, scraper
from swath.scrapers.demo_site import demo_url

__all__ = ["ExampleFail", "ExampleHttp", "ExampleMock"]

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


class Echo(Output):
    """The input as the site saw it, and how it came there."""

    method: str
    echo: dict[str, Any]


@scraper(
    "example-http",
    name="Example: echo over HTTP",
    version="1",
    description="Sends its input to the echo of the demo site and reads it back from the answer.",
    sites=["demo.local"],
)
class ExampleHttp(HttpScraper):
    """Works on a fresh machine: `swath demo-site` is all the network it needs."""

    Input = AnyInput
    Output = Echo

    def start_url(self, item: AnyInput) -> str:  # noqa: ARG002 a field named `url` is only echoed
        return f"{demo_url()}/echo"

    async def fetch(self, item: AnyInput, web: WebSession) -> WebPage:
        return await web.post(f"{demo_url()}/echo", json=item.model_extra or {})

    def extract(self, pages: Pages) -> dict[str, Any]:
        answer = pages.main.json()
        return {"method": answer["method"], "echo": answer["json"]}


@scraper(
    "example-fail",
    name="Example: always fails",
    version="1",
    description="Fails every item as a broken server would, without a network; shows retries, failures and circuits.",
)
class ExampleFail(HttpScraper):
    """The failure is one that can be retried."""

    Input = AnyInput

    def start_url(self, item: AnyInput) -> None:  # noqa: ARG002 a field named `url` is like any other here
        return None

    async def fetch(self, item: AnyInput, web: WebSession) -> WebPage:  # noqa: ARG002 the worker hands over both
        raise Failed(Failure.of(FailureKind.SERVER_ERROR, "this example always fails"))
