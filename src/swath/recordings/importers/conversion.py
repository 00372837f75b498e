"""Builds a recording from the steps of another recorder: validates each, and collects its id, sites, inputs and notes.

Selector alternatives that cannot be used are dropped with a remark while others remain. Recorded braces stay braces,
except in references to inputs. A condition that cannot be carried over is left out with all of its branches: leaving
out its own line alone would run both.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urljoin, urlsplit

from pydantic import TypeAdapter, ValidationError

from swath.domain.errors import BadInput
from swath.domain.validation_messages import describe_problem
from swath.recordings.importers.remarks import Imported, Remark
from swath.recordings.schema.models import MAIN, NEWEST
from swath.recordings.schema.recording import DEFAULT_STEP_SECONDS, InputField, Recording, walk
from swath.recordings.schema.selectors import MOST_ALTERNATIVES, MOST_PARTS, MOST_SELECTOR_CHARS
from swath.recordings.schema.steps import AnyStep
from swath.recordings.schema.template import LiteralText, Template, parse_template
from swath.recordings.validation.check import MOST_STEPS, problems_of_one
from swath.recordings.validation.problems import ACTIONS, summarize_problems
from swath.recordings.validation.selectors import selector_error

__all__ = [
    "BranchWords",
    "SkippedBranches",
    "build_recording",
    "build_step",
    "check_length",
    "error_line",
    "escape_recorded_braces",
    "first_error",
    "is_flow_word",
    "shorten",
    "slug",
    "usable_selectors",
]

_MOST_CHARS: Final = 300


def first_error(error: ValidationError) -> str:
    """Where in the step the first error is, counted from 1, and what it says."""
    problem = error.errors(include_url=False)[0]
    loc = problem["loc"]
    path = [part for at, part in enumerate(loc) if part not in ACTIONS or (at > 0 and isinstance(loc[at - 1], str))]
    model = ACTIONS.get(str(loc[0])) if len(loc) == 2 else None
    what = describe_problem({**problem, "loc": loc[-1:]}, model)
    match problem["type"]:
        case "too_long" | "string_too_long":
            things = "characters" if isinstance(problem["input"], str) else "values"
            what = f"has more than {problem['ctx']['max_length']:,} {things}"
        case "too_short" | "string_too_short" if not problem["input"]:
            what = "is empty"
    where = ".".join(str(part + 1) if isinstance(part, int) else part for part in path)
    return _short(f"{where}: {what}" if where else what)


def error_line(error: BaseException) -> str:
    """The name of an error and what it says."""
    try:
        said = str(error)
    except BaseException:  # noqa: BLE001 somebody's own exception may not even be able to tell what it is
        said = ""
    return _short(f"{type(error).__name__}: {said}".removesuffix(": "))


def _short(text: str) -> str:
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= _MOST_CHARS else f"{line[:_MOST_CHARS]}…"


_MOST_SHOWN: Final = 80


def usable_selectors(on: Any, place: str, remarks: list[Remark], *, stored: bool = False) -> Any:
    """Those that can be used, if there are any; else all of them. `stored`: they are for stored pages."""
    if not isinstance(on, list):
        return on
    objections = [_chain_error(one, stored=stored) for one in on]
    kept = [one for one, objection in zip(on, objections, strict=True) if objection is None]
    if not kept:
        return on
    remarks += [
        Remark(f"the selector {objection}, and is dropped; others stay", place) for objection in objections if objection
    ]
    if len(kept) > MOST_ALTERNATIVES:
        told = f"has {len(kept)} selectors for one element; the first {MOST_ALTERNATIVES} stay"
        remarks.append(Remark(told, place))
    return kept[:MOST_ALTERNATIVES]


def _chain_error(chain: Any, *, stored: bool) -> str | None:
    parts = [chain] if isinstance(chain, str) else chain
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return None  # no selector at all, which is said when the step is made
    if not parts or len(parts) > MOST_PARTS:
        return f"{_shown(chain)} has {len(parts)} parts"
    for part in parts:
        if len(part) > MOST_SELECTOR_CHARS:
            return f"{_shown(part)} has more than {MOST_SELECTOR_CHARS:,} characters"
        try:
            objection = selector_error(part, stored=stored)
        except ValueError as error:
            return f"{_shown(part)} cannot be read: {error}"
        if objection is not None:
            return objection
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


_WITH_REFERENCES: Final = frozenset(
    {"attributes", "equals", "file", "message", "on", "option", "target", "text", "url", "value", "values"}
)
_INPUT: Final = re.compile(r"(\{\{\s*input\s*[.|](?:\"(?:\\.|[^\"\\])*\"|[^{}\"])*\}\})", re.DOTALL)
_BEGUN: Final = re.compile(r"\{\{\s*input\s*[.|}]")
_OTHERS: Final = re.compile(r"\{\{.{0,100}?\}\}", re.DOTALL)


def escape_recorded_braces(fields: Mapping[str, Any], place: str, remarks: list[Remark]) -> dict[str, Any]:
    """The fields of a step, with braces written so that they stay. Remarks tell of what might have been an input."""
    made = {name: _value(value) if name in _WITH_REFERENCES else value for name, value in fields.items()}
    for name, value in fields.items():
        if made[name] != value and (found := _OTHERS.search(str(value))):
            told = f"{name} has {found[0]!r}, which is taken for text; an input is written {{{{ input.name }}}}"
            remarks.append(Remark(told, place))
    return made


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple)):
        return [_value(one) for one in value]
    return {key: _value(one) for key, one in value.items()} if isinstance(value, dict) else value


def _text(text: str) -> str:
    if "{{" not in text:
        return text
    pieces = _INPUT.split(text)
    if any(_BEGUN.search(piece) for piece in pieces[::2]):
        return text  # a reference that is broken: whoever reads it says so
    try:
        parts = [
            part
            for at, piece in enumerate(pieces)
            for part in (parse_template(piece).parts if at % 2 else [LiteralText(piece)])
        ]
    except ValueError:
        return text
    return str(Template(tuple(parts)))


FlowKind = Literal["if", "loop", "else", "end", "jump"]

_WORDS: Final[dict[str, FlowKind]] = {
    **dict.fromkeys(("if", "switch", "try"), "if"),
    **dict.fromkeys(("else", "elseif", "elif", "otherwise", "case", "catch", "finally"), "else"),
    **dict.fromkeys(("end", "endif", "endswitch", "endtry", "endwhile", "endfor", "endforeach"), "end"),
    **dict.fromkeys(("endtimes", "endloop"), "end"),
    **dict.fromkeys(("while", "times", "for", "foreach", "loop"), "loop"),
    **dict.fromkeys(("gotoif", "gotolabel", "jumpif", "jumpto", "skipif"), "jump"),
}
# Longer names begin with such words: `ifElementExists`, `else_visible`, `endIfVisible`, `whileShown`.
_FIRST: Final[dict[str, FlowKind]] = {
    **dict.fromkeys(("if", "unless"), "if"),
    **dict.fromkeys(("else", "elseif", "elif", "otherwise"), "else"),
    **dict.fromkeys(("while", "for", "foreach", "repeat", "loop"), "loop"),
}
_ENDS: Final = frozenset({*_FIRST, "switch", "try", "condition"})
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_MOST_TOLD: Final = 10


class BranchWords(NamedTuple):
    """What a recorder calls them, besides the usual words."""

    begin: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    end: tuple[str, ...] = ()

    def kind(self, action: str) -> FlowKind | None:
        """What an action is, if it is none that does something."""
        own: tuple[tuple[tuple[str, ...], FlowKind], ...] = (
            (self.begin, "if"),
            (self.otherwise, "else"),
            (self.end, "end"),
        )
        return next((kind for names, kind in own if action in names), _kind(action))


class _Block(NamedTuple):
    number: int
    action: str
    kind: FlowKind


class SkippedBranches:
    """Of one recording. `takes` is asked about each step, in order."""

    def __init__(self, words: BranchWords) -> None:
        self._words = words
        self._open: list[_Block] = []
        self._taken: list[str] = []
        self.told: list[Remark] = []

    def takes(self, number: int, action: str, *, known: bool) -> bool:
        """Whether the step belongs to a condition that is left out. `known`: the mapping has the action. Raises
        BadInput for an `else` whose condition is not known, and for a jump that is not left out."""
        kind = None if known else self._words.kind(action)
        was_inside = self._is_inside
        if kind in ("if", "loop"):
            self._open.append(_Block(number, action, kind))
        elif kind == "else" and not (self._open and self._open[-1].kind == "if"):
            raise BadInput(
                f"step {number} ({action}): has no condition before it, so one of two branches cannot be told"
            )
        elif kind == "jump" and not was_inside:
            raise BadInput(
                f"step {number} ({action}): jumps over steps, which cannot be carried over; take it out of the "
                "recording with the steps that it guards"
            )
        ends = self._open.pop() if kind == "end" and self._open else None
        if not was_inside and not self._is_inside:
            return False
        self._taken.append(action)
        if ends is not None and not self._is_inside:
            self._tell(ends)
        return True

    def check_ended(self) -> None:
        """Raises BadInput when a condition has no end: then nobody knows which steps it guards."""
        for block in self._open:
            if block.kind == "if":
                raise BadInput(
                    f"step {block.number} ({block.action}): is a condition that cannot be carried over, and has no "
                    "end; take it out of the recording with the steps that it guards"
                )

    @property
    def _is_inside(self) -> bool:
        return any(block.kind == "if" for block in self._open)

    def _tell(self, block: _Block) -> None:
        names = ", ".join((*self._taken[:_MOST_TOLD], *(["…"] if len(self._taken) > _MOST_TOLD else [])))
        text = f"a condition cannot be carried over, and all of it is left out: {len(self._taken)} steps ({names})"
        place = f"step {block.number} ({block.action})"
        self.told.append(Remark(f"{text}; write an if step in its place", place))
        self._taken = []


def is_flow_word(name: str) -> bool:
    """Whether an action begins, parts or ends branches or loops by its name."""
    return _kind(name) is not None


def _kind(name: str) -> FlowKind | None:
    plain, words = _plain(name), [word.lower() for word in _WORD.findall(name)]
    if plain in _WORDS or len(words) < 2:
        return _WORDS.get(plain)
    return "end" if words[0] == "end" and words[1] in _ENDS else _FIRST.get(words[0])


def _plain(name: str) -> str:
    """Without signs, and without the version that some recorders add: `if_v2`."""
    return re.sub(r"[^a-z]", "", re.sub(r"_v\d+$", "", name.lower()))


_STEP: Final[TypeAdapter[AnyStep]] = TypeAdapter(AnyStep)
_MOST_GIVEN: Final = 5_000
_MOST_NOTES: Final = 500
_MOST_NOTE_CHARS: Final = 4_000
_MOST_NAME_CHARS: Final = 200
_OPENS_NOTHING: Final = "opens no page, as if one were open already: add a goto step before the first that needs one"
_HOST: Final = re.compile(r"[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9_])?|[0-9a-f:]{2,45}")
_FIELD: Final = re.compile(r"[a-z_][a-z0-9_]{0,63}")


def check_length(given: Sequence[Any]) -> None:
    """A recorder may tell of much that is left out, but not of everything. Raises BadInput."""
    if len(given) > _MOST_GIVEN:
        raise BadInput(f"has {len(given):,} steps; at most {_MOST_GIVEN:,} are read, and {MOST_STEPS} can be played")


def build_step(
    fields: Mapping[str, Any], place: str, *, theirs: Mapping[str, str] | None = None, base_url: str | None = None
) -> AnyStep:
    """A step of ours out of plain fields. Raises BadInput, which names the place, and the field as the recorder calls
    it if `theirs` knows: people have the recorder's file before them, and none of ours yet."""
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        step = _STEP.validate_json(json.dumps(given))
    except ValidationError as error:
        raise BadInput(f"{place}: {_with_their_field_name(first_error(error), theirs)}") from None
    problems = problems_of_one(step, base_url)
    if problems:
        raise BadInput(f"{place}: {_with_their_field_name(summarize_problems(problems), theirs)}")
    return step


