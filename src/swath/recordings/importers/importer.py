"""Finds the importer that recognises a document, and runs it.

Importers of installed packages are asked first, then Chrome's; a mapping file replaces both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import PurePath
from typing import Any, Final

from swath.domain.errors import BadInput
from swath.recordings.importers.chrome import ChromeImporter
from swath.recordings.importers.conversion import error_line
from swath.recordings.importers.json_reader import read_json, read_json_lines
from swath.recordings.importers.mapped import read_mapped
from swath.recordings.importers.mapping import RecorderMapping
from swath.recordings.importers.remarks import Imported, Importer, Remark, cautions_of

__all__ = ["ENTRY_POINT_GROUP", "import_recording"]

ENTRY_POINT_GROUP: Final = "swath.importers"
_BUILT_IN: Final[tuple[Importer, ...]] = (ChromeImporter(),)


def import_recording(text: str, name: str, *, mapping: RecorderMapping | None = None) -> Imported:
    """A recording of ours out of a recorder's JSON. `name` is what errors call it. Raises BadInput, in one line."""
    if mapping is not None:
        document = read_json_lines(text, name) if mapping.format == "jsonl" else read_json(text, name)
        return _named(name, lambda: read_mapped(document, mapping, PurePath(name).stem))
    ours = f"{name}: is a recording of ours already; run it, or look at it with `swath recording check`"
    if text.lstrip().startswith("swath_recording"):  # as YAML
        raise BadInput(ours)
    document = read_json(text, name)
    if isinstance(document, dict) and "swath_recording" in document:
        raise BadInput(ours)
    broken: list[str] = []
    for importer in _importers(broken):
        if _recognises(importer, document, broken):
            found = _named(name, lambda importer=importer: _read(importer, document))  # type: ignore[misc] # bound now
            more = [] if importer in _BUILT_IN else list(cautions_of(found.recording))
            return Imported(found.recording, (*found.remarks, *more, *map(Remark, broken)))
    also = f"; and {broken[0]}" if broken else ""
    raise BadInput(
        f"{name}: is no recording that is known here: Chrome's has a title and steps, and a mapping file tells "
        f"what others have (--mapping){also}"
    )


def _named(name: str, read: Callable[[], Imported]) -> Imported:
    try:
        return read()
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None


def _importers(broken: list[str]) -> Iterator[Importer]:
    """Those of packages by name, then ours. One that cannot be loaded does not stand in the way of others."""
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda one: one.name):
        try:
            yield _loaded(point)
        except BadInput as error:
            broken.append(str(error))
    yield from _BUILT_IN


def _loaded(point: EntryPoint) -> Importer:
    try:
        found = point.load()
        importer = found() if isinstance(found, type) else found
    except BaseException as error:  # a package that calls sys.exit is a broken one
        raise BadInput(f"the importer {point.name!r} ({point.value}) cannot be loaded: {error_line(error)}") from error
    if not isinstance(importer, Importer):
        raise BadInput(f"{point.value} is no importer: it needs name, recognises(document) and read(document)")
    return importer


def _recognises(importer: Importer, document: Any, broken: list[str]) -> bool:
    try:
        return bool(importer.recognises(document))
    except Exception as error:  # noqa: BLE001 whatever somebody else's package raises
        broken.append(f"the importer {importer.name!r} cannot tell whether it is its own: {error_line(error)}")
        return False


def _read(importer: Importer, document: Any) -> Imported:
    try:
        found = importer.read(document)
    except BadInput:
        raise
    except Exception as error:  # whatever somebody else's package raises
        raise BadInput(f"the importer {importer.name!r} failed: {error_line(error)}") from error
    if not isinstance(found, Imported):
        raise BadInput(f"the importer {importer.name!r} gave a {type(found).__name__} and not what it has Imported")
    return found
