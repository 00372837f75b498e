"""Recordings as files beside scrapers in .py: listing them by their first lines, and loading the one that is wanted.

The registry comes before; nothing of the action language is loaded for a listing, and data files cost one short look.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from swath.domain.errors import BadInput
from swath.kit.declare import ScraperInfo
from swath.kit.vet import check_class

if TYPE_CHECKING:
    from swath.kit.action_scraper import ActionScraper
    from swath.kit.scraper import Scraper

__all__ = ["RECORDING_SUFFIXES", "check_allowed", "is_recording", "load_recording", "recording_info"]

RECORDING_SUFFIXES: Final = (".yaml", ".yml", ".json")
_NEAR_CHARS: Final = 4_096
_MOST_BYTES: Final = 1 << 20
_MOST_VALUES: Final = 50_000
_LONG_PARTS: Final = re.compile(r"^(?:steps|inputs|not_found|recover|notes)\s*:", re.MULTILINE)


def is_recording(file: Path) -> bool:
    """Whether a file says near its beginning that it is one."""
    if file.suffix not in RECORDING_SUFFIXES or not file.is_file():
        return False
    try:
        with file.open("rb") as opened:
            return b"swath_recording" in opened.read(_NEAR_CHARS)
    except OSError:
        return False


def recording_info(file: Path) -> ScraperInfo:
    """As it is listed. One that cannot be read has the name of its file, and says why; nothing is raised."""
    try:
        told = _head(file)
        scraper_id = told["id"]
        if not isinstance(scraper_id, str):
            raise TypeError("its id is no text")
    except (KeyError, OSError, TypeError, ValueError, RecursionError) as error:
        why = "it has no id" if isinstance(error, KeyError) else " ".join(str(error).split())
        return ScraperInfo(
            id=file.stem,
            name=file.stem,
            version="",
            description=f"cannot be read: {why}",
            origin=str(file),
            kind="recording",
        )
    sites = told.get("sites")
    return ScraperInfo(
        id=scraper_id,
        name=_text(told.get("name")) or scraper_id,
        version=_text(told.get("version")) or "1",
        description=_text(told.get("description")),
        sites=tuple(map(str, sites)) if isinstance(sites, list) else (),
        origin=str(file),
        kind="recording",
    )


def load_recording(file: Path, *, javascript: bool) -> type[ActionScraper]:
    """The scraper that a recording is. Raises BadInput, in one line with the place."""
    from swath.actions.document import read_recording  # noqa: PLC0415 listings and other scrapers do without
    from swath.kit.action_scraper import ActionScraper  # noqa: PLC0415 the same

    cls = ActionScraper.of(read_recording(file, javascript=javascript), file)
    check_class(cls)
    return cls


def check_allowed(cls: type[Scraper], *, javascript: bool) -> None:
    """Raises BadInput when a class names no recording, or one with steps that the operator does not allow."""
    from swath.actions.document import check_recording  # noqa: PLC0415 see above
    from swath.actions.language.recording import Recording  # noqa: PLC0415 see above

    recording: object = getattr(cls, "recording", None)
    if not isinstance(recording, Recording):
        raise BadInput(f'scraper "{cls.id}" names no recording: write recording = "flow.yaml" in its class')
    check_recording(recording, f'scraper "{cls.id}"', javascript=javascript)


def _head(file: Path) -> dict[str, Any]:
    """What it says of itself, which stands before its steps in all that we write."""
    with file.open("rb") as opened:
        text = opened.read(_MOST_BYTES).decode()
    told: object = {}
    if file.suffix == ".json":
        told = json.loads(text)
    elif (begins := _LONG_PARTS.search(text)) is not None:
        told = _yaml(text[: begins.start()])
    if not isinstance(told, dict) or "id" not in told:
        told = _yaml(text)
    if not isinstance(told, dict):
        raise TypeError("it is no mapping")
    return told


def _yaml(text: str) -> object:
    from yaml import YAMLError  # noqa: PLC0415 for folders that have recordings

    from swath.sites.strict_yaml import parse_yaml  # noqa: PLC0415 the same

    try:
        return parse_yaml(text, most_values=_MOST_VALUES)
    except YAMLError as error:
        raise ValueError(str(error)) from None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
