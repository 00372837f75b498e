"""Keys of stored files: safe names for any id, the layout of a job's results, and the location of a file in a pack.

Plain names stay as they are; every other byte is written %XX; names too long for a file system are split over
folders.
Layout `files`: one file each, under `items/{item}/`. Layout `warc`: the pages of a lease in one WARC, the records in
one JSON Lines file; the key of a packed file says where its bytes are.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = [
    "INDEX_SUFFIX",
    "PACKS_PREFIX",
    "RECORDS_SUFFIX",
    "REFUSED_FRAME_PAGE",
    "REFUSED_PAGE",
    "RESERVED_FILES",
    "SCREENSHOT_FILE",
    "WARC_SUFFIX",
    "Layout",
    "PackLocation",
    "artifact_file_name",
    "decode_key",
    "download_file_name",
    "encode_key",
    "pack_fence",
    "page_file_name",
]

_PLAIN_BYTES: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,179}")
_SEGMENT: Final = 180  # below the 255 bytes of common file systems, with room for suffixes
_CONTINUATION: Final = "~"  # ends a segment that goes on in the next folder; never plain itself
_DEVICE_NAME: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)

REFUSED_PAGE: Final = "refused"  # the name of the answer that made an item fail
REFUSED_FRAME_PAGE: Final = "refused-frame"  # what stood in the frame in which a step of a recording failed
RESERVED_FILES: Final = frozenset({"data.json", "metadata.json"})
SCREENSHOT_FILE: Final = "screenshot.png"  # a download of this name is the item's picture, whoever took it


def encode_key(name: str) -> str:
    """A relative path of one or more segments; `decode` gives the name back."""
    if _PLAIN_NAME.fullmatch(name) and not name.endswith(".") and not _DEVICE_NAME.fullmatch(name):
        return name
    raw = name.encode("utf-8", "surrogatepass")
    coded = [chr(b) if b in _PLAIN_BYTES else f"%{b:02X}" for b in raw]
    if not coded:
        return "%"  # the empty name; a lone % is no code
    if coded[-1] == ".":
        coded[-1] = "%2E"
    return "/".join(_safe(segment) for segment in _split(coded))


def _split(coded: list[str]) -> list[str]:
    segments: list[str] = []
    current: list[str] = []
    length = 0
    for code in coded:
        if length + len(code) > _SEGMENT:
            segments.append("".join(current) + _CONTINUATION)
            current, length = [], 0
        current.append(code)
        length += len(code)
    return [*segments, "".join(current)]


def _safe(segment: str) -> str:
    """No segment begins with a dot or is the name of a device; coding its first character ends that."""
    if segment.startswith(".") or _DEVICE_NAME.fullmatch(segment):
        return f"%{ord(segment[0]):02X}{segment[1:]}"
    return segment


def decode_key(key: str) -> str:
    """The name that `encode` was given."""
    if key == "%":
        return ""
    flat = key.replace(_CONTINUATION + "/", "")
    raw = re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), flat.encode("ascii"))
    return raw.decode("utf-8", "surrogatepass")


def page_file_name(page: str) -> str:
    """The file of a named page, without the suffix of its compression."""
    return encode_key(page) + ".html"


def download_file_name(name: str) -> str:
    """The file of a download; one that would look like ours gets its last dot coded, where `encode` leaves it."""
    key = encode_key(name)
    if key in RESERVED_FILES or key.endswith((".html", ".html.gz")):
        stem, _, suffix = key.rpartition(".")
        return f"{stem}%2E{suffix}"
    return key


PACKS_PREFIX: Final = "packs/"
WARC_SUFFIX: Final = "warc.gz"  # these three end the names of packs
RECORDS_SUFFIX: Final = "jsonl"
INDEX_SUFFIX: Final = "cdxj"

_PACKED_KEY: Final = re.compile(r"(packs/[^/@]+)@([0-9]+)\+([0-9]+)/(.+)", re.DOTALL)
_PACK: Final = re.compile(r"packs/(?P<fence>[0-9]+)[.-]")
_FENCE_FOLDER: Final = re.compile(r"~[0-9]+/")  # where a bucket keeps the files of a later claim


class Layout(StrEnum):
    """Chosen when the job is ordered, and never changed."""

    FILES = "files"
    WARC = "warc"


class PackLocation(NamedTuple):
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
    def of(cls, key: str) -> PackLocation | None:
        """None when the key is that of a file by itself."""
        return _parse_pack_location(key) if key.startswith(PACKS_PREFIX) else None


@lru_cache(4_096)  # whoever reads the files of many items asks several times about each
def _parse_pack_location(key: str) -> PackLocation | None:
    found = _PACKED_KEY.fullmatch(key)
    if found is None:
        return None
    pack, start, length, name = found.groups()
    return PackLocation(pack, int(start), int(length), name)


def pack_fence(key: str) -> int | None:
    """The lease under which a pack was written; None for other keys."""
    found = _PACK.match(key)
    return None if found is None else int(found["fence"])


def artifact_file_name(item_id: str, key: str) -> str:
    """The name of an item's file, whatever layout it has: `data.json`, `html.html`, `html.html.gz`."""
    packed = PackLocation.of(key)
    if packed is not None:
        return packed.name
    return _FENCE_FOLDER.sub("", key.removeprefix(f"items/{encode_key(item_id)}/"), count=1)
