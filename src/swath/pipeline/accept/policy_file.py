"""Reads an ExecutionPolicy from a YAML or JSON file that a person wrote, or from a body of the API.

Comes before: the job is submitted with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from swath.domain.errors import BadInput
from swath.domain.explain import describe_validation, listed
from swath.domain.policy import ExecutionPolicy
from swath.pipeline.accept.raw_bytes import chunks_of, open_bytes
from swath.pipeline.accept.strict_json import has_more_values
from swath.sites.strict_yaml import parse_yaml

__all__ = ["POLICY_LIMIT_BYTES", "read_policy", "strict_policy"]

POLICY_LIMIT_BYTES: Final = 1 << 20
_MOST_VALUES: Final = 1_000  # a policy has some thirty
_STREAMS: Final = ("/dev/stdin", "/dev/fd/")  # whoever names these knows what is to come


def read_policy(path: str | Path) -> ExecutionPolicy:
    """The policy in the file, which is JSON if its name ends so and else YAML. Raises BadInput, in one line."""
    name = str(path)
    text = _read(name)
    try:
        return _validated(name, _parse_json(text) if name.lower().endswith(".json") else parse_yaml(text))
    except RecursionError:
        raise BadInput(f"{name}: is nested too deep for a policy") from None
    except (ValueError, yaml.YAMLError) as error:
        raise BadInput(f"{name}: {_place(error)}") from None


def _read(name: str) -> str:
    raw = b""
    if not name.startswith(_STREAMS) and Path(name).exists() and not (Path(name).is_file() or Path(name).is_dir()):
        raise BadInput(f"{name}: is a pipe or a device, not a file; name a file")  # which might never say anything
    with open_bytes(name, None) as file:
        for chunk in chunks_of(name, file):
            raw += chunk
            if len(raw) > POLICY_LIMIT_BYTES:
                raise BadInput(f"{name}: is larger than 1 MiB, which no policy is; name the right file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{name}: line {line}: is not UTF-8 text; save it as UTF-8") from None


def _validated(name: str, content: object) -> ExecutionPolicy:
    if not isinstance(content, dict):
        sections = listed(list(ExecutionPolicy.model_fields))
        raise BadInput(f"{name}: {'is empty' if content is None else 'is not a mapping'}; it may have {sections}")
    try:
        return strict_policy(content)
    except ValidationError as error:
        raise BadInput(f"{name}: {describe_validation(error, ExecutionPolicy)}") from None
    except TypeError:
        raise BadInput(f"{name}: has a date or another value that JSON does not know; write it in quotes") from None


def strict_policy(content: object) -> ExecutionPolicy:
    """The policy that somebody wrote. Raises pydantic's ValidationError, another ValueError for too much of it, and
    TypeError for what JSON does not know."""
    if has_more_values(content, _MOST_VALUES):
        raise ValueError(f"has more than {_MOST_VALUES:,} values, which no policy has")
    # By way of JSON, where strict means: no "8" for 8 and no true for 1, but enums may be written as text.
    return ExecutionPolicy.model_validate_json(json.dumps(content), strict=True)


def _parse_json(text: str) -> object:
    return json.loads(text, object_pairs_hook=_object) if text.strip() else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return made


def _place(error: ValueError | yaml.YAMLError) -> str:
    match error:
        case json.JSONDecodeError():
            return f"line {error.lineno}: is not valid JSON: {error.msg}"
        case yaml.MarkedYAMLError(problem=str(problem), problem_mark=yaml.Mark(line=line)):
            return f"line {line + 1}: {problem}"
    return " ".join(str(error).split())
