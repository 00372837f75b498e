"""Every format, read back by its own reader, holds what was stored; whatever the layout."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it has no types
import pytest

from swath.domain.errors import BadInput, Conflict
from swath.domain.item import RetrySelection
from swath.domain.storage_keys import Layout
from swath.pipeline.formats.stored_files import read_item_files
from swath.pipeline.results.export import columns, formats, output_file
from swath.pipeline.results.export.exporter import (
    ARCHIVE_END,
    Export,
    ExportFormat,
    ExportRequest,
    ExportResult,
    archive_piece,
)
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store
from tests.unit.pipeline.results.stored_jobs import NOT_FOUND, TIMED_OUT, end_items, load, stored_job, with_download

DATA: list[Any] = [
    {"parcel": "p1", "owner": {"name": "=HYPERLINK(1)", "city": "Linz"}, "tax": 12, "sold": True, "mixed": 1},
    {"parcel": "p2", "owner": {"name": 'a "b",\r\nc'}, "tax": -3.5, "tags": ["x", {"y": 1}], "mixed": "one", "id": 5},
    NOT_FOUND,
    [{"parcel": "p4", "tax": 1}, {"parcel": "p4b", "tax": None, "big": 9_007_199_254_740_993, "huge": 2**70}],
    TIMED_OUT,
    with_download(6, {"parcel": "p6", "_id": 7, "_provenance": "mine", "=cmd": "x", "ID": 6, "far": 1.5, "big": 2}),
    "bare",
]
RECORDS: list[Any] = [DATA[0], DATA[1], *DATA[3], DATA[5].data, "bare"]
SEQS = [1, 2, 4, 4, 6, 7]


async def exported(
    store: Store, storage: ResultStorage, target: Path, *, replace: bool = False, **wish: Any
) -> ExportResult:
    wished = ExportRequest(wish.pop("form", None) or ExportFormat.of_name(target.name) or ExportFormat.FILES, **wish)
    return await Export(store, storage, await store.status("job"), wished).to_file(target, replace=replace)


@pytest.fixture
async def job(store: Store, storage: ResultStorage, layout: Layout) -> None:
    await stored_job(store, storage, DATA, layout)


pytestmark = pytest.mark.usefixtures("job")


@pytest.mark.req("R5", "R2")
async def test_json_lines_hold_the_records_as_they_were_extracted(
    store: Store, storage: ResultStorage, tmp_path: Path
) -> None:
    done = await exported(store, storage, tmp_path / "all.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert (done.records, done.bytes) == (6, (tmp_path / "all.jsonl").stat().st_size)
    told = [line.pop("_provenance") for line in lines]
    mine = {"__provenance" if key == "_provenance" else key: value for key, value in DATA[5].data.items()}
    assert lines == [*RECORDS[:4], mine, {"value": "bare"}]
    assert [one["seq"] for one in told] == SEQS
    assert [one["number"] for one in told] == [1, 1, 1, 2, 1, 1]
    record = await store.item("job", "item-6")
    files = await read_item_files(storage, "job", "item-6", record.artifacts)
    stored = {page["name"]: page["sha256"] for page in json.loads(files["metadata.json"])["pages"]}
    at = "2025-06-15T15:06:40.250Z"
    assert told[4] == {
        "job_id": "job",
        "version": 1,
        "item_id": "item-6",
        "seq": 6,
        "number": 1,
        "state": "success",
        "outcome": "found",
        "failure": None,
        "scraper_id": "example-mock",
        "scraper_version": "1.2",
        "proxy_tier": "datacenter",
        "generation": 1,
        "pages": [
            {"name": "html", "url": "https://demo.local/html/6", "sha256": stored["html"], "fetched_at": at},
            {"name": "owner", "url": "https://demo.local/owner/6", "sha256": stored["owner"], "fetched_at": at},
        ],
        "input": {"parcel": "p6", "n": 6},
    }


COLUMNS = [
    "parcel",
    "owner.name",
    "owner.city",
    "tax",
    "sold",
    "mixed",
    "tags",
    "id",
    "big",
    "huge",
    "__id",
    "__provenance",
    "=cmd",
    "ID",
    "far",
    "value",
    *(f"_{name}" for name in ("job_id", "version", "item_id", "seq", "number", "state", "outcome", "failure")),
    *(f"_{name}" for name in ("page_url", "page_sha256", "fetched_at", "scraper_id", "scraper_version")),
    "_proxy_tier",
    "_generation",
    "_input.parcel",
    "_input.n",
]


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.req("R5", "Z7")
async def test_csv_is_read_back_and_holds_no_formula(store: Store, storage: ResultStorage, tmp_path: Path) -> None:
    await exported(store, storage, tmp_path / "all.csv")
    raw = (tmp_path / "all.csv").read_bytes()
    rows = read_csv(raw.decode())
    assert list(rows[0]) == ["'=cmd" if name == "=cmd" else name for name in COLUMNS]
    assert [row["_seq"] for row in rows] == [str(seq) for seq in SEQS]
    assert rows[0]["owner.name"] == "'=HYPERLINK(1)"
    assert rows[1]["owner.name"] == 'a "b",\r\nc'
    assert rows[1]["tax"] == "-3.5"
    assert rows[1]["tags"] == '["x",{"y":1}]'
    assert [row["mixed"] for row in rows[:3]] == ["1", "one", ""]
    assert rows[3]["huge"] == str(2**70)
    assert rows[0]["sold"] == "true"
    assert rows[4]["_page_url"] == "https://demo.local/html/6 https://demo.local/owner/6"
    assert rows[5]["value"] == "bare"
    assert raw.endswith(b"\r\n")


@pytest.mark.req("R5")
async def test_raw_csv_is_left_as_it_is(store: Store, storage: ResultStorage, tmp_path: Path) -> None:
    await exported(store, storage, tmp_path / "all.csv", raw=True)
    rows = read_csv((tmp_path / "all.csv").read_bytes().decode())
    assert list(rows[0]) == COLUMNS
    assert rows[0]["owner.name"] == "=HYPERLINK(1)"


@pytest.mark.req("R5")
async def test_columns_whose_safe_names_are_the_same_stay_apart(
    store: Store, storage: ResultStorage, tmp_path: Path, layout: Layout
) -> None:
    await stored_job(store, storage, [{"'=cmd": "quoted", "=cmd": "bare", "=CMD": "large"}], layout, "odd")
    for raw, names in ((False, ["'=cmd", "'=cmd_2", "'=CMD"]), (True, ["'=cmd", "=cmd", "=CMD"])):
        target = tmp_path / f"{raw}.csv"
        await Export(store, storage, await store.status("odd"), ExportRequest(ExportFormat.CSV, raw=raw)).to_file(
            target
        )
        (row,) = read_csv(target.read_bytes().decode())
        assert list(row.items())[:3] == list(zip(names, ("quoted", "bare", "large"), strict=True))


@pytest.mark.req("R5", "Z7")
async def test_a_byte_order_mark_hides_no_formula(
    store: Store, storage: ResultStorage, tmp_path: Path, layout: Layout
) -> None:
    await stored_job(store, storage, [{"\ufeff=1+1": "\ufeff@A1"}], layout, "marked")
    target = tmp_path / "marked.csv"
    await Export(store, storage, await store.status("marked"), ExportRequest(ExportFormat.CSV)).to_file(target)
    head, row = csv.reader(io.StringIO(target.read_bytes().decode("utf-8-sig"), newline=""))  # eats a mark
    assert (head[0], row[0]) == ("'\ufeff=1+1", "'\ufeff@A1")


@pytest.mark.req("R5")
async def test_a_whole_number_stays_whole_in_csv_beside_fractions(
    store: Store, storage: ResultStorage, tmp_path: Path, layout: Layout
) -> None:
    await stored_job(store, storage, [{"n": -5}, {"n": 0.5}, {"n": 2.0}, {"n": 7, "m": True}], layout, "numbers")
    target = tmp_path / "numbers.csv"
    await Export(store, storage, await store.status("numbers"), ExportRequest(ExportFormat.CSV)).to_file(target)
    assert [row["n"] for row in read_csv(target.read_bytes().decode())] == ["-5", "0.5", "2.0", "7"]


@pytest.mark.req("R5")
async def test_parquet_has_types(
    store: Store, storage: ResultStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "GROUP_ROWS", 4)
    await exported(store, storage, tmp_path / "all.parquet")
    file = pq.ParquetFile(tmp_path / "all.parquet")
    table = file.read()
    assert file.num_row_groups == 2
    assert table.column_names == COLUMNS
    types = dict(zip(table.column_names, table.schema.types, strict=True))
    assert (types["tax"], types["sold"], types["big"]) == (pa.float64(), pa.bool_(), pa.int64())
    assert {types[name] for name in ("mixed", "huge", "tags", "value")} == {pa.string()}
    rows = table.to_pylist()
    assert [row["tax"] for row in rows] == [12.0, -3.5, 1.0, None, None, None]
    assert [row["mixed"] for row in rows[:3]] == ["1", "one", None]
    assert [row["big"] for row in rows] == [None, None, None, 9_007_199_254_740_993, 2, None]
    assert [row["_seq"] for row in rows] == SEQS
    assert rows[0]["owner.name"] == "=HYPERLINK(1)"


@pytest.mark.req("R5")
async def test_sqlite_has_one_table(store: Store, storage: ResultStorage, tmp_path: Path) -> None:
    await exported(store, storage, tmp_path / "all.sqlite")
    with sqlite3.connect(tmp_path / "all.sqlite") as db:
        db.row_factory = sqlite3.Row
        rows = [dict(row) for row in db.execute("SELECT * FROM records ORDER BY rowid")]
        kinds = {name: kind for _, name, kind, *_ in db.execute("PRAGMA table_info(records)")}
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    db.close()
    assert list(kinds) == ["ID_2" if name == "ID" else name for name in COLUMNS]
    assert (kinds["tax"], kinds["big"], kinds["sold"], kinds["mixed"]) == ("REAL", "INTEGER", "BOOLEAN", "TEXT")
    assert [row["tax"] for row in rows] == [12.0, -3.5, 1.0, None, None, None]
    assert [row["mixed"] for row in rows[:3]] == ["1", "one", None]
    assert (rows[1]["id"], rows[4]["ID_2"]) == (5, 6)
    assert rows[3]["huge"] == str(2**70)
    assert sorted(path.name for path in tmp_path.glob("*.sqlite*")) == ["all.sqlite"]


@pytest.mark.req("R5", "R4")
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "sqlite"])
async def test_items_without_a_record_have_a_row_if_everything_is_asked_for(
    store: Store, storage: ResultStorage, tmp_path: Path, ending: str
) -> None:
    target = tmp_path / f"all.{ending}"
    done = await exported(store, storage, target, everything=True)
    assert done.records == 8
    if ending == "csv":
        rows: list[dict[str, Any]] = read_csv(target.read_bytes().decode())
    elif ending == "jsonl":
        told = [json.loads(line)["_provenance"] for line in target.read_text().splitlines()]
        rows = [{f"_{name}": value for name, value in one.items()} for one in told]
    elif ending == "parquet":
        rows = pq.read_table(target).to_pylist()
    else:
        with sqlite3.connect(target) as db:
            db.row_factory = sqlite3.Row
            rows = [dict(row) for row in db.execute("SELECT * FROM records ORDER BY rowid")]
        db.close()
    assert [int(row["_seq"]) for row in rows] == [1, 2, 3, 4, 4, 5, 6, 7]
    assert (rows[2]["_state"], rows[2]["_outcome"]) == ("success", "not_found")
    assert (rows[5]["_state"], rows[5]["_failure"]) == ("failed", "timeout: no answer")


@pytest.mark.req("R1", "R2", "R5")
async def test_files_are_those_of_the_files_layout(store: Store, storage: ResultStorage, tmp_path: Path) -> None:
    await stored_job(store, storage, DATA, Layout.FILES, "plain")
    done = await exported(store, storage, tmp_path / "out")
    assert done.records == len(DATA)
    found = {path.relative_to(tmp_path / "out").as_posix(): path for path in (tmp_path / "out").rglob("*.*")}
    found = {key: path for key, path in found.items() if path.is_file()}
    for number in range(1, len(DATA) + 1):
        record = await store.item("plain", f"item-{number}")
        for artifact in record.artifacts:
            stored = await storage.get("plain", artifact.key)
            written = found.pop(artifact.key).read_bytes()
            if artifact.key.endswith("metadata.json"):
                assert json.loads(written) == json.loads(stored) | {"job_id": "job"}
            else:
                assert written == stored
        entry = json.loads(found.pop(f"manifests/items/item-{number}.json").read_bytes())
        assert [one["key"] for one in entry["artifacts"]] or number == 5
        for one in entry["artifacts"]:
            assert one["size"] == (tmp_path / "out" / one["key"]).stat().st_size
    assert found == {}


def unpacked(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name: file.read() for member in tar if (file := tar.extractfile(member)) is not None}


@pytest.mark.req("R1", "R2", "R5")
async def test_the_archive_holds_the_same_files_as_the_folder(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path
) -> None:
    await stored_job(store, storage, DATA, layout, "any")
    status = await store.status("any")
    await Export(store, storage, status, ExportRequest(ExportFormat.FILES)).to_file(tmp_path / "out")
    export = Export(store, storage, status, ExportRequest(ExportFormat.FILES))
    files = unpacked(b"".join([piece async for piece in export.pieces()]))
    written = {path.relative_to(tmp_path / "out").as_posix(): path for path in (tmp_path / "out").rglob("*")}
    assert files == {key: path.read_bytes() for key, path in written.items() if path.is_file()}
    assert export.records == len(DATA)


@pytest.mark.req("R5")
def test_an_archive_takes_long_names_and_empty_files() -> None:
    files = {"items/" + "long~/" * 200 + "x": b"some", "items/empty": b"", "items/block": bytes(512)}
    assert unpacked(archive_piece(files, 1_700_000_000.5) + ARCHIVE_END) == files


@pytest.mark.req("R5")
async def test_what_is_there_is_replaced_only_if_it_is_meant(
    store: Store, storage: ResultStorage, tmp_path: Path
) -> None:
    target = tmp_path / "all.jsonl"
    target.write_text("mine")
    with pytest.raises(BadInput, match=r"exists already.*--force"):
        await exported(store, storage, target)
    assert target.read_text() == "mine"
    await exported(store, storage, target, replace=True)
    assert len(target.read_text().splitlines()) == 6
    await exported(store, storage, tmp_path / "out")
    with pytest.raises(BadInput, match="exists already"):
        await exported(store, storage, tmp_path / "out")
    (tmp_path / "out" / "items" / "old").touch()
    await exported(store, storage, tmp_path / "out", replace=True)
    assert not (tmp_path / "out" / "items" / "old").exists()
    assert [path.name for path in tmp_path.iterdir() if "swath-part" in path.name] == []


@pytest.mark.req("R5")
async def test_a_name_that_no_file_can_have_is_refused_in_one_line(
    store: Store, storage: ResultStorage, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=r"File name too long; choose another name$"):
        await exported(store, storage, tmp_path / f"{'n' * 252}.csv")


@pytest.mark.req("R5", "Z2")
async def test_there_is_always_a_folder_under_the_name_while_it_is_replaced(
    store: Store, storage: ResultStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed while folders step aside leaves nothing there; so they do only where nothing else can be."""
    target, renamed = tmp_path / "out", os.rename
    asides: list[str] = []

    def noted(former: Any, new: Any, **more: Any) -> None:
        asides.extend(str(name) for name in (former, new) if Path(name) == target)
        renamed(former, new, **more)

    await exported(store, storage, target)
    monkeypatch.setattr(os, "rename", noted)
    for exchanges in (True, False):
        (target / "items" / "old").touch()
        if not exchanges:
            monkeypatch.setattr(output_file, "_exchange", lambda *_: False)
        await exported(store, storage, target, replace=True)
        assert bool(asides) is not exchanges
        assert (target / "items").is_dir()
        assert not (target / "items" / "old").exists()
        assert [path.name for path in tmp_path.iterdir() if "swath-part" in path.name] == []


