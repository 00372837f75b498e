"""Scores the block classifier on a folder of labelled pages: `python -m harness.classifier_score FOLDER`.

Prints the confusion table and the mistakes. Exit code 1 when a block page was taken for a page, or a page for a
block.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from swath.domain.errors import BadInput, UserError
from swath.domain.site_policy import SitePolicy
from swath.fetch.http.blocks.classify import Verdict, classify
from swath.fetch.http.messages import Response
from swath.fetch.sites.policies import SiteDirectory

__all__ = ["Label", "Score", "main", "read_labels", "score", "table", "write_page"]

LABELS: Final = "labels.jsonl"
PAGE: Final = "page"
NOT_FOUND: Final = "not_found"
_RIGHT: Final = frozenset({PAGE, NOT_FOUND})


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One page and what it is: `page`, `not_found`, or a failure kind; `why`, for people."""

    file: str
    expected: str
    status: int = 200
    headers: dict[str, str] = {}
    url: str = "https://site.example/records/1"
    why: str = ""


class Score(msgspec.Struct, frozen=True):
    """What each page was taken for: (label, what it was taken for)."""

    taken: tuple[tuple[Label, str], ...]

    @property
    def right(self) -> int:
        """Pages that were taken for what they are."""
        return sum(label.expected == got for label, got in self.taken)

    @property
    def missed(self) -> list[str]:
        """Walls, outages and expired sessions that were taken for pages or missing records: the worst mistake."""
        return [label.file for label, got in self.taken if label.expected not in _RIGHT and got in _RIGHT]

    @property
    def false_alarms(self) -> list[str]:
        """Good pages, or missing records, that were taken for something else."""
        return [label.file for label, got in self.taken if label.expected in _RIGHT and got != label.expected]

    @property
    def mixed_up(self) -> list[str]:
        """Failures that were taken for failures of another kind."""
        wrong = ((label, got) for label, got in self.taken if label.expected != got)
        return [label.file for label, got in wrong if label.expected not in _RIGHT and got not in _RIGHT]


def read_labels(folder: Path) -> list[Label]:
    """The labels of a folder, in their order. Raises BadInput naming the line that cannot be read."""
    labels: list[Label] = []
    try:
        lines = (folder / LABELS).read_bytes().splitlines()
    except OSError as error:
        raise BadInput(f"there are no labels: {error}") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                labels.append(msgspec.json.decode(line, type=Label))
            except msgspec.DecodeError as error:
                raise BadInput(f"{LABELS}, line {number}: {error}") from None
    return labels


def score(folder: Path, policy_of: Callable[[str], SitePolicy] = lambda _url: SitePolicy()) -> Score:
    """Classifies every page of the folder, under the policy of the site of its address."""
    labels = read_labels(folder)
    return Score(tuple((label, _taken_for(_verdict(folder, label, policy_of(label.url)))) for label in labels))


def _verdict(folder: Path, label: Label, policy: SitePolicy) -> Verdict:
    headers = tuple((name.lower(), value) for name, value in label.headers.items())
    body = (folder / label.file).read_bytes()
    return classify(Response(url=label.url, status=label.status, headers=headers, body=body), policy, 0.0)


def _taken_for(verdict: Verdict) -> str:
    if verdict.failure is not None:
        return verdict.failure.kind.value
    return PAGE if verdict.not_found is None else NOT_FOUND


def table(scored: Score) -> str:
    """Rows are what pages are, columns what they were taken for."""
    counts = Counter((label.expected, got) for label, got in scored.taken)
    names = sorted({name for pair in counts for name in pair}, key=lambda name: (name not in _RIGHT, name))
    lines = [
        f"| is \\ taken for | {' | '.join(names)} |",
        f"|---|{'---:|' * len(names)}",
        *(f"| **{row}** | {' | '.join(str(counts[row, column] or '·') for column in names)} |" for row in names),
    ]
    return "\n".join([*lines, "", *_sums(scored)])


def _sums(scored: Score) -> list[str]:
    return [
        f"{scored.right} of {len(scored.taken)} pages were taken for what they are.",
        f"Walls and outages taken for pages: {len(scored.missed)}.",
        f"Good pages taken for something else: {len(scored.false_alarms)}.",
        f"Failures of one kind taken for another: {len(scored.mixed_up)}.",
    ]


BEGIN: Final = "<!-- score: begin -->"
END: Final = "<!-- score: end -->"


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 2 when there is nothing to score."""
    parser = argparse.ArgumentParser(prog="python -m harness.classifier_score")
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
