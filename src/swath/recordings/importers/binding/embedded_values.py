"""Replaces a value inside addresses and selectors.

In addresses: in the path and the query, percent-encoded too, or split over several parts; never in scheme or host,
so
an input cannot choose the host. A selector that names an element by the value is dropped where another alternative
remains, and otherwise holds the input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import msgspec

from swath.recordings.importers.binding.forms import (
    MatchScope,
    RecordedValue,
    TemplateParts,
    ValueMatch,
    bounded_pattern,
    marks_of,
    replace_matches,
)
from swath.recordings.importers.binding.residue import is_still_in
from swath.recordings.importers.binding.typed_values import splits_in
from swath.recordings.schema.selectors import Chain, Selectors, part_of
from swath.recordings.schema.template import FilterCall, LiteralText, Reference

__all__ = ["AddressBinding", "SelectorBinding", "bind_address", "bind_selectors", "piece_in"]

_HOST: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_PART: Final = re.compile(r"(?<=[/=])[^/?&#=]+")
_URL: Final = (FilterCall("url"),)
_URL_PLUS: Final = (FilterCall("url_plus"),)
_JSON: Final = (FilterCall("replace", ("\\", "\\\\")), FilterCall("replace", ('"', '\\"')))
_HARMLESS: Final = "!$'()*,/:;=@|"  # as they are in an address they part nothing that a value could get out of
_PIECE: Final = re.compile(r"(?<![^\W_])[^\W_]{3,}(?![^\W_])")  # shorter ones are there by chance
_QUERY: Final = re.compile(r"[?&](?P<key>[^=&#]*)=(?P<value>[^&#]*)")


class AddressBinding(msgspec.Struct, frozen=True):
    """`text`: the address with the input in it; None when nothing of it was replaced. `split`: over several parts.
    `spared` says what was left as it was; `left` that something of the value still stands there all the same."""

    text: str | None
    split: bool = False
    spared: str | None = None
    left: bool = False


def bind_address(address: str, needle: RecordedValue, *, path_too: bool = True) -> AddressBinding:
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
    return AddressBinding(
        None if made is None else head + made,
        split is not None,
        spared,
        is_still_in(rest if made is None else made, needle),
    )


def piece_in(address: str, needle: RecordedValue) -> str | None:
    """The first segment or value of an address that is what stands between two marks of the needle's value."""
    pieces = set(_PIECE.findall(needle.literal)) - {needle.literal}
    if needle.reach is MatchScope.WHOLE or not pieces:
        return None
    host = _HOST.match(address)
    parts = (unquote_plus(one[0]) for one in _PART.finditer(address, 0 if host is None else host.end()))
    return next((part for part in parts if part in pieces and not needle.is_other(part)), None)


def _bound(text: str, needle: RecordedValue) -> str | None:
    if needle.reach is MatchScope.WHOLE:
        return replace_matches(text, lambda part: _named_alike(part, needle))
    encoded, pattern = _encoded(needle)

    def find(part: str) -> list[ValueMatch]:
        written = list(pattern.finditer(part))
        found = [ValueMatch(*one.span(), encoded[one[0]]) for one in written if one[0] in encoded]
        taken = [range(*one.span()) for one in written]
        also = [
            ValueMatch(one.start, one.end, _encoding(one.parts, part[one.start : one.end]))
            for one in needle.find(part)
            if not any(one.start < span.stop and span.start < one.end for span in taken)
        ]
        return sorted(found + also)

    return replace_matches(text, find)


@lru_cache(maxsize=16)  # a recording has many addresses
def _encoded(needle: RecordedValue) -> tuple[dict[str, TemplateParts], re.Pattern[str]]:
    """How each form may be written in an address, with what renders so, and how to find it; the more careful way
    counts."""
    made: dict[str, TemplateParts] = {}
    patterns: dict[str, str] = {}
    for form in needle.forms:
        if form.reach is MatchScope.WHOLE:
            continue
        for text, calls in _writings(form.text):
            made.setdefault(text, (needle.reference(*form.calls, *calls),))
            patterns.setdefault(text, bounded_pattern(form, text))
        for text in _beyond_filters(form.text):
            patterns.setdefault(
                text, bounded_pattern(form, text)
            )  # as a whole, so that no piece of it is taken for the value
    return made, re.compile("|".join(patterns[text] for text in sorted(patterns, key=len, reverse=True)))


