"""`swath recording import|check|show|suggest|schema` as people call them: what is printed, written and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from swath.entrypoints.cli.main import main
from swath.recordings.document import read_recording, recording_schema

pytestmark = pytest.mark.req("A3", "C1")

DATA: Final = Path(__file__).parents[2] / "unit/recordings/importers/data"
FLOW: Final[dict[str, Any]] = {
    "title": "Parcel search",
    "steps": [
        {"type": "navigate", "url": "https://county.example/search"},
        {"type": "change", "selectors": [["aria/Parcel"], ["#parcel"]], "value": "200-14-030"},
        {
            "type": "click",
            "selectors": [["aria/200-14-030"], ["#hits a"]],
            "assertedEvents": [{"type": "navigation"}],
            "glow": 1,
        },
    ],
}


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Swath = Callable[..., Ran]


@pytest.fixture
def swath(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Swath:
    """The command, in a folder of its own with a recording of Chrome's in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("SWATH_ALLOW_JAVASCRIPT", "SWATH_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "flow.json").write_text(json.dumps(FLOW), encoding="utf-8")

    def run(*words: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main(["recording", *words])
        out, err = capsys.readouterr()
        return Ran(int(str(ended.value.code)), out, err)

    return run


def test_a_recording_is_imported_bound_and_written(swath: Swath) -> None:
    ran = swath("import", "flow.json", "--bind", "parcel_id=200-14-030", "--output", "flow.yaml", "--id", "my-county")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["step", "action", "on", "what", "inputs"]
    assert lines[2].split() == ["2", "type", "aria/Parcel", "{{", "input.parcel_id", "}}", "parcel_id"]
    assert "note: step 3 (click): the field glow is not known, and has no effect: 1" in lines
    assert "note: step 3: '200-14-030': the selector aria/200-14-030 names an element by it, and is dropped" in lines
    assert "flow.yaml has my-county 1: 3 steps, 1 input (parcel_id), no fields: it collects pages only" in lines
    made = read_recording("flow.yaml")
    assert made.id == "my-county"
    assert made.inputs["parcel_id"].example == "200-14-030"


def test_notes_are_numbered_as_the_table_is_and_their_flag_binds(swath: Swath) -> None:
    """Steps are left out by the import and by the binding: notes count those that are in the table."""
    box = {"type": "change", "selectors": [["#parcel"]]}
    steps = [
        {"type": "navigate", "url": "chrome://new-tab-page/"},
        FLOW["steps"][0],
        {**box, "value": "AB-1002"},
        {**box, "value": "AB-1002-2024"},
        {"type": "change", "selectors": [["#zip"]], "value": "1002"},
        FLOW["steps"][2],
    ]
    Path("account.json").write_text(json.dumps({"title": "Account", "steps": steps}), encoding="utf-8")
    words = ("import", "account.json", "--bind", "account=AB-1002-2024", "--output", "account.yaml")
    ran = swath(*words)
    lines = ran.out.splitlines()
    assert [line.split()[:2] for line in lines[1:5]] == [["1", "goto"], ["2", "type"], ["3", "type"], ["4", "click"]]
    assert any(line.startswith("note: before step 1, navigate: opens chrome://new-tab-page/") for line in lines)
    assert "note: step 4 (click): the field glow is not known, and has no effect: 1" in lines
    (told,) = [line for line in lines if "--bind-part" in line]
    assert told.startswith("note: step 3: 'AB-1002-2024': '1002' may be a part of it")
    assert "step 4 (click): the field glow is not known, and has no effect: 1" in read_recording("account.yaml").notes
    again = swath(*words, "--force", *told[told.index("--bind-part") :].split())
    assert (again.code, "may be a part" in again.out) == (0, False)
    assert read_recording("account.yaml").steps[2].model_dump()["text"] == '{{ input.account | split("-", 1) }}'
    assert "--bind-part account: write NAME=TEXT" in swath("import", "account.json", "--bind-part", "account").err


def test_without_a_file_the_recording_goes_to_stdout_and_the_notes_do_not(swath: Swath) -> None:
    ran = swath("import", "flow.json")
    assert ran.code == 0
    assert ran.out.startswith("swath_recording: 1\nid: parcel-search\n")
    assert ran.err == "note: step 3 (click): the field glow is not known, and has no effect: 1\n"


def test_the_report_comes_as_json_too(swath: Swath) -> None:
    ran = swath("import", "flow.json", "--output", "made.json", "--json")
    report = json.loads(ran.out)
    assert (report["file"], report["id"], len(report["steps"]), len(report["remarks"])) == (
        "made.json",
        "parcel-search",
        3,
        1,
    )
    assert json.loads(Path("made.json").read_text(encoding="utf-8"))["id"] == "parcel-search"


def test_a_file_is_not_overwritten_unasked(swath: Swath) -> None:
    Path("flow.yaml").write_text("mine", encoding="utf-8")
    ran = swath("import", "flow.json", "--output", "flow.yaml")
    assert (ran.code, ran.err) == (2, "swath: flow.yaml: is there already; --force replaces it\n")
    assert Path("flow.yaml").read_text(encoding="utf-8") == "mine"
    assert swath("import", "flow.json", "--output", "flow.yaml", "--force").code == 0
    assert read_recording("flow.yaml").id == "parcel-search"


def test_another_recorders_file_is_imported_by_its_mapping(swath: Swath) -> None:
    words = ("import", str(DATA / "tapedeck.json"), "--mapping", str(DATA / "tapedeck.yaml"))
    ran = swath(*words, "--bind", "parcel_id=100-10-002", "--output", "owner.yaml")
    assert ran.code == 0
    assert "note: the action 'doodle' is not in the mapping and is left out: 1 step (after 4)" in ran.out
    assert swath("check", "owner.yaml").out.startswith(
        "owner.yaml can be played: owner-of-a-parcel 1: 6 steps, 1 input (parcel_id), 1 field (owner_name)\n"
    )


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["import", "none.json"], "none.json"),
        (["import", "."], "directory"),
        (["import", "/dev/zero"], "is a pipe or a device"),
        (["import", "bad.json"], "bad.json: line 1: is not valid JSON"),
        (["import", "away.json"], "away.json: step 1 (navigate): url: "),
        (["import", "flow.json", "--bind", "parcel_id"], "write NAME=LITERAL"),
        (["import", "flow.json", "--bind", "a=1", "--bind", "a=2"], "a is bound already"),
        (["import", "flow.json", "--bind", "a=zzzz"], "a=zzzz: the recording does not hold it"),
        (["import", "flow.json", "--id", "My County"], "take small letters"),
        (["import", "flow.json", "--mapping", "none.yaml"], "none.yaml: cannot be read"),
        (["import", "flow.json", "--output", "none/flow.yaml"], "none/flow.yaml: cannot be written"),
        (["import", "flow.json", "--json"], "name it with --output"),
        (["check", "flow.json"], "convert it first: swath recording import"),
        (["check", "none.yaml"], "there is no such file"),
        (["show", "none.yaml"], "none.yaml"),
        (["suggest", "flow.json", "--row", "none.csv"], "none.csv"),
        (["suggest", "flow.json", "--row", "other.csv"], "nothing of its first row stands in flow.json"),
        (["suggest", "flow.json", "--row", "empty.csv"], "has no row"),
        (["suggest", "flow.json", "--row", "list.json"], "is no object with names and values"),
        (["improt", "flow.json"], "import"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(swath: Swath, words: list[str], complaint: str) -> None:
    for name, text in {
        "bad.json": '{"title": "a", "steps"',
        "away.json": '{"title": "a", "steps": [{"type": "navigate", "url": "file:///etc/passwd"}]}',
        "other.csv": "a\nzzzz\n",
        "empty.csv": "a\n",
        "list.json": "[[1]]",
    }.items():
        Path(name).write_text(text, encoding="utf-8")
    ran = swath(*words)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.req("A2")
def test_scripts_are_imported_and_refused_until_the_operator_allows_them(
    swath: Swath, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [*FLOW["steps"], {"type": "waitForExpression", "expression": "window.done"}]
    Path("js.json").write_text(json.dumps({"title": "js", "steps": steps}), encoding="utf-8")
    assert swath("import", "js.json", "--output", "js.yaml").code == 0
    ran = swath("check", "js.yaml")
    assert ran.code == 2
    assert "step 4 (javascript)" in ran.err
    monkeypatch.setenv("SWATH_ALLOW_JAVASCRIPT", "1")
    assert swath("check", "js.yaml").code == 0


def test_show_tells_the_steps_of_ours_and_of_chromes(swath: Swath) -> None:
    swath("import", "flow.json", "--bind", "parcel_id=200-14-030", "--output", "flow.yaml")
    assert ["1", "goto", "https://county.example/search"] in [
        line.split() for line in swath("show", "flow.json").out.splitlines()
    ]
    shown = json.loads(swath("show", "flow.yaml", "--json").out)
    assert shown["inputs"] == {"parcel_id": {"example": "200-14-030"}}
    assert [step["inputs"] for step in shown["steps"]] == [[], ["parcel_id"], []]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("row.csv", "Parcel ID,City\n200-14-030,Reno\n1,2\n"),
        ("row.json", '{"Parcel ID": "200-14-030", "City": null}'),
        ("row.json", '[{"item_id": "a", "input": {"Parcel ID": "200-14-030"}}]'),
        ("row.jsonl", '{"Parcel ID": "200-14-030"}\n'),
    ],
)
def test_suggest_proposes_flags_that_import_takes(swath: Swath, name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")
    ran = swath("suggest", "flow.json", "--row", name)
    assert ran.code == 0
    table, flags = ran.out.splitlines()[:-1], ran.out.splitlines()[-1]
    assert table[1].split()[:3] == ["parcel_id", "Parcel", "ID"]
    assert flags == "--bind parcel_id=200-14-030"
    assert swath("import", "flow.json", *flags.split(), "--output", "made.yaml").code == 0
    (told,) = json.loads(swath("suggest", "flow.json", "--row", name, "--json").out)
    assert (told["input"], told["literal"], told["places"][0]["step"]) == ("parcel_id", "200-14-030", "2")


@pytest.mark.req("A1")
def test_schema_prints_the_published_schema(swath: Swath) -> None:
    assert json.loads(swath("schema").out) == recording_schema()
