"""Turns keys into paths in the bucket, and tells from a path which lease of an item wrote it. Asks nothing of S3.

Every file is written once, at its final key: plain for the first lease that ever holds its item, under `~{fence}`
for a
later one, and for any lease of a job whose id a deleted one had before. So no two leases ever write the same key,
and
`encode` never gives a segment that begins with `~`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

from swath.domain.storage_keys import encode_key

__all__ = [
    "LEASES",
    "LONG",
    "ItemPrefix",
    "check_key",
    "check_prefix",
    "complete_part",
    "job_folder",
    "long_pieces",
    "shorten",
    "tombstone",
]

LEASES: Final = ".leases"
LONG: Final = ".long"
_DELETED: Final = ".deleted"

_LONGEST_PIECE: Final = 300  # two of them, a job and a prefix are below the 1,024 bytes that S3 allows for a key
_LONGEST_JOB: Final = 200
_SHORT_CHARS: Final = 60
_PLAIN: Final = 0
# A segment that begins with a dot would enter what has no final name yet.
_KEY: Final = re.compile(r"[^./\0][^/\0]*(?:/[^./\0][^/\0]*)*")
_PREFIX: Final = re.compile(r"(?:[^./\0][^/\0]*/)*(?:[^./\0][^/\0]*)?")
# What `encode` made of one name, which may be several segments: all but the last end with `~`.
_PIECE: Final = re.compile(r"(?:[^/]*~/)*[^/]+")
_COMPLETE: Final = re.compile(r"(?:(?:[^/]*~/)*[^/]*[^/~]/)*")
_ITEM_FILE: Final = re.compile(r"items/(?P<path>(?:[^/]*~/)*[^/]+)/(?:~(?P<fence>[0-9]+)/)?")


class ItemPrefix(NamedTuple):
    """All that one lease wrote for one item. `path` is the encoded id; a `fence` of 0 stands for the first lease."""

    path: str
    fence: int

    @classmethod
    def of(cls, item_id: str, fence: int, *, first: bool) -> ItemPrefix:
        """Where a lease puts the files of an item."""
        return cls(encode_key(item_id), _PLAIN if first else fence)

    @classmethod
    def of_key(cls, key: str) -> ItemPrefix | None:
        """The place of a file, if it is one of an item."""
        found = _ITEM_FILE.match(key)
        return None if found is None else cls(found["path"], int(found["fence"] or _PLAIN))

    @property
    def item_folder(self) -> str:
        """The prefix of the item's keys, whoever wrote them."""
        return f"items/{self.path}/"

    @property
    def folder(self) -> str:
        """The prefix of the keys here; under a plain one there may be later places too."""
        return f"{self.item_folder}~{self.fence}/" if self.fence else self.item_folder

    @property
    def is_first(self) -> bool:
        """Whether nobody can have written for this item before."""
        return self.fence == _PLAIN


def job_folder(job_id: str) -> str:
    """The path of a job; distinct for distinct ids. One that is too long is cut, and need not be turned back."""
    path = encode_key(job_id)
    return path if len(path) <= _LONGEST_JOB else _cut(path)


def tombstone(job: str) -> str:
    """The path that tells for good that a job in this folder was deleted; no job lies or is named there."""
    return f"{_DELETED}/{hashlib.sha256(job.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def shorten(key: str) -> str:
    """The key with its long pieces cut to what S3 allows for; most keys have none."""
    if len(key) <= _LONGEST_PIECE:
        return key
    return _PIECE.sub(lambda piece: _cut(piece[0]) if _is_long(piece[0]) else piece[0], key)


def long_pieces(key: str) -> dict[str, str]:
    """The pieces that `short` cuts, by what it makes of them."""
    if len(key) <= _LONGEST_PIECE:
        return {}
    return {_cut(piece): piece for piece in _PIECE.findall(key) if _is_long(piece)}


def complete_part(prefix: str) -> str:
    """As much of a prefix as consists of whole names, which is what can be listed."""
    found = _COMPLETE.match(prefix)
    return "" if found is None else found[0]


def check_key(key: str) -> None:
    """Raises ValueError unless it is a key inside a job."""
    _check(_KEY, key)


def check_prefix(prefix: str) -> None:
    """Raises ValueError unless keys inside a job can begin so."""
    _check(_PREFIX, prefix)


def _check(safe: re.Pattern[str], key: str) -> None:
    if not safe.fullmatch(key):
        raise ValueError(f"{key!r} is no key inside a job")


def _is_long(piece: str) -> bool:
    return len(piece.encode("utf-8", "surrogatepass")) > _LONGEST_PIECE


def _cut(piece: str) -> str:
    """Begins like the name, for people; `~=` is in no other key."""
    digest = hashlib.sha256(piece.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{piece.replace('/', '')[:_SHORT_CHARS]}~={digest[:40]}"
