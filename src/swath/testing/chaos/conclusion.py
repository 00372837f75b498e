"""Conclusion: what every run that strikes and counts ends with: its table, its problems, its files, its exit code.

Used by the `__main__` of chaos, chaos_aws, chaos_browser and recordings, after their checks.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from swath.testing.chaos.findings import Findings

__all__ = ["add_options", "conclude"]

PRINTED: Final = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where the files of a run are made, and where its figures go."""
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the files are made (the system's own)")
    parser.add_argument("--keep", action="store_true", help="leave the files there after a clean run too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into a Markdown page")


def conclude(
    options: argparse.Namespace,
    folder: Path,
    findings: Findings,
    *,
    table: str,
    figures: dict[str, Any],
    write_page: Callable[[Path], None],
) -> int:
    """Prints and writes what was asked for, removes the folder of a clean run, and answers with the exit code."""
    print(table)
    for problem in findings.problems[:PRINTED]:
        print(problem)
    if (more := findings.found.total() - PRINTED) > 0:
        print(f"… and {more:,} more")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if options.page:
        write_page(options.page)
    if findings.clean and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"everything is left in {folder}")
    return 0 if findings.clean else 1
