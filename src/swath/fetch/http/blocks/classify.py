"""Classifies a response: a page, a failure of some kind, or the site's statement that there is no such record. Pure.

First the signatures in the site's policy, then the status, then the content.
"""

from __future__ import annotations

import functools
import re
from functools import lru_cache
from typing import Final

import msgspec
from selectolax.lexbor import LexborHTMLParser

from swath.domain.failure import Failure, FailureKind
from swath.domain.retry import parse_retry_after
from swath.domain.safe_regex import SearchTimeout, search, shared_search_time
from swath.domain.site_policy import Signature, SignatureKind, SitePolicy
from swath.fetch.http.blocks.scoring import PageProblem, find_problem, read_evidence, source_text
from swath.fetch.http.blocks.signatures import ADDRESSES, FRAMED, HEADERS, SUSPICIOUS_WORDS
from swath.fetch.http.header_values import parse_http_date
from swath.fetch.http.messages import Response
from swath.fetch.http.page.parsing.parse_cost import parse_refusal
from swath.fetch.url import redacted

__all__ = ["PAGE", "Verdict", "classify", "first_matching", "retry_after_seconds"]

_MOST_URL: Final = 2_048
_MOST_HEADER: Final = 4_096
_MOST_TITLE: Final = 300
_MOST_UNCLOSED: Final = 6_000  # tags; as many inside each other take 40 ms, and four times that for each doubling
_TITLE: Final = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)


def first_matching(signatures: tuple[Signature, ...], response: Response) -> Signature | None:
    """The first that fits, in the order of the policy. Raises TookTooLong when a pattern is led astray."""
    answer = _LazyResponse(response)
    with shared_search_time():
        return next((signature for signature in signatures if _matches_all(signature, answer)), None)


class _LazyResponse:
    """An answer whose parts are made when a signature first asks for them."""

    def __init__(self, response: Response) -> None:
        self.response = response

    @functools.cached_property
    def source(self) -> str:
        return source_text(self.response)

    @functools.cached_property
    def title(self) -> str:
        found = _TITLE.search(self.source)
        return " ".join(found[1][:_MOST_TITLE].split()) if found else ""

    @functools.cached_property
    def tree(self) -> LexborHTMLParser | None:
        html = self.source.encode("utf-8", "replace")
        if html.count(b"<") - 2 * html.count(b"</") > _MOST_UNCLOSED or parse_refusal(html) is not None:
            return None
        return LexborHTMLParser(html)


def _matches_all(signature: Signature, answer: _LazyResponse) -> bool:
    """All that is given must fit; what costs least is asked first."""
    response = answer.response
    if signature.status and response.status not in signature.status:
        return False
    if signature.largest_bytes is not None and len(response.body) > signature.largest_bytes:
        return False
    if signature.url is not None and not _occurs(signature.url, response.url[:_MOST_URL]):
        return False
    if signature.header is not None and not _has_header(signature.header, response):
        return False
    if signature.title is not None and not _occurs(signature.title, answer.title):
        return False
    if signature.body is not None and not _occurs(signature.body, answer.source):
        return False
    return signature.css is None or _matches_css(signature.css, answer.tree)


def _has_header(wanted: str, response: Response) -> bool:
    name, _, pattern = wanted.partition(":")
    pattern, name = pattern.strip(), name.strip().lower()
    return any(known == name and _occurs(pattern, value[:_MOST_HEADER]) for known, value in response.headers)


def _matches_css(selector: str, tree: LexborHTMLParser | None) -> bool:
    return tree is not None and tree.css_first(selector) is not None


def _occurs(pattern: str, text: str) -> bool:
    return search(pattern, text, ignore_case=True) is not None


