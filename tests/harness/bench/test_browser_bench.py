"""The short form of `make bench-browser`: a few pages in a real browser, the peer's too where it is installed."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from selectolax.lexbor import LexborHTMLParser

from harness.bench import figures as check
from harness.bench.browser import PAIRS, WANTED, main
from harness.bench.browser_contestants import own_contestants
from harness.bench.browser_pages import IMAGES, RENDERED, image, rendered_body_of
from harness.bench.figures import Result, Sample, speed_aim
from harness.bench.pages import FIELDS, item_ids, truth_of
from harness.bench.run_order import Order
from harness.tables import marks

ITEMS = 6


def test_the_page_lacks_what_its_script_renders() -> None:
    for item_id in item_ids(20):
        tree = LexborHTMLParser(rendered_body_of(item_id))
        found = {name: [node.text().strip() for node in tree.css(selector)] for name, selector in FIELDS.items()}
        truth = truth_of(item_id)
        assert found == {name: ["" if name in RENDERED else value] for name, value in truth.items()}
        (data,) = tree.css("#data")
        assert list(json.loads(data.text())["fields"].values()) == [truth[name] for name in RENDERED]
    assert 11_000 < sum(len(rendered_body_of(item_id)) for item_id in item_ids(50)) / 50 < 13_000
    assert len({image(number) for number in range(len(IMAGES))}) == 5


@pytest.mark.req("B1", "B3", "K1")
def test_a_short_run_counts_right_and_says_what_it_measured(tmp_path: Path) -> None:
    """In a process of its own, because it inherits what its children leave behind."""
    begin, end = marks()
    page, figures_file = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    shown = ["--page", str(page), "--json", str(figures_file), "--folder", str(tmp_path), "--keep"]
    ran = subprocess.run(
        [sys.executable, "-m", "harness.bench.browser", "--short", *shown],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    figures = json.loads(figures_file.read_text(encoding="utf-8"))
    assert figures["problems"] == []
    assert figures["aims"] == []  # so few pages are not judged
    names = [result["name"] for result in figures["results"]]
    assert names[:2] == ["swath fresh", "swath kept"]
    assert all(result["peak_bytes"] > 100_000_000 for result in figures["results"])
    assert all(result["cpu_ms"] > 20 for result in figures["results"])
    assert "all there, and what the pages say" in page.read_text(encoding="utf-8")

    (made,) = tmp_path.glob("swath-bench-*")
    order = Order(folder=made / "0" / f"swath-kept-{ITEMS}", items=ITEMS, base_url="http://127.0.0.1:1")
    contestant = own_contestants(Path("chromium"))[1]
    assert check.problems(contestant, order) == []
    more = replace(order, items=ITEMS + 1)
    assert "1 of 7 items have no record" in check.problems(contestant, more)[0]


BUSY = "import time\nbegan = time.process_time()\nwhile time.process_time() - began < 0.3: pass\n"
ORPHAN = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {BUSY!r}], start_new_session=True)\n"
MEASURED = """
import sys
from pathlib import Path
from harness.bench import browser_cost
browser_cost.ORPHANS_SECONDS = float(sys.argv[3])
browser_cost.inherit_orphans()
cost = browser_cost.measured_tree([sys.executable, "-c", sys.argv[1]], {"PWD": sys.argv[2]}, Path(sys.argv[2], "log"))
print(cost.cpu_seconds)
"""


def measured(script: str, folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MEASURED, script, str(folder), str(seconds)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_what_a_process_costs_counts_even_if_nobody_waited_for_it(tmp_path: Path) -> None:
    told = measured(ORPHAN, tmp_path, 30.0)
    assert told.returncode == 0, told.stderr
    assert 0.3 < float(told.stdout) < 3.0


def test_a_process_that_stays_behind_is_named_and_killed(tmp_path: Path) -> None:
    stays = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
    told = measured(stays, tmp_path, 0.5)
    assert told.returncode == 1
    assert "left processes behind" in told.stderr


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_an_aim_is_met_just_above_its_limit(ours: str, theirs: str) -> None:
    def met(speed: float) -> bool:
        rates = {ours: speed, theirs: 1.0}
        results = {
            name: Result(name=name, told=name, kind="pages", items=200, samples=(Sample(400.0, rate, 1),))
            for name, rate in rates.items()
        }
        aim = speed_aim(results, ours, theirs, WANTED)
        assert aim is not None
        return aim.met

    assert met(1.01 * WANTED)
    assert not met(0.99 * WANTED)


@pytest.mark.parametrize("sizes", [["--small", "5", "--large", "5"], ["--small", "0"], ["--rounds", "0"]])
def test_sizes_that_give_no_figures_are_refused(sizes: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(sizes)
    assert refused.value.code == 2
