"""The forms in which a recorded value may appear (as it is, digits only, upper case, other separators), and where.

Each form has the filters that make it from the input. The more distinctive a value, the wider it is searched:
`200-14-030` anywhere, `Reno` as a word, and `14` only where it is a whole value, so that chance matches do not spoil
the recording.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from swath.recordings.schema.template import FilterCall, LiteralText, Reference, Template, parse_template

__all__ = [
    "MatchScope",
    "RecordedValue",
    "TemplateParts",
    "ValueForm",
    "ValueMatch",
    "bounded_pattern",
    "cased",
    "literals_in",
    "marks_of",
    "replace_matches",
    "rewritten",
    "template_text",
    "unescaped_text",
    "without",
]


def marks_of(text: str) -> tuple[str, ...]:
    """Each once, in the order in which they come."""
    return tuple(dict.fromkeys(character for character in text if not character.isalnum()))


def without(marks: tuple[str, ...]) -> tuple[FilterCall, ...]:
    """Filters that take the marks away."""
    return tuple(FilterCall("replace", (mark, "")) for mark in marks)


def rewritten(literal: str, text: str) -> tuple[FilterCall, ...] | None:
    """Filters that make the text of the value: every mark stays, goes, or is another one, wherever it stands. The
    fewest that do; None when there are none."""
    for calls in sorted(_ways(marks_of(literal), marks_of(text)), key=len):
        made = literal
        for call in calls:
            old, new = call.arguments
            made = made.replace(str(old), str(new))
        case = cased(made, text)
        if case is not None:
            return (*calls, *case)
    return None


def cased(recorded: str, text: str) -> tuple[FilterCall, ...] | None:
    """Filters that lead from one to the other, if they differ at most in capitals."""
    if text == recorded:
        return ()
    if text == recorded.upper():
        return (FilterCall("upper"),)
    return (FilterCall("lower"),) if text == recorded.lower() else None


def _ways(marks: tuple[str, ...], there: tuple[str, ...]) -> Iterator[tuple[FilterCall, ...]]:
    for chosen in itertools.product(*(dict.fromkeys((mark, "", *there)) for mark in marks)):
        yield tuple(FilterCall("replace", (old, new)) for old, new in zip(marks, chosen, strict=True) if old != new)


_MARKS: Final = "-./ _"
_LEAST_TELLING: Final = 6
_LEAST_WORD: Final = 3
_LEAST_DIGITS: Final = 5
_LEAST_SURE: Final = 6  # letters and digits; fewer may be those of a ZIP code or a year
_MOST_MARKS: Final = 4
_LONGEST_IN_PIECES: Final = 100

_NEVER: Final = re.compile(r"(?!)")

TemplateParts = tuple[LiteralText | Reference, ...]


class MatchScope(enum.Enum):
    """Where a form is looked for: as a whole value only, as a word, or anywhere."""

    WHOLE = 0
    WORD = 1
    ANYWHERE = 2


class ValueForm(NamedTuple):
    """One way of writing the value, and the filters that lead to it."""

    text: str
    calls: tuple[FilterCall, ...] = ()

    @property
    def reach(self) -> MatchScope:
        """By what there is to recognise it by."""
        telling = [character for character in self.text if character.isalnum()]
        if len(telling) < _LEAST_WORD:
            return MatchScope.WHOLE
        has_digit = any(character.isdigit() for character in telling)
        return MatchScope.ANYWHERE if has_digit and len(telling) >= _LEAST_TELLING else MatchScope.WORD


class ValueMatch(NamedTuple):
    """A place in a text, and what stands there."""

    start: int
    end: int
    parts: TemplateParts


FindIn = Callable[[str], list[ValueMatch]]


class RecordedValue:
    """A recorded value that is looked for, by the name of its input. `others` have inputs of their own: a text that is
    one of them is neither a form nor a piece of this one.

    `strict`: all of the value was found, so that a text which is only a part of it may be something else. `parts` are
    texts that somebody has said are parts of it.
    """

    def __init__(
        self,
        name: str,
        literal: str,
        others: frozenset[str] = frozenset(),
        *,
        strict: bool = False,
        parts: frozenset[str] = frozenset(),
    ) -> None:
        self.name = name
        self.others = others
        self.literal = literal
        self.strict = strict
        self.parts = parts
        self.stripped = _stripped(literal)
        forms = (form for form in _forms(literal, self.stripped) if form.text not in others)
        self.forms = tuple(form for form in forms if not strict or form.text in parts or self._is_sure(form.text))
        self._bare_others = frozenset(map(_bare, others))
        self.reach = self.forms[0].reach
        self.is_word = not any(character.isdigit() for character in literal)
        self.can_be_cut = _can_be_stripped(literal)
        self._marked = _with_marks(self.stripped) if self.reach is MatchScope.ANYWHERE and self.can_be_cut else _NEVER
        self._search = _pattern(self.forms, self._marked)

    @property
    def loose(self) -> RecordedValue:
        """The same value, when nothing else of it was found."""
        return RecordedValue(self.name, self.literal, self.others, parts=self.parts)

    def _is_sure(self, text: str) -> bool:
        """Whether a form can be nothing else: it has all letters and digits of the value, or a good many."""
        return len(_stripped(text)) >= min(_LEAST_SURE, len(self.stripped))

    @property
    def is_sure_of_splits(self) -> bool:
        """Whether pieces that make up the value, one after the other, can be nothing else."""
        return not self.strict or self.reach is MatchScope.ANYWHERE

    def has_all_of_it(self, text: str) -> bool:
        """Whether a text has all letters and digits of the value, and not only its digits."""
        return _bare(text) == _bare(self.literal)

    def part_of_it(self, text: str) -> TemplateParts | None:
        """What stands for a text that is a part of the value: a run of its letters and digits, from one mark to
        another where it can be; None for any other text, and for all of it."""
        piece, whole = _stripped(text), self.stripped
        if not piece or len(piece) >= len(whole) or not self.can_be_cut:
            return None
        starts = [at for at in range(len(whole)) if whole.startswith(piece, at)]
        bounds = set(itertools.accumulate(len(one) for one in re.findall(r"[^\W_]+", self.literal))) | {0}
        best = sorted(starts, key=lambda at: (at not in bounds) + (at + len(piece) not in bounds))
        return self.pieced(text, best[0]) if best else None

    def reference(self, *calls: FilterCall) -> Reference:
        """The input, and what is done to it."""
        return Reference("input", self.name, calls)

    def whole(self, text: str) -> TemplateParts | None:
        """What stands for a text that is the value and nothing else, in any form."""
        for form in self.forms:
            if form.text == text:
                return (self.reference(*form.calls),)
        return self._written_as(text) if self._marked.fullmatch(text) and text not in self.others else None

    def is_other(self, text: str) -> bool:
        """Whether another input has the text for its value, but for marks and capitals."""
        return _bare(text) in self._bare_others

    def find(self, text: str) -> list[ValueMatch]:
        """All places where the value stands in a text; none for one that has to be whole."""
        found = (one for one in self._search.finditer(text) if one[0] not in self.others)
        return [ValueMatch(*one.span(), self._written_as(one[0])) for one in found]

    def replaced(self, text: str) -> str | None:
        """The text with the input in the place of the value; None when it does not hold it."""
        return replace_matches(text, self.find)

    def pieced(self, text: str, start: int) -> TemplateParts:
        """A piece of the value that begins at its `start`-th letter or digit, with whatever marks stand in it."""
        parts: list[LiteralText | Reference] = []
        at = start
        for segment in filter(None, re.split(r"([^\W_]+)", text)):
            if segment[0].isalnum():
                parts.append(self.reference(*self._calls_of(segment, at)))
                at += len(segment)
            else:
                parts.append(LiteralText(segment))
        return tuple(parts)

    def _written_as(self, text: str) -> TemplateParts:
        form = next((form for form in self.forms if form.text == text), None)
        calls = rewritten(self.literal, text) if form is None else form.calls
        return self.pieced(text, 0) if calls is None else (self.reference(*calls),)

    def _calls_of(self, segment: str, start: int) -> tuple[FilterCall, ...]:
        """Filters that cut out a run of letters and digits: between marks if it is just that, else by its place."""
        end = start + len(segment)
        recorded = self.stripped[start:end]
        case = cased(recorded, segment) or ()
        for inside in (False, True):
            for mark in marks_of(self.literal):
                at = 0
                for index, between in enumerate(self.literal.split(mark)):
                    bare = _stripped(between)
                    if at == start and bare == recorded and (inside or bare == between):
                        return (FilterCall("split", (mark, index)), *without(marks_of(between)), *case)
                    at += len(bare)
        base = () if self.stripped == self.literal else _stripping(self.literal)
        cut = () if (start, end) == (0, len(self.stripped)) else (start,) if end == len(self.stripped) else (start, end)
        return (*base, *([FilterCall("slice", cut)] if cut else []), *case)


def _parts_of(text: str) -> TemplateParts:
    """A text in parts; one that is no template is one part."""
    try:
        return parse_template(text).parts
    except ValueError:
        return (LiteralText(text),)


def literals_in(text: str) -> list[str]:
    """What stands outside of references."""
    return [part.text for part in _parts_of(text) if isinstance(part, LiteralText)]


def unescaped_text(text: str) -> str:
    """What a text without references says: braces may be written in quotes."""
    return "".join(literals_in(text))


def template_text(parts: Sequence[LiteralText | Reference]) -> str:
    """The text again."""
    return str(Template(tuple(parts)))


def replace_matches(text: str, find: FindIn) -> str | None:
    """The text with what was found replaced, outside of references that are there already; None if there is nothing."""
    made: list[LiteralText | Reference] = []
    changed = False
    for part in _parts_of(text):
        if isinstance(part, Reference):
            made.append(part)
            continue
        at = 0
        for start, end, parts in find(part.text):
            made += [LiteralText(part.text[at:start]), *parts]
            at, changed = end, True
        made.append(LiteralText(part.text[at:]))
    return template_text(made) if changed else None


def bounded_pattern(form: ValueForm, written: str) -> str:
    """The pattern of a form that is written so: as a word it has no letter or digit like its own beside it, but for the
    end of an escape in an address."""
    if form.reach is not MatchScope.WORD:
        return re.escape(written)
    before, after = _alike(form.text[0]), _alike(form.text[-1])
    head = f"(?:(?<!{before})|(?<=%[0-9A-Fa-f]{{2}})|(?<=%25[0-9A-Fa-f]{{2}}))" if before else ""
    return head + re.escape(written) + (f"(?!{after})" if after else "")


def _pattern(forms: Sequence[ValueForm], marked: re.Pattern[str]) -> re.Pattern[str]:
    longest_first = sorted(
        (form for form in forms if form.reach is not MatchScope.WHOLE), key=lambda form: -len(form.text)
    )
    return re.compile("|".join([*(bounded_pattern(form, form.text) for form in longest_first), marked.pattern]))


def _with_marks(stripped: str) -> re.Pattern[str]:
    """The letters and digits with at most one mark between two of them."""
    between = f"[{re.escape(_MARKS)}]?"
    cases = {stripped, stripped.upper(), stripped.lower()} if stripped.isascii() else {stripped}
    return re.compile("|".join(between.join(map(re.escape, one)) for one in sorted(cases)))


def _alike(character: str) -> str:
    if character.isdigit():
        return "[0-9]"
    return r"[^\W\d_]" if character.isalpha() else ""


def _forms(literal: str, stripped: str) -> Iterator[ValueForm]:
    """Each text once, the value itself first."""
    seen: set[str] = set()
    for form in _all_forms(literal, stripped):
        if form.text not in seen and (form.text == literal or form.reach is not MatchScope.WHOLE):
            seen.add(form.text)
            yield form


def _all_forms(literal: str, stripped: str) -> Iterator[ValueForm]:
    plain = [ValueForm(literal)]
    digits = "".join(character for character in literal if character in "0123456789")
    if _can_be_stripped(literal) and stripped != literal:
        plain.append(ValueForm(stripped, _stripping(literal)))
        for mark in _MARKS:
            calls = tuple(FilterCall("replace", (other, mark)) for other in marks_of(literal) if other != mark)
            plain.append(ValueForm("".join(c if c.isalnum() else mark for c in literal), calls))
    if len(digits) >= _LEAST_DIGITS and digits != literal:
        plain.append(ValueForm(digits, (FilterCall("digits"),)))
    yield from plain
    for form in plain:
        yield ValueForm(form.text.upper(), (*form.calls, FilterCall("upper")))
        yield ValueForm(form.text.lower(), (*form.calls, FilterCall("lower")))


def _can_be_stripped(literal: str) -> bool:
    return len(marks_of(literal)) <= _MOST_MARKS and len(literal) <= _LONGEST_IN_PIECES


def _stripping(literal: str) -> tuple[FilterCall, ...]:
    """Filters that leave only its letters and digits."""
    marks = marks_of(literal)
    if all(character in "0123456789" for character in literal if character not in marks):
        return (FilterCall("digits"),)
    return without(marks)


def _stripped(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


def _bare(text: str) -> str:
    return _stripped(text).casefold() or text