_K = FailureKind
_BLOCKING: Final = frozenset({403, 999})
_TEMPORARY: Final = frozenset({408, 425})
_GONE: Final = frozenset({404, 410})
_EXPIRED: Final = frozenset({419, 440})  # Laravel and IIS, for forms and sessions that have expired
_PASSWORD_SCHEMES: Final = ("basic", "digest", "negotiate", "ntlm")
# What the body of a refusal may make of it; the status knows the rest better.
_DECISIVE: Final = frozenset({_K.CAPTCHA, _K.SESSION_EXPIRED, _K.RATE_LIMITED, _K.BLOCKED})
_DECISIVE_FOR_5XX: Final = _DECISIVE | {_K.MAINTENANCE}
_DECISIVE_FOR_429: Final = frozenset({_K.CAPTCHA})  # which no waiting lifts
_BLANK: Final = re.compile(rb"(?:\xef\xbb\xbf)?[\s\0]*")
_NUMBER: Final = re.compile(r"[0-9]+(?:[-./][0-9]+)+")  # of a parcel, a case or a date: no status, whatever is in it

_READABLE: Final = ("xml", "plain", "javascript")
_SNIFFED_BYTES: Final = 512
_RICH_BYTES: Final = 4_096
_RICH_PARTS: Final = 10
_PARTS: Final = (b"</td>", b"</p>", b"</dd>")
_HEAD_BYTES: Final = 8_192  # in which a title and the first heading stand
_WINDOW: Final = 64 * 1024
_JSON_BYTES: Final = 4_096


class Verdict(msgspec.Struct, frozen=True):
    """What an answer is: a failure, the site's word that there is no such record, or else a page."""

    failure: Failure | None = None
    not_found: str | None = None


PAGE: Final = Verdict()


def classify(response: Response, policy: SitePolicy, now: float) -> Verdict:
    """Says what an answer is. `now` in Unix seconds, for a Retry-After that is a date."""
    if policy.signatures:
        verdict = _by_site_signatures(response, policy, now)
        if verdict is not None:
            return verdict
    for name, value in response.headers:
        if name in HEADERS and value.lower().startswith(HEADERS[name]):
            return _failure_verdict(response, now, _K.CAPTCHA, f"{name}: {value[:40]}")
    if 200 <= response.status < 300:
        return _classify_success(response, now)
    return _classify_error(response, now)


def _by_site_signatures(response: Response, policy: SitePolicy, now: float) -> Verdict | None:
    """What the site's own signatures say. A good page and a missing record need a status that allows it."""
    allowed = 200 <= response.status < 300
    named = tuple(
        signature
        for signature in policy.signatures
        if signature.status
        or allowed
        or (signature.kind is SignatureKind.NOT_FOUND and response.status in _GONE)
        or signature.kind not in {SignatureKind.PAGE, SignatureKind.NOT_FOUND}
    )
    try:
        fitting = first_matching(named, response) if named else None
    except SearchTimeout as error:
        return _failure_verdict(
            response, now, _K.LAYOUT_CHANGED, f"cannot be told by the site's signatures: one {error}"
        )
    if fitting is None:
        return None
    if fitting.kind is SignatureKind.PAGE:
        return PAGE
    if fitting.kind is SignatureKind.NOT_FOUND:
        return Verdict(not_found=f"{_where(response)} says that there is no such record")
    return _failure_verdict(response, now, FailureKind(fitting.kind.value), "fits a signature of the site")


def _classify_success(response: Response, now: float) -> Verdict:
    kind = (response.header("content-type") or "").lower()
    # An empty page is the answer to nothing; 204 and 205 are meant to be empty, and 201 and 202 often are.
    page = "html" in kind and response.status not in {204, 205}
    if (page or (not kind and response.status == 200)) and _BLANK.fullmatch(response.body):
        return _failure_verdict(response, now, _K.SERVER_ERROR, "is empty")
    if not response.body:
        return PAGE
    if _is_clearly_page(response, kind):
        return PAGE
    finding = find_problem(read_evidence(response))
    return PAGE if finding is None else _problem_verdict(response, now, finding)


