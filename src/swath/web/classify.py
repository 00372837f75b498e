"""What an answer means: a page, a failure of some kind, or the site's word that there is no such record. Pure.

Comes after the transport and before the page reaches a scraper, for every kind of scraper. First the site's own
signatures, then the status, then what the page says of itself, weighed against what it holds.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from swath.domain.failure import Failure, FailureKind
from swath.domain.pattern import TookTooLong
from swath.domain.retry import asked_seconds
from swath.domain.site import SignatureKind, SitePolicy
from swath.web.address import shown
from swath.web.evidence import read_evidence
from swath.web.findings import Finding, weigh
from swath.web.http_date import unix_seconds
from swath.web.signatures import ADDRESSES, FRAMED, HEADERS, SMELLS
from swath.web.site_signatures import first_fitting
from swath.web.transport import Response

__all__ = ["PAGE", "Verdict", "classify", "retry_after_seconds"]

_K = FailureKind
_BLOCKING: Final = frozenset({403, 999})
_TEMPORARY: Final = frozenset({408, 425})
_GONE: Final = frozenset({404, 410})
_STALE: Final = frozenset({419, 440})  # Laravel and IIS, for forms and sessions that have expired
_BY_PASSWORD: Final = ("basic", "digest", "negotiate", "ntlm")
# What the body of a refusal may make of it; the status knows the rest better.
_TELLING: Final = frozenset({_K.CAPTCHA, _K.SESSION_EXPIRED, _K.RATE_LIMITED, _K.BLOCKED})
_TELLING_OF_5XX: Final = _TELLING | {_K.MAINTENANCE}
_TELLING_OF_429: Final = frozenset({_K.CAPTCHA})  # which no waiting lifts
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
        verdict = _by_site(response, policy, now)
        if verdict is not None:
            return verdict
    for name, value in response.headers:
        if name in HEADERS and value.lower().startswith(HEADERS[name]):
            return _failed(response, now, _K.CAPTCHA, f"{name}: {value[:40]}")
    if 200 <= response.status < 300:
        return _of_success(response, now)
    return _of_refusal(response, now)


def _by_site(response: Response, policy: SitePolicy, now: float) -> Verdict | None:
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
        fitting = first_fitting(named, response) if named else None
    except TookTooLong as error:
        return _failed(response, now, _K.LAYOUT_CHANGED, f"cannot be told by the site's signatures: one {error}")
    if fitting is None:
        return None
    if fitting.kind is SignatureKind.PAGE:
        return PAGE
    if fitting.kind is SignatureKind.NOT_FOUND:
        return Verdict(not_found=f"{_place(response)} says that there is no such record")
    return _failed(response, now, FailureKind(fitting.kind.value), "fits a signature of the site")


def _of_success(response: Response, now: float) -> Verdict:
    kind = (response.header("content-type") or "").lower()
    # An empty page is the answer to nothing; 204 and 205 are meant to be empty, and 201 and 202 often are.
    page = "html" in kind and response.status not in {204, 205}
    if (page or (not kind and response.status == 200)) and _BLANK.fullmatch(response.body):
        return _failed(response, now, _K.SERVER_ERROR, "is empty")
    if not response.body:
        return PAGE
    if _is_plainly_good(response, kind):
        return PAGE
    finding = weigh(read_evidence(response))
    return PAGE if finding is None else _found(response, now, finding)


def _is_plainly_good(response: Response, kind: str) -> bool:
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
    return not _smells(_focus(body)) and not any(map(response.url.lower().__contains__, ADDRESSES))


@lru_cache(1_024)  # the pages of a site have few titles, but for the numbers in them
def _smells(focus: str) -> bool:
    return any(map(focus.__contains__, SMELLS))


def _is_rich(body: bytes) -> bool:
    window = body[:_WINDOW]
    return any(len(window.split(part, _RICH_PARTS)) > _RICH_PARTS for part in _PARTS)


def _focus(body: bytes) -> str:
    """The title and the first heading, in small letters and without numbers of several parts."""
    focus = b""
    for tag in (b"<title", b"<h1"):
        at = body.find(tag, 0, _HEAD_BYTES)
        if at < 0:
            at = body.find(tag.upper(), 0, _HEAD_BYTES)
        if at >= 0:
            focus += body[at : at + 200].partition(b"</")[0]
    return _NUMBER.sub(" ", focus.decode("latin-1").lower())


def _of_refusal(response: Response, now: float) -> Verdict:
    status = response.status
    asked = response.header("retry-after")
    limited = status == 429 or (status == 503 and asked is not None)
    finding = None if status in _GONE or not response.body else weigh(read_evidence(response), refused=True)
    if finding is not None and finding.kind in _telling(status):
        return _found(response, now, finding)
    return _failed(response, now, _K.RATE_LIMITED if limited else _kind(response), None)


def _telling(status: int) -> frozenset[FailureKind]:
    if status == 429:
        return _TELLING_OF_429
    return _TELLING_OF_5XX if status >= 500 or status in _BLOCKING else _TELLING


def _kind(response: Response) -> FailureKind:
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
        return _K.CREDENTIAL if challenge.startswith(_BY_PASSWORD) else _K.SESSION_EXPIRED
    return _K.SESSION_EXPIRED if status in _STALE else _K.HTTP_ERROR


def _found(response: Response, now: float, finding: Finding) -> Verdict:
    return _failed(response, now, finding.kind, f"says \u201c{finding.words[:80]}\u201d")


def _failed(response: Response, now: float, kind: FailureKind, why: str | None) -> Verdict:
    told = _place(response) if why is None else f"{_place(response)} {why}"
    return Verdict(Failure.of(kind, told, retry_after_seconds(response.header("retry-after"), now)))


def _place(response: Response) -> str:
    return f"HTTP {response.status} at {shown(response.url)}"


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """The wait that a Retry-After header asks for, in seconds or as a date; None when it says nothing usable."""
    text = (value or "").strip()
    seconds = asked_seconds(text)
    if seconds is not None:
        return seconds
    until = unix_seconds(text)
    return None if until is None else max(until - now, 0.0)
