"""Scores signs of a block, an outage or an expired session against the content of the page. Pure.

Words alone decide nothing: a parcel may belong to Access Denied LLC, and a search form may carry a captcha.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from swath.domain.failure import FailureKind
from swath.fetch.http.blocks.phrases import PHRASES, Phrase
from swath.fetch.http.blocks.signatures import (
    ADDRESSES,
    MARKS,
    SURE_MARKS,
    SURE_TITLE,
    SUSPICIOUS_WORDS,
    TITLES,
    VAGUE_TITLES,
)
from swath.fetch.http.blocks.visible_text import VisibleText, addresses_visitor, normalized
from swath.fetch.http.header_values import charset_of, content_type_of
from swath.fetch.http.messages import Response

__all__ = ["PageEvidence", "PageProblem", "find_problem", "read_evidence", "source_text"]

_MOST_BYTES: Final = 1 << 20  # looked at for long values
_READ_BYTES: Final = 64 * 1024  # read, once those are out
_MOST_TEXT: Final = 8_000  # characters that are searched for phrases
_HIDDEN_WORDS: Final = 5  # a page that shows less, and no field, is about what it hides

# View states and images in the page: long values without a break, of which nothing is to be learnt.
_LONG_VALUE: Final = re.compile(rb"(?<![A-Za-z0-9+/=_%-])[A-Za-z0-9+/=_%-]{512,}")
_MESSAGE_KEY: Final = re.compile("error|message|msg|detail|reason|title|description", re.IGNORECASE)


class PageEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """All text is in small letters. `words` are those outside links, menus, footers and hidden parts.

    `cells` hold data and not layout; `fields` are those that a visitor fills in, but for passwords and captchas.
    `captcha` is where a widget stands: "alone", or "in_form" beside fields.
    """

    url: str
    markup: str
    text: str
    title: str = ""
    headings: tuple[str, ...] = ()
    words: int = 0
    cells: int = 0
    fields: int = 0
    password: bool = False
    captcha: str | None = None


def source_text(response: Response) -> str:
    """The beginning of the body as text; of a large one, without values that are long and unbroken."""
    body = response.body
    if len(body) > _READ_BYTES:
        body = _LONG_VALUE.sub(b"", body[:_MOST_BYTES])[:_READ_BYTES]
    charset = charset_of(response.header("content-type"), response.body)
    return body.decode(charset, "replace")


def read_evidence(response: Response) -> PageEvidence:
    """Reads HTML as HTML, JSON as JSON, and everything else as the text that it is."""
    source = source_text(response)
    low = source.lower()
    url = response.url.lower()
    kind = content_type_of(response.header("content-type"))
    if kind.endswith(("html", "xml")) or "<html" in low[:1_000]:
        return _of_html(url, low)
    text = normalized(_json_messages(response.body) if kind.endswith("json") else low)
    return PageEvidence(url=url, markup=low, text=text[:_MOST_TEXT], words=len(text.split()))


def _of_html(url: str, source: str) -> PageEvidence:
    shown = VisibleText(source).read()
    if shown.words < _HIDDEN_WORDS and not shown.fields:
        shown = VisibleText(source, with_hidden=True).read()
    return PageEvidence(
        url=url,
        markup=source,
        text=shown.text[:_MOST_TEXT],
        title=normalized(shown.title),
        headings=tuple(shown.headings),
        words=shown.words,
        cells=shown.cells,
        fields=shown.fields,
        password=shown.password,
        captcha=shown.captcha,
    )


def _json_messages(body: bytes) -> str:
    """What an answer says is wrong: its errors and messages, and none of its data."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return ". ".join(_messages_in(document, 2)).lower()


def _messages_in(document: Any, depth: int) -> Iterator[str]:
    if not isinstance(document, dict) or not depth:
        return
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _messages_in(value, depth - 1)
        elif isinstance(value, str) and _MESSAGE_KEY.search(name):
            yield value


_K = FailureKind
# Of kinds that weigh the same, the one that says more of what is to be done comes first.
_ORDER: Final = (
    *(_K.CAPTCHA, _K.RATE_LIMITED, _K.SESSION_EXPIRED, _K.MAINTENANCE, _K.BLOCKED),
    *(_K.NOT_FOUND_PAGE, _K.SERVER_ERROR),
)

