"""Texts that somebody else's recorder has written, as texts of ours: braces in them are braces (`Dear {{name}}`), but
for references to inputs, which people write while they record.

Used by chrome.py and mapped.py before a step is made of the fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from swath.actions.importing.imported import Remark
from swath.actions.language.template import Literal, Template, parse

__all__ = ["as_recorded"]

_WITH_REFERENCES: Final = frozenset(
    {"attributes", "equals", "file", "message", "on", "option", "target", "text", "url", "value", "values"}
)
_INPUT: Final = re.compile(r"(\{\{\s*input\s*[.|](?:\"(?:\\.|[^\"\\])*\"|[^{}\"])*\}\})", re.DOTALL)
_BEGUN: Final = re.compile(r"\{\{\s*input\s*[.|}]")
_OTHERS: Final = re.compile(r"\{\{.{0,100}?\}\}", re.DOTALL)


def as_recorded(fields: Mapping[str, Any], place: str, remarks: list[Remark]) -> dict[str, Any]:
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
            part for at, piece in enumerate(pieces) for part in (parse(piece).parts if at % 2 else [Literal(piece)])
        ]
    except ValueError:
        return text
    return str(Template(tuple(parts)))
