"""ActionScraper: a recording as a scraper. Plays its steps in a browser and reads the stored pages by its rules.

Input and Output models are made from the inputs it declares and the fields its `extract` steps read.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar
from urllib.parse import urljoin

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, create_model

from swath.domain.errors import BadInput, Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.safe_regex import fullmatch
from swath.fetch.http.page.parsing.values import UnreadableValue
from swath.recordings.document import read_recording
from swath.recordings.extraction.record import read_record
from swath.recordings.extraction.rules import convert_value, parse_yes_no
from swath.recordings.schema.models import Rule, ValueType
from swath.recordings.schema.recording import InputField, Recording, branches_of, walk
from swath.recordings.schema.steps import AnyStep, Extract, ForEach, Goto, RepeatUntil, Stop
from swath.recordings.schema.template import render_template
from swath.recordings.validation.names import field_name_error
from swath.sdk import models
from swath.sdk.pages import Pages
from swath.sdk.scraper import BrowserScraper, ScraperKind

if TYPE_CHECKING:
    from swath.fetch.browser.tab.session import BrowserSession
    from swath.recordings.player.step_times import StepTime

__all__ = ["ActionScraper", "input_model", "output_model"]

_Number = Annotated[Decimal, PlainSerializer(lambda number: format(number, "f"), return_type=str, when_used="json")]
_TYPES: Final[dict[ValueType, Any]] = {
    "text": str,
    "integer": int,
    "number": _Number,
    "money": models.Money,
    "date": models.Date,
    "yes_no": bool,
}
_SCHEMAS: Final[dict[ValueType, dict[str, Any]]] = {
    "text": {"type": "string"},
    "integer": {"type": ["integer", "string"]},
    "number": {"type": ["number", "string"]},
    "money": {"type": ["number", "string"]},
    "date": {"type": "string"},
    "yes_no": {"type": ["boolean", "string"]},
}
_M = TypeVar("_M", models.Input, models.Output)
_WORDS: Final = {"integer": "a whole number", "number": "a number", "money": "an amount", "date": "a date"}


def input_model(recording: Recording) -> type[models.Input]:
    """Values stay the texts that they were given as, because they are typed into pages; their types are only checked.

    What is yes or no is `yes` or `no`, however it was written.
    """
    fields: dict[str, Any] = {}
    for name, field in recording.inputs.items():
        _check_name(recording, name, "input")
        fields[name] = _input(field)
    return _make_model(f"{_title(recording)}Input", models.Input, fields)


def output_model(recording: Recording) -> type[models.Output]:
    """What is always read is required; what may be missing, or belongs to steps that are not always done, may be
    null."""
    return _record(recording, f"{_title(recording)}Output", _FieldRules().walked(recording.steps))


def _input(field: InputField) -> tuple[Any, Any]:
    schema = dict(_SCHEMAS[field.type])
    if field.pattern is not None:
        schema["pattern"] = f"^(?:{field.pattern})$"
    checked = Annotated[str, BeforeValidator(_checker(field)), WithJsonSchema(schema)]
    examples = None if field.example is None else [field.example]
    told = field.description or None
    if field.required:
        return checked, Field(description=told, examples=examples)
    blank = Annotated[checked | None, BeforeValidator(_none_if_blank)]
    return blank, Field(default=None, description=told, examples=examples)


def _checker(field: InputField) -> Any:
    pattern = field.pattern

    def check(given: Any) -> Any:
        if isinstance(given, bool):
            given = "yes" if given else "no"
        elif isinstance(given, (int, float, Decimal)):
            given = str(given)
        if not isinstance(given, str):
            return given  # pydantic says what is wrong with it
        text = given.strip()
        if not text:
            raise ValueError("must not be empty")
        if pattern is not None and fullmatch(pattern, text) is None:
            raise ValueError(f"must match {pattern!r}")
        return _of_its_type(text, field.type)

    return check


def _of_its_type(text: str, kind: ValueType) -> str:
    try:
        if kind == "yes_no":
            said = parse_yes_no(text)
            if said is None:
                raise UnreadableValue(text, "yes or no")
            return "yes" if said else "no"
        if convert_value(text, kind) is None:
            raise UnreadableValue(text, kind)
    except UnreadableValue:
        raise ValueError(f"must be {_WORDS.get(kind, 'yes or no')}") from None
    return text


def _none_if_blank(given: Any) -> Any:
    return None if isinstance(given, str) and not given.strip() else given


class _FieldRules(dict[str, tuple[Any, bool]]):
    """By name: the rule, or the fields of a loop's records, and whether it is always there. `flatten` names the one
    whose rows are the loop's records."""

    flatten: str | None = None

    def walked(self, steps: Sequence[AnyStep], *, always: bool = True) -> _FieldRules:
        for step in steps:
            if isinstance(step, Extract):
                self._add(step.field, step, always=always and not step.optional)
            elif isinstance(step, (ForEach, RepeatUntil)):
                if step.collect is not None:
                    inside = self[step.collect][0] if step.collect in self else _FieldRules()
                    inside.flatten = step.flatten
                    self[step.collect] = (inside.walked(step.steps), False)
            else:
                for _, branch in branches_of(step):
                    self.walked(branch, always=False)
            always = always and not _may_end(step)
        return self

    def _add(self, name: str, rule: Rule, *, always: bool) -> None:
        """Steps that read the same field are of one kind: the check of the recording has seen to that."""
        self[name] = (rule, always or (name in self and self[name][1] and not rule.optional))