@pytest.mark.req("R5", "Z2")
async def test_whoever_reads_the_file_that_is_replaced_goes_on_reading_it_whole(
    store: Store, storage: ResultStorage, tmp_path: Path
) -> None:
    target = tmp_path / "all.jsonl"
    target.write_text("the former one")
    with target.open() as reader:
        await exported(store, storage, target, replace=True)
        assert reader.read() == "the former one", "it was written over instead of being replaced at once"
    assert len(target.read_text().splitlines()) == 6


@pytest.mark.req("R5", "Z2")
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "sqlite"])
async def test_a_file_is_on_the_disk_before_it_has_its_name(
    store: Store, storage: ResultStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, replace: bool
) -> None:
    target = tmp_path / f"all.{ending}"
    if replace:
        target.write_text("the former one")
    synced: list[tuple[int, int, int | None]] = []

    def spy(fd: int) -> None:
        now, named = os.fstat(fd), target.stat().st_ino if target.exists() else None
        synced.append((now.st_ino, now.st_size, named))

    monkeypatch.setattr(os, "fsync", spy)
    done = await exported(store, storage, target, replace=replace)
    whole = [named for inode, size, named in synced if (inode, size) == (target.stat().st_ino, done.bytes)]
    assert whole, "the complete file was never synced"
    assert whole[0] != target.stat().st_ino, "it had its name before"


