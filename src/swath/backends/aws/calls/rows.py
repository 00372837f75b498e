"""Rows of the table, and changes to them, as DynamoDB writes them down. Used by table.py, which sends them.

A row is its key, a version, a compressed body, and the nonces of those who wrote its last versions: whoever lost the
answer to a conditional write finds out by them that the write was made.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from swath.backends.aws.calls.formats import FORMAT, PackError, pack, unpack
from swath.domain.errors import BadInput, StoreDamaged

__all__ = ["ABSENT", "ANY", "NONCES_BYTES", "Delete", "Key", "Put", "Row", "Written", "decoded", "read_row"]

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


class Written:
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
        return {**address(self._put.key), **version, "b": {"B": self._body}}

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
            "Key": address(self._put.key),
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


def address(key: Key) -> Attributes:
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


def decoded(decoder: Decoder[T_co], row: Row) -> T_co:
    """What the body of a row says. Raises StoreDamaged, in one line, for anything that the decoder does not know."""
    try:
        return decoder.decode(row.body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreDamaged(f"the row ({row.key.p}, {row.key.s}) of the table cannot be read: {error}") from error


def _version(item: Mapping[str, Any]) -> int:
    return int(item.get("v", {}).get("N", 0))
