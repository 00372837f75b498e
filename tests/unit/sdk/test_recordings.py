"""Recordings as scrapers: how the registry finds them, what they take and give, and what of them is refused."""

import json
import os
import re
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swath import ActionScraper, Failed, FailureKind, Output
from swath.domain.errors import BadInput, UnknownName
from swath.recordings.document import parse_recording
from swath.sdk.registry import SHIPPED, Registry
from tests.support.bounds import RUNAWAY_CPU_SECONDS

pytestmark = pytest.mark.req("K1", "K3", "A5")

FLOW = """\
swath_recording: 1
id: {id}
name: County {id}
version: "7"
description: Parcels of {id}.
sites: [{id}.example]
base_url: https://{id}.example/search/
inputs:
  parcel_id: {{pattern: '[0-9-]+', example: 1-2-3}}
steps:
  - {{do: goto, url: 'detail?p={{{{ input.parcel_id | digits }}}}'}}
  - {{do: extract, field: owner, on: '#owner'}}
"""
SCRIPT = "  - {do: javascript, code: '1'}\n"


def write(folder: Path, scraper_id: str, name: str | None = None, more: str = "") -> Path:
    file = folder / (name or f"{scraper_id}.yaml")
    file.write_text(FLOW.format(id=scraper_id) + more)
    return file


def made(steps: list[Any], **more: Any) -> type[ActionScraper]:
    content = {"swath_recording": 1, "id": "made-here", "steps": steps} | more
    return ActionScraper.of(parse_recording(json.dumps(content), "made.json"))


def listed(*folders: Path) -> list[Any]:
    return [info for info in Registry(folders).infos() if info.origin != "shipped"]


# -- finding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["flow.yaml", "flow.yml"])
def test_a_recording_is_resolved_by_path_and_found_again_by_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(tmp_path, "my-county", name)
    monkeypatch.chdir(tmp_path)
    registry = Registry()
    scraper, source = registry.resolve(name)
    assert (scraper.id, scraper.kind, scraper.version, scraper.sites) == (
        "my-county",
        "recording",
        "7",
        ("my-county.example",),
    )
    assert (scraper.needs_browser, source) == (True, str(tmp_path / name))
    assert registry.get("my-county", source) is scraper
    assert Registry().get("my-county", source).version == "7"
    with pytest.raises(BadInput, match="declares my-county, not 'other'"):
        registry.get("other", source)


def test_recordings_in_json_are_recordings_too(tmp_path: Path) -> None:
    content = {"swath_recording": 1, "id": "by-json", "steps": [{"do": "goto", "url": "https://a.example/"}]}
    (tmp_path / "flow.json").write_text(json.dumps(content))
    assert [info.id for info in listed(tmp_path)] == ["by-json"]
    scraper, _ = Registry().resolve(str(tmp_path / "flow.json"))
    assert (scraper.id, scraper.name, scraper.version, scraper.has_extract) == ("by-json", "by-json", "1", False)


def test_folders_list_recordings_beside_scrapers_and_load_them_by_id(tmp_path: Path) -> None:
    file = write(tmp_path, "some-county")
    (tmp_path / "sites.yaml").write_text("sites: []\n")
    (tmp_path / "data.json").write_text("[1, 2]")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (info,) = listed(tmp_path)
    assert (info.id, info.name, info.version, info.kind) == ("some-county", "County some-county", "7", "recording")
    assert (info.description, info.sites) == ("Parcels of some-county.", ("some-county.example",))
    assert info.origin == str(file)
    scraper = Registry([tmp_path]).get("some-county")
    assert isinstance(scraper, ActionScraper)
    assert type(scraper).files == tmp_path / "files"


