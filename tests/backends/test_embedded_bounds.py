"""No write transaction of the embedded store changes more rows or bytes than it may, counted at its connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from swath.testing.lock_times.__main__ import main
from swath.testing.lock_times.meter import Held
from swath.testing.lock_times.report import excesses
from swath.testing.lock_times.work import Plan, measure
from swath.testing.tables import marks

PLAN = Plan(items=12_000, others=6_000, large_inputs=16, leases=60, durable=False)
MOST_ROWS = 5_000
MOST_BYTES = 8 << 20
MOST_LEASE_BYTES = 5 << 20  # 4 MiB of inputs, and what SQLite adds


def largest_of_large_claims(held: list[Held]) -> int:
    """What one claim of items of 1 MB, one commit of their ends or one release has written at most."""
    return max(one.bytes for one in held if one.step.startswith("claim ") and "of 1 MB" in one.step)


@pytest.mark.req("Z10", "Q2")
async def test_no_transaction_writes_more_than_it_may(tmp_path: Path) -> None:
    """A retry, loads, sweeps, a rescue and deletions, each of more than goes into one transaction."""
    held, store_bytes = await measure(tmp_path, PLAN)
    assert store_bytes > MOST_BYTES
    assert [one for one in held if one.rows > MOST_ROWS or one.bytes > MOST_BYTES] == []
    assert sum(one.rows for one in held if one.step.startswith("retry")) >= PLAN.items
    written = {one.step: 0 for one in held}
    for one in held:
        written[one.step] += one.bytes
    assert min(written.values()) > 0, "the meter sees what every step writes"
    assert max(written.values()) > MOST_BYTES
    assert 1_000_000 < largest_of_large_claims(held) <= MOST_LEASE_BYTES


@pytest.mark.req("Z10")
async def test_a_build_that_does_not_cut_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("deletion", "endings", "load_pieces", "rescue"):
        monkeypatch.setattr(f"swath.backends.embedded.{module}.first_piece", lambda costs: len(list(costs)))
    monkeypatch.setattr("swath.backends.embedded.generations._LOOKED_AT", 1 << 30)
    monkeypatch.setattr("swath.backends.embedded.claims.LEASE_BYTES", 1 << 30)
    held, _ = await measure(tmp_path, Plan(items=6_000, others=6_000, large_inputs=24, leases=60, durable=False))
    steps = {one.step.partition(" ")[0] for one in held if one.rows > MOST_ROWS or one.bytes > MOST_BYTES}
    assert steps == {"load", "retry", "rescue", "cancel", "delete"}
    assert largest_of_large_claims(held) > MOST_LEASE_BYTES
    assert len(excesses(held)) >= len(steps)


def test_the_command_prints_the_lock_times_and_puts_them_into_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, end = marks()
    page = tmp_path / "page.md"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    sizes = ["--mib", "1", "--items", "200", "--large-inputs", "1"]
    assert main([*sizes, "--folder", str(tmp_path), "--page", str(page)]) == 0
    printed, written = capsys.readouterr().out, page.read_text(encoding="utf-8")
    assert "retry of 200 items" in printed
    assert "too large" not in printed
    assert "| retry of 200 items |" in written
    assert "old" not in written


def test_what_is_too_large_is_told() -> None:
    fine, rows, size = (
        Held("load", "transaction", 0.1, *much) for much in ((5_000, 1), (5_001, 1), (1, MOST_BYTES + 1))
    )
    assert excesses([fine]) == []
    assert len(excesses([fine, rows, size])) == 2
