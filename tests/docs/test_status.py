"""docs/status.md knows every requirement, points to files that are there, and claims no test that does not quote it."""

import re
from typing import NamedTuple

import pytest

from tests.docs.pages import ROOT, code_in, rows_of

pytestmark = pytest.mark.req("G1")

# The last requirement of each letter, and how many properties there are.
HIGHEST = "J7 S9 W5 K9 H5 D3 P4 B6 A5 X2 R8 I5 C3 U2 E4 N2 Q5 O4 Z10 T3 G1"
PROPERTIES = 48
IDS = [f"{last[0]}{number}" for last in HIGHEST.split() for number in range(1, int(last[1:]) + 1)]

STATUS = (ROOT / "docs/status.md").read_text(encoding="utf-8")


class Line(NamedTuple):
    ids: tuple[str, ...]
    state: str
    built: tuple[str, ...]
    tests: tuple[str, ...]
    missing: str


def ids_of(cell: str) -> tuple[str, ...]:
    """`properties 10 to 44` stands for all of them."""
    found = re.fullmatch(r"propert(?:y|ies) (\d+)(?: to (\d+))?", cell)
    if found is None:
        return (cell,)
    first, last = int(found[1]), int(found[2] or found[1])
    return tuple(f"property {number}" for number in range(first, last + 1))


LINES = [
    Line(ids_of(cells[0]), cells[1], tuple(code_in(cells[2])), tuple(code_in(cells[3])), cells[4])
    for cells in rows_of(STATUS)
]


def test_every_requirement_and_property_is_listed_once() -> None:
    listed = [one for line in LINES for one in line.ids]
    assert sorted(listed) == sorted([*IDS, *(f"property {number}" for number in range(1, PROPERTIES + 1))])


def test_every_file_it_points_to_is_there() -> None:
    for line in LINES:
        for path in line.built:
            assert (ROOT / "src/swath" / path).exists() or (ROOT / path).exists(), f"{line.ids}: {path}"
        for path in line.tests:
            assert (ROOT / "tests" / path).is_file(), f"{line.ids}: {path}"


def named_in_words(one: str, text: str) -> bool:
    """A property may also be named in words, alone or among others: `Properties 8 and 10`."""
    found = re.fullmatch(r"property (\d+)", one)
    pattern = "" if found is None else rf"\bpropert(?:y|ies)(?: \d+,?(?: and)?)* {found[1]}\b"
    return found is not None and re.search(pattern, text, re.IGNORECASE) is not None


@pytest.mark.parametrize("line", [line for line in LINES if line.tests], ids=lambda line: line.ids[0])
def test_a_test_that_is_claimed_quotes_the_requirement(line: Line) -> None:
    for path in line.tests:
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")
        quoted = {one for marker in re.findall(r"\breq\(([^)]*)\)", text) for one in re.findall(r'"([^"]+)"', marker)}
        for one in line.ids:
            assert named_in_words(one, text) or one in quoted, f"{path} does not quote {one}"


def test_states_agree_with_the_other_columns() -> None:
    for line in LINES:
        assert line.state in {"built", "part", "later"}, line.ids
        if line.state == "later":
            assert not line.tests or line.missing, line.ids
        else:
            assert line.built, line.ids
        if line.state == "part":
            assert line.missing, f"{line.ids} is built in part and says not what is missing"
        if line.state == "built" and not line.tests:
            assert "no test" in line.missing, line.ids


def test_what_is_quoted_by_tests_is_not_said_to_be_later() -> None:
    """A requirement that somebody tests has come further than `later`, unless the row explains."""
    quoted: set[str] = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        for marker in re.findall(r"mark\.req\(([^)]*)\)", file.read_text(encoding="utf-8")):
            quoted |= set(re.findall(r'"([^"]+)"', marker))
    known = {*IDS, *(f"property {number}" for number in range(1, PROPERTIES + 1))}
    assert quoted <= known, f"unknown requirements: {quoted - known}"
    silent = [line.ids[0] for line in LINES if line.state == "later" and not line.missing and set(line.ids) & quoted]
    assert silent == []
