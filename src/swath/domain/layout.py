"""Layout: how a job's results lie in storage (R2), and the keys of files that lie inside a pack.

`files`: one file each, under `items/{item}/`. `warc`: the pages of a lease as records of one WARC, what was extracted
as lines of one JSON Lines file. The key of a packed file says where its bytes are, so that nothing has to be searched.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from swath.domain.keys import encode

__all__ = ["INDEX", "PACKS", "RECORDS", "WARC", "Layout", "PackedAt", "file_of", "pack_fence"]

PACKS: Final = "packs/"
WARC: Final = "warc.gz"  # these three end the names of packs
RECORDS: Final = "jsonl"
INDEX: Final = "cdxj"

_PACKED: Final = re.compile(r"(packs/[^/@]+)@([0-9]+)\+([0-9]+)/(.+)", re.DOTALL)
_PACK: Final = re.compile(r"packs/(?P<fence>[0-9]+)[.-]")
_FENCE: Final = re.compile(r"~[0-9]+/")  # where a bucket keeps the files of a later claim


class Layout(StrEnum):
    """Chosen when the job is ordered, and never changed."""

    FILES = "files"
    WARC = "warc"


class PackedAt(NamedTuple):
    """A file inside a pack: the pack's own key, the bytes that hold it, and the name that it would have as a file."""

    pack: str
    start: int
    length: int
    name: str

    @property
    def key(self) -> str:
        """As artifacts name it."""
        return f"{self.pack}@{self.start}+{self.length}/{self.name}"

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.start + self.length

    @classmethod
    def of(cls, key: str) -> PackedAt | None:
        """None when the key is that of a file by itself."""
        return _packed_at(key) if key.startswith(PACKS) else None


@lru_cache(4_096)  # whoever reads the files of many items asks several times about each
def _packed_at(key: str) -> PackedAt | None:
    found = _PACKED.fullmatch(key)
    if found is None:
        return None
    pack, start, length, name = found.groups()
    return PackedAt(pack, int(start), int(length), name)


def pack_fence(key: str) -> int | None:
    """The lease under which a pack was written; None for other keys."""
    found = _PACK.match(key)
    return None if found is None else int(found["fence"])


def file_of(item_id: str, key: str) -> str:
    """The name of an item's file, whatever layout it has: `data.json`, `html.html`, `html.html.gz`."""
    packed = PackedAt.of(key)
    if packed is not None:
        return packed.name
    return _FENCE.sub("", key.removeprefix(f"items/{encode(item_id)}/"), count=1)
