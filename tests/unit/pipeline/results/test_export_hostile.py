"""R5, Z5: names and values that a hostile site, or a scraper that believes it, can put into records."""

from __future__ import annotations

import csv
import io
import json
import math
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it has no types
import pytest

from swath.domain.errors import BadInput
from swath.domain.result import Download, Page, Result
from swath.domain.storage_keys import Layout
from swath.pipeline.formats.artifacts import DEPTH_LIMIT
from swath.pipeline.results.export.exporter import Export, ExportFormat, ExportRequest
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store
from tests.unit.pipeline.results.stored_jobs import FETCHED_AT, page, stored_job

pytestmark = pytest.mark.req("R5", "Z5", "Z7")

SQL = "\"); DROP TABLE records; ATTACH DATABASE '/tmp/x' AS y; --"
BIDI = "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe"
NAMES = {
    **dict.fromkeys(("select", "rowid", "_rowid_", "oid", "", " ", '"', "'", "`", "[x]", "?", ":a", "%s", SQL, BIDI)),
    **dict.fromkeys(("nul\0name", "nul\N{REPLACEMENT CHARACTER}name", "line\r\nbreak", "=1+1", "x" * 70_000)),
    **dict.fromkeys(
        ("Name", "NAME", "name", "name_2", "\N{LATIN SMALL LETTER DOTLESS I}", "I", "İ", "ß", "ẞ", "\ud800")
    ),
}
RECORD = {name: f"value {number}" for number, name in enumerate(NAMES)}
VALUES: list[Any] = [
    *(
        "=cmd|' /C calc'!A0",
        "+1+1",
        "-1+1",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "\ufeff=1",
        "\N{FULLWIDTH EQUALS SIGN}1",
        '"=1',
        "nul\0",
        BIDI,
    ),
    *(SQL, "\ud800", "a\ud800b", "\x1b[2J", "\u2028", "x" * 100_000),
    *(2**63 - 1, -(2**63), 2**63, 10**1_000, -(10**4_000), 0.1, 1e308, float("inf"), float("nan"), True, None, [], {}),
]


def nested(depth: int, one: Any = 1) -> Any:
    for _ in range(depth):
        one = {"a": one}
    return one


async def exported(store: Store, storage: ResultStorage, target: Path, **wish: Any) -> Path:
    form = ExportFormat.of_name(target.name) or ExportFormat.FILES
    await Export(store, storage, await store.status("job"), ExportRequest(form, **wish)).to_file(target)
    return target


def read_sqlite(file: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    with sqlite3.connect(file) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("records",)]
        found = db.execute("SELECT * FROM records")
        return [column[0] for column in found.description], found.fetchall()


async def test_hostile_names_of_columns_are_names_and_nothing_else(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path
) -> None:
    await stored_job(store, storage, [RECORD], layout)
    names, (row,) = read_sqlite(await exported(store, storage, tmp_path / "a.sqlite"))
    assert list(row[: len(RECORD)]) == list(RECORD.values())
    assert len({name.lower() for name in names}) == len(names)
    assert "\0" not in "".join(names)
    table = pq.read_table(await exported(store, storage, tmp_path / "a.parquet"))
    assert table.num_rows == 1
    assert [table.column(at)[0].as_py() for at in range(len(RECORD))] == list(RECORD.values())
    text = (await exported(store, storage, tmp_path / "a.csv")).read_bytes().decode()
    head, cells = csv.reader(io.StringIO(text, newline=""))
    assert cells[: len(RECORD)] == list(RECORD.values())
    assert len(set(head)) == len(head)
    assert "'=1+1" in head
    (line,) = (await exported(store, storage, tmp_path / "a.jsonl")).read_text(encoding="utf-8").splitlines()
    assert list(json.loads(line).values())[:-1] == list(RECORD.values())


async def test_hostile_values_are_values_in_every_format(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path
) -> None:
    """In one column, which is text because of that, and each in one of its own, which has its type."""
    wide = [{"v": value, f"own {number}": value} for number, value in enumerate(VALUES)]
    await stored_job(store, storage, wide, layout)
    lines = (await exported(store, storage, tmp_path / "a.jsonl")).read_text(encoding="utf-8").split("\n")[:-1]
    kept = [json.loads(line)["v"] for line in lines]
    replaced = {"\ud800": "\N{REPLACEMENT CHARACTER}", "a\ud800b": "a\N{REPLACEMENT CHARACTER}b"}
    expected = [replaced.get(value, value) if isinstance(value, str) else value for value in VALUES]
    assert kept == [None if isinstance(value, float) and not math.isfinite(value) else value for value in expected]
    _, rows = read_sqlite(await exported(store, storage, tmp_path / "a.sqlite"))
    table = pq.read_table(await exported(store, storage, tmp_path / "a.parquet"))
    texts = [row[0] for row in rows]
    assert texts == table.column("v").to_pylist()
    assert [
        one if isinstance(one, (str, type(None))) else json.loads(text) for one, text in zip(kept, texts, strict=True)
    ] == kept
    assert [text for one, text in zip(kept, texts, strict=True) if isinstance(one, (str, type(None)))] == [
        one for one in kept if isinstance(one, (str, type(None)))
    ]
    assert [row[1 + number] for number, row in enumerate(rows)] == [
        table.column(f"own {number}")[number].as_py() for number in range(len(VALUES))
    ]
    text = (await exported(store, storage, tmp_path / "a.csv")).read_bytes().decode()
    cells = [row[0] for row in csv.reader(io.StringIO(text, newline=""))][1:]
    assert [cell.replace("'", "") for cell in cells] == ["" if one is None else one.replace("'", "") for one in texts]
    assert [cell[0] for cell in cells[:9]] == ["'"] * 9


