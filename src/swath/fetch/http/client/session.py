"""WebSession: what an HTTP scraper's `fetch` gets as `web`. One per attempt, with its own cookies and counts.

Follows redirects, judges every response, and keeps pages by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from swath.domain.errors import Failed, NotFound
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import Failure, FailureKind
from swath.domain.result import Download, Exchange, Page
from swath.fetch.http.blocks.classify import PAGE, Verdict, classify
from swath.fetch.http.client.cache import AttemptCache
from swath.fetch.http.client.cookies import CookieJar
from swath.fetch.http.client.headers import headers_for
from swath.fetch.http.header_values import charset_of, content_type_of
from swath.fetch.http.messages import (
    MOST_REDIRECTS,
    Headers,
    Request,
    RequestGate,
    Response,
    Transport,
    UnrestrictedGate,
    next_request,
    send_with_retry,
)
from swath.fetch.http.page.attempt_output import AttemptOutput, check_name
from swath.fetch.http.page.form import FormSubmission
from swath.fetch.http.page.page import DEFAULT_NAME, WebPage
from swath.fetch.url import URLENCODED, Fields, field_pairs, redacted, resolve, urlencoded, with_params
from swath.ports.clock import Clock

__all__ = ["WebSession"]


class _PageRequest(msgspec.Struct, frozen=True):
    """What the author said of an answer: what the page is called, and which statuses are no surprise."""

    name: str
    expect_status: Collection[int]


class _JudgedResponse(msgspec.Struct, frozen=True):
    """An answer that leads nowhere else, and what it is. `as_it_is`: nobody looked, for its status was expected."""

    page: Page
    verdict: Verdict
    as_it_is: bool = False


class WebSession(AttemptOutput):
    """A browser's memory without the browser. Every method raises Failed for what is no answer.

    Each request passes the `gate`, redirect hops included, which may let it wait or stop the attempt.
    """

    __slots__ = ("_base_url", "_cache", "_clock", "_cookies", "_gate", "_timeouts", "_transport")

    def __init__(
        self,
        transport: Transport,
        timeouts: Timeouts,
        clock: Clock,
        base_url: str | None = None,
        gate: RequestGate | None = None,
        cache: AttemptCache | None = None,
    ) -> None:
        super().__init__()
        self._transport = transport
        self._timeouts = timeouts
        self._clock = clock
        self._base_url = base_url
        self._gate = UnrestrictedGate() if gate is None else gate
        self._cache = cache
        self._cookies = CookieJar()

    async def get(
        self,
        url: str,
        *,
        name: str | None = None,
        params: Fields | None = None,
        headers: Mapping[str, str] | None = None,
        expect_status: Collection[int] = (),
    ) -> WebPage:
        """Fetches a page. With a `name` it is stored under it; a later page of that name replaces it.

        `expect_status` names statuses beside 2xx that are an answer here. An answer with one of them is taken as it
        is: nothing looks whether it is a block, an outage or an expired session.
        """
        request = self._request("GET", with_params(resolve(url, self._base_url), params), headers)
        return await self._page(request, name, expect_status)

    async def post(
        self,
        url: str,
        data: Fields | bytes | None = None,
        *,
        json: Any = None,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        expect_status: Collection[int] = (),
    ) -> WebPage:
        """Posts a form (`data` as fields), a body of bytes, or JSON."""
        typed, body = _content(data, json)
        request = self._request("POST", resolve(url, self._base_url), {**typed, **(headers or {})}, body)
        return await self._page(request, name, expect_status)

    async def download(
        self,
        url: str,
        filename: str,
        *,
        content_type: str | None = None,
        largest_bytes: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> WebPage:
        """Fetches a file and stores it by its name beside the pages; a later one of that name replaces it.

        Raises Failed layout_changed when a `content_type` is asked for and something else comes: an error page, say;
        too_large when it has more than `largest_bytes`.
        """
        check_name(filename, "download")
        request = self._request("GET", resolve(url, self._base_url), headers)
        request = msgspec.structs.replace(request, largest_bytes=largest_bytes)
        page = await self._page(request, None, ())
        if content_type is not None and page.page.content_type != content_type:
            message = f"{redacted(page.url)} is {page.page.content_type}, not {content_type}"
            raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, message))
        self._keep_download(Download(filename, page.page))
        return page

    async def send_form(self, sent: FormSubmission, name: str | None) -> WebPage:
        """Sends a form that was filled in on one of our pages."""
        headers = {"Referer": sent.referer}
        if sent.content_type is None:
            return await self._page(self._request("GET", sent.url, headers), name, ())
        headers["Content-Type"] = sent.content_type
        return await self._page(self._request("POST", sent.url, headers, sent.body), name, ())

    def _request(self, method: str, url: str, headers: Mapping[str, str] | None, body: bytes = b"") -> Request:
        usual = headers_for(self._gate.policy(url))
        given = usual if not headers else _merged(usual, headers)
        return Request(
            url=url,
            method=method,
            headers=tuple(given.items()),
            body=body,
            connect_timeout_seconds=self._timeouts.connect_seconds,
            request_timeout_seconds=self._timeouts.request_seconds,
        )

    async def _page(self, request: Request, name: str | None, expect_status: Collection[int]) -> WebPage:
        if name is not None:
            check_name(name, "page")
        wanted = _PageRequest(DEFAULT_NAME if name is None else name, expect_status)
        judged = await self._follow(request, wanted)
        page, verdict = WebPage(judged.page, self), judged.verdict
        if verdict.failure is not None:
            self.refused = page.page
            self._gate.blame(page.url, verdict.failure)
            raise Failed(verdict.failure)
        if verdict.not_found is not None:
            self.pages[page.name] = page  # the site's word that there is no such record is worth keeping
            raise NotFound(verdict.not_found)
        if name is not None:
            self.pages[name] = page
        return page

    async def _follow(self, request: Request, wanted: _PageRequest) -> _JudgedResponse:
        for _ in range(MOST_REDIRECTS + 1):
            cookies = self._cookies.header(request.url, self._clock.now())
            asked = request
            if cookies is not None:
                asked = msgspec.structs.replace(request, headers=_with_cookies(request.headers, cookies))
            if self._cache is None:
                came = await self._fetch(request, asked, wanted)
            else:
                came = await self._find(self._cache, request, asked, wanted)
            if isinstance(came, _JudgedResponse):
                return came
            request = came
        message = f"more than {MOST_REDIRECTS} redirects, the last to {redacted(request.url)}"
        raise Failed(Failure.of(FailureKind.NAVIGATION, message))

    async def _find(
        self, cache: AttemptCache, request: Request, asked: Request, wanted: _PageRequest
    ) -> _JudgedResponse | Request:
        """What the job knows already, or what the site says."""
        found = await cache.find(asked)
        if found is None:
            return await self._fetch(request, asked, wanted)
        if isinstance(found, Page):
            return _JudgedResponse(msgspec.structs.replace(found, name=wanted.name, from_cache=True), PAGE)
        with found:
            came = await self._fetch(request, asked, wanted)
            if isinstance(came, Request):
                found.came(None)
            elif came.verdict == PAGE:
                found.came(None if came.as_it_is else came.page)
        return came

    async def _fetch(self, request: Request, asked: Request, wanted: _PageRequest) -> _JudgedResponse | Request:
        """Sends `asked`, which is `request` with cookies: what came of it, or where it sends us next."""
        sent, response = await send_with_retry(self._send, asked)
        following = next_request(request, response)
        if following is not None:
            return following
        page = self._made(sent, response, wanted.name)
        if response.status in wanted.expect_status:
            return _JudgedResponse(page, PAGE, as_it_is=True)
        return _JudgedResponse(page, classify(response, self._gate.policy(response.url), page.fetched_at))

    def _made(self, sent: Request, response: Response, name: str) -> Page:
        content_type = response.header("content-type")
        return Page(
            name=name,
            url=response.url,
            status=response.status,
            body=response.body,
            content_type=content_type_of(content_type),
            charset=charset_of(content_type, response.body),
            fetched_at=self._clock.now(),
            exchange=Exchange(method=sent.method, request_headers=sent.headers, response_headers=response.headers),
        )

    async def _send(self, request: Request) -> tuple[Request, Response]:
        """The request as it was sent, and the answer."""
        request = await self._gate.enter(request)
        self.requests += 1
        response, failure = None, None
        try:
            response = await self._transport.send(request)
        except Failed as failed:
            failure = failed.failure
            raise
        finally:
            self._gate.leave(request, response, failure)
        self.bytes += response.wire_bytes
        set_cookies = [value for name, value in response.headers if name == "set-cookie"]
        if set_cookies:
            self._cookies.store(request.url, set_cookies, self._clock.now())
        return request, response


def _with_cookies(headers: Headers, cookies: str) -> Headers:
    """Adds them to a Cookie header of the author's, if there is one: a request has at most one."""
    own = [value for name, value in headers if name.lower() == "cookie"]
    others = (header for header in headers if header[0].lower() != "cookie") if own else headers
    return (*others, ("Cookie", "; ".join([*own, cookies])))


def _content(data: Fields | bytes | None, json: Any) -> tuple[dict[str, str], bytes]:
    if json is not None:
        return {"Content-Type": "application/json"}, msgspec.json.encode(json)
    if isinstance(data, bytes):
        return {"Content-Type": "application/octet-stream"}, data
    return {"Content-Type": URLENCODED}, urlencoded(field_pairs(data or {})).encode("ascii")


def _merged(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Defaults in their order, each replaced by what was given under that name in any case; then the others."""
    own = {name.lower() for name in given}
    return {**{name: value for name, value in defaults.items() if name.lower() not in own}, **given}
