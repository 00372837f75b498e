"""Reads recordings from YAML or JSON, names every mistake in one line, and writes them back without loss.

Also gives the language as JSON Schema (docs/reference/recording.schema.json), which tells the shape of a document
but
not what holds between its steps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml
from pydantic import ValidationError

from swath.domain.errors import BadInput
from swath.fetch.sites.strict_yaml import parse_yaml, write_yaml
from swath.recordings.schema.models import PageStep
from swath.recordings.schema.recording import Recording
from swath.recordings.validation.check import check_recording
from swath.recordings.validation.problems import Problem, place_in_document, validation_message

__all__ = [
    "MOST_CHARS",
    "check_recording",
    "dump_json",
    "dump_yaml",
    "parse_recording",
    "plain_values",
    "read_recording",
    "recording_schema",
]

MOST_CHARS: Final = 1 << 20
_DEEPEST: Final = 32
_MOST_VALUES: Final = 50_000
_MOST_DIGITS: Final = 100  # of a whole number, as in YAML

_Path = tuple[int | str, ...]


def plain_values(text: str, *, is_json: bool) -> object:
    """What the text says. Raises ValueError, with the line or the place."""
    if len(text) > MOST_CHARS or len(text.encode("utf-8", "surrogatepass")) > MOST_CHARS:
        raise ValueError("is larger than 1 MiB, which no recording is; name the right file")
    if text.startswith("\ufeff"):
        raise ValueError("begins with a byte order mark; save it as UTF-8 without one")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(f"line {line}: has a NUL character; save it as UTF-8 text")
    try:
        content = _from_json(text) if is_json else parse_yaml(text, most_values=_MOST_VALUES)
    except RecursionError:
        raise ValueError(f"is nested deeper than {_DEEPEST} levels") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: is no valid JSON: {error.msg}") from None
    except yaml.MarkedYAMLError as error:
        line_there = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{line_there}{error.problem or 'is no valid YAML'}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = (
            f"has the character U+{ord(text[error.position]):04X}" if error.position < len(text) else str(error.reason)
        )
        raise ValueError(f"line {line}: {what}, which YAML does not allow; write it in double quotes as \\u…") from None
    _check(content, (), content)
    return content


def _from_json(text: str) -> object:
    if not text.strip():
        return None
    return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_int=_whole)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"the key {name[:60]!r} is there twice")
        made[name] = value
    return made


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"has a number of {len(digits):,} digits, {digits[:20]}…; at most {_MOST_DIGITS}")
    return int(digits)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"has {constant}, which is no number")


def _check(value: object, path: _Path, content: object) -> None:
    """Only what JSON has, not too deep, and only text that can be stored."""
    if len(path) > _DEEPEST:
        raise ValueError(f"is nested deeper than {_DEEPEST} levels")
    objection = _value_error(value)
    if objection is not None:
        raise ValueError(str(Problem(place_in_document(path, content), objection)))
    if isinstance(value, dict):
        for key, part in value.items():
            objection = (
                _value_error(key) if isinstance(key, str) else f"the name {key!r} is no text; write it in quotes"
            )
            if objection is not None:
                raise ValueError(str(Problem(place_in_document(path, content), objection)))
            _check(part, (*path, key), content)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            _check(part, (*path, number), content)


def _value_error(value: object) -> str | None:
    match value:
        case str():
            if "\0" in value:
                return "has a NUL character; take it out"
            try:
                value.encode()
            except UnicodeEncodeError:
                return "has half a character (a lone surrogate); take it out"
        case float() if not math.isfinite(value):
            return "must be a finite number"
        case None | bool() | int() | float() | dict() | list():
            return None
        case _:
            return "is neither text, a number, a list nor a mapping; write it in quotes"
    return None


_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_FIRST: Final = ("do", "name", "field")
_NESTED: Final = ("then", "else", "steps")
_COMMON: Final = tuple(PageStep.model_fields)
_MOST_WHOLE: Final = 1e15


def read_recording(path: str | Path, *, javascript: bool = False) -> Recording:
    """The recording in a file, which is JSON if its name ends so and else YAML. Raises BadInput, in one line."""
    return parse_recording(_text_of(Path(path)), str(path), javascript=javascript)


def parse_recording(text: str, name: str, *, javascript: bool = False) -> Recording:
    """The same for text that is at hand; `name` is what messages call it, and tells YAML from JSON by its ending."""
    is_json = name.lower().endswith(".json") or (
        text.lstrip().startswith("{") and not name.lower().endswith((".yaml", ".yml"))
    )
    try:
        content = plain_values(text, is_json=is_json)
    except ValueError as error:
        raise BadInput(f"{name}: {Problem('', str(error))}") from None
    recording = _recording(content, name)
    check_recording(recording, name, javascript=javascript)
    return recording


def _text_of(path: Path) -> str:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise BadInput(f"{path}: is a pipe or a device, not a file; name a file")
        with path.open("rb") as file:
            raw = file.read(MOST_CHARS + 1)
    except FileNotFoundError:
        raise BadInput(f"{path}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise BadInput(f"{path}: is a directory; name one file in it") from None
    except PermissionError:
        raise BadInput(f"{path}: may not be read; give yourself permission: chmod u+r") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise BadInput(f"{str(path)!r}: is not the name of a file") from None
    if len(raw) > MOST_CHARS:
        raise BadInput(f"{path}: is larger than 1 MiB, which no recording is; name the right file")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        kind = "is UTF-16" if raw.startswith(_UTF_16) else f"line {line}: is not UTF-8 text"
        raise BadInput(f"{path}: {kind}; save it as UTF-8") from None


def _recording(content: object, name: str) -> Recording:
    if not isinstance(content, dict):
        what = "is empty" if content is None else "is no mapping"
        raise BadInput(f"{name}: {what}; a recording begins with swath_recording: 1, id and steps")
    if "swath_recording" not in content and _is_foreign(content):
        raise BadInput(f"{name}: is a recording of another tool; convert it first: swath recording import")
    try:
        # By way of JSON, where strict means: no "8" for 8 and no true for 1, but lists for tuples.
        return Recording.model_validate_json(json.dumps(content), by_alias=True, by_name=False)
    except ValidationError as error:
        raise BadInput(f"{name}: {validation_message(error, content)}") from None


def _is_foreign(content: Mapping[str, Any]) -> bool:
    """Chrome's recorder, and those that follow it, name the actions of their steps `type`."""
    steps = content.get("steps")
    return isinstance(steps, list) and any(isinstance(step, dict) and "type" in step for step in steps[:5])


