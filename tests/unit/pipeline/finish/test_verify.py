"""Verification finds whatever does not agree, on real files, and names it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.errors import UnknownName
from swath.domain.job import Counts
from swath.domain.transitions import JobState
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.results.verify.verifier import ProblemCode, VerifyReport, verify
from swath.ports.result_storage import StagedItem
from tests.contract.suites.builders import Store
from tests.support.clock import FakeClock
from tests.unit.pipeline.finish.running import every_kind, finish_lease, loaded, run, successes

IDS = [f"100-01-{n:03}" for n in range(1, 24)] + ["a/b \N{SNOWMAN}", "x" * 400]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of the job."""
    return tmp_path / "results" / "job"


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    made = SqliteStore.open(tmp_path, clock)
    yield made
    await made.close()


@pytest.fixture
async def ended(store: Store, storage: FolderResults, clock: FakeClock) -> None:
    await run(store, storage, IDS)
    assert await Finisher(store, store, storage, clock, "finisher", part_items=10).run_once() is not None


def codes(report: VerifyReport) -> set[ProblemCode]:
    return {problem.code for problem in report.problems}


def found(report: VerifyReport) -> set[tuple[str, str]]:
    return {(problem.code.value, problem.where) for problem in report.problems}


def sql(tmp_path: Path, statement: str) -> None:
    with sqlite3.connect(tmp_path / "swath.db") as db:
        assert db.execute(statement).rowcount == 1
    db.close()


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    document = json.loads(path.read_text())
    document = change(document) or document
    path.write_text(json.dumps(document, separators=(",", ":")))


pytestmark = pytest.mark.usefixtures("ended")


@pytest.mark.req("R4")
async def test_a_job_as_it_was_ended_is_in_order(store: Store, storage: FolderResults, job: Path) -> None:
    report = await verify(store, storage, "job")
    assert (report.ok, report.finished, report.state) == (True, True, JobState.PARTIALLY_COMPLETED)
    assert report.counts == Counts(success=16, not_found=2, failed=6, skipped=3, total=25)
    assert report.artifacts == 16 * 3 + 9
    assert report.bytes == sum(path.stat().st_size for path in (job / "items").rglob("*") if path.is_file())
    assert report.unpublished == 0


async def test_there_is_no_report_of_an_unknown_job(store: Store, storage: FolderResults) -> None:
    with pytest.raises(UnknownName):
        await verify(store, storage, "jop")


@pytest.mark.req("R4", "Z2")
@pytest.mark.parametrize("item", ["100-01-001", "a%2Fb%20%E2%98%83", "x" * 180 + "~/" + "x" * 180 + "~/" + "x" * 40])
async def test_a_removed_file_is_found(store: Store, storage: FolderResults, job: Path, item: str) -> None:
    key = f"items/{item}/metadata.json"
    (job / key).unlink()
    assert found(await verify(store, storage, "job")) == {("artifact_missing", key)}


@pytest.mark.req("R4", "Z2")
@pytest.mark.parametrize("change", [b"\xff", b"", b"longer than it was before"])
async def test_a_changed_byte_is_found(store: Store, storage: FolderResults, job: Path, change: bytes) -> None:
    file = job / "items/100-01-001/html.html.gz"
    body = bytearray(file.read_bytes())
    body[20:21] = change
    file.write_bytes(body)
    assert found(await verify(store, storage, "job")) == {("artifact_changed", "items/100-01-001/html.html.gz")}


@pytest.mark.req("R4")
@pytest.mark.parametrize("counter", ["success", "not_found", "failed", "skipped", "cancelled", "total"])
@pytest.mark.parametrize("by", [1, -1])
async def test_a_counter_edited_by_hand_is_found(
    store: Store, storage: FolderResults, tmp_path: Path, counter: str, by: int
) -> None:
    sql(tmp_path, f"UPDATE jobs SET {counter} = {counter} + {by}")
    assert found(await verify(store, storage, "job")) == {("counter_wrong", counter)}


