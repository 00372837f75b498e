"""The language as JSON Schema, for editors and for those who make recordings: docs/reference/recording.schema.json.

It tells the shape of a document. What holds between the steps of one, checking/ knows alone.
"""

from __future__ import annotations

from typing import Any

from swath.actions.language.recording import Recording

__all__ = ["recording_schema"]


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
