"""Replaces one value all through a recording: each field of each model in its own way.

Before: forms.py knows how the value may be written. Used by bind.py.
"""

from __future__ import annotations

import shlex
from typing import Any, Final, TypeVar

import msgspec

from swath.actions.importing.binding.addresses import bound_address, piece_in
from swath.actions.importing.binding.forms import Needle, Reach, meant, spelt
from swath.actions.importing.binding.ids import bound_id
from swath.actions.importing.binding.keys import pressed_in
from swath.actions.importing.binding.places import moved, renumbered, renumbered_note
from swath.actions.importing.binding.residue import is_left_in
from swath.actions.importing.binding.selectors import bound_selectors
from swath.actions.importing.binding.typings import Typing, typed_in, typings_in
from swath.actions.importing.imported import Remark
from swath.actions.importing.passwords import asks_for_password
from swath.actions.language.recording import Recording
from swath.actions.language.rules import Rule
from swath.actions.language.selector import Selectors, shown
from swath.actions.language.step import MAIN, NEWEST, Model
from swath.actions.language.steps import AnyStep, Goto, JavaScript, Select
from swath.actions.language.template import has_references
from swath.domain.errors import BadInput

__all__ = ["PLAIN", "TREATED", "Place", "Replacing"]

AModel = TypeVar("AModel", bound=Model)
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
_TOLD: Final = frozenset({"attribute", "base_url", "columns", "content_type", "key", "page", "sites", "transform"})
PLAIN: Final = _WORDS | _TOLD
"""Fields in which no input can stand: words of the language, and others, of which remarks tell when they hold it."""


_ALL_OF_IT: Final = frozenset({"exact", "form", "part", "split"})
_MOST_SHOWN: Final = 200


class Place(msgspec.Struct, frozen=True):
    """Where an input stands now. `how`: exact, form, split, beginning, piece or part."""

    step: str
    field: str
    how: str
    text: str


class Replacing:
    """One value in one recording; `places` and `remarks` tell what was done, `is_password` that it has to be hidden.

    `gone`, for steps that are left out, counts steps as they were; places, remarks and notes count them as they are
    from now on: beside the recording that people get."""

    def __init__(self, needle: Needle) -> None:
        self.places: list[Place] = []
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
        self._is_typed_later = bool(typings_in(recording.steps, self._needle).bound)
        made = self._model(recording, "")
        self.remarks = [renumbered(remark, self.gone) for remark in self.remarks]
        self.places = [msgspec.structs.replace(one, step=moved(one.step, self.gone)) for one in self.places]
        return made.model_copy(update={"notes": tuple(renumbered_note(note, self.gone) for note in made.notes)})

    def _model(self, model: AModel, place: str) -> AModel:
        given = {name: getattr(model, name) for name in type(model).model_fields if name in model.model_fields_set}
        made = {name: self._field(name, value, place, model) for name, value in given.items() if value is not None}
        changes = {name: value for name, value in made.items() if value is not given[name]}
        return model.model_copy(update=changes) if changes else model

    def _field(self, name: str, value: Any, place: str, model: Model) -> Any:
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
        if name in _TOLD and self._is_in(value):
            self._remark(f"{name} holds it, and no input can stand there", place)
        return value

    def _own(self, name: str, value: Any, place: str, model: Model) -> Any:
        match name:
            case "on":
                return self._selectors(value, place, model)
            case "properties":
                return self._properties(value, place)
            case "id":
                return self._id(value)
            case "code" if is_left_in(value, self._needle):
                self._remark_left(name, value, place)
        return value

    def _models(self, name: str, value: Any, place: str) -> Any:
        if isinstance(value, Model):
            return self._model(value, place)
        if isinstance(value, dict):
            return _same_or({key: self._model(one, place) for key, one in value.items()}, value)
        return _same_or(tuple(self._model(one, f"{name}.{number}") for number, one in enumerate(value, 1)), value)

    def _steps(self, steps: tuple[AnyStep, ...], before: str) -> tuple[AnyStep, ...]:
        bound, needless, doubtful = typings_in(steps, self._needle)
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

    def _typed(self, step: AnyStep, place: str, typing: Typing | None) -> AnyStep:
        if typing is None:
            return step
        self._is_typed_later = False
        self.is_password = self.is_password or asks_for_password(step)
        field = "option" if isinstance(step, Select) else "text"
        self.places.append(Place(place, field, typing.how, typing.text))
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
        whole = None if has_references(value) else self._needle.whole(meant(value))
        made = self._needle.replaced(value) if whole is None else spelt(whole)
        if place not in self._doubtful and is_left_in(made or value, self._loose):
            self._remark_left(name, made or value, place)
        if made is None:
            return value
        how = "part" if whole is None else "exact" if meant(value) == self._needle.literal else "form"
        self.places.append(Place(place, name, how, made))
        return made

    def _for_people(self, value: str, place: str, name: str) -> str:
        """Nothing depends on it; but what is left would be read, and passed on."""
        made = self._needle.replaced(value) or value
        if self._needle.reach is not Reach.WHOLE and is_left_in(made, self._loose):
            self._remark_left(name, made, place)
        return made

    def _address(self, value: str, place: str, name: str, model: Model) -> str:
        if value in (MAIN, NEWEST):
            return value
        by_chance = isinstance(model, Goto) and self._is_typed_later and self._needle.is_word
        found = bound_address(value, self._needle, path_too=not by_chance)
        if found.spared is not None:
            self._remark(f"{name} {found.spared}", place)
        if found.left:
            self._remark_left(name, found.text or value, place)
        elif self._needle.strict and bound_address(value, self._loose, path_too=not by_chance) != found:
            self._remark(f"{name} may hold a part of it, and stays; put the input there by hand if it is meant", place)
        elif (piece := piece_in(found.text or value, self._needle)) is not None:
            told = f"{name} has {piece!r}, which may be a part of it, and stays; put the input there by hand if it is"
            self._remark(told, place)
        if found.text is None:
            return value
        self.places.append(Place(place, name, "split" if found.split else "part", found.text))
        return found.text

    def _selectors(self, value: Selectors, place: str, model: Model) -> Selectors:
        found = bound_selectors(value, self._needle, may_hold=not isinstance(model, Rule))
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
            self.places.append(Place(place, "on", "part", shown(tuple(one for one in found.on if one not in value))))
        return found.on

    def _properties(self, value: dict[str, Any], place: str) -> dict[str, Any] | None:
        left = {name: one for name, one in value.items() if not self._is_in(one)}
        for name, one in left.items():
            if isinstance(one, str) and is_left_in(one, self._needle):
                self._remark_left(f"the property {name}", one, place)
        if len(left) == len(value):
            return value
        self._remark(f"properties hold it, where no input can stand: {', '.join(value.keys() - left.keys())}", place)
        return left or None

    def _id(self, old: str) -> str:
        made = bound_id(old, self._needle)
        if self._needle.reach is not Reach.WHOLE and is_left_in(made.replace(self._needle.name, ""), self._needle):
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
        is_short = self._needle.reach is Reach.WHOLE
        why = "and so short a value may be there by chance" if is_short else "written as no filter writes it"
        self._remark(f"{what} still holds it, {why}; put the input there by hand if it is meant: {_short(text)}", place)

    def _remark(self, text: str, place: str) -> None:
        where = f"step {place}" if place[:1].isdigit() else place
        self.remarks.append(Remark(f"{self._needle.literal!r}: {text}", where))


def _short(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…")


def _same_or(made: Container, old: Container) -> Container:
    return old if made == old else made
