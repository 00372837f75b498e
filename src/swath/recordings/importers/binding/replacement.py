"""Replaces one value throughout a recording, each field in its own way, and renumbers places, remarks and notes for the
steps that it drops.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from swath.domain.errors import BadInput
from swath.recordings.importers.binding.embedded_values import bind_address, bind_selectors, piece_in
from swath.recordings.importers.binding.forms import MatchScope, RecordedValue, ValueForm, template_text, unescaped_text
from swath.recordings.importers.binding.residue import is_still_in
from swath.recordings.importers.binding.typed_values import TypedText, find_typed_texts, pressed_in, typed_in
from swath.recordings.importers.conversion import slug
from swath.recordings.importers.remarks import Remark, asks_for_password
from swath.recordings.schema.models import MAIN, NEWEST, RecordingModel, Rule
from swath.recordings.schema.recording import Recording
from swath.recordings.schema.selectors import Selectors, selector_label
from swath.recordings.schema.steps import AnyStep, Goto, JavaScript, Select
from swath.recordings.schema.template import has_references

__all__ = [
    "PLAIN",
    "TREATED",
    "BoundPlace",
    "ValueReplacement",
    "bind_id",
    "moved_place",
    "renumber_note",
    "renumber_remark",
]

_STEP: Final = r"(?:\w+\.)*[0-9]+"
_PLACE: Final = re.compile(_STEP)
_AFTER: Final = re.compile(rf"after step ({_STEP})(.*)", re.DOTALL)
_SEVERAL: Final = re.compile(r"(?P<first>[0-9]+)(?: to (?P<last>[0-9]+))?")
_NOTE: Final = re.compile(
    rf"(?P<place>(?:after |before )?steps? {_STEP}(?: to {_STEP})?(?: \([^()]*\)|, \w+)?): (?P<text>.*)", re.DOTALL
)
_COUNTED: Final = re.compile(r"(?P<text>.*: [0-9]+ steps? \()(?P<steps>[^()]*)\)", re.DOTALL)


def renumber_remark(remark: Remark, gone: Sequence[str]) -> Remark:
    """The same remark when the steps at these places are left out. Of one of these it says what it came after."""
    if not gone:
        return remark
    steps = tuple(_listed(step, gone) for step in remark.steps)
    return msgspec.structs.replace(remark, place=_placed(remark.place, gone), steps=steps)


def renumber_note(note: str, gone: Sequence[str]) -> str:
    """The same for a remark that has been written down."""
    if not gone:
        return note
    if placed := _NOTE.fullmatch(note):
        return f"{_placed(placed['place'], gone)}: {placed['text']}"
    if counted := _COUNTED.fullmatch(note):
        return f"{counted['text']}{', '.join(_listed(one, gone) for one in counted['steps'].split(', '))})"
    return note


def moved_place(place: str, gone: Sequence[str]) -> str:
    """The place of a step that stays. Each number in it is less by those that stood before it in the same list."""
    left_out = [one.rpartition(".") for one in gone]
    parts = place.split(".")
    made: list[str] = []
    for at, part in enumerate(parts):
        less = sum(
            list_ == ".".join(parts[:at]) and int(number) < int(part)
            for list_, _, number in left_out
            if part.isdecimal()
        )
        made.append(str(int(part) - less) if less else part)
    return ".".join(made)


def _placed(place: str, gone: Sequence[str]) -> str:
    if after := _AFTER.fullmatch(place):
        return _after(after[1], gone) + after[2]
    head, mark, what = place.partition(" (")
    number = head.removeprefix("step ")
    if number in gone:
        return _after(number, gone) + (f", {what.removesuffix(')')}" if what else "")
    return _PLACE.sub(lambda found: moved_place(found[0], gone), head) + mark + what


def _after(place: str, gone: Sequence[str]) -> str:
    """The last step that stays, up to this one."""
    list_, dot, number = moved_place(place, gone).rpartition(".")
    last = int(number) - (place in gone)
    return f"after step {list_}{dot}{last}" if last else f"before step {list_}{dot}1"


def _listed(step: str, gone: Sequence[str]) -> str:
    """One of several: `2`, `3 to 4`, or `after 4` of one that is left out."""
    if step.startswith("after "):
        return _after(step.removeprefix("after "), gone).replace(" step", "")
    found = _SEVERAL.fullmatch(step)
    if found is None:
        return step
    if found["last"] is None and step in gone:
        return _after(step, gone).replace(" step", "")
    return _PLACE.sub(lambda one: moved_place(one[0], gone), step)


_BEFORE: Final = "x "  # a slug is never empty, but of a value in other scripts nothing is left
_MOST_CHARS: Final = 100


def bind_id(old: str, needle: RecordedValue) -> str:
    """The name of the input stands where the value was."""
    at, made = 0, ""
    for start, end, _ in needle.find(old):
        made, at = f"{made}{old[at:start]}{needle.name}", end
    made += old[at:]
    folded = slug(_BEFORE + needle.literal)[len(_BEFORE) :]
    if ValueForm(folded).reach is not MatchScope.WHOLE:
        made = re.sub(f"(?<![a-z0-9]){re.escape(folded)}(?![a-z0-9])", needle.name, made)
    return made if made == old else made.lstrip("._-")[:_MOST_CHARS]


AModel = TypeVar("AModel", bound=RecordingModel)
Container = TypeVar("Container", dict[str, Any], tuple[Any, ...])

_TEXTS: Final = frozenset({"attributes", "equals", "file", "message", "option", "text", "value", "values"})
_ADDRESSES: Final = frozenset({"target", "url"})
_FOR_PEOPLE: Final = frozenset({"description", "name", "notes"})
_STEPS: Final = frozenset({"otherwise", "steps", "then"})
_MODELS: Final = frozenset({"condition", "fields", "not_found", "recover", "when"})
_OWN: Final = frozenset({"code", "id", "inputs", "on", "properties"})
TREATED: Final = _TEXTS | _ADDRESSES | _FOR_PEOPLE | _STEPS | _MODELS | _OWN

_WORDS: Final = frozenset(
    {
        "block",
        "button",
        "collect",
        "compare",
        "device",
        "dialogs",
        "do",
        "field",
        "flatten",
        "how",
        "kind",
        "outcome",
        "screenshot",
    }
    | {"state", "type", "version", "world"}
)
_REMARKED: Final = frozenset({"attribute", "base_url", "columns", "content_type", "key", "page", "sites", "transform"})
PLAIN: Final = _WORDS | _REMARKED
"""Fields in which no input can stand: words of the language, and others, of which remarks tell when they hold it."""


_ALL_OF_IT: Final = frozenset({"exact", "form", "part", "split"})
_MOST_SHOWN: Final = 200


class BoundPlace(msgspec.Struct, frozen=True):
    """Where an input stands now. `how`: exact, form, split, beginning, piece or part."""

    step: str
    field: str
    how: str
    text: str


class ValueReplacement:
    """One value in one recording; `places` and `remarks` tell what was done, `is_password` that it has to be hidden.

    `gone`, for steps that are left out, counts steps as they were; places, remarks and notes count them as they are
    from now on: beside the recording that people get."""

    def __init__(self, needle: RecordedValue) -> None:
        self.places: list[BoundPlace] = []
        self.remarks: list[Remark] = []
        self.gone: list[str] = []
        self.is_password = False
        self._needle = needle
        self._loose = needle.loose if needle.strict else needle
        self._is_typed_later = False
        self._doubtful: set[str] = set()  # places of steps that were told of

    @property
    def found_all_of_it(self) -> bool:
        """Whether all of the value stands somewhere, other than in the name of an element."""
        return any(place.field != "on" and place.how in _ALL_OF_IT for place in self.places)

    def recording(self, recording: Recording) -> Recording:
        """All of it."""
        self._is_typed_later = bool(find_typed_texts(recording.steps, self._needle).bound)
        made = self._model(recording, "")
        self.remarks = [renumber_remark(remark, self.gone) for remark in self.remarks]
        self.places = [msgspec.structs.replace(one, step=moved_place(one.step, self.gone)) for one in self.places]
        return made.model_copy(update={"notes": tuple(renumber_note(note, self.gone) for note in made.notes)})

    def _model(self, model: AModel, place: str) -> AModel:
        given = {name: getattr(model, name) for name in type(model).model_fields if name in model.model_fields_set}
        made = {name: self._field(name, value, place, model) for name, value in given.items() if value is not None}
        changes = {name: value for name, value in made.items() if value is not given[name]}
        return model.model_copy(update=changes) if changes else model

    def _field(self, name: str, value: Any, place: str, model: RecordingModel) -> Any:
        if name in _TEXTS:
            return self._each(value, lambda text: self._text(text, place, name))
        if name in _ADDRESSES:
            return self._address(value, place, name, model)
        if name in _FOR_PEOPLE:
            return self._each(value, lambda text: self._for_people(text, place, name))
        if name in _STEPS:
            return self._steps(value, place and f"{place}.{'else' if name == 'otherwise' else name}.")
        if name in _MODELS:
            return self._models(name, value, place)
        if name in _OWN:
            return self._own(name, value, place, model)
        if name in _REMARKED and self._is_in(value):
            self._remark(f"{name} holds it, and no input can stand there", place)
        return value

    def _own(self, name: str, value: Any, place: str, model: RecordingModel) -> Any:
        match name:
            case "on":
                return self._selectors(value, place, model)
            case "properties":
                return self._properties(value, place)
            case "id":
                return self._id(value)
            case "code" if is_still_in(value, self._needle):
                self._remark_left(name, value, place)
        return value

    def _models(self, name: str, value: Any, place: str) -> Any:
        if isinstance(value, RecordingModel):
            return self._model(value, place)
        if isinstance(value, dict):
            return _same_or({key: self._model(one, place) for key, one in value.items()}, value)
        return _same_or(tuple(self._model(one, f"{name}.{number}") for number, one in enumerate(value, 1)), value)

    def _steps(self, steps: tuple[AnyStep, ...], before: str) -> tuple[AnyStep, ...]:
        bound, needless, doubtful = find_typed_texts(steps, self._needle)
        for first, last in pressed_in(steps, self._needle):
            self._remark_pressed(f"{before}{first + 1}", f"{before}{last + 1}")
        made: list[AnyStep] = []
        for at, step in enumerate(steps):
            place = f"{before}{at + 1}"
            if at in needless:
                self._leave_out("types only the beginning of it, and is left out", place)
            elif isinstance(step, JavaScript) and self._needle.find(step.code):
                self._leave_out_script(step, place)
            else:
                if at in doubtful:
                    self._remark_doubtful(typed_in(step) or "", place)
                made.append(self._model(self._typed(step, place, bound.get(at)), place))
        if steps and not made:
            raise BadInput(f"step {before}1: nothing is left there without {self._needle.literal!r}")
        return tuple(made)

    def _typed(self, step: AnyStep, place: str, typing: TypedText | None) -> AnyStep:
        if typing is None:
            return step
        self._is_typed_later = False
        self.is_password = self.is_password or asks_for_password(step)
        field = "option" if isinstance(step, Select) else "text"
        self.places.append(BoundPlace(place, field, typing.how, typing.text))
        return step.model_copy(update={field: typing.text})

    def _remark_doubtful(self, text: str, place: str) -> None:
        self._doubtful.add(place)
        flag = shlex.quote(f"{self._needle.name}={text}")
        self._remark(f"{text!r} may be a part of it or something else, and stays; if it is, --bind-part {flag}", place)

    def _leave_out_script(self, step: JavaScript, place: str) -> None:
        if not step.until_true:
            raise BadInput(f"step {place}: its script holds {self._needle.literal!r}, where no input can stand")
        self._leave_out("waits by a script that holds it, where no input can stand, and is left out", place)

    def _leave_out(self, why: str, place: str) -> None:
        self.gone.append(place)
        self._remark(why, place)

    def _text(self, value: str, place: str, name: str) -> str:
        whole = None if has_references(value) else self._needle.whole(unescaped_text(value))
        made = self._needle.replaced(value) if whole is None else template_text(whole)
        if place not in self._doubtful and is_still_in(made or value, self._loose):
            self._remark_left(name, made or value, place)
        if made is None:
            return value
        how = "part" if whole is None else "exact" if unescaped_text(value) == self._needle.literal else "form"
        self.places.append(BoundPlace(place, name, how, made))
        return made

    def _for_people(self, value: str, place: str, name: str) -> str:
        """Nothing depends on it; but what is left would be read, and passed on."""
        made = self._needle.replaced(value) or value
        if self._needle.reach is not MatchScope.WHOLE and is_still_in(made, self._loose):
            self._remark_left(name, made, place)
        return made

    def _address(self, value: str, place: str, name: str, model: RecordingModel) -> str:
        if value in (MAIN, NEWEST):
            return value
        by_chance = isinstance(model, Goto) and self._is_typed_later and self._needle.is_word
        found = bind_address(value, self._needle, path_too=not by_chance)
        if found.spared is not None:
            self._remark(f"{name} {found.spared}", place)
        if found.left:
            self._remark_left(name, found.text or value, place)
        elif self._needle.strict and bind_address(value, self._loose, path_too=not by_chance) != found:
            self._remark(f"{name} may hold a part of it, and stays; put the input there by hand if it is meant", place)
        elif (piece := piece_in(found.text or value, self._needle)) is not None:
            told = f"{name} has {piece!r}, which may be a part of it, and stays; put the input there by hand if it is"
            self._remark(told, place)
        if found.text is None:
            return value
        self.places.append(BoundPlace(place, name, "split" if found.split else "part", found.text))
        return found.text

    def _selectors(self, value: Selectors, place: str, model: RecordingModel) -> Selectors:
        found = bind_selectors(value, self._needle, may_hold=not isinstance(model, Rule))
        if found is None:
            return value
        if found.on is None:
            raise BadInput(
                f"step {place}: all that names its element holds {self._needle.literal!r}, and no input can stand "
                "there; give it another selector"
            )
        for dropped in found.dropped:
            self._remark(f"the selector {dropped} names an element by it, and is dropped", place)
        if found.left is not None:
            self._remark_left("the selector", found.left, place)
        if found.bound:
            self.places.append(
                BoundPlace(place, "on", "part", selector_label(tuple(one for one in found.on if one not in value)))
            )
        return found.on

    def _properties(self, value: dict[str, Any], place: str) -> dict[str, Any] | None:
        left = {name: one for name, one in value.items() if not self._is_in(one)}
        for name, one in left.items():
            if isinstance(one, str) and is_still_in(one, self._needle):
                self._remark_left(f"the property {name}", one, place)
        if len(left) == len(value):
            return value
        self._remark(f"properties hold it, where no input can stand: {', '.join(value.keys() - left.keys())}", place)
        return left or None

    def _id(self, old: str) -> str:
        made = bind_id(old, self._needle)
        if self._needle.reach is not MatchScope.WHOLE and is_still_in(
            made.replace(self._needle.name, ""), self._needle
        ):
            self._remark("the id still holds it; give it another (--id)", "")
        return made

    def _is_in(self, value: Any) -> bool:
        if isinstance(value, dict):
            return any(map(self._is_in, value.values()))
        if isinstance(value, (list, tuple)):
            return any(map(self._is_in, value))
        return isinstance(value, str) and bool(self._needle.whole(value) or self._needle.find(value))

    def _each(self, value: Any, replace: Any) -> Any:
        if isinstance(value, str):
            return replace(value)
        if isinstance(value, dict):
            return _same_or({key: replace(one) for key, one in value.items()}, value)
        return _same_or(tuple(map(replace, value)), value)

    def _remark_pressed(self, first: str, last: str) -> None:
        told = "is pressed key by key, where no input can stand, so each item would get it"
        told = f"{told}; take these steps out, and type the input in their place if no other step does"
        self.remarks.append(Remark(f"{self._needle.literal!r}: {told}", f"steps {first} to {last}"))

    def _remark_left(self, what: str, text: str, place: str) -> None:
        is_short = self._needle.reach is MatchScope.WHOLE
        why = "and so short a value may be there by chance" if is_short else "written as no filter writes it"
        self._remark(f"{what} still holds it, {why}; put the input there by hand if it is meant: {_short(text)}", place)

    def _remark(self, text: str, place: str) -> None:
        where = f"step {place}" if place[:1].isdigit() else place
        self.remarks.append(Remark(f"{self._needle.literal!r}: {text}", where))


def _short(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…")


def _same_or(made: Container, old: Container) -> Container:
    return old if made == old else made