def _writings(text: str) -> Iterator[tuple[str, tuple[FilterCall, ...]]]:
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


def _as_it_is(text: str) -> tuple[FilterCall, ...]:
    """Encoded all the same, for other values hold other marks; but those that it has itself stay as they are."""
    kept = [mark for mark in marks_of(text) if mark in _HARMLESS]
    return (*_URL, *(FilterCall("replace", (quote(mark, safe=""), mark)) for mark in kept))


def _named_alike(text: str, needle: RecordedValue) -> list[ValueMatch]:
    return [
        ValueMatch(*one.span("value"), (needle.reference(*_URL),))
        for one in _QUERY.finditer(text)
        if one["value"] == quote(needle.literal, safe="") and _plain(one["key"]) == _plain(needle.name)
    ]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _bound_split(text: str, needle: RecordedValue) -> str | None:
    """Parts of an address that follow each other: `?book=200&map=14&item=030`, or `/200/14/030`."""
    if "{{" in text or needle.reach is MatchScope.WHOLE or not needle.is_sure_of_splits:
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

    def find(whole: str) -> list[ValueMatch]:
        del whole
        return [ValueMatch(*parts[at].span(), _encoding(made, "")) for at, made in sorted(found.items())]

    return replace_matches(text, find)


def _encoding(parts: TemplateParts, text: str) -> TemplateParts:
    """`text`: what was found, which one reference alone has to write as it was."""
    calls = _as_it_is(text) if len(parts) == 1 else _URL
    return tuple(
        part if isinstance(part, LiteralText) else Reference(part.root, part.name, (*part.calls, *calls))
        for part in parts
    )


_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_ESCAPE: Final = re.compile(r"\\(?:(?P<code>[0-9a-fA-F]{1,6})\s?|(?P<self>.))", re.DOTALL)
_NAMED: Final = re.compile(r"(?P<mark>[#.])(?P<name>(?:\\[0-9a-fA-F]{1,6}\s?|\\.|[\w-]|[^\x00-\x7f])+)")
_ROLE: Final = re.compile(r"\[role=\"[^\"]*\"\]$")
_ATTRIBUTE: Final = {"#": "id=", ".": "class~="}
_LAST_CODE: Final = 0x10FFFF


class SelectorBinding(msgspec.Struct, frozen=True):
    """`on`: what is left, None if nothing is; `dropped`: alternatives; `bound`: whether the input stands in it; `left`:
    one that holds something like the value, which no input can write."""

    on: Selectors | None
    dropped: tuple[str, ...] = ()
    bound: bool = False
    left: str | None = None


def bind_selectors(on: Selectors, needle: RecordedValue, *, may_hold: bool = True) -> SelectorBinding | None:
    """None when no alternative holds the value. `may_hold`: the input may stand in a selector; not so in rules of
    extraction, which are read years later without one."""
    holding = [chain for chain in on if any(_holds(part, needle) for part in chain)]
    alike = [chain for chain in on if chain not in holding and any(_is_like(part, needle) for part in chain)]
    if not holding and not alike:
        left = _perhaps(on, needle)
        return None if left is None else SelectorBinding(on, left=left)
    safe = {chain: made for chain in holding if may_hold and (made := _in_quotes(chain, needle)) is not None}
    stay = tuple(safe.get(chain, chain) for chain in on if chain not in (*holding, *alike) or chain in safe)
    if stay:
        dropped = tuple(" > ".join(chain) for chain in (*holding, *alike) if chain not in safe)
        return SelectorBinding(stay, dropped, bool(safe), _perhaps(stay, needle))
    if needle.reach is MatchScope.WHOLE:
        return SelectorBinding(on, left=" > ".join((*holding, *alike)[0]))
    everywhere = [_anywhere(chain, needle) for chain in holding] if may_hold else []
    kept = tuple(chain for chain in everywhere if chain is not None)
    if kept or not alike:
        return SelectorBinding(kept or None, tuple(" > ".join(chain) for chain in alike), bound=bool(kept))
    return SelectorBinding(tuple(alike), tuple(" > ".join(chain) for chain in holding), left=" > ".join(alike[0]))


