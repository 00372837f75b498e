"""The table of behaviours is the one in the docs, names what exists, and is what the command serves."""

import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from harness.fakes.hostile_site import BEHAVIOURS
from harness.fakes.hostile_site.table import GROUPS, markdown
from swath.domain.failure import FailureKind
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("Z6", "G1")

PAGE = Path(__file__).parents[3] / "docs/explanation/hostile-site.md"


def test_the_docs_page_shows_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert markdown() in text, "print it with `python -m harness.fakes.hostile_site --table`"
    assert f"misbehaves in {len(BEHAVIOURS)} ways" in text


def test_names_are_addresses_and_stand_for_one_behaviour_each() -> None:
    assert len(BEHAVIOURS) == sum(len(group) for group in GROUPS.values())
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in BEHAVIOURS)


@pytest.mark.req("H2")
def test_no_behaviour_of_a_site_is_our_fault() -> None:
    ours = {FailureKind.INTERNAL, FailureKind.POISON, FailureKind.INVALID_INPUT, FailureKind.INVALID_OUTPUT}
    assert not [one.name for one in BEHAVIOURS.values() if ours & set(one.kinds)]


def test_the_command_serves_it_and_lists_every_address(tmp_path: Path) -> None:
    authority = tmp_path / "authority.pem"
    with subprocess.Popen(
        [sys.executable, "-m", "harness.fakes.hostile_site", "--ca", str(authority)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            listed = [process.stdout.readline().split("  ", 1)[0] for _ in BEHAVIOURS]
            names = [url.rpartition("/")[2] for url in listed]
            assert names == list(BEHAVIOURS)
            with urllib.request.urlopen(listed[names.index("no-type")], timeout=HANGING_SECONDS) as answer:
                assert b"untyped" in answer.read()
            assert authority.read_text().startswith("-----BEGIN CERTIFICATE-----")
        finally:
            process.terminate()
    assert process.returncode == 0
