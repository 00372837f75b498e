"""The forms in which a recorded value may stand in a recording (as it is, digits only, in capitals, with other marks
between), each with the filters that make it out of the input; and where they stand in a text.

How far it is looked for depends on how telling it is: `200-14-030` is found anywhere, `Reno` as a word of its own, and
`14` only where it is a whole value, for a recording must not be shredded by chance.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from swath.actions.importing.binding.marks import cased, marks_of, rewritten, without
from swath.actions.language.template import Call, Literal, Reference, Template, parse

__all__ = ["Form", "Found", "Needle", "Parts", "Reach", "bounded", "literals_in", "meant", "replaced", "spelt"]

_MARKS: Final = "-./ _"
_LEAST_TELLING: Final = 6
_LEAST_WORD: Final = 3
_LEAST_DIGITS: Final = 5
_LEAST_SURE: Final = 6  # letters and digits; fewer may be those of a ZIP code or a year
_MOST_MARKS: Final = 4
_LONGEST_IN_PIECES: Final = 100

_NEVER: Final = re.compile(r"(?!)")

Parts = tuple[Literal | Reference, ...]


class Reach(enum.Enum):
    """Where a form is looked for: as a whole value only, as a word, or anywhere."""

    WHOLE = 0
    WORD = 1
    ANYWHERE = 2


class Form(NamedTuple):
    """One way of writing the value, and the filters that lead to it."""

    text: str
    calls: tuple[Call, ...] = ()

    @property
    def reach(self) -> Reach:
        """By what there is to recognise it by."""
        telling = [character for character in self.text if character.isalnum()]
        if len(telling) < _LEAST_WORD:
            return Reach.WHOLE
        has_digit = any(character.isdigit() for character in telling)
        return Reach.ANYWHERE if has_digit and len(telling) >= _LEAST_TELLING else Reach.WORD


class Found(NamedTuple):
    """A place in a text, and what stands there."""

    start: int
    end: int
    parts: Parts


FindIn = Callable[[str], list[Found]]


class Needle:
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
        self._marked = _with_marks(self.stripped) if self.reach is Reach.ANYWHERE and self.can_be_cut else _NEVER
        self._search = _pattern(self.forms, self._marked)

    @property
    def loose(self) -> Needle:
        """The same value, when nothing else of it was found."""
        return Needle(self.name, self.literal, self.others, parts=self.parts)

    def _is_sure(self, text: str) -> bool:
        """Whether a form can be nothing else: it has all letters and digits of the value, or a good many."""
        return len(_stripped(text)) >= min(_LEAST_SURE, len(self.stripped))

    @property
    def is_sure_of_splits(self) -> bool:
        """Whether pieces that make up the value, one after the other, can be nothing else."""
        return not self.strict or self.reach is Reach.ANYWHERE

    def has_all_of_it(self, text: str) -> bool:
        """Whether a text has all letters and digits of the value, and not only its digits."""
        return _bare(text) == _bare(self.literal)

    def part_of_it(self, text: str) -> Parts | None:
        """What stands for a text that is a part of the value: a run of its letters and digits, from one mark to
        another where it can be; None for any other text, and for all of it."""
        piece, whole = _stripped(text), self.stripped
        if not piece or len(piece) >= len(whole) or not self.can_be_cut:
            return None
        starts = [at for at in range(len(whole)) if whole.startswith(piece, at)]
        bounds = set(itertools.accumulate(len(one) for one in re.findall(r"[^\W_]+", self.literal))) | {0}
        best = sorted(starts, key=lambda at: (at not in bounds) + (at + len(piece) not in bounds))
        return self.pieced(text, best[0]) if best else None

    def reference(self, *calls: Call) -> Reference:
        """The input, and what is done to it."""
        return Reference("input", self.name, calls)

    def whole(self, text: str) -> Parts | None:
        """What stands for a text that is the value and nothing else, in any form."""
        for form in self.forms:
            if form.text == text:
                return (self.reference(*form.calls),)
        return self._written_as(text) if self._marked.fullmatch(text) and text not in self.others else None

    def is_other(self, text: str) -> bool:
        """Whether another input has the text for its value, but for marks and capitals."""
        return _bare(text) in self._bare_others

    def find(self, text: str) -> list[Found]:
        """All places where the value stands in a text; none for one that has to be whole."""
        found = (one for one in self._search.finditer(text) if one[0] not in self.others)
        return [Found(*one.span(), self._written_as(one[0])) for one in found]

    def replaced(self, text: str) -> str | None:
        """The text with the input in the place of the value; None when it does not hold it."""
        return replaced(text, self.find)

    def pieced(self, text: str, start: int) -> Parts:
        """A piece of the value that begins at its `start`-th letter or digit, with whatever marks stand in it."""
        parts: list[Literal | Reference] = []
        at = start
        for segment in filter(None, re.split(r"([^\W_]+)", text)):
            if segment[0].isalnum():
                parts.append(self.reference(*self._calls_of(segment, at)))
                at += len(segment)
            else:
                parts.append(Literal(segment))
        return tuple(parts)

    def _written_as(self, text: str) -> Parts:
        form = next((form for form in self.forms if form.text == text), None)
        calls = rewritten(self.literal, text) if form is None else form.calls
        return self.pieced(text, 0) if calls is None else (self.reference(*calls),)

    def _calls_of(self, segment: str, start: int) -> tuple[Call, ...]:
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
                        return (Call("split", (mark, index)), *without(marks_of(between)), *case)
                    at += len(bare)
        base = () if self.stripped == self.literal else _stripping(self.literal)
        cut = () if (start, end) == (0, len(self.stripped)) else (start,) if end == len(self.stripped) else (start, end)
        return (*base, *([Call("slice", cut)] if cut else []), *case)


def _parts_of(text: str) -> Parts:
    """A text in parts; one that is no template is one part."""
    try:
        return parse(text).parts
    except ValueError:
        return (Literal(text),)


def literals_in(text: str) -> list[str]:
    """What stands outside of references."""
    return [part.text for part in _parts_of(text) if isinstance(part, Literal)]


def meant(text: str) -> str:
    """What a text without references says: braces may be written in quotes."""
    return "".join(literals_in(text))


def spelt(parts: Sequence[Literal | Reference]) -> str:
    """The text again."""
    return str(Template(tuple(parts)))


def replaced(text: str, find: FindIn) -> str | None:
    """The text with what was found replaced, outside of references that are there already; None if there is nothing."""
    made: list[Literal | Reference] = []
    changed = False
    for part in _parts_of(text):
        if isinstance(part, Reference):
            made.append(part)
            continue
        at = 0
        for start, end, parts in find(part.text):
            made += [Literal(part.text[at:start]), *parts]
            at, changed = end, True
        made.append(Literal(part.text[at:]))
    return spelt(made) if changed else None


def bounded(form: Form, written: str) -> str:
    """The pattern of a form that is written so: as a word it has no letter or digit like its own beside it, but for the
    end of an escape in an address."""
    if form.reach is not Reach.WORD:
        return re.escape(written)
    before, after = _alike(form.text[0]), _alike(form.text[-1])
    head = f"(?:(?<!{before})|(?<=%[0-9A-Fa-f]{{2}})|(?<=%25[0-9A-Fa-f]{{2}}))" if before else ""
    return head + re.escape(written) + (f"(?!{after})" if after else "")


def _pattern(forms: Sequence[Form], marked: re.Pattern[str]) -> re.Pattern[str]:
    longest_first = sorted((form for form in forms if form.reach is not Reach.WHOLE), key=lambda form: -len(form.text))
    return re.compile("|".join([*(bounded(form, form.text) for form in longest_first), marked.pattern]))


def _with_marks(stripped: str) -> re.Pattern[str]:
    """The letters and digits with at most one mark between two of them."""
    between = f"[{re.escape(_MARKS)}]?"
    cases = {stripped, stripped.upper(), stripped.lower()} if stripped.isascii() else {stripped}
    return re.compile("|".join(between.join(map(re.escape, one)) for one in sorted(cases)))


def _alike(character: str) -> str:
    if character.isdigit():
        return "[0-9]"
    return r"[^\W\d_]" if character.isalpha() else ""


def _forms(literal: str, stripped: str) -> Iterator[Form]:
    """Each text once, the value itself first."""
    seen: set[str] = set()
    for form in _all_forms(literal, stripped):
        if form.text not in seen and (form.text == literal or form.reach is not Reach.WHOLE):
            seen.add(form.text)
            yield form


def _all_forms(literal: str, stripped: str) -> Iterator[Form]:
    plain = [Form(literal)]
    digits = "".join(character for character in literal if character in "0123456789")
    if _can_be_stripped(literal) and stripped != literal:
        plain.append(Form(stripped, _stripping(literal)))
        for mark in _MARKS:
            calls = tuple(Call("replace", (other, mark)) for other in marks_of(literal) if other != mark)
            plain.append(Form("".join(c if c.isalnum() else mark for c in literal), calls))
    if len(digits) >= _LEAST_DIGITS and digits != literal:
        plain.append(Form(digits, (Call("digits"),)))
    yield from plain
    for form in plain:
        yield Form(form.text.upper(), (*form.calls, Call("upper")))
        yield Form(form.text.lower(), (*form.calls, Call("lower")))


def _can_be_stripped(literal: str) -> bool:
    return len(marks_of(literal)) <= _MOST_MARKS and len(literal) <= _LONGEST_IN_PIECES


def _stripping(literal: str) -> tuple[Call, ...]:
    """Filters that leave only its letters and digits."""
    marks = marks_of(literal)
    if all(character in "0123456789" for character in literal if character not in marks):
        return (Call("digits"),)
    return without(marks)


def _stripped(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


def _bare(text: str) -> str:
    return _stripped(text).casefold() or text
