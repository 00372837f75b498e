"""A recorded value in an address: in its path and its query, also percent-encoded, or split over several parts.

Scheme and host stay as they are: an input must not choose whom we talk to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import msgspec

from swath.actions.importing.binding.forms import Found, Needle, Parts, Reach, bounded, replaced
from swath.actions.importing.binding.marks import marks_of
from swath.actions.importing.binding.residue import is_left_in
from swath.actions.importing.binding.splits import splits_in
from swath.actions.language.template import Call, Literal, Reference

__all__ = ["InAddress", "bound_address", "piece_in"]

_HOST: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_PART: Final = re.compile(r"(?<=[/=])[^/?&#=]+")
_URL: Final = (Call("url"),)
_URL_PLUS: Final = (Call("url_plus"),)
_JSON: Final = (Call("replace", ("\\", "\\\\")), Call("replace", ('"', '\\"')))
_HARMLESS: Final = "!$'()*,/:;=@|"  # as they are in an address they part nothing that a value could get out of
_PIECE: Final = re.compile(r"(?<![^\W_])[^\W_]{3,}(?![^\W_])")  # shorter ones are there by chance
_QUERY: Final = re.compile(r"[?&](?P<key>[^=&#]*)=(?P<value>[^&#]*)")


class InAddress(msgspec.Struct, frozen=True):
    """`text`: the address with the input in it; None when nothing of it was replaced. `split`: over several parts.
    `spared` says what was left as it was; `left` that something of the value still stands there all the same."""

    text: str | None
    split: bool = False
    spared: str | None = None
    left: bool = False


def bound_address(address: str, needle: Needle, *, path_too: bool = True) -> InAddress:
    """`path_too`: not only in the query. A value that has to be whole is one of a parameter that is named like it."""
    host = _HOST.match(address)
    start = host.end() if host is not None else 0
    spared = None
    if needle.find(address[:start]):
        spared = f"holds it in its host, {address[:start]}, which no input may choose"
    if not path_too:
        end = address.find("?", start) if "?" in address[start:] else len(address)
        if needle.find(address[start:end]):
            spared = "holds it in the path of an address that was opened before it was typed, which is taken for chance"
        start = end
    head, rest = address[:start], address[start:]
    split = _bound_split(rest, needle)
    made = _bound(rest if split is None else split, needle) or split
    return InAddress(
        None if made is None else head + made,
        split is not None,
        spared,
        is_left_in(rest if made is None else made, needle),
    )


def piece_in(address: str, needle: Needle) -> str | None:
    """The first segment or value of an address that is what stands between two marks of the needle's value."""
    pieces = set(_PIECE.findall(needle.literal)) - {needle.literal}
    if needle.reach is Reach.WHOLE or not pieces:
        return None
    host = _HOST.match(address)
    parts = (unquote_plus(one[0]) for one in _PART.finditer(address, 0 if host is None else host.end()))
    return next((part for part in parts if part in pieces and not needle.is_other(part)), None)


def _bound(text: str, needle: Needle) -> str | None:
    if needle.reach is Reach.WHOLE:
        return replaced(text, lambda part: _named_alike(part, needle))
    encoded, pattern = _encoded(needle)

    def find(part: str) -> list[Found]:
        written = list(pattern.finditer(part))
        found = [Found(*one.span(), encoded[one[0]]) for one in written if one[0] in encoded]
        taken = [range(*one.span()) for one in written]
        also = [
            Found(one.start, one.end, _encoding(one.parts, part[one.start : one.end]))
            for one in needle.find(part)
            if not any(one.start < span.stop and span.start < one.end for span in taken)
        ]
        return sorted(found + also)

    return replaced(text, find)


@lru_cache(maxsize=16)  # a recording has many addresses
def _encoded(needle: Needle) -> tuple[dict[str, Parts], re.Pattern[str]]:
    """How each form may be written in an address, with what renders so, and how to find it; the more careful way
    counts."""
    made: dict[str, Parts] = {}
    patterns: dict[str, str] = {}
    for form in needle.forms:
        if form.reach is Reach.WHOLE:
            continue
        for text, calls in _writings(form.text):
            made.setdefault(text, (needle.reference(*form.calls, *calls),))
            patterns.setdefault(text, bounded(form, text))
        for text in _beyond_filters(form.text):
            patterns.setdefault(text, bounded(form, text))  # as a whole, so that no piece of it is taken for the value
    return made, re.compile("|".join(patterns[text] for text in sorted(patterns, key=len, reverse=True)))


def _writings(text: str) -> Iterator[tuple[str, tuple[Call, ...]]]:
    """How a text is written in addresses, with the filters for it: encoded once or twice, in JSON, as it is."""
    inside = text.replace("\\", "\\\\").replace('"', '\\"')
    for plain, first in ((text, ()), *([(inside, _JSON)] if inside != text else [])):
        for once, calls in ((quote(plain, safe=""), _URL), (quote_plus(plain), _URL_PLUS)):
            yield once, (*first, *calls)
            yield _lower(once), (*first, *calls)
            yield quote(once, safe=""), (*first, *calls, *_URL)
            yield _lower(quote(_lower(once), safe="")), (*first, *calls, *_URL)
        yield plain, (*first, *_as_it_is(plain))


def _beyond_filters(text: str) -> Iterator[str]:
    """How old sites write it, and no filter does."""
    if not text.isascii():
        for write in (quote, quote_plus):
            encoded = write(text, safe="", encoding="latin-1", errors="replace")
            yield from (encoded, _lower(encoded))


def _lower(encoded: str) -> str:
    return re.sub(r"%(?:25)*[0-9A-F]{2}", lambda escape: escape[0].lower(), encoded)


def _as_it_is(text: str) -> tuple[Call, ...]:
    """Encoded all the same, for other values hold other marks; but those that it has itself stay as they are."""
    kept = [mark for mark in marks_of(text) if mark in _HARMLESS]
    return (*_URL, *(Call("replace", (quote(mark, safe=""), mark)) for mark in kept))


def _named_alike(text: str, needle: Needle) -> list[Found]:
    return [
        Found(*one.span("value"), (needle.reference(*_URL),))
        for one in _QUERY.finditer(text)
        if one["value"] == quote(needle.literal, safe="") and _plain(one["key"]) == _plain(needle.name)
    ]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _bound_split(text: str, needle: Needle) -> str | None:
    """Parts of an address that follow each other: `?book=200&map=14&item=030`, or `/200/14/030`."""
    if "{{" in text or needle.reach is Reach.WHOLE or not needle.is_sure_of_splits:
        return None
    whole = [range(*one.span()) for one in _encoded(needle)[1].finditer(text)]
    parts = [
        one
        for one in _PART.finditer(text)
        if (unquote(one[0]) == one[0] or needle.is_other(unquote_plus(one[0])))
        and not any(one.start() < span.stop and span.start < one.end() for span in whole)
    ]
    found = splits_in([one[0] for one in parts], needle)
    if not found:
        return None

    def find(whole: str) -> list[Found]:
        del whole
        return [Found(*parts[at].span(), _encoding(made, "")) for at, made in sorted(found.items())]

    return replaced(text, find)


def _encoding(parts: Parts, text: str) -> Parts:
    """`text`: what was found, which one reference alone has to write as it was."""
    calls = _as_it_is(text) if len(parts) == 1 else _URL
    return tuple(
        part if isinstance(part, Literal) else Reference(part.root, part.name, (*part.calls, *calls)) for part in parts
    )
