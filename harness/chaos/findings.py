"""The problems that a chaos run has found, by kind, and how each run ends: table, files, exit code."""

from __future__ import annotations

import argparse
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

__all__ = ["Findings", "Kind", "Problem", "add_options", "conclude"]

LISTED_PER_KIND = 50


class Kind(StrEnum):
    """Each is zero after a clean run."""

    LOST = "lost"  # an item without an end, an outcome, a listing or a file
    COUNTED_TWICE = "counted_twice"  # counters, rows, outcomes and manifests do not give the same sums
    TORN = "torn"  # a file whose bytes are not what was stored, or not what belongs to the item
    STRAY = "stray"  # something that nobody refers to
    STALE = "stale"  # a manifest, or the job's metadata, of a generation that is not the last
    FALSE_POISON = "false_poison"  # an item blamed for deaths of workers that did not happen
    STOPPED = "stopped"  # a job that stood still because of another one's damage, or did not end after its repair
    WRONG = "wrong"  # an end that the item cannot have had, a process or a job that behaved as it must not


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    kind: Kind
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.what}"


@dataclass
class Findings:
    """All problems are counted, the first of each kind are kept."""

    problems: list[Problem] = field(default_factory=list)
    found: Counter[Kind] = field(default_factory=Counter)

    def add(self, kind: Kind, where: str, what: str) -> None:
        """Notes one problem."""
        self.found[kind] += 1
        if self.found[kind] <= LISTED_PER_KIND:
            self.problems.append(Problem(kind, where, what))

    def expect(self, fine: bool, kind: Kind, where: str, what: str) -> None:
        """Notes a problem unless things are fine."""
        if not fine:
            self.add(kind, where, what)

    def take(self, other: Findings, where: str) -> None:
        """Adds what another check has found, with its place in front."""
        for problem in other.problems:
            self.add(problem.kind, f"{where}: {problem.where}", problem.what)

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.found


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
