"""Addresses and files that a recording names: web addresses that the browser may be sent to, and plain file names.

Where a host may lead to is asked when a page is opened, by the guard of all requests; here only what is written counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from swath.actions.checking.problem import Problem, of_step
from swath.actions.language.recording import Recording
from swath.actions.language.steps import MOST_NAME_BYTES, Download, Goto, Upload
from swath.actions.language.template import Literal, Reference, parse
from swath.actions.language.walk import walk
from swath.domain.errors import Failed
from swath.web.address import canonical

__all__ = ["address_problems"]

_STAND_IN: Final = "1"  # fits in a name, a path, a query and a port
_SCHEME: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:")
_SEPARATORS: Final = re.compile(r"[/\\:\x00-\x1f\x7f]")


def address_problems(recording: Recording) -> Iterator[Problem]:
    """Of `base_url`, and of all steps that open, download or upload something."""
    base = recording.base_url
    if base is not None and (objection := _objection_to_address(base, None)):
        yield Problem("base_url", objection)
        return  # what is relative to it cannot be judged
    for placed in walk(recording):
        match placed.step:
            case (Goto() | Download()) as step if step.url is not None:
                if objection := _objection_to_address(step.url, base):
                    yield of_step(placed, "url", objection)
            case Upload() as step:
                if objection := _objection_to_file(step.file):
                    yield of_step(placed, "file", objection)


def _objection_to_address(text: str, base: str | None) -> str | None:
    parts = parse(text).parts
    if isinstance(parts[0], Reference) and (base is None or len(parts) == 1):
        return None  # a whole address may come from the item
    address = "".join(part.text if isinstance(part, Literal) else _STAND_IN for part in parts)
    relative = not _SCHEME.match(address)
    if relative and base is None:
        return f"{address[:80]!r} has no scheme; write https://, or give the recording a base_url"
    if relative and re.match(r"\s*[/\\]{2}", address):
        return f"{address[:80]!r} names a host without a scheme; write https:// before it"
    try:
        canonical(address, base if relative else None)
    except Failed as error:
        return error.failure.message
    return None


def _objection_to_file(text: str) -> str | None:
    """Uploads come out of one folder, by their names alone. What an item brings is looked at by the player."""
    literal = "".join(part.text for part in parse(text).parts if isinstance(part, Literal))
    if _SEPARATORS.search(literal) or literal.startswith("~") or text.strip() in ("", ".", ".."):
        return f"{text[:80]!r} is no plain file name; uploads lie in the folder files beside the recording"
    if len(literal.encode("utf-8", "replace")) > MOST_NAME_BYTES:
        return f"{text[:40] + '…'!r} has more than {MOST_NAME_BYTES} bytes, and no file has so long a name"
    return None