def _may_end(step: AnyStep) -> bool:
    """Whether what comes after it may never be done in an item that goes well."""
    if isinstance(step, Stop):
        return step.outcome == "success"
    return any(_may_end(inner) for _, branch in branches_of(step) for inner in branch)


def _record(recording: Recording, title: str, fields: _FieldRules) -> type[models.Output]:
    made: dict[str, Any] = {}
    for name, (what, always) in fields.items():
        _check_name(recording, name, "field")
        if isinstance(what, _FieldRules):
            inner = _record_of_loop(recording, f"{title}{_camel(name)}", what)
            made[name] = (list[inner], Field(default_factory=list))  # type: ignore[valid-type] # made just now
        else:
            kind, told = _type_of(recording, what, f"{title}{_camel(name)}"), getattr(what, "name", None)
            made[name] = (kind, Field(description=told)) if always else (kind | None, Field(None, description=told))
    return _make_model(title, models.Output, made)


def _record_of_loop(recording: Recording, title: str, fields: _FieldRules) -> Any:
    if fields.flatten is None:
        return _record(recording, title, fields)
    rule: Rule = fields[fields.flatten][0]
    if rule.kind == "table" and rule.columns is None:
        return dict[str, Any]  # what its headings are is known when they are read
    others = {name: field for name, field in fields.items() if name != fields.flatten}
    rows = rule.fields or {name: Rule(on=rule.on) for name in rule.columns or ()}
    return _record(
        recording, title, _FieldRules({**others, **{name: (one, not one.optional) for name, one in rows.items()}})
    )


def _type_of(recording: Recording, rule: Rule, title: str) -> Any:
    if rule.kind == "count":
        return int
    if rule.kind == "table":
        if rule.columns is None:
            return list[dict[str, str]]
        row = _make_model(title, models.Output, {_checked_name(recording, name): (str, ...) for name in rule.columns})
        return list[row]  # type: ignore[valid-type] # made just now
    value: Any = _TYPES[rule.type or "text"]
    if rule.kind != "list":
        return value
    if rule.fields is None:
        return list.__class_getitem__(value | None if rule.optional else value)
    fields = _FieldRules({name: (inner, not inner.optional) for name, inner in rule.fields.items()})
    inner = _record(recording, title, fields)
    return list[inner]  # type: ignore[valid-type] # made just now


def _make_model(title: str, base: type[_M], fields: dict[str, Any]) -> type[_M]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # `copy` and `schema` may be fields: nobody calls these here
        made: type[_M] = create_model(title, __base__=base, **fields)
        return made


def _checked_name(recording: Recording, name: str) -> str:
    _check_name(recording, name, "field")
    return name


def _check_name(recording: Recording, name: str, what: str) -> None:
    """Raises BadInput. The check of a document has done so before; not everything comes out of one."""
    objection = field_name_error(name)
    if objection is not None:
        raise BadInput(f"recording {recording.id!r}: {what}: {objection}")


