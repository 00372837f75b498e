"""Packed results from the command line: what lies there, read with tools that know nothing of Swath."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

from swath.entrypoints.cli.load_job import PACKING_HINT_ITEMS
from tests.acceptance.conftest import Shell

pytestmark = pytest.mark.req("R2")

PARCELS = [f"100-10-{number:03}" for number in range(40)]


def records_in(folder: Path) -> dict[str, bytes]:
    """Bodies of answers by address, with every digest checked."""
    found = {}
    for pack in folder.glob("*.warc.gz"):
        with pack.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                if record.rec_type == "response":
                    found[record.rec_headers.get_header("WARC-Target-URI")] = record.content_stream().read()
    return found


@pytest.mark.usefixtures("county")
async def test_a_packed_job_has_standard_archives_an_index_and_lines(shell: Shell) -> None:
    (shell.folder / "parcels.csv").write_text("parcel_id\n" + "".join(f"{parcel}\n" for parcel in PARCELS))
    code, _, err = await shell.run(
        "run", "demo-county", "--items", "parcels.csv", "--job-id", "packed", "--layout", "warc", "--quiet"
    )
    assert code == 0, err
    results = shell.folder / "data" / "results" / "packed"
    packs = results / "packs"
    assert not (results / "items").exists()
    assert not (results / "manifests" / "items").exists()
    lines = [json.loads(line) for pack in packs.glob("*.jsonl") for line in pack.read_text().splitlines()]
    assert sorted(line["item_id"] for line in lines) == PARCELS
    bodies = records_in(packs)
    for line in lines:
        assert line["metadata"]["outcome"] == ("found" if "data" in line else "not_found")
        for page in (*line["metadata"]["pages"], *line["metadata"]["downloads"]):
            assert len(bodies[page["url"]]) > 0
            if "data" in line and page["name"] == "html":
                assert line["item_id"].encode() in bodies[page["url"]]
    for index in packs.glob("*.cdxj"):
        for entry in index.read_text().splitlines():
            told = json.loads(entry.split(" ", 2)[2])
            with (packs / told["filename"]).open("rb") as file:
                file.seek(int(told["offset"]))
                record = next(iter(ArchiveIterator(file)))
                assert record.rec_headers.get_header("WARC-Target-URI") == told["url"]
    code, out, err = await shell.run("jobs", "verify", "packed")
    assert code == 0, out + err


async def test_the_layout_is_never_changed_silently(shell: Shell) -> None:
    (shell.folder / "words.csv").write_text("word\na\nb\n")
    order = ("run", "example-mock", "--items", "words.csv", "--job-id", "words", "--quiet")
    assert (await shell.run(*order, "--layout", "warc"))[0] == 0
    code, _, err = await shell.run(*order)
    assert code == 2
    assert "layout" in err
    assert (await shell.run(*order, "--layout", "zip"))[0] == 2


async def test_above_twenty_thousand_items_packing_is_suggested(shell: Shell) -> None:
    (shell.folder / "many.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(PACKING_HINT_ITEMS + 1)))
    order = ("jobs", "create", "example-mock", "--items", "many.csv")
    _, _, err = await shell.run(*order, "--job-id", "many")
    assert "--layout warc" in err
    _, _, err = await shell.run(*order, "--job-id", "packed", "--layout", "warc")
    assert "--layout warc" not in err