def _is_clearly_page(response: Response, kind: str) -> bool:
    """A quick look: the page holds a lot, and neither its title nor its text smells of anything else."""
    body = response.body
    if "html" not in kind:
        if "json" in kind:
            return len(body) > _JSON_BYTES
        if kind and not any(map(kind.__contains__, _READABLE)):
            return b"<html" not in body[:_SNIFFED_BYTES].lower()  # walls come in place of files, and under their type
    if len(body) < _RICH_BYTES or not _is_rich(body):
        return False
    shown_from = max(body.find(b"<body", 0, _WINDOW), 0)  # before it are scripts and styles
    for smell in FRAMED:
        if body.find(smell, shown_from, _WINDOW) >= 0:
            return False
    return not _is_suspicious(_title_and_heading(body)) and not any(map(response.url.lower().__contains__, ADDRESSES))


@lru_cache(1_024)  # the pages of a site have few titles, but for the numbers in them
def _is_suspicious(focus: str) -> bool:
    return any(map(focus.__contains__, SUSPICIOUS_WORDS))


def _is_rich(body: bytes) -> bool:
    window = body[:_WINDOW]
    return any(len(window.split(part, _RICH_PARTS)) > _RICH_PARTS for part in _PARTS)


def _title_and_heading(body: bytes) -> str:
    """The title and the first heading, in small letters and without numbers of several parts."""
    focus = b""
    for tag in (b"<title", b"<h1"):
        at = body.find(tag, 0, _HEAD_BYTES)
        if at < 0:
            at = body.find(tag.upper(), 0, _HEAD_BYTES)
        if at >= 0:
            focus += body[at : at + 200].partition(b"</")[0]
    return _NUMBER.sub(" ", focus.decode("latin-1").lower())


def _classify_error(response: Response, now: float) -> Verdict:
    status = response.status
    asked = response.header("retry-after")
    limited = status == 429 or (status == 503 and asked is not None)
    finding = None if status in _GONE or not response.body else find_problem(read_evidence(response), refused=True)
    if finding is not None and finding.kind in _decisive_kinds(status):
        return _problem_verdict(response, now, finding)
    return _failure_verdict(response, now, _K.RATE_LIMITED if limited else _kind_of_status(response), None)


def _decisive_kinds(status: int) -> frozenset[FailureKind]:
    if status == 429:
        return _DECISIVE_FOR_429
    return _DECISIVE_FOR_5XX if status >= 500 or status in _BLOCKING else _DECISIVE


def _kind_of_status(response: Response) -> FailureKind:
    status = response.status
    if status in _BLOCKING:
        return _K.BLOCKED
    if status in _GONE:
        return _K.NOT_FOUND_PAGE
    if status in _TEMPORARY or 500 <= status < 600:
        return _K.SERVER_ERROR
    if status == 401:
        # A password is asked for that nobody gave; other 401s come from sessions and tokens, which can be made anew.
        challenge = (response.header("www-authenticate") or "").lower()
        return _K.CREDENTIAL if challenge.startswith(_PASSWORD_SCHEMES) else _K.SESSION_EXPIRED
    return _K.SESSION_EXPIRED if status in _EXPIRED else _K.HTTP_ERROR


def _problem_verdict(response: Response, now: float, finding: PageProblem) -> Verdict:
    return _failure_verdict(response, now, finding.kind, f"says \u201c{finding.words[:80]}\u201d")


def _failure_verdict(response: Response, now: float, kind: FailureKind, why: str | None) -> Verdict:
    told = _where(response) if why is None else f"{_where(response)} {why}"
    return Verdict(Failure.of(kind, told, retry_after_seconds(response.header("retry-after"), now)))


def _where(response: Response) -> str:
    return f"HTTP {response.status} at {redacted(response.url)}"


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """The wait that a Retry-After header asks for, in seconds or as a date; None when it says nothing usable."""
    text = (value or "").strip()
    seconds = parse_retry_after(text)
    if seconds is not None:
        return seconds
    until = parse_http_date(text)
    return None if until is None else max(until - now, 0.0)
