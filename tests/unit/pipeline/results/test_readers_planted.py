"""Z7: everybody who reads results, over a folder in which a local user has planted links to a file of root."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from swath.backends.clock import SystemClock
from swath.domain.errors import FolderUnusable, StoreDamaged
from swath.domain.storage_keys import Layout
from swath.pipeline.results.export.exporter import Export, ExportFormat, ExportRequest
from swath.pipeline.results.verify.verifier import ProblemCode, verify
from swath.ports.clock import Clock
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store
from tests.unit.pipeline.results.reextracting import V2, make_version, parcels, scraped

pytestmark = pytest.mark.req("Z7")

SECRET = b"root:secret\n" * 200


@pytest.fixture
def place() -> str:
    return "embedded"


@pytest.fixture
def clock() -> Clock:
    return SystemClock()


def hard(path: Path, secret: Path) -> None:
    path.unlink()
    path.hardlink_to(secret)


def symbolic(path: Path, secret: Path) -> None:
    path.unlink()
    path.symlink_to(secret)


def folder(path: Path, secret: Path) -> None:
    """The folder itself is exchanged for a link to one in which a file has that name."""
    outside = secret.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / path.name).write_bytes(SECRET)
    path.parent.rename(secret.parent / "aside")
    path.parent.symlink_to(outside)


@pytest.mark.parametrize("plant", [hard, symbolic, folder])
async def test_no_reader_takes_a_planted_file_for_a_result(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    await scraped(store, storage, layout, parcels(1, 2))
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    results = Path(storage.location("job"))
    pattern = "packs/*.gz" if layout is Layout.WARC else "items/*/html.html.gz"
    page = min(results.glob(pattern))
    plant(page, secret)
    for each in (results, *(path for path in results.rglob("*") if path.is_dir() and not path.is_symlink())):
        each.chmod(0o777)

    out = tmp_path / "out"
    with pytest.raises((StoreDamaged, FolderUnusable)):
        await Export(store, storage, await store.status("job"), ExportRequest(ExportFormat.FILES)).to_file(out)
    assert not out.exists()

    found = {problem.code for problem in (await verify(store, storage, "job")).problems}
    assert found & {ProblemCode.ARTIFACT_MISSING, ProblemCode.ARTIFACT_CHANGED}

    made = await make_version(store, storage, V2())
    assert made.counts.failed >= 1
    assert all(b"secret" not in path.read_bytes() for path in version_files(storage))

    for job_id in ("job.v2", "job"):
        await storage.clear(job_id)
    assert secret.read_bytes() == SECRET
    assert not (tmp_path / "outside").exists() or len(list((tmp_path / "outside").iterdir())) == 1
    assert not results.exists()


def version_files(storage: ResultStorage) -> list[Path]:
    return [path for path in Path(storage.location("job.v2")).rglob("*") if path.is_file()]
