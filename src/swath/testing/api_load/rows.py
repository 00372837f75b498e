"""The rows of the load, in both forms, made beforehand: while they are sent, the sender has nothing to reckon."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from swath.testing.soak.job import COLUMN, item_ids

__all__ = ["FORMS", "NDJSON", "Form", "input_of", "write_rows"]


@dataclass(frozen=True)
class Form:
    """How rows are sent. `by_key`: after a break the whole body comes again under its key; otherwise only the rest."""

    name: str
    suffix: str
    headers: tuple[tuple[str, str], ...]
    by_key: bool


NDJSON: Final = Form("NDJSON", "ndjson", (("Content-Type", "application/x-ndjson"),), by_key=True)
GZIP_CSV: Final = Form("gzip CSV", "csv.gz", (("Content-Type", "text/csv"), ("Content-Encoding", "gzip")), by_key=False)
FORMS: Final = (NDJSON, GZIP_CSV)


def input_of(item_id: str) -> bytes:
    """What a row must have become, as it is stored."""
    return b'{"%s":"%s"}' % (COLUMN.encode(), item_id.encode())


def write_rows(form: Form, folder: Path, items: int, first: int = 0) -> Path:
    """The file with all rows from `first` on; written once."""
    path = folder / f"rows-{first}-{items}.{form.suffix}"
    if path.exists():
        return path
    ids = islice(item_ids(items), first, None)
    if form is NDJSON:
        with path.open("wb") as file:
            file.writelines(b'{"item_id":"%s","input":%s}\n' % (one.encode(), input_of(one)) for one in ids)
    else:
        with gzip.open(path, "wb", compresslevel=6) as packed:
            packed.write(f"{COLUMN}\n".encode())
            packed.writelines(f"{one}\n".encode() for one in ids)
    return path