@pytest.mark.parametrize(
    ("text", "scraper_id", "told"),
    [
        ("swath_recording: 1\nid: [broken\n", "flow", "line"),
        ("swath_recording: 1\nsteps: []\n", "flow", "id"),
        ("swath_recording: 1\nid: 5\nsteps: []\n", "flow", "id"),
        ("swath_recording: 1\nid: cut-off\nsteps:\n  - do: clik\n    on: x\n", "cut-off", "step 1"),
    ],
)
@pytest.mark.req("Z5")
def test_a_broken_recording_is_told_in_one_line_and_hides_no_other(
    tmp_path: Path, text: str, scraper_id: str, told: str
) -> None:
    write(tmp_path, "good-county")
    (tmp_path / "flow.yaml").write_text(text)
    found = {info.id: info for info in listed(tmp_path)}
    assert set(found) == {"good-county", scraper_id}
    assert "\n" not in found[scraper_id].description
    registry = Registry([tmp_path])
    assert registry.get("good-county").id == "good-county"
    for ask in (lambda: registry.get(scraper_id), lambda: registry.resolve(str(tmp_path / "flow.yaml"))):
        with pytest.raises(BadInput, match=told) as raised:
            ask()
        assert "\n" not in str(raised.value)
        assert "flow.yaml" in str(raised.value)
    with pytest.raises(UnknownName, match="good-county"):
        registry.get("good-countyy")


def test_listing_recordings_loads_neither_the_language_nor_the_browser(tmp_path: Path) -> None:
    write(tmp_path, "some-county")
    code = (
        "import sys; from pathlib import Path; from swath.sdk.registry import Registry; "
        "ids = [info.id for info in Registry([Path(sys.argv[1])]).infos()]; "
        "print('some-county' in ids, [name for name in ('swath.recordings.schema.steps', 'swath.sdk.action_scraper', "
        "'patchright') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "True []"


def test_a_recording_that_was_edited_is_what_the_next_process_reads(tmp_path: Path) -> None:
    file = write(tmp_path, "my-county")
    registry = Registry()
    scraper, source = registry.resolve(str(file))
    file.write_text(file.read_text().replace('version: "7"', 'version: "8"'))
    assert registry.get("my-county", source) is scraper  # one process stays with what it has begun with
    assert Registry().get("my-county", source).version == "8"


@pytest.mark.req("A2")
def test_scripts_of_a_recording_are_loaded_only_if_the_operator_allows_them(tmp_path: Path) -> None:
    file = write(tmp_path, "with-script", more=SCRIPT)
    (tmp_path / "coded.py").write_text(
        "from swath import ActionScraper, scraper\n\n"
        '@scraper("coded")\nclass Coded(ActionScraper):\n    recording = "with-script.yaml"\n'
    )
    for ask in (
        lambda: Registry().resolve(str(file)),
        lambda: Registry([tmp_path]).get("with-script"),
        lambda: Registry().resolve(str(tmp_path / "coded.py")),
    ):
        with pytest.raises(BadInput, match="SWATH_ALLOW_JAVASCRIPT"):
            ask()
    allowing = Registry([tmp_path], javascript=True)
    assert allowing.resolve(str(file))[0].id == "with-script"
    assert allowing.get("coded").id == "coded"


# -- classes that extend one -------------------------------------------------------------------------------------------


def test_a_class_may_name_a_recording_beside_it_and_have_its_own_ends(tmp_path: Path) -> None:
    write(tmp_path, "my-county", "flow.yaml")
    (tmp_path / "mine.py").write_text(
        "from swath import ActionScraper, Output, scraper\n\n"
        "class Found(Output):\n    owner: str\n\n"
        '@scraper("mine", version="3")\nclass Mine(ActionScraper):\n'
        '    recording = "flow.yaml"\n    Output = Found\n    block = ("image",)\n\n'
        '    def site_url(self):\n        return "http://other.example/"\n'
    )
    scraper, _ = Registry().resolve(str(tmp_path / "mine.py"))
    assert (scraper.id, scraper.version, scraper.kind) == ("mine", "3", "recording")
    item = scraper.parse_input({"parcel_id": "1-2-3"})
    assert scraper.start_url(item) == "http://other.example/detail?p=123"
    assert list(scraper.Output.model_fields) == ["owner"]
    assert scraper.Output.__name__ == "Found"
    mine = [info for info in listed(tmp_path) if info.id == "mine"]
    assert [info.kind for info in mine] == ["recording"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("pass", 'scraper "mine" names no recording'),
        ("recording = 5", "recording must be the name of a file"),
        ('recording = "gone.yaml"', "gone.yaml: there is no such file"),
        ('recording = "bad.yaml"', "bad.yaml: "),
    ],
)
@pytest.mark.req("Z5")
def test_a_class_whose_recording_is_no_good_is_one_line(tmp_path: Path, body: str, told: str) -> None:
    (tmp_path / "bad.yaml").write_text("swath_recording: 2\n")
    (tmp_path / "mine.py").write_text(
        f'from swath import ActionScraper, scraper\n\n@scraper("mine")\nclass Mine(ActionScraper):\n    {body}\n'
    )
    with pytest.raises(BadInput, match=told) as raised:
        Registry().resolve(str(tmp_path / "mine.py"))
    assert "\n" not in str(raised.value)