@pytest.mark.req("R4")
async def test_rows_that_were_never_loaded_have_no_items(store: Store, storage: FolderResults, tmp_path: Path) -> None:
    sql(tmp_path, "UPDATE jobs SET loaded_rows = loaded_rows - 1")
    assert found(await verify(store, storage, "job")) == {("counter_wrong", "loaded_rows")}


@pytest.mark.req("R4")
async def test_a_failure_kind_edited_by_hand_is_found(store: Store, storage: FolderResults, tmp_path: Path) -> None:
    sql(tmp_path, "UPDATE failures SET items = items + 1 WHERE kind = 'timeout'")
    assert found(await verify(store, storage, "job")) == {("counter_wrong", "timeout")}
    sql(tmp_path, "DELETE FROM failures WHERE kind = 'timeout'")
    assert found(await verify(store, storage, "job")) == {("counter_wrong", "timeout")}


@pytest.mark.req("R4")
async def test_a_row_edited_by_hand_is_found(store: Store, storage: FolderResults, tmp_path: Path) -> None:
    sql(tmp_path, 'UPDATE items SET input = \'{"parcel":"other"}\' WHERE seq = 2')
    assert found(await verify(store, storage, "job")) == {
        ("item_differs", IDS[1]),
        ("artifact_changed", f"manifests/items/{IDS[1]}.json"),
    }


@pytest.mark.req("R3", "R4")
@pytest.mark.parametrize(
    ("list_name", "part", "seq"), [("full", 2, 15), ("full", 3, 25), ("success", 1, 1), ("errors", 1, 3)]
)
async def test_an_item_missing_from_a_part_is_found(
    store: Store, storage: FolderResults, job: Path, list_name: str, part: int, seq: int
) -> None:
    key = f"manifests/{list_name}/part-{part}.json"

    def leave_out(document: Any) -> None:
        document["items"] = [entry for entry in document["items"] if entry["seq"] != seq]

    edit(job / key, leave_out)
    report = await verify(store, storage, "job")
    assert found(report) == {("part_changed", key), ("item_not_listed", IDS[seq - 1])}
    assert any(list_name in p.message for p in report.problems if p.code is ProblemCode.ITEM_NOT_LISTED)


@pytest.mark.req("R3", "R4")
@pytest.mark.parametrize(("list_name", "part"), [("full", 1), ("full", 3), ("success", 2), ("errors", 1)])
@pytest.mark.parametrize("at", [0, 1, 99])
async def test_an_item_twice_in_a_part_is_found(
    store: Store, storage: FolderResults, job: Path, list_name: str, part: int, at: int
) -> None:
    key = f"manifests/{list_name}/part-{part}.json"
    first = json.loads((job / key).read_text())["items"][0]
    edit(job / key, lambda document: document["items"].insert(at, first))
    assert found(await verify(store, storage, "job")) == {
        ("part_changed", key),
        ("item_listed_twice", first["item_id"]),
    }


@pytest.mark.req("R4")
async def test_an_item_in_the_wrong_list_is_found(store: Store, storage: FolderResults, job: Path) -> None:
    failed = json.loads((job / "manifests/errors/part-1.json").read_text())["items"].pop(0)
    edit(job / "manifests/success/part-1.json", lambda document: document["items"].insert(2, failed))
    assert found(await verify(store, storage, "job")) == {
        ("part_changed", "manifests/success/part-1.json"),
        ("item_listed_wrongly", failed["item_id"]),
    }


@pytest.mark.req("R4")
async def test_an_item_that_the_store_does_not_know_is_found(store: Store, storage: FolderResults, job: Path) -> None:
    key = "manifests/full/part-3.json"
    edit(job / key, lambda document: document["items"].append({**document["items"][0], "item_id": "new", "seq": 99}))
    assert found(await verify(store, storage, "job")) == {("part_changed", key), ("item_listed_wrongly", "new")}


@pytest.mark.req("R4")
async def test_another_state_in_a_part_is_found(store: Store, storage: FolderResults, job: Path) -> None:
    key = "manifests/full/part-1.json"
    edit(job / key, lambda document: document["items"][2].update(state="success"))
    assert found(await verify(store, storage, "job")) == {("part_changed", key), ("item_differs", IDS[2])}