_CERTAIN: Final = 20
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
_THRESHOLDS: Final = ((120, 3), (200, 5), (350, 7), (600, 10))
_TOP_THRESHOLD: Final = 12
_FEW_HEADINGS: Final = 4

_SEPARATOR: Final = re.compile(r" [|\-·»•] | ?\| ?")
_COLON: Final = re.compile(r" ?: ")
_CODE: Final = re.compile(r"^(?:(?:http|error|status|code|warning|alert)\b[\s:!,#-]*)*(?:[45]\d\d\b[\s:.,-]*)?")
_UNSPACED: Final = re.compile("[\u2e80-\uffdc]")
_SENTENCE: Final = re.compile(r"[.!?](?: |$)")
_CONTENT_TAGS: Final = (
    "<script",
    "<frame",
    "<iframe",
    "<img",
    "<input",
    "<object",
    "<embed",
    "<canvas",
    "<svg",
    "refresh",
)
_FEW_WORDS: Final = 20
_META_REFRESH: Final = re.compile(r"""<meta\s[^<>]{0,80}?content\s*=\s*["']?\s*\d\s*[;,]\s*url\s*=\s*([^"<>]{1,300})""")
_SOURCES: Final = re.compile(r"""\bsrc\s*=\s*["']?([^"'\s<>]{1,300})""")
_CHALLENGES: Final = "/cdn-cgi/challenge-platform/"
_CAPTCHA_IMAGE: Final = re.compile(r"<img\s[^<>]{0,300}?captcha")
_CAPTCHA_FIELD: Final = re.compile(r"""<input\s[^<>]{0,300}?name\s*=\s*["']?[\w.$:-]{0,60}captcha""")
_SETS_COOKIE: Final = re.compile(r"document\.cookie ?= ?[^=]")
_RELOADS: Final = ("location.reload", "location.href", "location.replace", "location =", "location=")


class PageProblem(msgspec.Struct, frozen=True):
    """What a page is, and the words that weighed most."""

    kind: FailureKind
    words: str


class _Scores:
    """What was found for each kind so far."""

    def __init__(self) -> None:
        self.weights: dict[FailureKind, int] = {}
        self._best: dict[FailureKind, tuple[int, str]] = {}

    def add(self, kind: FailureKind, weight: int, words: str) -> None:
        self.weights[kind] = self.weights.get(kind, 0) + weight
        if weight > self._best.get(kind, (0, ""))[0]:
            self._best[kind] = weight, words

    def heaviest(self) -> tuple[int, PageProblem] | None:
        """With its weight, less half of what speaks for others: who talks of every kind of wall is none."""
        if not self.weights:
            return None
        kind = max(_ORDER, key=lambda kind: self.weights.get(kind, 0))
        weight = self.weights[kind]
        told = [w for one, w in self.weights.items() if one is not kind and self._best[one][1] not in VAGUE_TITLES]
        others = 0 if weight >= _CERTAIN else sum(told)
        return weight - others // 2, PageProblem(kind, self._best[kind][1])


def find_problem(evidence: PageEvidence, *, refused: bool = False) -> PageProblem | None:
    """What the page is, unless it is one; `refused` when its status says already that it is none."""
    scale = _Scores()
    _read_marks(evidence, scale)
    _read_titles(evidence, scale)
    _read_phrases(evidence, scale)
    _read_parts(evidence, scale)
    heaviest = scale.heaviest()
    if heaviest is None:
        return None
    weight, finding = heaviest
    return finding if refused or weight >= _threshold(evidence) else None


