"""Reads the page as it stands in the browser, in the form in which it is stored, and classifies it.

Serialised in UTF-8, up to a cap. A text or JSON document is its text, without the tags in which Chromium shows it.
Open
shadow roots become `<template shadowrootmode="open">`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from swath.domain.failure import Failure, FailureKind
from swath.domain.result import Exchange, Page
from swath.domain.site_policy import SignatureKind
from swath.fetch.browser.tab.action_runner import ActionRunner
from swath.fetch.browser.tab.document import Document, too_large
from swath.fetch.http.blocks.classify import PAGE, Verdict, classify
from swath.fetch.http.messages import Headers, RequestGate, Response
from swath.ports.clock import Clock

if TYPE_CHECKING:
    from patchright.async_api import Frame as DriverFrame
    from patchright.async_api import Page as DriverPage

__all__ = ["DomSnapshot", "PageClassifier", "page_of", "read_dom", "response_of"]

# In a world of its own, so that nothing that the page has redefined is called. The length is looked at there: a page of
# a gigabyte would else be sent here to find out.
_SERIALIZE_SCRIPT: Final = Path(__file__).with_name("written.js").read_text("utf-8")
_READ_SCRIPT: Final = """([most, live]) => {
  const root = document.documentElement, type = document.contentType || "text/html";
  const marked = /html|xml/.test(type);
  let text = "";
  if (marked) {
    const doctype = document.doctype ? new XMLSerializer().serializeToString(document.doctype) + "\\n" : "";
    text = root ? doctype + written(root, live, most) : "";
  } else if (document.body) {
    const pre = document.body.querySelector("pre");
    text = (pre || document.body).textContent;
  }
  return text.length > most ? {type, text: "", more: true} : {type, text, more: false};
  WRITTEN
}""".replace("WRITTEN", _SERIALIZE_SCRIPT)
_BLANK: Final = re.compile(r"(<!DOCTYPE[^>]*>\s*)?<html[^>]*>\s*<head></head>\s*<body></body>\s*</html>", re.IGNORECASE)


class DomSnapshot(msgspec.Struct, frozen=True):
    """What stands there now: where, of which type, and its bytes in UTF-8."""

    url: str
    content_type: str
    body: bytes


async def read_dom(page: DriverPage | DriverFrame, most_bytes: int, *, live: bool = False) -> DomSnapshot:
    """Raises Failed too_large. Whoever calls bounds it: a page whose scripts never end does not answer. `live`: with
    what stands in its fields now, in the place of what the site had put there."""
    told = await page.evaluate(_READ_SCRIPT, [most_bytes, live])
    url, body = page.url, told["text"].encode("utf-8", "replace")
    if told["more"] or len(body) > most_bytes:
        raise too_large(url, most_bytes)
    if _BLANK.fullmatch(told["text"]):
        body = b""  # what a browser makes of nothing
    return DomSnapshot(url, told["type"], body)


def response_of(dom: DomSnapshot, document: Document | None) -> Response:
    """As the classifier reads it: the answer to the document, with what has become of it in the place of its body."""
    answer = None if document is None else document.response
    if answer is None:
        return Response(url=dom.url, status=200, headers=_in_utf8((), dom), body=dom.body)
    return msgspec.structs.replace(answer, url=dom.url, headers=_in_utf8(answer.headers, dom), body=dom.body)


def page_of(dom: DomSnapshot, document: Document | None, name: str, now: float) -> Page:
    """The stored form."""
    answer = None if document is None else document.response
    exchange = None
    if document is not None and answer is not None:
        exchange = Exchange(
            method=document.request.method, request_headers=document.request.headers, response_headers=answer.headers
        )
    return Page(
        name=name,
        url=dom.url,
        status=200 if answer is None else answer.status,
        body=dom.body,
        content_type=dom.content_type,
        charset="utf-8",
        fetched_at=now,
        exchange=exchange,
    )


def _in_utf8(headers: Headers, dom: DomSnapshot) -> Headers:
    others = tuple(header for header in headers if header[0] != "content-type")
    return (*others, ("content-type", f"{dom.content_type}; charset=utf-8"))


class PageClassifier:
    """For one attempt. `fills_in_logins`: whoever works here may mean to, so a page that asks for a password is one to
    work on, unless the site's policy says how the end of a session looks there."""

    def __init__(self, hands: ActionRunner, gate: RequestGate, clock: Clock) -> None:
        self._hands = hands
        self._gate = gate
        self._clock = clock
        self.fills_in_logins = False

    def verdict(self, dom: DomSnapshot, document: Document | None) -> Verdict:
        """What it is to whoever works here."""
        verdict = self._plainly(dom, document)
        return PAGE if verdict.failure is not None and self._is_login(dom, verdict.failure) else verdict

    def login_in(self, dom: DomSnapshot, document: Document | None) -> Failure | None:
        """That it asks for a password, if it does."""
        failure = self._plainly(dom, document).failure
        return None if failure is None or failure.kind is not FailureKind.SESSION_EXPIRED else failure

    def _plainly(self, dom: DomSnapshot, document: Document | None) -> Verdict:
        response = response_of(dom, document)
        if response.status in self._hands.expected:
            return PAGE
        return classify(response, self._gate.policy(response.url), self._clock.now())

    def _is_login(self, dom: DomSnapshot, failure: Failure) -> bool:
        if not self.fills_in_logins or failure.kind is not FailureKind.SESSION_EXPIRED:
            return False
        signatures = self._gate.policy(dom.url).signatures
        return all(signature.kind is not SignatureKind.SESSION_EXPIRED for signature in signatures)
