"""Recordings written by hand, as they are when they have been imported."""

from __future__ import annotations

import json
from typing import Any

from swath.recordings.schema.recording import Recording

__all__ = ["recording", "typed"]


def recording(*steps: dict[str, Any], **fields: Any) -> Recording:
    document = {"swath_recording": 1, "id": "flow", "steps": list(steps), **fields}
    return Recording.model_validate_json(json.dumps(document))


def typed(text: str, on: str = "#a") -> dict[str, Any]:
    return {"do": "type", "on": on, "text": text}
