"""What the rows of the table hold, field by field.

`python -m tests.integration.aws.stored_rows > tests/integration/aws/stored_rows.txt` writes them down.

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

from swath.backends.aws.client.rows import FORMAT, SITE_FORMAT
from swath.backends.aws.sites import site_rows, site_table
from swath.backends.aws.store import (
    clock_watch,
    item_chunks,
    job_row,
    job_specs,
    leader_election,
    loading,
    service_keys,
    webhooks,
)
from swath.backends.aws.store import returned_items as came_back

__all__ = ["description"]

ROWS: Final[dict[str, tuple[int, Any]]] = {
    "head": (FORMAT, job_row._decoder.type),
    "order": (FORMAT, job_specs._decoder.type),
    "items that came back": (FORMAT, came_back._decoder.type),
    "inputs": (FORMAT, item_chunks._input_decoder.type),
    "ends": (FORMAT, item_chunks._end_decoder.type),
    "batch": (FORMAT, item_chunks._batch_decoder.type),
    "begin of a load": (FORMAT, loading._start_decoder.type),
    "webhook": (FORMAT, webhooks._decoder.type),
    "key": (FORMAT, service_keys._decoder.type),
    "clocks of the hosts": (FORMAT, clock_watch._decoder.type),
    "leader": (FORMAT, leader_election._decoder.type),
    "site": (SITE_FORMAT, site_rows.SiteRow),
    "robots.txt": (SITE_FORMAT, site_table._RobotsRow),
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
