"""Recordings as documents: read from YAML or JSON with every mistake named in one line, and written back without loss.

Before: a file that a person wrote, or that `swath recording import` made. After: a Recording that the player can play.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from swath.actions.checking.check import check_recording
from swath.actions.checking.problem import Problem
from swath.actions.explaining import explained
from swath.actions.language.recording import Recording
from swath.actions.language.step import Acting
from swath.actions.plain_values import MOST_CHARS, plain_values
from swath.domain.errors import BadInput
from swath.sites.strict_yaml import write_yaml

__all__ = ["check_recording", "dump_json", "dump_yaml", "parse_recording", "read_recording"]

_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_FIRST: Final = ("do", "name", "field")
_NESTED: Final = ("then", "else", "steps")
_COMMON: Final = tuple(Acting.model_fields)
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
        raise BadInput(f"{name}: {explained(error, content)}") from None


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
