"""The figures of the lock times: as a table for people, and inside a Markdown page between two marks."""

from __future__ import annotations

import platform
import sqlite3
from pathlib import Path

from harness.bench.lock_times.meter import HeldLock
from harness.tables import NO_HEAD, Section, as_text, put_into
from swath.backends.sqlite.transaction_limits import MAX_BYTES, MAX_ROWS

__all__ = ["excesses", "table", "write_page"]

_HEAD = ("step", "times", "longest, ms", "all together, s", "most rows", "most MiB")


def excesses(held: list[HeldLock]) -> list[str]:
    """What was larger than a transaction may be."""
    return [
        f"{one.step}: a {one.what} of {one.rows:,} rows and {one.bytes / (1 << 20):.2f} MiB"
        for one in held
        if one.rows > MAX_ROWS or one.bytes > MAX_BYTES
    ]


def table(held: list[HeldLock], store_bytes: int, command: str) -> str:
    """For a terminal."""
    return as_text(_sections(held, store_bytes, command))


def write_page(page: Path, held: list[HeldLock], store_bytes: int, command: str) -> None:
    """Replaces what stands between the marks of a page."""
    put_into(page, _sections(held, store_bytes, command))


def _sections(held: list[HeldLock], store_bytes: int, command: str) -> list[Section]:
    steps = list(dict.fromkeys(one.step for one in held))
    facts = [
        ("the store's file before the first deletion", f"{store_bytes / (1 << 20):,.0f} MiB"),
        ("most that a transaction may write", f"{MAX_ROWS:,} rows, {MAX_BYTES >> 20} MiB"),
        ("made by", f"`{command}`"),
        ("machine", f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()}"),
    ]
    return [(_HEAD, [_row(step, [one for one in held if one.step == step]) for step in steps]), (NO_HEAD, facts)]


def _row(step: str, held: list[HeldLock]) -> tuple[str, ...]:
    return (
        step,
        f"{len(held):,}",
        f"{max(one.seconds for one in held) * 1_000:,.1f}",
        f"{sum(one.seconds for one in held):,.2f}",
        f"{max(one.rows for one in held):,}",
        f"{max(one.bytes for one in held) / (1 << 20):.2f}",
    )
