"""Finds a scraper by id or file: shipped ones, those in folders, then those of installed packages.

Imports only the one asked for. The table of shipped scrapers is here too; a test compares every row with its class.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

import msgspec

from swath.domain.errors import BadInput, UnknownName
from swath.sdk.declaration import ScraperInfo, check_scraper_class, is_declared, make_instance
from swath.sdk.file_loader import (
    RECORDING_SUFFIXES,
    check_allowed,
    declarations,
    declares,
    files_in,
    load_file,
    load_recording,
)
from swath.sdk.scraper import Scraper, ScraperKind, one_line_error

__all__ = ["DEMO_SCRAPERS", "ENTRY_POINT_GROUP", "SHIPPED", "Registry", "ScraperInfo", "ShippedScraper"]


class ShippedScraper(msgspec.Struct, frozen=True):
    """One row: what is listed, and where the class is (`module:Class`)."""

    info: ScraperInfo
    target: str


def _row(
    target: str, scraper_id: str, name: str, description: str, *sites: str, kind: ScraperKind = "http"
) -> ShippedScraper:
    info = ScraperInfo(
        id=scraper_id, name=name, version="1", description=description, sites=sites, origin="shipped", kind=kind
    )
    return ShippedScraper(info, target)


SHIPPED: Final[tuple[ShippedScraper, ...]] = (
    _row(
        "swath.scrapers.demo_county:DemoCounty",
        "demo-county",
        "Demo county treasurer",
        "Parcels of the demo site: disclaimer, search, detail in two layouts, and the bill if asked for.",
        "demo.local",
    ),
    _row(
        "swath.scrapers.demo_county_browser:DemoCountyBrowser",
        "demo-county-browser",
        "Demo county treasurer, in a browser",
        "Parcels of the demo site as scripts show them: dialog, search, rows on scrolling, bill if asked for.",
        "demo.local",
        kind="browser",
    ),
    _row(
        "swath.scrapers.demo_county_recording:DemoCountyRecording",
        "demo-county-recording",
        "Demo county treasurer, by a recording",
        "Parcels of the demo site by recorded steps: dialog, search, rows on scrolling, bill if asked for.",
        "demo.local",
        kind="recording",
    ),
    _row(
        "swath.scrapers.examples:ExampleFail",
        "example-fail",
        "Example: always fails",
        "Fails every item as a broken server would, without a network; shows retries, failures and circuits.",
    ),
    _row(
        "swath.scrapers.examples:ExampleHttp",
        "example-http",
        "Example: echo over HTTP",
        "Sends its input to the echo of the demo site and reads it back from the answer.",
        "demo.local",
    ),
    _row(
        "swath.scrapers.examples:ExampleMock",
        "example-mock",
        "Example: no network",
        "Makes a small page of any input and reads it back; nothing is fetched.",
    ),
)

DEMO_SCRAPERS: Final = frozenset(row.info.id for row in SHIPPED if "demo.local" in row.info.sites)
"""Those that read the demo site."""


_log = logging.getLogger("swath.registry")

ENTRY_POINT_GROUP: Final = "swath.scrapers"
_FILES: Final = (".py", *RECORDING_SUFFIXES)
_HINT: Final = "see `swath scraper list`"


class Registry:
    """Looks in that order, and the first that has the id counts. A scraper that was loaded stays loaded.

    `default` is the scraper for people who name none; `javascript`: recordings may run scripts of their own.
    """

    def __init__(
        self,
        folders: Sequence[Path] = (),
        shipped: Sequence[ShippedScraper] = SHIPPED,
        default: str | None = None,
        *,
        javascript: bool = False,
    ) -> None:
        self._folders = tuple(folders)
        self._default = default
        self._javascript = javascript
        self._shipped = {row.info.id: row for row in shipped}
        self._loaded: dict[tuple[str, str | None], Scraper] = {}

    def get(self, scraper_id: str, source: str | None = None) -> Scraper:
        """The scraper of that id, from the file `source` if one is given. Raises UnknownName, or BadInput if broken."""
        key = (scraper_id, source)
        if key not in self._loaded:
            cls = self._found(scraper_id) if source is None else self._in_file(Path(source), scraper_id)
            self._loaded[key] = self._made(cls)
        return self._loaded[key]

    def has(self, scraper_id: str, source: str | None = None) -> bool:
        """Whether there is one by that id, or the file `source`. Nothing is imported, so it may be broken."""
        if source is not None:
            return Path(source).is_file()
        return (
            scraper_id in self._shipped
            or any(declares(file, scraper_id) for folder in self._folders for file in files_in(folder.absolute()))
            or bool(entry_points(group=ENTRY_POINT_GROUP, name=scraper_id))
        )

    def resolve(self, reference: str | None) -> tuple[Scraper, str | None]:
        """What a person means: an id, or the path of a recording or of a .py file with one scraper in it; then with its
        absolute path."""
        reference = reference or self._default
        if reference is None:
            raise BadInput("name a scraper (`swath scraper list` shows them), or set SWATH_DEFAULT_SCRAPER")
        if not (reference.endswith(_FILES) or "/" in reference or "\\" in reference):
            return self.get(reference), None
        file = Path(reference).expanduser().absolute()
        if not file.is_file():
            raise BadInput(f"there is no scraper file {reference!r}")
        if file.suffix not in _FILES:
            raise BadInput(f"{reference!r} is no scraper: that is a file ending in {', '.join(_FILES)}")
        found = self._in(file)
        if len(found) > 1:
            raise BadInput(f"{file.name} declares several scrapers ({', '.join(sorted(found))}); a file may hold one")
        ((scraper_id, cls),) = found.items()
        return self._loaded.setdefault((scraper_id, str(file)), self._made(cls)), str(file)

    def infos(self) -> list[ScraperInfo]:
        """All that can be found, by id. Nothing is imported, so of packages only what their metadata says."""
        found = {row.info.id: row.info for row in self._shipped.values()}
        for folder in self._folders:
            here: dict[str, list[Path]] = {}
            for file in files_in(folder.absolute()):
                for info in declarations(file):
                    here.setdefault(info.id, []).append(file)
                    found.setdefault(info.id, info)
            for scraper_id, files in here.items():
                _warn_of_duplicates(scraper_id, files)
        for point in entry_points(group=ENTRY_POINT_GROUP):
            found.setdefault(point.name, _package_info(point))
        return sorted(found.values(), key=lambda info: info.id)

    def _found(self, scraper_id: str) -> type[Scraper]:
        row = self._shipped.get(scraper_id)
        if row is not None:
            return _imported(row.target, scraper_id)
        for folder in self._folders:
            files = [file for file in files_in(folder.absolute()) if declares(file, scraper_id)]
            if files:
                _warn_of_duplicates(scraper_id, files)
                return self._in_file(files[0], scraper_id)
        for point in entry_points(group=ENTRY_POINT_GROUP, name=scraper_id):
            return _imported(point.value, scraper_id)
        raise UnknownName.of("scraper", scraper_id, [info.id for info in self.infos()], _HINT)

    def _in_file(self, file: Path, scraper_id: str) -> type[Scraper]:
        found = self._in(file)
        if scraper_id not in found:
            raise BadInput(f"{file.name} declares {', '.join(sorted(found))}, not {scraper_id!r}")
        return found[scraper_id]

    def _in(self, file: Path) -> Mapping[str, type[Scraper]]:
        if file.suffix not in RECORDING_SUFFIXES:
            return load_file(file)
        cls = load_recording(file, javascript=self._javascript)
        return {cls.id: cls}

    def _made(self, cls: type[Scraper]) -> Scraper:
        if cls.kind == "recording":
            check_allowed(cls, javascript=self._javascript)
        return make_instance(cls)


def _warn_of_duplicates(scraper_id: str, files: Sequence[Path]) -> None:
    """Of several folders the first counts, as people expect; two files of one folder are more likely a mistake."""
    if len(files) > 1:
        names = ", ".join(file.name for file in files[1:])
        _log.warning("scraper %r is declared by %s too; %s counts", scraper_id, names, files[0].name)


def _imported(target: str, scraper_id: str) -> type[Scraper]:
    module_name, _, class_name = target.partition(":")
    try:
        cls: object = getattr(importlib.import_module(module_name), class_name)
    except BaseException as error:  # a package that calls sys.exit is a broken one, and must not end a worker
        raise BadInput(f"scraper {scraper_id!r} ({target}) cannot be loaded: {one_line_error(error)}") from error
    if not is_declared(cls) or cls.id != scraper_id:
        raise BadInput(f"{target} is not the scraper {scraper_id!r} that its package says it is")
    check_scraper_class(cls)
    return cls


def _package_info(point: EntryPoint) -> ScraperInfo:
    package = point.dist
    if package is None:
        return ScraperInfo(id=point.name, name=point.name, version="", origin=point.value)
    return ScraperInfo(
        id=point.name,
        name=point.name,
        version=package.version,
        description=package.metadata["Summary"] or "",
        origin=f"package {package.name}",
    )