def _perhaps(on: Selectors, needle: RecordedValue) -> str | None:
    """The first alternative that may name an element by a short value: `#row-7`, but not `td:nth-child(7)`."""
    if needle.reach is not MatchScope.WHOLE:
        return None
    return next((" > ".join(chain) for chain in on if any(_may_name_by(part, needle) for part in chain)), None)


def _may_name_by(text: str, needle: RecordedValue) -> bool:
    kind, value = part_of(text)
    if kind in ("text", "aria"):
        return is_still_in(_ROLE.sub("", value), needle)
    named = [one["name"] for one in _NAMED.finditer(_QUOTED.sub("", value))] if kind != "xpath" else []
    return any(is_still_in(_unescaped(one), needle) for one in [*_QUOTED.findall(value), *named])


def _is_like(text: str, needle: RecordedValue) -> bool:
    """Whether a person would recognise the value in it: in other capitals, or encoded in an address."""
    kind, value = part_of(text)
    if needle.reach is MatchScope.WHOLE:
        return False
    read = [value] if kind in ("text", "aria") else _QUOTED.findall(_unescaped(value) if kind != "xpath" else value)
    return any(is_still_in(one, needle) for one in read)


def _holds(text: str, needle: RecordedValue) -> bool:
    kind, value = part_of(text)
    if needle.reach is MatchScope.WHOLE:
        return kind in ("text", "aria") and _ROLE.sub("", value).strip() == needle.literal
    return bool(needle.find(value) or (kind in ("css", "pierce") and needle.find(_unescaped(value))))


def _in_quotes(chain: Chain, needle: RecordedValue) -> Chain | None:
    """The chain with the input in it, if all that it holds stands in quotes of CSS or XPath."""
    made = []
    for text in chain:
        if not _holds(text, needle):
            made.append(text)
            continue
        if part_of(text).kind in ("text", "aria"):
            return None
        inside = _QUOTED.sub(lambda quoted: needle.replaced(quoted[0]) or quoted[0], text)
        if "\\" in text or _holds(_QUOTED.sub('""', text), needle):
            return None
        made.append(inside)
    return tuple(made)


def _anywhere(chain: Chain, needle: RecordedValue) -> Chain | None:
    """The chain with the input in it, wherever that is; None when there is no way."""
    made = []
    for text in chain:
        css = part_of(text).kind in ("css", "pierce")
        new = _in_css(text, needle) if css else needle.replaced(text) or text
        if new is None:
            return None
        made.append(new)
    return tuple(made)


def _in_css(text: str, needle: RecordedValue) -> str | None:
    made = ""
    for piece in re.split(f"({_QUOTED.pattern})", text):
        new = piece if _QUOTED.fullmatch(piece) else _NAMED.sub(lambda one: _as_attribute(one, needle), piece)
        if "\\" in new and needle.find(_unescaped(new)):
            return None
        made += needle.replaced(new) or new
    return made


def _as_attribute(named: re.Match[str], needle: RecordedValue) -> str:
    """`#\\32 00-14-030` says the same as `[id="200-14-030"]`, in which an input can stand."""
    made = needle.replaced(_unescaped(named["name"]))
    return named[0] if made is None else f'[{_ATTRIBUTE[named["mark"]]}"{made}"]'


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda escape: _character(escape["code"]) if escape["code"] else escape["self"], text)


def _character(code: str) -> str:
    number = int(code, 16)
    return chr(number) if 0 < number <= _LAST_CODE and not 0xD800 <= number <= 0xDFFF else "\ufffd"
