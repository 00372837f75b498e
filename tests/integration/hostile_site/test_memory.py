"""Bombs, floods and heavy pages cost a bounded amount of memory, measured in a process of its own."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.fakes.hostile_site import HostileSite, behaviour

pytestmark = pytest.mark.req("Z6", "H3")

MIB = 1 << 20
CAP_BYTES = 8 * MIB
# What all of them may cost above the process as it started: the client library, the cap a few times over (as received,
# decoded, and as text), one parsed page of a million tags' kind, and what the allocator does not give back.
BOUND_MIB = 220
BOMBS = (
    "gzip-bomb",
    "brotli-bomb",
    "zstd-bomb",
    "zstd-window",
    "gzip-twice-bomb",
    "gzip-chain",
    "large",
    "download-huge",
)
FLOODS = (
    "endless-chunks",
    "endless-body",
    "endless-head",
    "endless-trailers",
    "h2-head-explodes",
    "h2-continuation-flood",
    "h2-empty-flood",
    "h2-tiny-flood",
)
HEAVY = ("deep", "deep-lists", "deep-hidden", "formatting", "attributes")


async def weighed(
    site: HostileSite, folder: Path, names: tuple[str, ...], cap_bytes: int = CAP_BYTES
) -> dict[str, Any]:
    authority = folder / "authority.pem"
    authority.write_bytes(site.ca_pem)
    script = Path(__file__).with_name("fetch_and_weigh.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(script), str(cap_bytes), str(authority)),
        *(site.address(behaviour(name)) for name in names),
        env={"PYTHONPATH": str(script.parents[2])},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("names", [BOMBS, FLOODS, HEAVY], ids=["bombs", "floods", "heavy pages"])
async def test_memory_stays_within_its_bound(names: tuple[str, ...], tmp_path: Path) -> None:
    async with HostileSite() as site:
        found = await weighed(site, tmp_path, names)
    for name in names:
        assert found["ended"][name] in behaviour(name).kinds
    assert found["peak_mib"] - found["before_mib"] < BOUND_MIB, found


async def test_the_bound_is_broken_without_the_cap(tmp_path: Path) -> None:
    """The negative control: the measurement sees what a bomb costs when nothing holds it."""
    async with HostileSite() as site:
        found = await weighed(site, tmp_path, ("gzip-bomb",), cap_bytes=400 * MIB)
    assert found["peak_mib"] - found["before_mib"] > BOUND_MIB, found