@pytest.mark.req("R3", "R4")
async def test_a_removed_part_is_found_with_what_it_held(store: Store, storage: FolderResults, job: Path) -> None:
    (job / "manifests/full/part-2.json").unlink()
    report = await verify(store, storage, "job")
    assert found(report) == {
        ("part_missing", "manifests/full/part-2.json"),
        *(("item_not_listed", item_id) for item_id in IDS[10:20]),
    }
    assert report.found == {"part_missing": 1, "item_not_listed": 10}


@pytest.mark.parametrize(
    "body", ["", "[]", '{"items": [1]}', '{"job_id":"job","list":"full","part":2,"items":[1, {}]}']
)
async def test_a_part_that_cannot_be_read_is_found(store: Store, storage: FolderResults, job: Path, body: str) -> None:
    (job / "manifests/full/part-2.json").write_text(body)
    report = await verify(store, storage, "job")
    assert codes(report) == {ProblemCode.PART_CHANGED, ProblemCode.PART_UNREADABLE, ProblemCode.ITEM_NOT_LISTED}


@pytest.mark.req("R4")
@pytest.mark.parametrize(
    "key",
    [
        "items/100-01-001/extra.html",
        "items/100-01-999/html.html",
        "items/notes.txt",
        "items/.hidden",
        "items/%FF/x",
        "items/\N{SNOWMAN}/x",
        "manifests/full/part-4.json",
        "manifests/items/100-01-999.json",
        "manifests/other/part-1.json",
        "manifests/items/notes.txt",
    ],
)
async def test_a_stray_file_is_found(store: Store, storage: FolderResults, job: Path, key: str) -> None:
    (job / key).parent.mkdir(exist_ok=True)
    (job / key).write_text("stray")
    assert found(await verify(store, storage, "job")) == {("stray_key", key)}


async def test_a_stray_file_is_found_beside_a_missing_one(store: Store, storage: FolderResults, job: Path) -> None:
    (job / "items/100-01-001/data.json").rename(job / "items/100-01-001/moved.json")
    assert found(await verify(store, storage, "job")) == {
        ("artifact_missing", "items/100-01-001/data.json"),
        ("stray_key", "items/100-01-001/moved.json"),
    }


@pytest.mark.req("R3", "R4")
@pytest.mark.parametrize("change", [("status", "completed"), ("bytes", 1), ("parts", {}), ("more", 1)])
async def test_edited_job_metadata_is_found(
    store: Store, storage: FolderResults, job: Path, change: tuple[str, Any]
) -> None:
    edit(job / "job_metadata.json", lambda document: document.update([change]))
    report = await verify(store, storage, "job")
    assert found(report) == {("metadata_wrong", "job_metadata.json")}
    assert change[0] in report.problems[0].message


async def test_job_metadata_that_is_gone_or_no_json_is_found(store: Store, storage: FolderResults, job: Path) -> None:
    (job / "job_metadata.json").write_text("{")
    assert found(await verify(store, storage, "job")) == {("metadata_wrong", "job_metadata.json")}
    (job / "job_metadata.json").unlink()
    assert found(await verify(store, storage, "job")) == {("metadata_missing", "job_metadata.json")}


@pytest.mark.req("R4")
async def test_what_the_store_kept_of_the_manifest_must_add_up_too(
    store: Store, storage: FolderResults, job: Path, tmp_path: Path
) -> None:
    sql(tmp_path, "UPDATE jobs SET manifest = json_set(CAST(manifest AS TEXT), '$.counts.success', 17)")
    edit(job / "job_metadata.json", lambda document: document["counts"].update(success=17))
    report = await verify(store, storage, "job")
    assert found(report) == {("metadata_wrong", "job_metadata.json")}
    assert "rows add up to; differing: counts" in report.problems[0].message
    sql(tmp_path, "UPDATE jobs SET manifest = NULL")
    assert ProblemCode.METADATA_WRONG in codes(await verify(store, storage, "job"))


async def test_an_items_own_entry_is_checked(store: Store, storage: FolderResults, job: Path) -> None:
    (job / f"manifests/items/{IDS[0]}.json").write_text("{}")
    (job / f"manifests/items/{IDS[1]}.json").unlink()
    assert found(await verify(store, storage, "job")) == {
        ("artifact_changed", f"manifests/items/{IDS[0]}.json"),
        ("artifact_missing", f"manifests/items/{IDS[1]}.json"),
    }


