"""`make lock-times`: how long, in a store of some 380 MiB, each change keeps other writers waiting.

Prints a table with the number of times that the write lock was held, the longest, the sum, and the most rows and bytes
that one transaction wrote. Exits 1 when one wrote more than it may. The times are of this machine; nothing depends on
them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.bench.lock_times.report import excesses, table, write_page
from harness.bench.lock_times.work import Plan, measure

__all__ = ["main"]

_ITEM_BYTES: Final = 420  # of an item that is retried, in the file
_OTHER_BYTES: Final = 1_470  # of one that fills it
_LEASES: Final = 200


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="make lock-times", description=__doc__)
    parser.add_argument("--mib", type=int, default=380, help="about how large the store is to be")
    parser.add_argument("--items", type=int, default=200_000, help="items of the job that is retried")
    parser.add_argument("--large-inputs", type=int, default=24, help="items with an input of 1 MB")
    parser.add_argument("--folder", type=Path, help="where to make the store; else where temporary files go")
    parser.add_argument("--page", type=Path, help="a Markdown page to put the tables into")
    options = parser.parse_args(arguments)
    room = (options.mib - options.large_inputs << 20) - options.items * _ITEM_BYTES
    plan = Plan(
        items=options.items, others=max(1_000, room // _OTHER_BYTES), large_inputs=options.large_inputs, leases=_LEASES
    )
    with tempfile.TemporaryDirectory(prefix="swath-lock-times-", dir=options.folder) as folder:
        held, store_bytes = asyncio.run(measure(Path(folder), plan))
    command = f'make lock-times ARGS="--mib {options.mib} --items {options.items}"'
    print(table(held, store_bytes, command))
    if options.page is not None:
        write_page(options.page, held, store_bytes, command)
    too_large = excesses(held)
    for told in too_large[:20]:
        print(f"too large: {told}")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