def _threshold(evidence: PageEvidence) -> int:
    # Where words are not set apart, two characters are taken for one.
    words = (
        evidence.words if evidence.text.isascii() else max(evidence.words, len(_UNSPACED.findall(evidence.text)) // 2)
    )
    held = words + _CELL_WORDS * evidence.cells + (_FORM_WORDS if evidence.fields else 0)
    needed = next((needed for words, needed in _THRESHOLDS if held < words), _TOP_THRESHOLD)
    return needed + max(0, len(evidence.headings) - _FEW_HEADINGS)


def _read_marks(evidence: PageEvidence, scale: _Scores) -> None:
    for weight, marks in ((_CERTAIN, SURE_MARKS), (_MARK, MARKS)):
        for mark, kind in marks.items():
            if mark in evidence.markup:
                scale.add(kind, weight, mark)


def _read_titles(evidence: PageEvidence, scale: _Scores) -> None:
    """The title counts once for a kind, and so do all headings together; a text without any begins with its heading."""
    first_sentence = _SENTENCE.split(evidence.text[:120], maxsplit=1)[0]
    for lines in ((evidence.title,), evidence.headings or (first_sentence,)):
        kinds: dict[FailureKind, str] = {}
        for line in lines:
            for part in _title_parts(line):
                kinds = {**dict.fromkeys(_kinds_of_title(part), part), **kinds}
        for kind, part in kinds.items():
            scale.add(kind, _weight_of_title(part), part)


def _weight_of_title(part: str) -> int:
    if part in VAGUE_TITLES:
        return _HINT
    return _CERTAIN if _compiled(SURE_TITLE).match(part) else _TITLE


def _title_parts(title: str) -> Iterator[str]:
    """The parts that may say by themselves what the page is: of those round a colon only the last."""
    for part in _SEPARATOR.split(title[:300]):
        yield part
        yield from _COLON.split(part)[1:][-1:]


@functools.lru_cache(maxsize=256)
def _kinds_of_title(part: str) -> tuple[FailureKind, ...]:
    if not any(map(part.__contains__, SUSPICIOUS_WORDS)):
        return ()
    whole = part.strip(" .!?()-")
    bare = _CODE.sub("", whole, count=1).strip(" .!?:()-") or whole
    return tuple(kind for kind, pattern in _titles().items() if pattern.fullmatch(bare) or pattern.fullmatch(whole))


def _read_phrases(evidence: PageEvidence, scale: _Scores) -> None:
    text = evidence.text
    for kind, rows in PHRASES.items():
        if kind is _K.CAPTCHA and evidence.captcha == "in_form":
            continue  # it is said of the form
        found = dict(pair for row in rows if row.word in text for pair in _matches_near(row, evidence))
        heaviest_first = sorted(_beyond_headings(found, evidence.headings).items(), key=lambda pair: -pair[1])[
            :_MOST_PHRASES
        ]
        for number, (phrase, weight) in enumerate(heaviest_first):
            if not number or weight >= _MARK:
                scale.add(kind, _FURTHER_PHRASE if number else weight, phrase)


def _beyond_headings(found: dict[str, int], headings: tuple[str, ...]) -> dict[str, int]:
    """Without what a heading says and nothing else, which has been counted."""
    said = {heading.strip(" .!?") for heading in headings if _kinds_of_title(heading)}
    return {phrase: weight for phrase, weight in found.items() if phrase not in said}


def _matches_near(phrase: Phrase, evidence: PageEvidence) -> Iterator[tuple[str, int]]:
    """What fits near the first few places where the word stands."""
    text = evidence.text
    at = text.find(phrase.word)
    for _ in range(_MOST_PLACES):
        if at < 0:
            return
        found = _compiled(phrase.pattern).search(text, max(at - _BEFORE, 0), at + _AFTER)
        if found is not None:
            meant = not phrase.to_visitor or addresses_visitor(found[0], evidence.markup)
            yield found[0], phrase.weight if meant else _HINT
        at = text.find(phrase.word, at + _AFTER)


def _read_parts(evidence: PageEvidence, scale: _Scores) -> None:
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
        _read_targets(evidence, scale)
    if evidence.text or evidence.title or not evidence.markup.lstrip().startswith("<"):
        return
    if not any(map(evidence.markup.__contains__, _CONTENT_TAGS)):
        scale.add(_K.SERVER_ERROR, _MARK, "nothing at all")
    elif _SETS_COOKIE.search(evidence.markup) and any(map(evidence.markup.__contains__, _RELOADS)):
        scale.add(_K.CAPTCHA, _MARK, "a script that sets a cookie and loads the page again")


def _is_image_captcha(markup: str) -> bool:
    return "captcha" in markup and bool(_CAPTCHA_IMAGE.search(markup) and _CAPTCHA_FIELD.search(markup))


def _read_targets(evidence: PageEvidence, scale: _Scores) -> None:
    """Where a page leads that says next to nothing: at once to a wall, or to Cloudflare's scripts and no others."""
    for target in _META_REFRESH.findall(evidence.markup):
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