# -- what it takes -----------------------------------------------------------------------------------------------------

GOTO = {"do": "goto", "url": "https://a.example/"}
INPUTS = {
    "number": {"pattern": "[0-9]{3}"},
    "amount": {"type": "money", "required": False},
    "sold": {"type": "date", "required": False},
    "copies": {"type": "integer", "required": False},
    "bill": {"type": "yes_no", "required": False},
}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"number": "123"}, {"number": "123"}),
        ({"number": 123, "copies": 2, "bill": True}, {"number": "123", "copies": "2", "bill": "yes"}),
        ({"number": " 123 ", "amount": "$1,200", "sold": "3/1/2026"}, {"amount": "$1,200", "sold": "3/1/2026"}),
        ({"number": "123", "bill": "N", "copies": "", "amount": " "}, {"bill": "no", "copies": None, "amount": None}),
    ],
)
@pytest.mark.req("K2", "A2")
def test_inputs_stay_as_they_are_written_because_they_are_typed_into_pages(
    given: dict[str, Any], taken: dict[str, Any]
) -> None:
    item = made([GOTO], inputs=INPUTS)().parse_input(given).model_dump()
    assert {name: item[name] for name in taken} == taken


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "number: Field required"),
        ({"number": ""}, "number: must not be empty"),
        ({"number": "1234"}, "number: must match '[0-9]{3}'"),
        ({"number": "123", "sold": "soon"}, "sold: must be a date"),
        ({"number": "123", "amount": "much"}, "amount: must be an amount"),
        ({"number": "123", "copies": "1.5"}, "copies: must be a whole number"),
        ({"number": "123", "bill": "maybe"}, "bill: must be yes or no"),
        ({"number": ["123"]}, "number: Input should be a valid string"),
    ],
)
@pytest.mark.req("K2", "Z5")
def test_an_input_that_does_not_fit_is_told_before_anything_is_fetched(given: dict[str, Any], told: str) -> None:
    with pytest.raises(Failed) as raised:
        made([GOTO], inputs=INPUTS)().parse_input(given)
    assert (raised.value.failure.kind, told in raised.value.failure.message) == (FailureKind.INVALID_INPUT, True)


def test_it_begins_where_its_first_goto_leads() -> None:
    def start(url: str, **more: Any) -> str | None:
        scraper = made([{"do": "goto", "url": url}], inputs={"n": {"example": "1"}}, **more)()
        return scraper.start_url(scraper.parse_input({"n": "7-8"}))

    assert start("https://a.example/?n={{ input.n }}") == "https://a.example/?n=7-8"
    assert start("p/{{ input.n | digits }}", base_url="https://b.example/x/") == "https://b.example/x/p/78"
    with pytest.raises(Failed, match=r"step 1 \(goto .*split") as raised:
        start('https://a.example/{{ input.n | split("-", 5) }}')
    assert raised.value.failure.kind is FailureKind.INVALID_INPUT


# -- what it gives -----------------------------------------------------------------------------------------------------


def extract(field: str, **rule: Any) -> dict[str, Any]:
    return {"do": "extract", "field": field, "on": "p"} | rule


def schema(steps: list[Any]) -> dict[str, Any]:
    return made([GOTO, *steps])().Output.model_json_schema()


def test_the_output_says_what_each_field_is() -> None:
    told = schema(
        [
            extract("owner", name="Who owns it"),
            extract("price", type="money"),
            extract("year", type="integer", optional=True),
            extract("rows", kind="count"),
            extract("links", kind="list", attribute="href"),
            extract(
                "sales", kind="list", fields={"day": {"on": "i", "type": "date"}, "by": {"on": "b", "optional": True}}
            ),
            extract("taxes", kind="table", columns={"year": "Year"}),
            extract("raw", kind="table"),
        ]
    )
    fields, models = told["properties"], told["$defs"]
    assert told["required"] == ["owner", "price", "rows", "links", "sales", "taxes", "raw"]
    assert (fields["owner"]["type"], fields["owner"]["description"]) == ("string", "Who owns it")
    assert {one["type"] for one in fields["year"]["anyOf"]} == {"integer", "null"}
    assert (fields["rows"]["type"], fields["links"]["items"]["type"]) == ("integer", "string")
    sale = models["MadeHereOutputSales"]
    assert (sale["properties"]["day"]["format"], sale["required"]) == ("date", ["day"])
    assert models["MadeHereOutputTaxes"]["properties"]["year"]["type"] == "string"
    assert fields["raw"]["items"]["additionalProperties"]["type"] == "string"


