"""The page as it stands in the browser, in the form in which it is stored: serialised, in UTF-8, up to a cap.

Asked by session.py, for authors and for the classifier. A text or JSON document is its text, without the tags
that Chromium shows it in. Open shadow roots are there as `<template shadowrootmode="open">`, as pages write them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from swath.browser.session.document import Document
from swath.browser.session.files import too_large
from swath.domain.page import Exchange, Page
from swath.web.transport import Headers, Response

if TYPE_CHECKING:
    from patchright.async_api import Frame as DriverFrame
    from patchright.async_api import Page as DriverPage

__all__ = ["Dom", "page_of", "read_dom", "response_of"]

# In a world of its own, so that nothing that the page has redefined is called. The length is looked at there: a page of
# a gigabyte would else be sent here to find out.
_WRITTEN: Final = Path(__file__).with_name("written.js").read_text("utf-8")
_READ: Final = """([most, live]) => {
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
}""".replace("WRITTEN", _WRITTEN)
_BLANK: Final = re.compile(r"(<!DOCTYPE[^>]*>\s*)?<html[^>]*>\s*<head></head>\s*<body></body>\s*</html>", re.IGNORECASE)


class Dom(msgspec.Struct, frozen=True):
    """What stands there now: where, of which type, and its bytes in UTF-8."""

    url: str
    content_type: str
    body: bytes


async def read_dom(page: DriverPage | DriverFrame, most_bytes: int, *, live: bool = False) -> Dom:
    """Raises Failed too_large. Whoever calls bounds it: a page whose scripts never end does not answer. `live`: with
    what stands in its fields now, in the place of what the site had put there."""
    told = await page.evaluate(_READ, [most_bytes, live])
    url, body = page.url, told["text"].encode("utf-8", "replace")
    if told["more"] or len(body) > most_bytes:
        raise too_large(url, most_bytes)
    if _BLANK.fullmatch(told["text"]):
        body = b""  # what a browser makes of nothing
    return Dom(url, told["type"], body)


def response_of(dom: Dom, document: Document | None) -> Response:
    """As the classifier reads it: the answer to the document, with what has become of it in the place of its body."""
    answer = None if document is None else document.response
    if answer is None:
        return Response(url=dom.url, status=200, headers=_in_utf8((), dom), body=dom.body)
    return msgspec.structs.replace(answer, url=dom.url, headers=_in_utf8(answer.headers, dom), body=dom.body)


def page_of(dom: Dom, document: Document | None, name: str, now: float) -> Page:
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


def _in_utf8(headers: Headers, dom: Dom) -> Headers:
    others = tuple(header for header in headers if header[0] != "content-type")
    return (*others, ("content-type", f"{dom.content_type}; charset=utf-8"))
