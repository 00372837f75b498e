"""`example-fail`: a scraper whose site is always broken, for trying out retries and what a failed job looks like."""

from __future__ import annotations

from pydantic import ConfigDict

from swath import Failed, Failure, FailureKind, HttpScraper, Input, WebPage, WebSession, scraper

__all__ = ["ExampleFail"]


class AnyInput(Input):
    """Whatever is given."""

    model_config = ConfigDict(extra="allow")


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
