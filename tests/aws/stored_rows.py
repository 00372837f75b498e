"""What the rows of the table hold, field by field: `python -m tests.aws.stored_rows > tests/aws/stored_rows.txt`.

test_stored_rows.py compares. A field that is added, removed or changed needs a new format (calls/formats.py), unless
the format was not yet in any release.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import inspect

from swath.backends.aws.calls.formats import FORMAT, SITE_FORMAT
from swath.backends.aws.jobs import back as came_back
from swath.backends.aws.jobs import chunks, clock_watch, head, keys, leader, loading, orders, outbox
from swath.backends.aws.sites import site_robots, site_rows

__all__ = ["description"]

ROWS: Final[dict[str, tuple[int, Any]]] = {
    "head": (FORMAT, head._decoder.type),
    "order": (FORMAT, orders._decoder.type),
    "items that came back": (FORMAT, came_back._decoder.type),
    "inputs": (FORMAT, chunks._input_decoder.type),
    "ends": (FORMAT, chunks._end_decoder.type),
    "batch": (FORMAT, chunks._batch_decoder.type),
    "begin of a load": (FORMAT, loading._start_decoder.type),
    "webhook": (FORMAT, outbox._decoder.type),
    "key": (FORMAT, keys._decoder.type),
    "clocks of the hosts": (FORMAT, clock_watch._decoder.type),
    "leader": (FORMAT, leader._decoder.type),
    "site": (SITE_FORMAT, site_rows.SiteRow),
    "robots.txt": (SITE_FORMAT, site_robots._Robots),
}


def description() -> str:
    """A line for each field of each row, with the format in which the row is written."""
    return "\n".join(line for row, (number, kind) in ROWS.items() for line in _lines(row, number, kind)) + "\n"


def _lines(row: str, number: int, kind: Any) -> Iterator[str]:
    structs: dict[type, inspect.StructType] = {}
    told = _told(inspect.type_info(kind), structs)
    yield f"{row}, format {number}: {told}"
    described: set[type] = set()
    while waiting := [struct for cls, struct in structs.items() if cls not in described]:
        for struct in waiting:
            described.add(struct.cls)
            for place, field in enumerate(struct.fields):
                at = str(place) if struct.array_like else field.encode_name
                yield f"  {struct.cls.__name__}[{at}] {field.name}: {_told(field.type, structs)}{_default(field)}"


def _told(kind: inspect.Type, structs: dict[type, inspect.StructType]) -> str:
    """A type in few words; the structs in it are noted, to be told after it."""
    match kind:
        case inspect.StructType():
            structs.setdefault(kind.cls, kind)
            return kind.cls.__name__
        case inspect.EnumType() | inspect.CustomType():
            return kind.cls.__name__
        case inspect.UnionType():
            return " | ".join(_told(each, structs) for each in kind.types)
        case inspect.DictType():
            return f"dict[{_told(kind.key_type, structs)}, {_told(kind.value_type, structs)}]"
        case inspect.TupleType():
            return f"tuple[{', '.join(_told(each, structs) for each in kind.item_types)}]"
        case inspect.CollectionType():
            return f"{_name(kind)}[{_told(kind.item_type, structs)}]"
    return _name(kind)


def _name(kind: inspect.Type) -> str:
    return type(kind).__name__.removesuffix("Type").lower()


def _default(field: inspect.Field) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return f" = {field.default_factory.__name__}()"
    if field.default is msgspec.NODEFAULT:
        return ""
    if isinstance(field.default, Enum):
        return f" = {field.default.value}"
    is_plain = isinstance(field.default, (str, int, float, tuple, type(None)))
    return f" = {field.default!r}" if is_plain else f" = {type(field.default).__name__}()"


if __name__ == "__main__":
    sys.stdout.write(description())
