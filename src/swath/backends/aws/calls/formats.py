"""Formats: every row of the table says which format it is written in, so that no process rewrites what it cannot read.

The body of a row is compressed. In format 1 it is a bare zlib stream. From format 2 on, one byte with the number of
the format comes first. A process that does not know that number cannot read the row, and so never writes it back
without the fields that it does not know; versions of Swath from before there were formats fail on that byte too.

A kind of row is written in the format in which it last changed, not always in the newest. Whoever changes what such a
row holds raises FORMAT, and the number of that kind of row; tests/aws/test_format.py notices when that was forgotten.
"""

from __future__ import annotations

from typing import Final

from isal import isal_zlib

from swath.domain.errors import NewerStore

__all__ = ["FIRST_FORMAT", "FORMAT", "SITE_FORMAT", "PackError", "newer_store", "pack", "unpack"]

FIRST_FORMAT: Final = 1  # of tables that say nothing
FORMAT: Final = 2  # the newest that this version of Swath reads and writes
SITE_FORMAT: Final = 1  # of what is known of sites: during an upgrade old and new workers share their rates

_ZLIB: Final = 0x78  # the first byte of every zlib stream of ours
_MOST: Final = 0x1F  # formats that there can be; a text that somebody wrote into the row begins with a larger byte
_COMPRESSION: Final = 1
PackError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls the class an instance


def pack(body: bytes, number: int) -> bytes:
    """A body as it is stored in a row of that format."""
    packed: bytes = isal_zlib.compress(body, _COMPRESSION)
    return packed if number == FIRST_FORMAT else bytes((number,)) + packed


def unpack(packed: bytes) -> bytes:
    """The reverse, for all formats up to FORMAT. Raises NewerStore for later ones, PackError for what is not ours."""
    number = packed[0] if packed else 0
    if number == _ZLIB:
        return bytes(isal_zlib.decompress(packed))
    if not FIRST_FORMAT < number <= _MOST:
        raise PackError("it does not begin like a row of Swath")
    if number > FORMAT:
        raise newer_store(number)
    return bytes(isal_zlib.decompress(packed[1:]))


def newer_store(number: int) -> NewerStore:
    """What to raise for a row, or a table, of a later format."""
    return NewerStore(
        f"the store was written by a newer version of Swath (format {number}, this one knows {FORMAT}): "
        "upgrade Swath on this machine"
    )
