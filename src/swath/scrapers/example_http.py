"""`example-http`: one request. Sends its input to the echo of the demo site and extracts what came back."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from swath import HttpScraper, Input, Output, Pages, WebPage, WebSession, scraper
from swath.scrapers.demo_site import demo_url

__all__ = ["ExampleHttp"]


class AnyInput(Input):
    """Whatever is given."""

    model_config = ConfigDict(extra="allow")


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
