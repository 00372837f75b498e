"""Names of stored files. Any id or file name becomes a key that is safe, distinct and can be turned back (property 47).

Plain names stay as they are; every other byte is written %XX. Names too long for a file system are split over folders.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "REFUSED_FRAME_PAGE",
    "REFUSED_PAGE",
    "RESERVED_FILES",
    "SCREENSHOT_FILE",
    "decode",
    "download_name",
    "encode",
    "page_name",
]

_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,179}")
_SEGMENT: Final = 180  # below the 255 bytes of common file systems, with room for suffixes
_MORE: Final = "~"  # ends a segment that goes on in the next folder; never plain itself
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)

REFUSED_PAGE: Final = "refused"  # the name of the answer that made an item fail
REFUSED_FRAME_PAGE: Final = "refused-frame"  # what stood in the frame in which a step of a recording failed
RESERVED_FILES: Final = frozenset({"data.json", "metadata.json"})
SCREENSHOT_FILE: Final = "screenshot.png"  # a download of this name is the item's picture, whoever took it


def encode(name: str) -> str:
    """A relative path of one or more segments; `decode` gives the name back."""
    if _PLAIN_NAME.fullmatch(name) and not name.endswith(".") and not _DEVICE.fullmatch(name):
        return name
    raw = name.encode("utf-8", "surrogatepass")
    coded = [chr(b) if b in _PLAIN else f"%{b:02X}" for b in raw]
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
            segments.append("".join(current) + _MORE)
            current, length = [], 0
        current.append(code)
        length += len(code)
    return [*segments, "".join(current)]


def _safe(segment: str) -> str:
    """No segment begins with a dot or is the name of a device; coding its first character ends that."""
    if segment.startswith(".") or _DEVICE.fullmatch(segment):
        return f"%{ord(segment[0]):02X}{segment[1:]}"
    return segment


def decode(key: str) -> str:
    """The name that `encode` was given."""
    if key == "%":
        return ""
    flat = key.replace(_MORE + "/", "")
    raw = re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), flat.encode("ascii"))
    return raw.decode("utf-8", "surrogatepass")


def page_name(page: str) -> str:
    """The file of a named page, without the suffix of its compression."""
    return encode(page) + ".html"


def download_name(name: str) -> str:
    """The file of a download; one that would look like ours gets its last dot coded, where `encode` leaves it."""
    key = encode(name)
    if key in RESERVED_FILES or key.endswith((".html", ".html.gz")):
        stem, _, suffix = key.rpartition(".")
        return f"{stem}%2E{suffix}"
    return key