@pytest.mark.req("R5")
async def test_a_folder_of_somebody_is_never_replaced(store: Store, storage: ResultStorage, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    for form in (ExportFormat.FILES, ExportFormat.CSV):
        with pytest.raises(BadInput, match="choose another name"):
            await exported(store, storage, tmp_path / "home", replace=True, form=form)
    assert (tmp_path / "home" / "thesis.tex").exists()
    with pytest.raises(BadInput, match="there is no folder"):
        await exported(store, storage, tmp_path / "nowhere" / "all.csv")


@pytest.mark.req("R5", "R6")
async def test_a_job_that_changes_meanwhile_is_not_exported(
    store: Store, storage: ResultStorage, tmp_path: Path
) -> None:
    export = Export(store, storage, await store.status("job"), ExportRequest(ExportFormat.CSV))
    await store.retry("job", RetrySelection(failed=True))
    with pytest.raises(Conflict, match="changed while it was exported"):
        await export.to_file(tmp_path / "all.csv")
    assert [path for path in tmp_path.iterdir() if "all.csv" in path.name] == []


@pytest.mark.req("R5")
async def test_a_job_that_goes_on_is_refused_unless_a_part_is_wanted(
    store: Store, storage: ResultStorage, tmp_path: Path, layout: Layout
) -> None:
    data = [{"n": n} for n in range(1, 251)]
    await load(store, "half", [(f"i{n}", {}) for n in range(1, 251)], layout)
    await end_items(store, storage, data, "half", leases=1)
    status = await store.status("half")
    with pytest.raises(Conflict, match="is running"):
        Export(store, storage, status, ExportRequest(ExportFormat.CSV))
    done = await Export(store, storage, status, ExportRequest(ExportFormat.CSV, partial=True)).to_file(
        tmp_path / "half.csv"
    )
    assert done.records == status.counts.success > 0
    wish = ExportRequest(ExportFormat.CSV, partial=True, everything=True)
    await Export(store, storage, status, wish).to_file(tmp_path / "all.csv")
    rows = read_csv((tmp_path / "all.csv").read_text("utf-8"))
    assert {(row["_state"], row["_generation"]) for row in rows} == {("success", "1"), ("pending", "")}


@pytest.mark.req("R5")
@pytest.mark.parametrize("everything", [False, True])
async def test_what_ends_between_the_passes_is_left_out_or_has_no_record(
    store: Store, storage: ResultStorage, layout: Layout, everything: bool
) -> None:
    await load(store, "half", [(f"i{n}", {}) for n in range(1, 251)], layout)
    await end_items(store, storage, [{"n": n} for n in range(1, 251)], "half", leases=1)
    status = await store.status("half")
    export = Export(store, storage, status, ExportRequest(ExportFormat.CSV, partial=True, everything=everything))
    pieces = export.pieces()
    text = await anext(pieces)  # the head: the first pass is over
    await end_items(store, storage, [{"other": n} for n in range(1, 251)], "half")
    text += b"".join([piece async for piece in pieces])
    rows = read_csv(text.decode())
    seen = status.counts.success
    assert 0 < seen < 250
    assert [row["n"] for row in rows if row["n"]] == [str(n) for n in range(1, seen + 1)]
    assert len(rows) == (250 if everything else seen)


@pytest.mark.req("R5")
async def test_too_many_columns_are_refused(
    store: Store, storage: ResultStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MOST_COLUMNS", 30)
    with pytest.raises(BadInput, match="jsonl"):
        await exported(store, storage, tmp_path / "all.sqlite")


@pytest.mark.req("R5")
async def test_parquet_names_what_is_missing(
    store: Store, storage: ResultStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(BadInput, match=r"pip install 'swath\[parquet\]'"):
        await exported(store, storage, tmp_path / "all.parquet")
