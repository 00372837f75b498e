"""G1: the page on AWS is followed block by block, as tests/docs does with all others, on the servers of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.fakes.aws import Endpoints
from tests.docs.pages import ON_AWS, ROOT, blocks_of
from tests.docs.shell import PageRun, demo_site


@pytest.fixture
def run(tmp_path: Path, aws: Endpoints) -> Iterator[PageRun]:
    folder = tmp_path / "here"
    folder.mkdir()
    with demo_site() as site:
        page_run = PageRun(folder, site, aws.environment)
        yield page_run
        page_run.end()


@pytest.mark.timeout(240)
@pytest.mark.req("G1", "Q3", "Q4")
@pytest.mark.parametrize("page", ON_AWS)
def test_every_block_of_a_page_on_aws_works_as_shown(page: str, run: PageRun) -> None:
    run.follow(blocks_of((ROOT / page).read_text(encoding="utf-8")))
