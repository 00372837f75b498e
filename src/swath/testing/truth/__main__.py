"""`python -m swath.testing.truth FOLDER`: prints the confusion table, and what was taken for something else.

With `--page` the table is written into a Markdown page, too. Exit code 1 when a wall was taken for a page, or a good
page for a wall.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from swath.domain.errors import UserError
from swath.sites.directory import SiteDirectory
from swath.testing.truth.score import Score, score, table

__all__ = ["main", "write_page"]

BEGIN: Final = "<!-- score: begin -->"
END: Final = "<!-- score: end -->"


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 2 when there is nothing to score."""
    parser = argparse.ArgumentParser(prog="python -m swath.testing.truth")
    parser.add_argument("folder", type=Path, help="pages, and labels.jsonl that says what they are")
    parser.add_argument("--sites", type=Path, help="a file of site policies, whose signatures come first")
    parser.add_argument("--page", type=Path, help="a Markdown page to put the table into, between its marks")
    options = parser.parse_args(arguments)
    try:
        scored = score(options.folder) if options.sites is None else _under_policies(options.folder, options.sites)
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(table(scored))
    for line in _mistakes(scored):
        print(line)
    if options.page is not None:
        write_page(options.page, table(scored))
    return 1 if scored.missed or scored.false_alarms else 0


def _under_policies(folder: Path, sites: Path) -> Score:
    directory = SiteDirectory.load(sites)
    return score(folder, lambda url: directory.of(url).policy)


def _mistakes(scored: Score) -> list[str]:
    wrong = [(label, got) for label, got in scored.taken if label.expected != got]
    return [f"{label.file}: {label.expected}, taken for {got}" for label, got in wrong]


def write_page(page: Path, text: str) -> None:
    """Puts the text between the marks of the page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
