"""Desks: what this process knows of the leases it writes under, so that it need not ask S3; and how files are named.

results.py keeps one for each lease from its opening to its end. Whoever has none reads the room (rooms.py) instead.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from swath.backends.aws.results.files import File
from swath.backends.aws.results.object_names import Place
from swath.domain.keys import encode
from swath.domain.layout import PACKS
from swath.domain.result import Artifact
from swath.ports.result_storage import Addition

__all__ = ["Desk", "artifacts_of", "item_files", "of_items"]

_PACKED_PAGE: Final = ".html.gz"  # no download is named so (domain/keys.py)


class Desk(msgspec.Struct):
    """Whether the first items of the lease get plain keys, the places noted in the room and by how many notes, the
    keys written (or begun to be) by place, the places that are published, and the packs written (or begun to be) with
    their sizes. `mark` is in the names of packs: no other process ever gives the same ones."""

    plain: bool | None = None
    noted: set[Place] = msgspec.field(default_factory=set)
    notes: int = 0
    keys: dict[Place, frozenset[str]] = msgspec.field(default_factory=dict)
    published: set[Place] = msgspec.field(default_factory=set)
    packs: dict[str, int] = msgspec.field(default_factory=dict)
    mark: str = msgspec.field(default_factory=lambda: secrets.token_hex(4))
    appends: int = 0

    def new_packs(self, fence: int, additions: Mapping[str, Addition]) -> dict[str, File]:
        """By ending: each addition as a pack of its own, for an object cannot be added to. Known from now on."""
        name = f"{PACKS}{fence}-{self.mark}-{self.appends:05}"
        self.appends += 1
        files = {end: File(f"{name}.{end}", added.head + added.data) for end, added in additions.items()}
        self.packs |= {file.key: len(file.data) for file in files.values()}
        return files

    def lost_places(self) -> dict[Place, frozenset[str]]:
        """What was written and is not published."""
        return {place: keys for place, keys in self.keys.items() if keys and place not in self.published}


def item_files(place: Place, files: Mapping[str, bytes]) -> list[File]:
    """A compressed page lies under the name of the page, and its header says how it is packed."""
    made = []
    for name, data in files.items():
        plain = name.removesuffix(".gz")
        packed = name.endswith(_PACKED_PAGE) and plain not in files
        made.append(File(place.folder + (plain if packed else name), data, packed))
    return made


def of_items(places: Collection[Place], item_ids: Collection[str]) -> set[Place]:
    """Those of these items."""
    paths = {encode(item_id) for item_id in item_ids}
    return {place for place in places if place.path in paths}


def artifacts_of(files: Iterable[File]) -> tuple[Artifact, ...]:
    """As the store refers to them."""
    return tuple(Artifact(file.key, len(file.data), hashlib.sha256(file.data).hexdigest()) for file in files)