@pytest.mark.parametrize("form", [form for form in ExportFormat if form.passes == 2])
async def test_more_columns_than_a_table_may_have_are_one_line_and_leave_nothing(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path, form: ExportFormat
) -> None:
    await stored_job(store, storage, [{f"c{number}": number for number in range(10_000)}], layout)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(BadInput, match=r"more than 2,000 different fields; export them as jsonl$"):
        await exported(store, storage, out / f"a.{form.value}")
    assert list(out.iterdir()) == []
    assert json.loads((await exported(store, storage, out / "a.jsonl")).read_text())["c9999"] == 9_999


@pytest.mark.parametrize("depth", [DEPTH_LIMIT, DEPTH_LIMIT + 1, 900, 970, 5_000])
async def test_a_record_that_is_too_deep_costs_its_item_and_not_the_export_of_the_job(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path, depth: int
) -> None:
    """Writing JSON takes less of the stack than reading it back somewhere else: what is stored must be readable."""
    await stored_job(store, storage, [nested(depth, "deep"), {"plain": 1}], layout)
    for form in (ExportFormat.CSV, ExportFormat.JSONL, ExportFormat.SQLITE, ExportFormat.PARQUET):
        file = await exported(store, storage, tmp_path / f"a.{form.value}")
        assert (b"deep" in file.read_bytes()) is (depth <= DEPTH_LIMIT)
    failure = (await store.item("job", "item-1")).failure
    told = f"the result cannot be stored: ValueError: it is nested more than {DEPTH_LIMIT} levels deep"
    assert (None if failure is None else failure.message) == (None if depth <= DEPTH_LIMIT else told)


FILES = {
    "page.svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>",
    "page.xhtml": b"<html xmlns='http://www.w3.org/1999/xhtml'><script>alert(1)</script></html>",
    "page.xml": b"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>",
    "page.pdf": b"%PDF-1.7\n1 0 obj<</OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj",
}
WAYS_OUT = [
    "..",
    "../../evil",
    "/etc/cron.d/evil",
    "a/../../evil",
    "C:\\evil",
    "\\\\host\\evil",
    "~/.ssh/x",
    "-rf",
    "nul\0evil",
]
ODD = [".", "con", "aux.txt", BIDI, "line\nbreak", "x" * 2_000, "\ud800", "é", "items", "@LongLink", ".bashrc", ""]


async def test_no_name_of_an_item_or_a_file_leads_out_of_an_archive_or_a_folder(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path
) -> None:
    made = [Download(name, one(body)) for name, body in FILES.items()]
    made += [Download(name, one(name.encode("utf-8", "replace"))) for name in [*WAYS_OUT, *ODD] if name]
    pages = tuple(page(number, 2_000, name) for number, name in enumerate(["..", "../up", "/abs", BIDI], 1))
    await stored_job(store, storage, [Result(pages=pages, downloads=tuple(made), data={"a": 1})], layout)
    folder = await exported(store, storage, tmp_path / "out")
    wish = ExportRequest(ExportFormat.FILES)
    pieces = [piece async for piece in Export(store, storage, await store.status("job"), wish).pieces()]
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
        members = archive.getmembers()
        assert {(member.type, oct(member.mode), member.linkname) for member in members} == {
            (tarfile.REGTYPE, "0o644", "")
        }
        archive.extractall(tmp_path / "in", filter="data")
    assert files_in(tmp_path / "in") == files_in(folder)
    item = folder / "items" / "item-1"
    assert {name: (item / name).read_bytes() for name in FILES} == FILES
    names = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    assert all(name.isascii() and name.isprintable() for name in names)
    assert not any(part.startswith((".", "~")) for name in names for part in name.split("/"))
    assert all(path.stat().st_mode & 0o111 == 0 for path in folder.rglob("*") if path.is_file()), "something can be run"


def one(body: bytes) -> Page:
    return Page(name="", url="https://demo.local/file", status=200, body=body, fetched_at=FETCHED_AT)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
