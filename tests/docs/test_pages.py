"""Every block of the README and the docs works as shown; the few that are not run are counted, with their reasons."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import AS_ROOT, ON_AWS, PAGES, ROOT, Block, Mark, blocks_of
from tests.docs.shell import PageRun, demo_site, matches

# What a test cannot do here: set up the environment that it runs in, or serve on a port that may be taken.
NOT_RUN = 6


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with demo_site() as url:
        yield url


@pytest.fixture
def run(tmp_path: Path, site: str) -> Iterator[PageRun]:
    folder = tmp_path / "here"
    folder.mkdir()
    page_run = PageRun(folder, site)
    yield page_run
    page_run.end()


def blocks(page: str) -> list[Block]:
    return blocks_of((ROOT / page).read_text(encoding="utf-8"))


WITH_BLOCKS = [page for page in PAGES if blocks(page)]


@pytest.mark.req("G1")
@pytest.mark.parametrize("page", [page for page in WITH_BLOCKS if page not in [*ON_AWS, *AS_ROOT]])
def test_every_block_of_a_page_works_as_shown(page: str, run: PageRun) -> None:
    if shutil.which("curl") is None and any("curl" in block.text for block in blocks(page)):
        pytest.skip("needs curl")
    run.follow(blocks(page))


@pytest.mark.req("G1")
def test_blocks_that_are_not_run_are_counted_and_say_why() -> None:
    left_out = [
        (page, block.line, reason)
        for page in WITH_BLOCKS
        for block in blocks(page)
        if (reason := block.mark("not run")) is not None
    ]
    told = "\n".join(f"{page}, line {line}: {reason}" for page, line, reason in left_out)
    print(f"{len(left_out)} blocks are not run:\n{told}")  # noqa: T201 shown with -s, and when it fails
    assert len(left_out) == NOT_RUN, told
    assert all(len(reason.split()) >= 4 for _, _, reason in left_out), "a reason takes a few words"
    status = (ROOT / "docs/status.md").read_text(encoding="utf-8")
    found = re.search(r"Blocks that no test runs: (\d+)", status)
    assert found is not None
    assert int(found[1]) == NOT_RUN


# The checker itself: each of these pages is wrong, and must be seen to be.


def page_of(text: str) -> list[Block]:
    return blocks_of(text)


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```sh\nfalse\n```\n", "line 1: exits 1, not 0"),
        ("<!-- exits: 3 -->\n```sh\nexit 2\n```\n", "line 2: exits 2, not 3"),
        ("```sh\nfalse\necho late\n```\n", "exits 1"),
        ("```sh\necho one\n```\n\n```text\ntwo\n```\n", "line 5: the page shows"),
        ("```sh\nprintf 'one\\ntwo\\n'\n```\n\n```text\none\n```\n", "line 5: the page shows"),
        ("```text\nnothing made this\n```\n", "line 1: shows the output of nothing"),
        ("```python\nraise SystemExit(4)\n```\n", "line 1: exits 4"),
        ("```yaml\nkeep: both\n```\n", "neither run nor written"),
        ("```sh\nswath no-such-command\n```\n", "line 1: exits 2, not 0"),
    ],
)
def test_a_wrong_page_is_refused(page: str, complaint: str, run: PageRun) -> None:
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        run.follow(page_of(page))


def test_a_page_may_write_files_and_leave_things_out(run: PageRun) -> None:
    run.follow(
        page_of(
            "<!-- file: a/b.txt -->\n```csv\nx\n```\n"
            "```sh\ncat a/b.txt\n```\n```text\nx\n```\n"
            "<!-- not run: it would end the test -->\n```sh\nexit 9\n```\n"
            "```mermaid\ngraph LR\n```\n"
            "<!-- run as: echo 7 parcels -->\n```sh\nmake demo\n```\n```text\n600 parcels\n```\n"
        )
    )


def test_a_background_process_does_not_hold_up_the_page(run: PageRun) -> None:
    run.follow(page_of("```sh\nsleep 60 &\n```\n```sh\necho on\n```\n```text\non\n```\n"))


def test_marks_belong_to_the_block_below_them() -> None:
    (block,) = blocks_of("<!-- file: a.py -->\n\n<!-- exits: 2 -->\n```python\npass\n```\n")
    assert block.marks == (Mark("file", "a.py"), Mark("exits", "2"))
    with pytest.raises(AssertionError, match="above no block"):
        blocks_of("<!-- file: a.py -->\nsome prose\n")
    with pytest.raises(AssertionError, match="never closed"):
        blocks_of("```sh\n")


@pytest.mark.parametrize(
    ("shown", "output", "fits"),
    [
        ("job … is done\n", "job 17 is done\n", True),
        ("job … is done\n", "job 17 is\ndone\n", False),
        ("one\n…\nfour\n", "one\ntwo\nthree\nfour\n", True),
        ("one\n…\nfour\n", "one\ntwo\nthree\n", False),
        ("a (b) [c]\n", "a (b) [c]\n", True),
        ("done\n", "loading: 3 rows\nrunning: 1 of 3 done; 1.0 items/s, ETA 2 s\ndone\n", True),
        ("3 rows\n", "4 rows\n", False),
    ],
)
def test_an_ellipsis_stands_for_what_may_differ(shown: str, output: str, fits: bool) -> None:
    assert (matches(shown, output) is None) == fits
