"""Whatever rows hold, the same items come out of every format; and a load broken off anywhere ends the same."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from swath.domain.errors import BadInput
from swath.domain.job import Job
from swath.observability import crash_points
from swath.pipeline.ingest import validate
from swath.pipeline.ingest.load import LoadOptions, OnBadRows, OnDuplicates, load
from swath.pipeline.ingest.sources.file_and_stream import FileSource, InputFormat
from swath.pipeline.ingest.sources.rows import RowsInMemory
from swath.pipeline.ingest.validate import RowChecker
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.ingest.reading import Dribble, Parcel, in_pieces, read

Table = list[dict[str, str]]
LENIENT = LoadOptions(on_bad_rows=OnBadRows.SKIP, on_duplicates=OnDuplicates.KEEP_FIRST)

# Any text that UTF-8 and CSV can hold: line ends, quotes, delimiters, byte order marks and all.
cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["", '"', '""', ",", ";", "\t", "|", "\r", "\n", "\r\n", "\ufeff", "\u2028", "\x0b", "\x85", "[", "{", "'", " "]
)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6).map(str.strip)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    others = draw(st.lists(names.filter(lambda name: name not in {"", "parcel_id"}), unique=True, max_size=3))
    columns = draw(st.permutations(["parcel_id", *others]))
    rows = draw(st.lists(st.tuples(*[cells] * len(columns)), min_size=1, max_size=6))
    # The number keeps a row from being empty as a whole, which is no row in CSV.
    return [
        {name: f"{place}{cell}" if name == "parcel_id" else cell for name, cell in zip(columns, row, strict=True)}
        for place, row in enumerate(rows)
    ]


def as_csv(table: Table, delimiter: str, line_end: str) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=line_end, quoting=csv.QUOTE_ALL)
    writer.writerow(table[0])
    writer.writerows(row.values() for row in table)
    return out.getvalue()


formats: dict[InputFormat, Callable[[Table], str]] = {
    InputFormat.JSON: lambda table: json.dumps(table, indent=2, ensure_ascii=False),
    InputFormat.JSONL: lambda table: "\n".join(json.dumps(row) for row in table),
}


@pytest.mark.req("J2")
@given(
    table=tables(),
    form=st.sampled_from(list(InputFormat)),
    delimiter=st.sampled_from(",;\t|"),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    packed=st.booleans(),
    piece=st.integers(1, 40),
)
def test_every_format_gives_the_same_items(
    table: Table, form: InputFormat, delimiter: str, line_end: str, packed: bool, piece: int
) -> None:
    text = as_csv(table, delimiter, line_end) if form is InputFormat.CSV else formats[form](table)
    raw = gzip.compress(text.encode()) if packed else text.encode()
    source = FileSource("-", form, stdin=Dribble(in_pieces(raw, piece)))
    items, bad = read(source)
    assert bad == []
    assert items == read(RowsInMemory("rows", table))[0]
    assert [item.input for item in items] == table


@pytest.mark.req("Z5")
@given(
    raw=st.binary(max_size=60) | st.text('ab,;"\n\r\t|[]{}:01\\u ', max_size=60).map(str.encode),
    form=st.sampled_from([None, *InputFormat]),
    packed=st.booleans(),
)
def test_no_bytes_whatever_bring_more_than_bad_input(raw: bytes, form: InputFormat | None, packed: bool) -> None:
    class Anything(BaseModel):
        pass

    cut = -3 if len(raw) % 2 else None
    source = FileSource("-", form, stdin=io.BytesIO(gzip.compress(raw)[:cut] if packed else raw))
    with suppress(BadInput):
        items, bad = read(source, Anything)
        numbers = [item.seq for item in items] + [row.number for row in bad]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))


class _Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


@pytest.mark.req("J2", "Z1")
@settings(max_examples=60)
@given(
    parcels=st.lists(st.sampled_from([str(n) for n in range(30)] + ["bad"]), min_size=1, max_size=40).filter(
        lambda parcels: set(parcels) != {"bad"}
    ),
    batch_rows=st.integers(1, 9),
    lives=st.lists(st.integers(1, 45), max_size=6),
)
def test_a_load_killed_anywhere_any_number_of_times_ends_the_same(
    parcels: list[str], batch_rows: int, lives: list[int]
) -> None:
    rows = [{"wrong": "1"} if parcel == "bad" else {"parcel_id": parcel} for parcel in parcels]
    job = Job(job_id="county", scraper_id="demo-county")
    store = MemoryStore(FakeClock())
    steps_left = 0

    def step(point: str) -> None:
        nonlocal steps_left
        steps_left -= 1
        if steps_left == 0:
            raise _Killed

    async def live() -> None:
        await load(store, job, RowsInMemory("rows", rows), RowChecker(Parcel), LENIENT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate, "BATCH_ROWS", batch_rows)
        crash_points.install(step)
        try:
            for steps in lives:
                steps_left = steps
                with suppress(_Killed):
                    asyncio.run(live())
        finally:
            crash_points.install(None)
        asyncio.run(live())

    first_rows: dict[str, int] = {}
    for number, parcel in enumerate(parcels, start=1):
        if parcel != "bad":
            first_rows.setdefault(parcel, number)
    stored = asyncio.run(store.items("county", limit=1_000))
    assert {record.item_id: record.seq for record in stored} == first_rows
    assert len(stored) == len(first_rows)
    assert asyncio.run(store.status("county")).counts.total == len(first_rows)


@pytest.mark.req("J2")
@pytest.mark.parametrize("form", list(InputFormat))
def test_memory_does_not_grow_with_the_number_of_rows(form: InputFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "BATCH_ROWS", 2_000)

    def peak(rows: int) -> int:
        pieces = {
            InputFormat.CSV: [b"parcel_id\n", *(b"%d\n" % n for n in range(rows))],
            InputFormat.JSONL: [b'{"parcel_id": "%d"}\n' % n for n in range(rows)],
            InputFormat.JSON: [b"[", *(b'{"parcel_id": "%d"},\n' % n for n in range(rows)), b'{"parcel_id": "x"}]'],
        }[form]
        data = b"".join(pieces)
        tracemalloc.start()
        for _ in validate.checked_batches(
            FileSource("-", form, stdin=Dribble(in_pieces(data, 1 << 12))), RowChecker(Parcel)
        ):
            pass
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(40_000) < 1.2 * peak(4_000)
