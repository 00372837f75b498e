"""Puts a recording together from steps that an importer has made: its id, its sites, the inputs that it names, notes.

Before: chrome.py or mapped.py has translated the steps. After: binding/ gives it inputs, document.py checks the whole.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from pydantic import TypeAdapter, ValidationError

from swath.actions.checking.check import MOST_STEPS, problems_of_one
from swath.actions.checking.problem import told
from swath.actions.importing.explain import first_error
from swath.actions.importing.imported import Imported, Remark
from swath.actions.language.recording import DEFAULT_STEP_SECONDS, InputField, Recording
from swath.actions.language.step import MAIN, NEWEST
from swath.actions.language.steps import AnyStep
from swath.actions.language.template import parse
from swath.actions.language.walk import walk
from swath.domain.errors import BadInput

__all__ = ["assembled", "check_length", "made_step", "shortened", "slug"]

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


def made_step(
    fields: Mapping[str, Any], place: str, *, theirs: Mapping[str, str] | None = None, base_url: str | None = None
) -> AnyStep:
    """A step of ours out of plain fields. Raises BadInput, which names the place, and the field as the recorder calls
    it if `theirs` knows: people have the recorder's file before them, and none of ours yet."""
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        step = _STEP.validate_json(json.dumps(given))
    except ValidationError as error:
        raise BadInput(f"{place}: {_in_their_words(first_error(error), theirs)}") from None
    problems = problems_of_one(step, base_url)
    if problems:
        raise BadInput(f"{place}: {_in_their_words(told(problems), theirs)}")
    return step


def _in_their_words(message: str, theirs: Mapping[str, str] | None) -> str:
    name = re.match(r"\w+", message)
    return message if name is None or not theirs else theirs.get(name[0], name[0]) + message[name.end() :]


def assembled(
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
        name=shortened(" ".join(title.split()), _MOST_NAME_CHARS),
        base_url=base_url,
        step_seconds=step_seconds,
        steps=tuple(steps),
        notes=tuple(shortened(str(remark), _MOST_NOTE_CHARS) for remark in known[:_MOST_NOTES]),
    )
    recording = recording.model_copy(update={"sites": _sites(recording), "inputs": _inputs(recording)})
    return Imported(recording, known if _opens_something(recording) else (*known, Remark(_OPENS_NOTHING)))


def slug(title: str) -> str:
    """An id out of a title."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:80].rstrip("-") or "recording"


def shortened(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _opens_something(recording: Recording) -> bool:
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
        for reference in parse(text).references
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
