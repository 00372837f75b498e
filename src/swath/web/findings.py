"""Findings: weighs what speaks for a wall, an outage or an expired session against what a page holds of its own.

Words alone decide nothing: a parcel may belong to Access Denied LLC, and a search form may carry a captcha. Pure; comes
after web/evidence.py has read the page, before web/classify.py makes a failure of it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from swath.domain.failure import FailureKind
from swath.web.evidence import Evidence
from swath.web.phrases import PHRASES, Phrase
from swath.web.said_to_visitor import is_said_to_visitor
from swath.web.signatures import ADDRESSES, MARKS, SMELLS, SURE_MARKS, SURE_TITLE, TITLES, VAGUE_TITLES

__all__ = ["Finding", "weigh"]

_K = FailureKind
# Of kinds that weigh the same, the one that says more of what is to be done comes first.
_ORDER: Final = (
    *(_K.CAPTCHA, _K.RATE_LIMITED, _K.SESSION_EXPIRED, _K.MAINTENANCE, _K.BLOCKED),
    *(_K.NOT_FOUND_PAGE, _K.SERVER_ERROR),
)

_SURE: Final = 20
_TITLE: Final = 4
_MARK: Final = 3
_HINT: Final = 2
_FURTHER_PHRASE: Final = 2
_MOST_PHRASES: Final = 3
_MOST_PLACES: Final = 3
_BEFORE, _AFTER = 80, 120  # characters round a word

_CELL_WORDS: Final = 10  # a cell of data stands for more than the words in it
_FORM_WORDS: Final = 130  # a form to be filled in is something to visit a page for
# How much must be found, by how much a page holds.
_NEEDED: Final = ((120, 3), (200, 5), (350, 7), (600, 10))
_NEEDED_OF_MUCH: Final = 12
_FEW_HEADINGS: Final = 4

_SEPARATOR: Final = re.compile(r" [|\-·»•] | ?\| ?")
_COLON: Final = re.compile(r" ?: ")
_CODE: Final = re.compile(r"^(?:(?:http|error|status|code|warning|alert)\b[\s:!,#-]*)*(?:[45]\d\d\b[\s:.,-]*)?")
_UNSPACED: Final = re.compile("[\u2e80-\uffdc]")
_SENTENCE: Final = re.compile(r"[.!?](?: |$)")
_HOLDING: Final = ("<script", "<frame", "<iframe", "<img", "<input", "<object", "<embed", "<canvas", "<svg", "refresh")
_FEW_WORDS: Final = 20
_LEADS: Final = re.compile(r"""<meta\s[^<>]{0,80}?content\s*=\s*["']?\s*\d\s*[;,]\s*url\s*=\s*([^"<>]{1,300})""")
_SOURCES: Final = re.compile(r"""\bsrc\s*=\s*["']?([^"'\s<>]{1,300})""")
_CHALLENGES: Final = "/cdn-cgi/challenge-platform/"
_CAPTCHA_IMAGE: Final = re.compile(r"<img\s[^<>]{0,300}?captcha")
_CAPTCHA_FIELD: Final = re.compile(r"""<input\s[^<>]{0,300}?name\s*=\s*["']?[\w.$:-]{0,60}captcha""")
_SETS_COOKIE: Final = re.compile(r"document\.cookie ?= ?[^=]")
_RELOADS: Final = ("location.reload", "location.href", "location.replace", "location =", "location=")


class Finding(msgspec.Struct, frozen=True):
    """What a page is, and the words that weighed most."""

    kind: FailureKind
    words: str


class _Scale:
    """What was found for each kind so far."""

    def __init__(self) -> None:
        self.weights: dict[FailureKind, int] = {}
        self._best: dict[FailureKind, tuple[int, str]] = {}

    def add(self, kind: FailureKind, weight: int, words: str) -> None:
        self.weights[kind] = self.weights.get(kind, 0) + weight
        if weight > self._best.get(kind, (0, ""))[0]:
            self._best[kind] = weight, words

    def heaviest(self) -> tuple[int, Finding] | None:
        """With its weight, less half of what speaks for others: who talks of every kind of wall is none."""
        if not self.weights:
            return None
        kind = max(_ORDER, key=lambda kind: self.weights.get(kind, 0))
        weight = self.weights[kind]
        told = [w for one, w in self.weights.items() if one is not kind and self._best[one][1] not in VAGUE_TITLES]
        others = 0 if weight >= _SURE else sum(told)
        return weight - others // 2, Finding(kind, self._best[kind][1])


def weigh(evidence: Evidence, *, refused: bool = False) -> Finding | None:
    """What the page is, unless it is one; `refused` when its status says already that it is none."""
    scale = _Scale()
    _read_marks(evidence, scale)
    _read_titles(evidence, scale)
    _read_phrases(evidence, scale)
    _read_parts(evidence, scale)
    heaviest = scale.heaviest()
    if heaviest is None:
        return None
    weight, finding = heaviest
    return finding if refused or weight >= _needed(evidence) else None


def _needed(evidence: Evidence) -> int:
    # Where words are not set apart, two characters are taken for one.
    words = (
        evidence.words if evidence.text.isascii() else max(evidence.words, len(_UNSPACED.findall(evidence.text)) // 2)
    )
    held = words + _CELL_WORDS * evidence.cells + (_FORM_WORDS if evidence.fields else 0)
    needed = next((needed for words, needed in _NEEDED if held < words), _NEEDED_OF_MUCH)
    return needed + max(0, len(evidence.headings) - _FEW_HEADINGS)


def _read_marks(evidence: Evidence, scale: _Scale) -> None:
    for weight, marks in ((_SURE, SURE_MARKS), (_MARK, MARKS)):
        for mark, kind in marks.items():
            if mark in evidence.markup:
                scale.add(kind, weight, mark)


def _read_titles(evidence: Evidence, scale: _Scale) -> None:
    """The title counts once for a kind, and so do all headings together; a text without any begins with its heading."""
    first_sentence = _SENTENCE.split(evidence.text[:120], maxsplit=1)[0]
    for lines in ((evidence.title,), evidence.headings or (first_sentence,)):
        kinds: dict[FailureKind, str] = {}
        for line in lines:
            for part in _parts(line):
                kinds = {**dict.fromkeys(_kinds_of_title(part), part), **kinds}
        for kind, part in kinds.items():
            scale.add(kind, _weight_of_title(part), part)


def _weight_of_title(part: str) -> int:
    if part in VAGUE_TITLES:
        return _HINT
    return _SURE if _compiled(SURE_TITLE).match(part) else _TITLE


def _parts(title: str) -> Iterator[str]:
    """The parts that may say by themselves what the page is: of those round a colon only the last."""
    for part in _SEPARATOR.split(title[:300]):
        yield part
        yield from _COLON.split(part)[1:][-1:]


@functools.lru_cache(maxsize=256)
def _kinds_of_title(part: str) -> tuple[FailureKind, ...]:
    if not any(map(part.__contains__, SMELLS)):
        return ()
    whole = part.strip(" .!?()-")
    bare = _CODE.sub("", whole, count=1).strip(" .!?:()-") or whole
    return tuple(kind for kind, pattern in _titles().items() if pattern.fullmatch(bare) or pattern.fullmatch(whole))


def _read_phrases(evidence: Evidence, scale: _Scale) -> None:
    text = evidence.text
    for kind, rows in PHRASES.items():
        if kind is _K.CAPTCHA and evidence.captcha == "in_form":
            continue  # it is said of the form
        found = dict(pair for row in rows if row.word in text for pair in _near(row, evidence))
        heaviest_first = sorted(_unsaid(found, evidence.headings).items(), key=lambda pair: -pair[1])[:_MOST_PHRASES]
        for number, (phrase, weight) in enumerate(heaviest_first):
            if not number or weight >= _MARK:
                scale.add(kind, _FURTHER_PHRASE if number else weight, phrase)


def _unsaid(found: dict[str, int], headings: tuple[str, ...]) -> dict[str, int]:
    """Without what a heading says and nothing else, which has been counted."""
    said = {heading.strip(" .!?") for heading in headings if _kinds_of_title(heading)}
    return {phrase: weight for phrase, weight in found.items() if phrase not in said}


def _near(phrase: Phrase, evidence: Evidence) -> Iterator[tuple[str, int]]:
    """What fits near the first few places where the word stands."""
    text = evidence.text
    at = text.find(phrase.word)
    for _ in range(_MOST_PLACES):
        if at < 0:
            return
        found = _compiled(phrase.pattern).search(text, max(at - _BEFORE, 0), at + _AFTER)
        if found is not None:
            meant = not phrase.to_visitor or is_said_to_visitor(found[0], evidence.markup)
            yield found[0], phrase.weight if meant else _HINT
        at = text.find(phrase.word, at + _AFTER)


def _read_parts(evidence: Evidence, scale: _Scale) -> None:
    if evidence.captcha == "alone":
        scale.add(_K.CAPTCHA, _MARK, "a captcha and no other field")
    elif not evidence.fields and not evidence.password and _is_image_captcha(evidence.markup):
        scale.add(_K.CAPTCHA, _MARK, "a picture to be read and no other field")
    if evidence.password:
        scale.add(_K.SESSION_EXPIRED, _MARK, "a form that asks for a password")
    for part, kind in ADDRESSES.items():
        if part in evidence.url:
            scale.add(kind, _HINT, part)
    if evidence.words < _FEW_WORDS:
        _read_leads(evidence, scale)
    if evidence.text or evidence.title or not evidence.markup.lstrip().startswith("<"):
        return
    if not any(map(evidence.markup.__contains__, _HOLDING)):
        scale.add(_K.SERVER_ERROR, _MARK, "nothing at all")
    elif _SETS_COOKIE.search(evidence.markup) and any(map(evidence.markup.__contains__, _RELOADS)):
        scale.add(_K.CAPTCHA, _MARK, "a script that sets a cookie and loads the page again")


def _is_image_captcha(markup: str) -> bool:
    return "captcha" in markup and bool(_CAPTCHA_IMAGE.search(markup) and _CAPTCHA_FIELD.search(markup))


def _read_leads(evidence: Evidence, scale: _Scale) -> None:
    """Where a page leads that says next to nothing: at once to a wall, or to Cloudflare's scripts and no others."""
    for target in _LEADS.findall(evidence.markup):
        for part, kind in ADDRESSES.items():
            if part in target:
                scale.add(kind, _MARK, f"leads to {part}")
    sources = _SOURCES.findall(evidence.markup)
    if not evidence.text and sources and all(_CHALLENGES in source for source in sources):
        scale.add(_K.CAPTCHA, _MARK, _CHALLENGES)


@functools.cache
def _titles() -> dict[FailureKind, re.Pattern[str]]:
    return {kind: re.compile("|".join(patterns)) for kind, patterns in TITLES.items()}


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
