"""Scrapers and recordings in files: lists their declarations without running them, and loads one.

Nothing is imported for a listing, so a folder of hundreds is read in tens of milliseconds.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from swath.domain.errors import BadInput, UserError
from swath.sdk.declaration import ScraperInfo, check_scraper_class, first_line, is_declared
from swath.sdk.scraper import Scraper, one_line_error

if TYPE_CHECKING:
    from swath.sdk.action_scraper import ActionScraper

__all__ = [
    "RECORDING_SUFFIXES",
    "check_allowed",
    "declarations",
    "declares",
    "files_in",
    "is_recording",
    "load_file",
    "load_recording",
    "recording_info",
]

RECORDING_SUFFIXES: Final = (".yaml", ".yml", ".json")
_SNIFFED_BYTES: Final = 4_096
_MOST_BYTES: Final = 1 << 20
_MOST_VALUES: Final = 50_000
_LONG_PARTS: Final = re.compile(r"^(?:steps|inputs|not_found|recover|notes)\s*:", re.MULTILINE)


def is_recording(file: Path) -> bool:
    """Whether a file says near its beginning that it is one."""
    if file.suffix not in RECORDING_SUFFIXES or not file.is_file():
        return False
    try:
        with file.open("rb") as opened:
            return b"swath_recording" in opened.read(_SNIFFED_BYTES)
    except OSError:
        return False


def recording_info(file: Path) -> ScraperInfo:
    """As it is listed. One that cannot be read has the name of its file, and says why; nothing is raised."""
    try:
        told = _declared_fields(file)
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
    from swath.recordings.document import read_recording  # noqa: PLC0415 listings and other scrapers do without
    from swath.sdk.action_scraper import ActionScraper  # noqa: PLC0415 the same

    cls = ActionScraper.of(read_recording(file, javascript=javascript), file)
    check_scraper_class(cls)
    return cls


def check_allowed(cls: type[Scraper], *, javascript: bool) -> None:
    """Raises BadInput when a class names no recording, or one with steps that the operator does not allow."""
    from swath.recordings.document import check_recording  # noqa: PLC0415 see above
    from swath.recordings.schema.recording import Recording  # noqa: PLC0415 see above

    recording: object = getattr(cls, "recording", None)
    if not isinstance(recording, Recording):
        raise BadInput(f'scraper "{cls.id}" names no recording: write recording = "flow.yaml" in its class')
    check_recording(recording, f'scraper "{cls.id}"', javascript=javascript)


def _declared_fields(file: Path) -> dict[str, Any]:
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

    from swath.fetch.sites.strict_yaml import parse_yaml  # noqa: PLC0415 the same

    try:
        return parse_yaml(text, most_values=_MOST_VALUES)
    except YAMLError as error:
        raise ValueError(str(error)) from None


_DECLARATION: Final = re.compile(
    r"""^@(?:\w+\.)?scraper\(\s*(?:scraper_id\s*=\s*)?(?P<quote>["'])(?P<id>[^"'\n]+)(?P=quote)""", re.MULTILINE
)
_SUFFIXES: Final = frozenset({".py", *RECORDING_SUFFIXES})
_CLASS: Final = re.compile(r"^class\s", re.MULTILINE)


def files_in(place: Path) -> list[Path]:
    """The files of a folder that may hold scrapers or recordings, by name, or the one that is named itself; none when
    it cannot be read."""
    if place.is_file():
        return [place]
    try:
        found = sorted(file for file in place.iterdir() if file.suffix in _SUFFIXES)
    except OSError:
        return []
    return [file for file in found if not file.name.startswith(("_", "."))]


def declares(file: Path, scraper_id: str) -> bool:
    """Whether a file declares that scraper, by its text alone."""
    if file.suffix != ".py":
        return is_recording(file) and recording_info(file).id == scraper_id
    try:
        raw = file.read_bytes()
    except OSError:
        return False
    if scraper_id.encode() not in raw:
        return False
    return any(found["id"] == scraper_id for found in _DECLARATION.finditer(raw.decode("utf-8", "replace")))


def declarations(file: Path) -> Iterator[ScraperInfo]:
    """What a file declares, by its text alone; a broken one yields what can be read of it, and never raises."""
    if file.suffix != ".py":
        if is_recording(file):
            yield recording_info(file)
        return
    try:
        source = file.read_bytes().decode("utf-8", "replace")
    except OSError:
        return
    for found in _DECLARATION.finditer(source):
        told = _arguments(source, found.start())
        scraper_id = found["id"]
        yield ScraperInfo(
            id=scraper_id,
            name=_text(told.get("name")) or scraper_id,
            version=_text(told.get("version")) or "1",
            description=_text(told.get("description")),
            sites=tuple(map(str, sites)) if isinstance(sites := told.get("sites"), (list, tuple)) else (),
            origin=str(file),
            kind=told.get("kind", ""),
        )


def load_file(file: Path) -> dict[str, type[Scraper]]:
    """Runs a file and returns its scrapers by id. Raises BadInput with the line, if it does not run or has none."""
    name = "swath_scraper_" + hashlib.sha256(str(file).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise BadInput(f"there is no scraper file {str(file)!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations of the models are looked up there
    try:
        spec.loader.exec_module(module)
        found = [thing for thing in vars(module).values() if is_declared(thing) and thing.__module__ == name]
        for cls in found:
            check_scraper_class(cls)
    except BaseException as error:  # a file that calls sys.exit is a broken file, and must not end a worker
        sys.modules.pop(name, None)
        raise BadInput(f"{file.name}{_load_error(file, error)}") from error
    if not found:
        raise BadInput(
            f'{file.name} declares no scraper; put @scraper("some-id") on a class that extends HttpScraper, '
            "BrowserScraper or ActionScraper"
        )
    return {cls.id: cls for cls in found}


def _arguments(source: str, start: int) -> dict[str, Any]:
    """The keyword arguments that are literals, and the docstring; only the few lines of the declaration are parsed."""
    begins = _CLASS.search(source, start)
    if begins is None:
        return {}
    try:
        (cls,) = ast.parse(source[start : begins.start()] + "class _: pass").body
    except (SyntaxError, ValueError):
        return {}
    told: dict[str, Any] = {"description": _docstring(source, begins.end()), "kind": _kind(source, begins.end())}
    for decorator in cls.decorator_list if isinstance(cls, ast.ClassDef) else ():
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg is not None:
                try:
                    told[keyword.arg] = ast.literal_eval(keyword.value)
                except (ValueError, TypeError):
                    continue  # computed when the file runs; unknown until then
    return told


_KINDS: Final = {"Http": "http", "Browser": "browser", "Action": "recording"}
_BASE: Final = re.compile(r"\w+\s*\(\s*(?:\w+\.)?(?P<base>Http|Browser|Action)Scraper\b")


def _kind(source: str, after_class: int) -> str:
    """By the class that it extends; nothing when that is one of the author's own."""
    found = _BASE.match(source, after_class)
    return _KINDS[found["base"]] if found is not None else ""


_DOCSTRING: Final = re.compile(r'[^\n]*:\s*\n\s+(?:"""|\'\'\'|")(?P<text>[^\n"]*)')


def _docstring(source: str, after_class: int) -> str:
    found = _DOCSTRING.match(source, after_class)
    return first_line(found["text"]) if found is not None else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _load_error(file: Path, error: BaseException) -> str:
    if isinstance(error, UserError):
        return f": {' '.join(str(error).split())}"
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}: {error.msg}"
    line, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    return f"{line}: {one_line_error(error)}"
