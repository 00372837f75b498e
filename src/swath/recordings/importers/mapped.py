"""Imports a recording of any recorder by a mapping file, and reports everything that the mapping does not cover."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from swath.domain.errors import BadInput
from swath.recordings.importers.conversion import (
    SkippedBranches,
    build_recording,
    build_step,
    check_length,
    escape_recorded_braces,
    shorten,
    usable_selectors,
)
from swath.recordings.importers.mapping import ActionCase, ActionMapping, RecorderMapping, Source, Sources
from swath.recordings.importers.remarks import Imported, Remark, StepNumbering, cautions_on
from swath.recordings.schema.models import MOST_SECONDS
from swath.recordings.schema.recording import DEFAULT_STEP_SECONDS
from swath.recordings.schema.selectors import part_of, render_selector_part
from swath.recordings.schema.steps import AnyStep
from swath.recordings.validation.names import field_name_error
from swath.recordings.validation.problems import ACTIONS

__all__ = ["read_mapped"]

_MOST_AROUND: Final = 10
_COMPOUND: Final = re.compile(r"[\s>+~,\[]")  # of several parts: no id
_THEIRS: Final = "{{ input.theirs }}"
_YES: Final = frozenset({"true", "yes", "1", "on"})
_NO: Final = frozenset({"false", "no", "0", "off", ""})


def read_mapped(document: Any, mapping: RecorderMapping, title: str) -> Imported:
    """`title` is for documents that have none. Raises BadInput, which names the step."""
    given = document if mapping.steps == "." else _one(document, mapping.steps)
    if not isinstance(given, list) or not given:
        raise BadInput(f"has no list of steps at {mapping.steps!r}, where the mapping says that it is")
    check_length(given)
    own = None if mapping.title is None else _one(document, mapping.title)
    seconds = None if mapping.step_seconds is None else _value(document, mapping.step_seconds, "step_seconds")
    base_url = None if mapping.base_url is None else _base_url(_value(document, mapping.base_url, "base_url"))
    reading = _MappedReader(mapping, base_url)
    steps = [step for number, one in enumerate(given, 1) for step in reading.steps(number, one)]
    reading.branching.check_ended()
    if not steps:
        reading.refuse_what_has_no_action()
    remarks = [Remark(f"read by the mapping of {mapping.name}"), *_unused_around(document, mapping), *reading.remarks()]
    return build_recording(str(own or title), steps, remarks, _seconds(seconds), base_url=base_url)


class _MappedReader:
    """One recording. Keeps the places of what the mapping does not know."""

    def __init__(self, mapping: RecorderMapping, base_url: str | None) -> None:
        self._mapping = mapping
        self._base_url = base_url
        self._without: list[int] = []
        self._actions: dict[str, list[int]] = {}
        self._fields: dict[str, list[int]] = {}
        self._cases: dict[str, list[int]] = {}
        self._told: list[Remark] = []
        self._numbering = StepNumbering()
        self.branching = SkippedBranches(mapping.branches.words)

    def steps(self, number: int, given: Any) -> list[AnyStep]:
        """None for an action that is ignored or not known, and for what has none: a recorder may tell of itself in the
        first line."""
        made = list(self._steps(number, given))
        self._numbering.add(len(made))
        return made

    def _steps(self, number: int, given: Any) -> Iterator[AnyStep]:
        action = _one(given, self._mapping.action)
        if action is None and isinstance(given, dict):
            self._without.append(number)
            return
        if isinstance(action, bool) or not isinstance(action, (str, int)):
            raise self._no_action(number)
        name = str(action)
        cases = self._mapping.actions.get(name)
        if self.branching.takes(number, name, known=cases is not None) or name in self._mapping.ignore.actions:
            return
        if cases is None:
            self._actions.setdefault(name, []).append(number)
            return
        case = next((one for one in cases if _fits(one, given)), None)
        if case is None:
            self._cases.setdefault(name, []).append(number)
            return
        self._note_unused(number, name, given, [path for one in cases for path in one.when], case.made)
        for one in case.made:
            yield self._step(f"step {number} ({name})", given, one)

    def _step(self, place: str, given: Any, known: ActionMapping) -> AnyStep:
        sources = {**self._of_each(known), **known.fields}
        made = {field: _field_value(given, field, several, place) for field, several in sources.items()}
        theirs = {field: made[field] for field in made if all(one.constant is None for one in sources[field])}
        made |= escape_recorded_braces(theirs, place, self._told)
        if "on" in made:
            made["on"] = usable_selectors(made["on"], place, self._told, stored=known.do == "extract")
        step = build_step({"do": known.do, **made}, place, base_url=self._base_url)
        self._told += cautions_on(step, place)
        return step

    def refuse_what_has_no_action(self) -> None:
        """When there is nothing else, the mapping looks in the wrong place. Raises BadInput."""
        if self._without:
            raise self._no_action(self._without[0])

    def _no_action(self, number: int) -> BadInput:
        return BadInput(f"step {number}: has no action at {self._mapping.action!r}, where the mapping says that it is")

    def remarks(self) -> Iterator[Remark]:
        """What did not map, with how often and where."""
        yield from map(self._numbering.told, self._unmapped())
        yield from map(self._numbering.told, (*self.branching.told, *self._told))

    def _unmapped(self) -> Iterator[Remark]:
        if self._without:
            told = f"has no action at {self._mapping.action!r} and is left out"
            yield Remark(f"what {told}", steps=_as_texts(self._without))
        for name, places in self._actions.items():
            told = f"the action {name!r} is not in the mapping and is left out"
            yield Remark(told, steps=_as_texts(places))
        for name, places in self._cases.items():
            yield Remark(f"no case of the action {name!r} fits, and it is left out", steps=_as_texts(places))
        for name, places in self._fields.items():
            yield Remark(f"the field {name} is not in the mapping", steps=_as_texts(places))

    def _of_each(self, known: ActionMapping) -> dict[str, Sources]:
        fields = ACTIONS[known.do].model_fields
        return {name: several for name, several in self._mapping.each.items() if name in fields}

    def _note_unused(
        self, number: int, action: str, given: Any, asked: Sequence[str], made: Sequence[ActionMapping]
    ) -> None:
        """`asked` are the paths that decide which case it is."""
        used = [self._mapping.action, *self._mapping.ignore.fields, *asked]
        sources = [several for one in made for several in one.fields.values()]
        used += [path for several in (*sources, *self._mapping.each.values()) for one in several for path in one.paths]
        covered = [_pattern(path) for path in used]
        for path in sorted(set(_leaves(given))):
            if not any(pattern.match(path) for pattern in covered):
                self._fields.setdefault(f"{path} of {action!r}", []).append(number)


def _unused_around(document: Any, mapping: RecorderMapping) -> Iterator[Remark]:
    """Fields of the document itself that nobody has asked for."""
    if mapping.steps == "." or not isinstance(document, dict):
        return
    sources = [one for one in (mapping.base_url, mapping.step_seconds) if one is not None]
    used = [mapping.steps, *mapping.ignore.fields, *(path for one in sources for path in one.paths)]
    covered = [_pattern(path) for path in [*used, *([mapping.title] if mapping.title is not None else [])]]
    left = [path for path in sorted(set(_leaves(document))) if not any(one.match(path) for one in covered)]
    for path in left[:_MOST_AROUND]:
        yield Remark(f"the field {path} of the document is not in the mapping")
    if len(left) > _MOST_AROUND:
        yield Remark(f"{len(left) - _MOST_AROUND:,} more fields of the document are not in the mapping")


def _field_value(given: Any, field: str, several: Sources, place: str) -> Any:
    """The value of one field of ours; None when theirs is not there."""
    values: list[Any] = []
    for source in several:
        value = _value(given, source, f"{place}: {field}")
        values += [] if value is None else value if field == "on" and isinstance(value, list) else [value]
    if field == "on":
        return values or None
    return values[0] if values else None


def _value(given: Any, source: Source, place: str) -> Any:
    if source.constant is not None:
        return source.constant
    for path in source.paths:
        found = list(_found(given, path.split(".")))
        if not found or found == [None]:
            continue
        several = "*" in path.split(".")
        made = [_converted(one, source, place) for one in found if one is not None]
        return made if several else made[0]
    return None


def _converted(value: Any, source: Source, place: str) -> Any:
    if isinstance(value, list) and source.type is None and not source.values:
        return [_converted(one, source, place) for one in value]
    if source.values or source.otherwise is not None:
        value = source.values.get(_as_text(value), value if source.otherwise is None else source.otherwise)
    if source.scale is not None:
        value = _number(value, place) * source.scale
    if source.type is not None:
        value = _TYPES[source.type](value, place)
    if isinstance(value, str) and (source.prefixes or source.prefix):
        return _prefixed(value, source)
    return value


def _prefixed(value: str, source: Source) -> str:
    for theirs in sorted(source.prefixes, key=len, reverse=True):
        if value.startswith(theirs):
            return _selector(source.prefixes[theirs], value.removeprefix(theirs))
    return _selector(source.prefix, value)


def _selector(ours: str, rest: str) -> str:
    """`{}` in ours is where the rest stands, as data: `[name="{}"]`. So does an id after `#`, which may have dots."""
    before, mark, after = ours.partition("{}")
    if not mark and (not ours.endswith("#") or _COMPOUND.search(rest)):
        return ours + rest
    text = f"{before}{_THEIRS}{after}"
    part = part_of(text)
    try:
        return text.removesuffix(part.value) + render_selector_part(part, lambda _: rest)
    except ValueError:
        return before + rest + after  # what is wrong with it is said with the other alternatives


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _number(value: Any, place: str) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise BadInput(f"{place}: {shorten(_as_text(value), 50)!r} is not a number") from None


def _integer(value: Any, place: str) -> int:
    number = _number(value, place)
    if not number.is_integer():
        raise BadInput(f"{place}: {number:g} is not a whole number")
    return int(number)


def _yes_no(value: Any, place: str) -> bool:
    word = _as_text(value).lower()
    if word not in _YES | _NO:
        raise BadInput(f"{place}: {shorten(word, 50)!r} is neither yes nor no")
    return word in _YES


def _text(value: Any, place: str) -> str:
    del place
    return _as_text(value)


def _field_name(value: Any, place: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", _as_text(value).lower()).strip("_")[:60]
    if not name:
        raise BadInput(f"{place}: {shorten(_as_text(value), 50)!r} has no letters that could name a field")
    return name if name[0].isalpha() and field_name_error(name) is None else f"n_{name}"


_TYPES: Final[dict[str, Callable[[Any, str], Any]]] = {
    "text": _text,
    "number": _number,
    "integer": _integer,
    "yes_no": _yes_no,
    "field_name": _field_name,
}


def _seconds(given: Any) -> float:
    if given is None:
        return DEFAULT_STEP_SECONDS
    seconds = _number(given, "step_seconds")
    if not 0 < seconds <= MOST_SECONDS:
        raise BadInput(f"step_seconds: is {seconds:g}; it must be more than 0 and at most {MOST_SECONDS:g}")
    return seconds


def _base_url(given: Any) -> str | None:
    """Raises BadInput."""
    if given is None or given == "":
        return None
    if not isinstance(given, str) or not re.match(r"(?i)https?://[^/]", given):
        raise BadInput(f"base_url: {shorten(_as_text(given), 80)!r} is no address that begins with http:// or https://")
    return given


def _one(given: Any, path: str) -> Any:
    return next(_found(given, path.split(".")), None)


def _found(given: Any, parts: list[str]) -> Iterator[Any]:
    """What is at a path; of a list a number takes one, and * all."""
    if not parts:
        yield given
    elif isinstance(given, list):
        for one in given if parts[0] == "*" else _at(given, parts[0]):
            yield from _found(one, parts[1:])
    elif isinstance(given, dict) and parts[0] in given:
        yield from _found(given[parts[0]], parts[1:])


def _at(given: list[Any], part: str) -> list[Any]:
    return given[int(part) : int(part) + 1] if part.isascii() and part.isdigit() and len(part) < 6 else []


def _leaves(given: Any, before: str = "") -> Iterator[str]:
    """The paths of all values that say something; a place in a list is a *."""
    if isinstance(given, (dict, list)) and given:
        for name, value in given.items() if isinstance(given, dict) else (("*", one) for one in given):
            yield from _leaves(value, f"{before}.{name}" if before else str(name))
    elif given not in (None, "", [], {}) and before:
        yield before


def _pattern(path: str) -> re.Pattern[str]:
    """Matches what is at the path and below; a number in it is a place in a list."""
    parts = (r"\*" if part == "*" or part.isdigit() else re.escape(part) for part in path.split("."))
    return re.compile(r"\.".join(parts) + r"(?:\.|$)")


def _fits(case: ActionCase, given: Any) -> bool:
    """Whether the step has, at each path that is asked for, one of the values."""
    return all(
        any(found is not None and _as_text(found) in map(_as_text, values) for found in _found(given, path.split(".")))
        for path, values in case.when.items()
    )


def _as_texts(numbers: list[int]) -> tuple[str, ...]:
    return tuple(map(str, numbers))