# -- writing -----------------------------------------------------------------------------------------------------------


def dump_yaml(recording: Recording) -> str:
    """YAML that `parse_recording` reads as the same recording. What has its default is left out."""
    return write_yaml(_as_written(recording), for_old_readers=False)


def dump_json(recording: Recording) -> str:
    """The same as JSON."""
    return json.dumps(_as_written(recording), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _as_written(recording: Recording) -> Any:
    return _arranged(recording.model_dump(mode="json", by_alias=True, exclude_defaults=True))


def _arranged(value: Any) -> Any:
    """In the order in which people write: a step's action, what is its own, what all steps have, the steps inside."""
    if isinstance(value, dict):
        names = sorted(value, key=_rank) if "do" in value else value
        return {name: _arranged(value[name]) for name in names}
    if isinstance(value, list):
        return [_arranged(part) for part in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _MOST_WHOLE:
        return int(value)
    return value


def _rank(name: str) -> int:
    if name in _FIRST:
        return _FIRST.index(name)
    return 12 if name in _NESTED else 11 if name in _COMMON else 10


def recording_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12."""
    made: dict[str, Any] = _without_titles(Recording.model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A recording for Swath",
        **made,
    }


def _without_titles(value: Any, *, of_names: bool = False) -> Any:
    """Without the titles that pydantic makes of names; a field that is named so stays."""
    if isinstance(value, list):
        return [_without_titles(part) for part in value]
    if isinstance(value, dict):
        return {
            name: _without_titles(part, of_names=not of_names and name in ("properties", "$defs"))
            for name, part in value.items()
            if of_names or name != "title"
        }
    return value