def test_what_is_not_always_done_may_be_missing() -> None:
    told = schema(
        [
            extract("first"),
            {"do": "if", "condition": {"on": "b"}, "then": [extract("second"), {"do": "stop"}]},
            extract("third"),
            {
                "do": "for_each",
                "on": "li",
                "collect": "items",
                "steps": [extract("title"), extract("note", optional=True)],
            },
        ]
    )
    assert told["required"] == ["first"]
    assert told["$defs"]["MadeHereOutputItems"]["required"] == ["title"]
    assert told["properties"]["items"]["type"] == "array"


def test_the_rows_of_all_turns_are_records_of_one_list() -> None:
    def loop(table: dict[str, Any]) -> dict[str, Any]:
        steps = [extract("page", type="integer"), table]
        return {"do": "for_each", "on": "li", "collect": "items", "flatten": "rows", "steps": steps}

    told = schema([loop(extract("rows", kind="table", columns={"year": "Year"}))])
    row = told["$defs"]["MadeHereOutputItems"]
    assert {name: field["type"] for name, field in row["properties"].items()} == {"page": "integer", "year": "string"}
    told = schema([loop(extract("rows", kind="table"))])
    assert told["properties"]["items"]["items"]["type"] == "object"


def test_fields_may_have_names_that_models_know(recwarn: pytest.WarningsRecorder) -> None:
    output = made([GOTO, extract("copy"), extract("schema", type="number")])().Output
    assert issubclass(output, Output)
    record = output.model_validate({"copy": "a", "schema": Decimal("1.50")})
    assert record.model_dump(mode="json") == {"copy": "a", "schema": "1.50"}
    assert not recwarn.list


@pytest.mark.parametrize("name", ["_hidden", "model_dump"])
def test_a_name_that_no_field_can_have_is_one_line(name: str) -> None:
    with pytest.raises(
        BadInput, match=f"step 2 \\(extract\\): field: '{name}' cannot be the name of an input or a field"
    ):
        made([GOTO, extract(name)])


def test_what_it_wishes_of_the_browser_is_what_the_recording_says() -> None:
    scraper = made([GOTO], keep_session=True, mobile=True, block=["image"], screenshot="always")
    assert (scraper.keep_session, scraper.mobile, scraper.block, scraper.screenshot) == (
        True,
        True,
        ("image",),
        "always",
    )


def test_shipped_recordings_are_listed_as_such() -> None:
    assert [row.info.id for row in SHIPPED if row.info.kind == "recording"] == ["demo-county-recording"]


@pytest.mark.parametrize("name", sorted(name for name in dir(Output) if re.fullmatch("[a-z_][a-z0-9_]{0,63}", name)))
def test_what_the_check_lets_pass_is_a_scraper_that_works_without_a_warning(name: str) -> None:
    steps = [GOTO, {"do": "extract", "field": name, "on": "td"}]
    try:
        scraper = made(steps, inputs={name: {}})
    except BadInput as refused:
        assert "made.json: inputs: " in str(refused)  # noqa: PT017 either is fine, but nothing else
        return
    assert scraper().parse_input({name: "a"}).model_dump() == {name: "a"}
    assert scraper.Output.model_validate({name: "b"}).model_dump() == {name: "b"}


@pytest.mark.req("Z6")
def test_an_input_that_leads_its_pattern_astray_is_refused_after_a_moment() -> None:
    scraper = made([GOTO], inputs={"code": {"pattern": "(?s)(x.*){8}y?z"}})()
    began = time.process_time()
    with pytest.raises(Failed, match="invalid_input: code: takes longer than"):
        scraper.parse_input({"code": "x" * 9_000})
    assert time.process_time() - began < RUNAWAY_CPU_SECONDS
