"""Validates rows against the scraper's input model and groups them into batches with digests.

The stored input keeps extra columns; the worker validates it again. Batches end where content says so, so the same
content gives the same digests and an interrupted load finds its place again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import msgspec
from pydantic import AliasChoices, AliasPath, BaseModel, ValidationError

from swath.domain.errors import BadInput
from swath.domain.item import ITEM_ID_LIMIT, Item, derive_item_id
from swath.domain.validation_messages import describe_validation, did_you_mean, display_value, quoted_list
from swath.pipeline.ingest.sources.rows import BadRow, InputRow, RowSource
from swath.ports.job_store import ItemBatch, LoadStart

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "CheckedBatch", "RowChecker", "checked_batches"]

_WRAPPED = frozenset({"item_id", "input"})


class RowChecker:
    """Checks rows against one model.

    `mapping` says for a field which column it comes from; the column is renamed. `id_column` names the column that
    holds the item id; else the id is derived from the model's fields alone, so extra columns do not change it.
    An empty cell counts as absent, so that defaults apply, except where the model requires a string. `wrapped`: every
    row is `{"item_id": …, "input": {…}}`, with or without the id, whatever the model's fields are called. `before`:
    the fields of the rows that these go on from, if they do.
    """

    def __init__(
        self,
        model: type[BaseModel],
        *,
        mapping: Mapping[str, str] | None = None,
        id_column: str | None = None,
        wrapped: bool = False,
        before: Collection[str] = (),
    ) -> None:
        self._model = model
        self._validate = model.__pydantic_validator__.validate_python
        self._id_column = id_column
        self._wrapped = wrapped
        self._before = before
        self._fields = {name: _keys(model, name, field) for name, field in model.model_fields.items()}
        self._keys = frozenset(key for keys in self._fields.values() for key in keys)
        self._required = {name for name, field in model.model_fields.items() if field.is_required()}
        self._open = model.model_config.get("extra") == "allow" or not self._fields
        self._only = next(iter(self._keys)) if len(self._keys) == 1 and not self._open else None
        self._renames = [(column, self._target(field, column)) for field, column in (mapping or {}).items()]
        # Somebody who speaks of such a column means a column, so the row is flat whatever else it has.
        spoken_of = {id_column, *(mapping or {}).values(), *self._keys}
        self._wraps = _WRAPPED.isdisjoint(spoken_of)
        self._droppable = tuple(
            key
            for name, keys in self._fields.items()
            if not (name in self._required and _takes_text(model.model_fields[name].annotation))
            for key in keys
        )

    def _target(self, field: str, column: str) -> str:
        if field in self._fields:
            return self._fields[field][0]
        if field in self._keys or self._open:
            return field
        hint = did_you_mean(field, self._fields) or f"; it has {quoted_list(list(self._fields))}"
        raise BadInput(f"--map {field}={column}: the scraper's input has no field {field!r}{hint}")

    def check_columns(self, name: str, columns: Sequence[str]) -> None:
        """Raises BadInput if a table with these columns cannot fit, before any of its rows is read."""
        for column, field in self._renames:
            if column not in columns:
                raise BadInput(f"{name}: --map {field}={column}: {_no_column(column, columns)}")
            if field in columns and field != column:
                raise BadInput(
                    f"{name}: --map {field}={column}: there is a column {field!r} too; rename it in the file"
                )
        if self._id_column is not None and self._id_column not in columns:
            raise BadInput(f"{name}: --id-column {self._id_column}: {_no_column(self._id_column, columns)}")
        renamed = dict(self._renames)
        names = {renamed.get(column, column) for column in columns}
        if self._before and names.isdisjoint(self._before) and names.isdisjoint(self._keys):
            raise BadInput(
                f"{name}: begins with {quoted_list(columns)}, which are no columns of the rows before; "
                "a part of a table "
                "needs the header line too"
            )
        missing = [field for field in self._fields if field in self._required and names.isdisjoint(self._fields[field])]
        if missing:
            needs = f"column {missing[0]!r}" if len(missing) == 1 else f"columns {quoted_list(missing)}"
            maps = " ".join(f"--map {field}=COLUMN" for field in missing)
            raise BadInput(
                f"{name}: the header lacks the {needs} that the scraper needs; it has {quoted_list(columns)}; "
                f"say which column it is with {maps}, or add a header line if the file has none"
            )
        surplus = sorted(names - self._keys)
        if surplus and self._model.model_config.get("extra") == "forbid":
            raise BadInput(f"{name}: the scraper's input takes no other fields, so remove {quoted_list(surplus)}")

    def check(self, row: InputRow) -> Item | BadRow:
        """The item, or what is wrong with the row."""
        data, item_id = row.data, None
        try:
            if row.text:
                if "" in data.values():
                    data = self._without_empty(data)
            elif self._wrapped or (len(data) <= 2 and data.keys() <= _WRAPPED and "input" not in self._keys):
                data, item_id = self._unwrapped(data)
            elif self._wraps and data.keys() >= _WRAPPED:
                raise _BadRowError(_extra_cells_message(data))
            if self._id_column is not None:
                item_id = _given_id(data.get(self._id_column), f"column {self._id_column!r}")
            if self._renames:
                self._rename(data)
            checked = self._validate(data)
            return Item(row.number, item_id or self._derive(self._stripped(data, checked)), data)
        except ValidationError as error:
            return BadRow(row.number, row.line, describe_validation(error, self._model))
        except _BadRowError as error:
            return BadRow(row.number, row.line, str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 what a scraper's validator raises is about this row
            return BadRow(row.number, row.line, f"the scraper's input model raised {display_value(error)}")

    def _unwrapped(self, data: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
        """Takes `{"item_id": …, "input": {…}}` apart; an object with one of the two may be the input itself."""
        inner = data.get("input")
        if not isinstance(inner, dict):
            if self._wraps and len(data) == len(_WRAPPED):
                raise _BadRowError(f"input: must be an object beside an item_id (is {display_value(inner)})")
            return data, None
        return dict(inner), _given_id(data["item_id"], "item_id") if "item_id" in data else None

    def _without_empty(self, data: dict[str, Any]) -> dict[str, Any]:
        kept = dict(data)
        for key in self._droppable:
            if kept.get(key) == "":
                del kept[key]
        return kept

    def _rename(self, data: dict[str, Any]) -> None:
        for column, field in self._renames:
            if column in data and field != column:
                if field in data:
                    raise _BadRowError(f"has both {column!r} and {field!r}, and --map makes one of the other")
                data[field] = data.pop(column)

    def _stripped(self, data: dict[str, Any], checked: Any) -> dict[str, Any]:
        """Without the white space around values that the model takes off: inputs that are equal to it share an id."""
        for key in self._keys:
            value = data.get(key)
            if type(value) is str and (bare := value.strip()) != value:
                other = {**data, key: bare}
                if self._is_same(checked, other):
                    data = other
        return data

    def _is_same(self, checked: Any, data: dict[str, Any]) -> bool:
        """By the fields that were given: a default may be the time of day, and differ every time."""
        try:
            other = self._validate(data)
            return all(getattr(other, name) == getattr(checked, name) for name in checked.model_fields_set)
        except Exception:  # noqa: BLE001 a model that refuses the bare value tells it from the other
            return False

    def _derive(self, data: dict[str, Any]) -> str:
        only = self._only or (next(iter(data)) if not self._fields and len(data) == 1 else None)
        if only is not None:  # the common input of one field, without building dicts
            value = data.get(only)
            if type(value) is str and 0 < len(value) <= ITEM_ID_LIMIT and "\0" not in value:
                return value
        known = data if self._open else {key: value for key, value in data.items() if key in self._keys}
        if len(known) == 1 and len(self._fields) > 1 and not self._required:
            return derive_item_id({"input": known})  # by its value alone, {a: 1} and {b: 1} would share an id
        return _without_nul(derive_item_id(known), "the item id")


class _BadRowError(ValueError):
    """What is wrong with a row besides what the model says."""


def _extra_cells_message(data: Mapping[str, Any]) -> str:
    others = [name for name in data if name not in _WRAPPED]
    return (
        f"has item_id and input, and {quoted_list(others)} beside them; put every field into input, or leave input out"
    )


def _given_id(value: object, what: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None or value == "":
        raise _BadRowError(f"{what}: is empty, and an item needs an id")
    if not isinstance(value, str):
        raise _BadRowError(f"{what}: must be text or a whole number to serve as item id (is {display_value(value)})")
    if len(value) > ITEM_ID_LIMIT:
        raise _BadRowError(f"{what}: has {len(value):,} characters; an item id has at most {ITEM_ID_LIMIT:,}")
    return _without_nul(value, what)


def _without_nul(item_id: str, what: str) -> str:
    if "\0" in item_id:
        raise _BadRowError(f"{what}: has a NUL character, which no item id may have")
    return item_id


def _no_column(column: str, columns: Sequence[str]) -> str:
    hint = did_you_mean(column, columns) or f"; the columns are {quoted_list(columns)}"
    return f"there is no column {display_value(column)}{hint}"


def _keys(model: type[BaseModel], name: str, field: FieldInfo) -> tuple[str, ...]:
    """The names under which the model finds a field."""
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    match field.validation_alias:
        case None:
            return (name,)
        case str(alias):
            keys = [alias]
        case AliasPath(path=path):
            keys = [str(path[0])]
        case AliasChoices(choices=choices):
            keys = [choice if isinstance(choice, str) else str(choice.path[0]) for choice in choices]
    return (*keys, name) if by_name else tuple(keys)


def _takes_text(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, str) and not issubclass(annotation, Enum)
    return any(_takes_text(inner) for inner in get_args(annotation))


# A commit of this many ids in no order rewrites most pages of their index once; with fewer, it does so more often.
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 4 << 20  # of items as JSON

# Sorted keys: the order in which an object names its fields is not content.
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class CheckedBatch(msgspec.Struct, frozen=True):
    """A batch for the store, the rows of it that were refused, and the physical line of every row."""

    batch: ItemBatch
    bad: tuple[BadRow, ...]
    lines: tuple[int, ...]


_FIRST_BATCH: Final = LoadStart(number=0, rows=0)


def checked_batches(
    source: RowSource, checker: RowChecker, start: LoadStart = _FIRST_BATCH
) -> Generator[CheckedBatch, None, None]:
    """Reads and checks everything. Batches end where content says so, so the same content gives the same batches.

    `start` is where the source goes on in the job, if other sources were loaded into it before.
    """
    with source.open() as opened:
        if opened.columns is not None:
            checker.check_columns(source.name, opened.columns)
        rows = _numbered_from(start.rows, opened.rows) if start.rows else opened.rows
        first_row, chain = start.rows + 1, ""
        for number in count(start.number):
            checked = _next_batch(rows, checker, _BatchStart(number, first_row, chain))
            if checked is None:
                break
            yield checked
            first_row += checked.batch.rows
            chain = checked.batch.digest
        if first_row == start.rows + 1:
            what = "has a header but no rows" if opened.columns is not None else "has no rows"
            raise BadInput(f"{source.name}: {what}; give at least one item")


def _numbered_from(before: int, rows: Iterator[InputRow | BadRow]) -> Iterator[InputRow | BadRow]:
    for row in rows:
        if isinstance(row, BadRow):
            yield BadRow(row.number + before, row.line, row.message)
        else:
            yield InputRow(row.number + before, row.line, row.data, row.text)


class _BatchStart(NamedTuple):
    """Where a batch begins; `chain` is the digest of the batch before."""

    number: int
    first_row: int
    chain: str


def _next_batch(rows: Iterator[InputRow | BadRow], checker: RowChecker, place: _BatchStart) -> CheckedBatch | None:
    items: list[Item] = []
    bad: list[BadRow] = []
    lines: list[int] = []
    content = bytearray()  # what the digest is made of
    check, encode_into = checker.check, _ENCODER.encode_into
    for row in rows:
        lines.append(row.line)
        checked = row if isinstance(row, BadRow) else check(row)
        if isinstance(checked, Item):
            before = len(content)
            try:
                encode_into(checked, content, -1)
                items.append(checked)
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                del content[before:]
                bad.append(_not_json(row, error))
        else:
            bad.append(checked)
        if len(lines) >= BATCH_ROWS or len(content) >= BATCH_BYTES:
            break
    if not lines:
        return None
    head = f"{place.chain} {place.number} {place.first_row} {len(lines)}\n".encode()
    digest = hashlib.sha256(head + content).hexdigest()
    batch = ItemBatch(place.number, place.first_row, len(lines), digest, tuple(items))
    return CheckedBatch(batch, tuple(bad), tuple(lines))


def _not_json(row: InputRow | BadRow, error: Exception) -> BadRow:
    why = "it has half of a surrogate pair" if isinstance(error, UnicodeEncodeError) else str(error)
    return BadRow(row.number, row.line, f"cannot be stored as JSON: {why}")