def _title(recording: Recording) -> str:
    return _camel(re.sub(r"[^a-z0-9]+", "_", recording.id))


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


_FILES: Final = "files"
_BROWSER_OPTIONS: Final = ("keep_session", "mobile", "block", "screenshot")


class ActionScraper(BrowserScraper):
    """See Scraper. `recording` is the name of a file beside the class, or what is in one.

    Input, Output, `base_url` and what it wishes of the browser follow from the recording, unless the class has its own.
    """

    kind: ClassVar[ScraperKind] = "recording"
    recording: ClassVar[Recording | str]
    files: ClassVar[Path | None] = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        given: object = vars(cls).get("recording")
        if given is None:
            return  # it extends one that has a recording, or is extended by one
        if isinstance(given, str):
            file = _file_beside(cls, given)
            # A class is code of the operator's already, which could do the same without a recording; the registry looks
            # again at what its own setting allows.
            given, cls.files = read_recording(file, javascript=True), file.parent / _FILES
        if not isinstance(given, Recording):
            raise BadInput(f'{cls.__name__}: recording must be the name of a file: write recording = "flow.yaml"')
        cls.recording = given
        followed = {wish: getattr(given, wish) for wish in _BROWSER_OPTIONS} | {"base_url": given.base_url}
        made = {"Input": input_model, "Output": output_model}
        for name in (*followed, *made):
            if name not in vars(cls):
                setattr(cls, name, followed[name] if name in followed else made[name](given))

    @classmethod
    def of(cls, recording: Recording, source: str | Path | None = None) -> type[ActionScraper]:
        """The scraper that a recording is. Files that it uploads are in `files` beside its `source`."""
        return type(
            "RecordedScraper",
            (cls,),
            {
                "__doc__": recording.description,
                "recording": recording,
                "files": None if source is None else Path(source).parent / _FILES,
                "id": recording.id,
                "name": recording.name or recording.id,
                "version": recording.version,
                "description": recording.description,
                "sites": recording.sites,
            },
        )

    def site_url(self) -> str | None:
        """What addresses without a host belong to. Override it where that is known only when an item is fetched."""
        return self.base_url

    def start_url(self, item: Any) -> str | None:
        """Where the first `goto` leads."""
        for placed in walk(self._recording()):
            if isinstance(placed.step, Goto):
                try:
                    url = render_template(placed.step.url, {"input": item.model_dump()})
                except KeyError:
                    break  # it depends on what earlier steps will find
                except ValueError as error:
                    message = f"step {placed.place} (goto {placed.step.url}): {error}"
                    raise Failed(Failure.of(FailureKind.INVALID_INPUT, message)) from None
                return urljoin(self.site_url() or "", url)
        return self.site_url()

    @property
    def has_extract(self) -> bool:
        """Whether anything is extracted."""
        return super().has_extract and any(isinstance(placed.step, Extract) for placed in walk(self._recording()))

    async def fetch(self, item: Any, browser: BrowserSession, /) -> None:
        """Plays the recording, which leaves its pages with the session; at least that on which it ends."""
        await self.play(item, browser)

    async def play(
        self,
        item: Any,
        browser: BrowserSession,
        *,
        watch: Callable[[StepTime], None] | None = None,
        pictures: bool = False,
    ) -> None:
        """The same for somebody who watches: each step is told when it is done, and with `pictures` one is taken."""
        from swath.recordings.player.play import play  # noqa: PLC0415 the driver may not be installed where pages are read

        recording = self._recording().model_copy(update={"base_url": self.site_url()})
        await play(recording, item.model_dump(), browser, files=self.files, watch=watch, pictures=pictures)

    def extract(self, pages: Pages) -> Any:
        """The record of the item's stored pages."""
        return read_record(self._recording(), pages)

    def _recording(self) -> Recording:
        recording: object = getattr(self, "recording", None)
        if not isinstance(recording, Recording):
            raise BadInput(f'scraper "{self.id}" names no recording: write recording = "flow.yaml" in its class')
        return recording


def _file_beside(cls: type[ActionScraper], name: str) -> Path:
    """A file in the folder of the class."""
    module = inspect.getsourcefile(cls)
    if module is None:
        raise BadInput(f"{cls.__name__}: where {name} is cannot be told without a file of its own")
    return Path(module).parent / name
