"""Rows of the DynamoDB table: how they are encoded, and in which format.

A row is its key, a version, a compressed body, and the nonces of those who wrote its last versions: a writer that
lost
the answer to a conditional write finds out by them that the write was made. In format 1 the body is a bare zlib
stream;
from format 2 on, one byte with the number of the format comes first. A process that does not know that number cannot
read the row, and so never writes it back without the fields it does not know. Each kind of row is written in the
format
in which it last changed: to change what such a row holds, raise FORMAT and the number of that kind of row.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec
from isal import isal_zlib

from swath.domain.errors import BadInput, NewerStore, StoreDamaged

__all__ = [
    "ABSENT",
    "ANY",
    "FIRST_FORMAT",
    "FORMAT",
    "NONCES_BYTES",
    "SITE_FORMAT",
    "Delete",
    "Key",
    "PackError",
    "Put",
    "PutRequest",
    "Row",
    "decode_body",
    "newer_store_error",
    "pack",
    "read_row",
    "unpack",
]

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
        raise newer_store_error(number)
    return bytes(isal_zlib.decompress(packed[1:]))


def newer_store_error(number: int) -> NewerStore:
    """What to raise for a row, or a table, of a later format."""
    return NewerStore(
        f"the store was written by a newer version of Swath (format {number}, this one knows {FORMAT}): "
        "upgrade Swath on this machine"
    )


ANY: Final = None
ABSENT: Final = -1

ROW_BYTES: Final = 400 * 1024
_OTHER_BYTES: Final = 64  # names of attributes, and the version
_NONCE_BYTES: Final = 8
# How many versions back a row still knows who wrote them. A retry comes within seconds, a busy row has some ten
# versions a second, and a nonce that is gone leaves the writer in doubt.
_NONCES: Final = 16
NONCES_BYTES: Final = _NONCES * (_NONCE_BYTES + len("w00"))

Attributes = dict[str, Any]
T_co = TypeVar("T_co", covariant=True)


class Decoder(Protocol[T_co]):
    """A decoder of msgspec, of whatever encoding."""

    def decode(self, body: bytes, /) -> T_co: ...


class Key(NamedTuple):
    """Where a row is: rows of one `p` can be read in the order of `s`."""

    p: str
    s: str


class Row(NamedTuple):
    """What was read."""

    key: Key
    body: bytes
    version: int = 0


class Put(msgspec.Struct, frozen=True):
    """Writes a whole row. `expected` is the version that must be stored, or ABSENT, or ANY for no condition. `format`:
    see formats.py."""

    key: Key
    body: bytes
    version: int = 0
    expected: int | None = ANY
    format: int = FORMAT


class Delete(msgspec.Struct, frozen=True):
    """Removes a row, if there is one."""

    key: Key


class PutRequest:
    """A Put in DynamoDB's words, with a nonce of its own. The same object is sent again when an answer is lost."""

    def __init__(self, put: Put) -> None:
        """Raises BadInput when the row is larger than DynamoDB takes."""
        self._put = put
        self._body = pack(put.body, put.format)
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self.size_bytes = (
            len(self._body) + len(put.key.p.encode()) + len(put.key.s.encode()) + NONCES_BYTES + _OTHER_BYTES
        )
        if self.size_bytes > ROW_BYTES:
            at = f"{put.key.p}, {put.key.s}"
            raise BadInput(f"the row ({at}) has {self.size_bytes} bytes; DynamoDB takes {ROW_BYTES} at most")

    def item(self) -> Attributes:
        """The whole row, for a write without condition."""
        version = {"v": {"N": str(self._put.version)}} if self._put.version else {}
        return {**dynamo_key(self._put.key), **version, "b": {"B": self._body}}

    def update(self) -> Attributes:
        """A conditional write: an update, so that the nonces of other versions stay."""
        values: Attributes = {
            ":v": {"N": str(self._put.version)},
            ":b": {"B": self._body},
            ":w": {"B": self._nonce},
        }
        if self._put.expected == ABSENT:
            condition = "attribute_not_exists(p)"
        elif self._put.expected == 0:
            condition = "attribute_exists(p) AND (attribute_not_exists(v) OR v = :e)"
        else:
            condition = "v = :e"
        if self._put.expected != ABSENT:
            values[":e"] = {"N": str(self._put.expected)}
        return {
            "Key": dynamo_key(self._put.key),
            "UpdateExpression": f"SET v = :v, b = :b, {self._slot} = :w",
            "ConditionExpression": condition,
            "ExpressionAttributeValues": values,
        }

    def was_made(self, stored: Mapping[str, Any] | None) -> bool | None:
        """Whether the row as it is now tells that this write was made; None when it can no longer tell."""
        if not stored:
            return None
        if stored.get(self._slot, {}).get("B") == self._nonce:
            return True
        return None if _version(stored) - self._put.version >= _NONCES else False

    @property
    def _slot(self) -> str:
        return f"w{self._put.version % _NONCES}"


def dynamo_key(key: Key) -> Attributes:
    """A key in DynamoDB's words."""
    return {"p": {"S": key.p}, "s": {"S": key.s}}


def read_row(item: Mapping[str, Any]) -> Row:
    """Raises StoreDamaged for a body that was not written by us, NewerStore for one of a later version of Swath. A row
    that only counts has none."""
    key = Key(item["p"]["S"], item["s"]["S"])
    packed = item.get("b", {}).get("B")
    try:
        body = b"" if packed is None else unpack(packed)
    except PackError as error:
        raise StoreDamaged(f"the row ({key.p}, {key.s}) of the table cannot be read: {error}") from error
    return Row(key, body, _version(item))


def decode_body(decoder: Decoder[T_co], row: Row) -> T_co:
    """What the body of a row says. Raises StoreDamaged, in one line, for anything that the decoder does not know."""
    try:
        return decoder.decode(row.body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreDamaged(f"the row ({row.key.p}, {row.key.s}) of the table cannot be read: {error}") from error


def _version(item: Mapping[str, Any]) -> int:
    return int(item.get("v", {}).get("N", 0))