@pytest.mark.req("R4")
async def test_an_item_that_never_ended_is_found_in_an_ended_job(
    store: Store, storage: FolderResults, tmp_path: Path
) -> None:
    sql(tmp_path, "UPDATE items SET state = 0 WHERE seq = 1")
    report = await verify(store, storage, "job")
    assert ("item_open", IDS[0]) in found(report)
    assert ("counter_wrong", "success") in found(report)


@pytest.mark.req("Z2")
async def test_files_left_staged_are_found(store: Store, storage: FolderResults) -> None:
    await storage.open_lease("job", 999)
    await storage.stage("job", 999, [StagedItem("a", {"x": b"1"})])
    assert found(await verify(store, storage, "job")) == {("staged_left", "lease 999")}


async def test_a_long_list_of_problems_is_cut_and_counted(
    store: Store, storage: FolderResults, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.pipeline.results.verify.report.LISTED_PER_CODE", 3)
    await storage.remove("job", "items/")
    (job / "manifests/full/part-1.json").write_text("{}")
    report = await verify(store, storage, "job")
    assert report.found["artifact_missing"] == 16 * 3 + 9
    assert sum(problem.code is ProblemCode.ARTIFACT_MISSING for problem in report.problems) == 3
    assert ProblemCode.PART_CHANGED in codes(report)


@pytest.mark.req("R4")
async def test_of_an_unfinished_job_what_has_ended_is_checked(
    store: Store, storage: FolderResults, tmp_path: Path
) -> None:
    await loaded(store, [str(n) for n in range(200)], "running")
    lease = await store.claim("worker", "running")
    assert lease is not None
    await finish_lease(store, storage, lease, every_kind)
    report = await verify(store, storage, "running")
    assert (report.ok, report.finished, report.state) == (True, False, JobState.RUNNING)
    assert (report.counts.ended, report.counts.total) == (len(lease.items), 200)

    (tmp_path / "results/running/items/0/metadata.json").unlink()
    sql(tmp_path, "UPDATE jobs SET failed = failed + 1 WHERE job_id = 'running'")
    assert found(await verify(store, storage, "running")) == {
        ("artifact_missing", "items/0/metadata.json"),
        ("counter_wrong", "failed"),
    }


@pytest.mark.req("R1", "R4")
async def test_files_on_their_way_are_no_problem_of_a_running_job(store: Store, storage: FolderResults) -> None:
    await loaded(store, ["1", "2", "3"], "running")
    lease = await store.claim("worker", "running")
    assert lease is not None
    await finish_lease(store, storage, lease, successes, publish=False)
    report = await verify(store, storage, "running")
    assert (report.problems, report.unpublished) == ((), len(lease.items))
    await storage.settle("running", lease.fence, ())  # thrown away instead: now they are lost
    report = await verify(store, storage, "running")
    assert (report.found, report.unpublished) == ({"artifact_missing": 3 * len(lease.items)}, 0)


class Moving(SqliteStore):
    """A worker ends items while the rows are read."""

    async def move(self) -> None: ...

    async def items(self, job_id: str, after: int = 0, limit: int = 1_000) -> Any:
        rows = await super().items(job_id, after, min(limit, 60))
        await self.move()
        return rows


async def test_a_job_that_goes_on_meanwhile_is_no_problem(
    storage: FolderResults, clock: FakeClock, tmp_path: Path
) -> None:
    store = Moving.open(tmp_path / "moving", clock)
    assert isinstance(store, Moving)
    await loaded(store, [str(n) for n in range(300)], "running")

    async def move() -> None:
        lease = await SqliteStore.claim(store, "worker", "running")
        if lease is not None:
            await finish_lease(store, storage, lease, every_kind)

    store.move = move  # type: ignore[method-assign]
    report = await verify(store, storage, "running")
    assert report.problems == ()
    assert 0 <= report.counts.ended < (await store.status("running")).counts.ended
    await store.close()