def _with_their_field_name(message: str, theirs: Mapping[str, str] | None) -> str:
    name = re.match(r"\w+", message)
    return message if name is None or not theirs else theirs.get(name[0], name[0]) + message[name.end() :]


def build_recording(
    title: str,
    steps: Sequence[AnyStep],
    remarks: Iterable[Remark],
    step_seconds: float = DEFAULT_STEP_SECONDS,
    *,
    base_url: str | None = None,
) -> Imported:
    """The whole. Remarks become its notes, so that they stay with it. Raises BadInput when there is no step."""
    if not steps:
        raise BadInput("none of its steps is one that can be replayed")
    known = tuple(remarks)
    recording = Recording(
        swath_recording=1,
        id=slug(title),
        name=shorten(" ".join(title.split()), _MOST_NAME_CHARS),
        base_url=base_url,
        step_seconds=step_seconds,
        steps=tuple(steps),
        notes=tuple(shorten(str(remark), _MOST_NOTE_CHARS) for remark in known[:_MOST_NOTES]),
    )
    recording = recording.model_copy(update={"sites": _sites(recording), "inputs": _inputs(recording)})
    return Imported(recording, known if _opens_a_page(recording) else (*known, Remark(_OPENS_NOTHING)))


def slug(title: str) -> str:
    """An id out of a title."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:80].rstrip("-") or "recording"


def shorten(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _opens_a_page(recording: Recording) -> bool:
    return any(placed.step.do == "goto" for placed in walk(recording))


def _sites(recording: Recording) -> tuple[str, ...]:
    """The hosts of the addresses that are opened, then those of other windows and frames."""
    placed = [one.step for one in walk(recording)]
    addresses = [urljoin(recording.base_url or "", step.url) for step in placed if step.do == "goto"]
    addresses += [target for step in placed if (target := getattr(step, "target", MAIN)) not in (MAIN, NEWEST)]
    hosts = dict.fromkeys(filter(None, map(_host, addresses)))
    return tuple(hosts)[:100]


def _host(address: str) -> str | None:
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return None
    return host if _HOST.fullmatch(host) else None


def _inputs(recording: Recording) -> dict[str, InputField]:
    """People write `{{ input.name }}` while they record, or into the file."""
    names = (
        reference.name
        for text in _texts(recording.model_dump(mode="json")["steps"])
        for reference in parse_template(text).references
        if reference.root == "input" and reference.name is not None
    )
    return {name: InputField() for name in names if _FIELD.fullmatch(name)}


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        if "{{" in value:
            yield value
        return
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(part)
