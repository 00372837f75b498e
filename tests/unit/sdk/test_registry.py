import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swath.domain.errors import BadInput, UnknownName
from swath.sdk.registry import ENTRY_POINT_GROUP, SHIPPED, Registry

pytestmark = pytest.mark.req("K3")

SOURCE = '''\
"""A scraper of somebody's."""
import sys

from swath import HttpScraper, Input, Output, scraper

{marker}
@scraper(
    "{id}",
    name="County {id}",
    version="7",
    sites=["{id}.example"],
)
class Some(HttpScraper):
    """Parcels of {id}."""

    class Input(Input):
        parcel_id: str

    class Output(Output):
        owner: str

    async def fetch(self, item, web):
        return await web.get("http://site.example/")

    def extract(self, pages):
        return {{"owner": "x"}}
'''

TWO = """\
from swath import HttpScraper, scraper

@scraper("a")
class A(HttpScraper): pass

@scraper("b")
class B(HttpScraper): pass
"""


def write(folder: Path, scraper_id: str, name: str | None = None, marker: str = "") -> Path:
    file = folder / f"{name or scraper_id.replace('-', '_')}.py"
    file.write_text(SOURCE.format(id=scraper_id, marker=marker))
    return file


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that counts as installed: 500 scrapers by entry points, each in a module of its own."""
    site = tmp_path / "site"
    (site / "many_counties").mkdir(parents=True)
    (site / "many_counties" / "__init__.py").touch()
    lines = [f"[{ENTRY_POINT_GROUP}]"]
    for number in range(500):
        write(site / "many_counties", f"pack-{number}", f"c{number}")
        lines.append(f"pack-{number} = many_counties.c{number}:Some")
    info = site / "many_counties-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: many-counties\nVersion: 2.5\nSummary: Counties\n")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(site))
    yield site
    for name in [name for name in sys.modules if name.startswith("many_counties")]:
        del sys.modules[name]


def test_shipped_scrapers_are_found_and_their_table_tells_the_truth() -> None:
    registry = Registry()
    for row in SHIPPED:
        made = registry.get(row.info.id)
        assert (made.id, made.name, made.version) == (row.info.id, row.info.name, row.info.version)
        assert (made.description, made.sites) == (row.info.description, row.info.sites)
        assert made.kind == row.info.kind
        assert made.version
        assert row.target.endswith(f":{type(made).__name__}")
    assert [info.id for info in registry.infos()] == sorted(row.info.id for row in SHIPPED)


def test_a_scraper_is_made_once() -> None:
    registry = Registry()
    assert registry.get("example-mock") is registry.get("example-mock")


@pytest.mark.req("K3")
def test_a_single_file_may_stand_among_the_folders(tmp_path: Path) -> None:
    one = write(tmp_path, "only-one")
    write(tmp_path, "beside-it")
    registry = Registry([one])
    assert registry.get("only-one").id == "only-one"
    assert {"only-one", "beside-it"} & {info.id for info in registry.infos()} == {"only-one"}


def test_a_scraper_in_a_folder_is_found_by_id(tmp_path: Path) -> None:
    write(tmp_path, "some-county", "any_name")
    made, source = Registry([tmp_path]).resolve("some-county")
    assert (made.id, made.version, source) == ("some-county", "7", None)
    assert made.parse_input({"parcel_id": "1"}).model_dump() == {"parcel_id": "1"}


def test_two_files_of_a_folder_with_one_id_are_told_of_and_two_folders_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, "twice", "a")
    registry = Registry([tmp_path / "first", tmp_path / "second"])
    registry.infos()
    registry.get("twice")
    assert caplog.messages == []
    write(tmp_path / "first", "twice", "b")
    registry.infos()
    Registry([tmp_path / "first"]).get("twice")
    assert caplog.messages == ["scraper 'twice' is declared by b.py too; a.py counts"] * 2


def test_listing_tells_what_files_declare_without_running_them(tmp_path: Path) -> None:
    file = write(tmp_path, "some-county", marker='raise RuntimeError("was run")')
    (info,) = [info for info in Registry([tmp_path]).infos() if info.origin != "shipped"]
    assert (info.id, info.name, info.version, info.sites) == (
        "some-county",
        "County some-county",
        "7",
        ("some-county.example",),
    )
    assert info.description == "Parcels of some-county."
    assert info.kind == "http"
    assert info.origin == str(file)


@pytest.mark.parametrize(
    ("declaration", "version"),
    [
        ('@scraper("x")\nclass A(HttpScraper): pass', "1"),
        ("@swath.scraper('x', version='2')\nclass A(HttpScraper):\n    pass", "2"),
        ('@scraper(\n    "x",\n    version="2",\n)\n@other\nclass A: pass', "2"),
        ('@scraper("x", version=VERSION)\nclass A: pass', "1"),
        ('@scraper("x", version="2"', "1"),
        ('@scraper("x", version="2")\nclass A:\n  def broken(:', "2"),
    ],
    ids=["bare", "module", "lines", "computed", "cut off", "broken later"],
)
def test_declarations_are_read_in_every_shape(tmp_path: Path, declaration: str, version: str) -> None:
    (tmp_path / "x.py").write_text(f"import swath\n\n\n{declaration}\n")
    (info,) = [info for info in Registry([tmp_path]).infos() if info.origin != "shipped"]
    assert (info.id, info.version) == ("x", version)


def test_a_broken_file_does_not_hide_the_others(tmp_path: Path) -> None:
    write(tmp_path, "good-county")
    (tmp_path / "bad.py").write_text('@scraper("bad-county")\nclass Bad(HttpScraper:\n')
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00@scraper(")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "nothing.py").write_text("x = 1\n")
    registry = Registry([tmp_path, tmp_path / "missing"])
    assert {info.id for info in registry.infos()} >= {"good-county", "bad-county"}
    assert registry.get("good-county").id == "good-county"
    with pytest.raises(BadInput, match=r"^bad\.py, line 2: "):
        registry.get("bad-county")


def test_looking_one_up_among_500_in_a_folder_runs_only_that_one(tmp_path: Path) -> None:
    for number in range(500):
        write(tmp_path, f"county-{number}", marker=f"sys.modules['ran-{number}'] = sys")
    before = set(sys.modules)
    made = Registry([tmp_path]).get("county-250")
    new = set(sys.modules) - before
    assert made.id == "county-250"
    assert {name for name in new if name.startswith("ran-")} == {"ran-250"}
    assert sum(name.startswith("swath_scraper_") for name in new) == 1
    for name in new:
        del sys.modules[name]


def test_looking_one_up_among_500_entry_points_imports_only_that_one(packages: Path) -> None:
    registry = Registry()
    made = registry.get("pack-250")
    assert made.id == "pack-250"
    assert {name for name in sys.modules if name.startswith("many_counties.")} == {"many_counties.c250"}


def test_looking_up_a_shipped_one_imports_no_other_scraper(packages: Path, tmp_path: Path) -> None:
    write(tmp_path, "county-1", marker="sys.modules['ran-1'] = sys")
    for name in [name for name in sys.modules if name.startswith("swath.scrapers.example")]:
        del sys.modules[name]
    Registry([tmp_path]).get("example-mock")
    assert "ran-1" not in sys.modules
    assert {name for name in sys.modules if name.startswith("swath.scrapers.example")} == {"swath.scrapers.examples"}
    assert not any(name.startswith("many_counties") for name in sys.modules)


def test_listing_500_entry_points_imports_none(packages: Path) -> None:
    listed = {info.id: info for info in Registry().infos()}
    assert len(listed) == 500 + len(SHIPPED)
    assert (listed["pack-9"].version, listed["pack-9"].origin) == ("2.5", "package many-counties")
    assert listed["pack-9"].description == "Counties"
    assert not any(name.startswith("many_counties") for name in sys.modules)


def test_a_package_that_cannot_be_imported_is_one_line(packages: Path) -> None:
    (packages / "many_counties" / "c3.py").write_text("import nothing_of_the_kind\n")
    (packages / "many_counties" / "c4.py").write_text("Some = 1\n")
    with pytest.raises(BadInput, match=r"'pack-3' .*ModuleNotFoundError: No module named 'nothing_of_the_kind'"):
        Registry().get("pack-3")
    with pytest.raises(BadInput, match="is not the scraper 'pack-4'"):
        Registry().get("pack-4")


def test_an_unknown_id_names_near_ones_or_where_to_look(tmp_path: Path) -> None:
    write(tmp_path, "maricopa-az")
    with pytest.raises(UnknownName, match="there is no scraper 'maricopa_az'; did you mean 'maricopa-az'"):
        Registry([tmp_path]).get("maricopa_az")
    with pytest.raises(UnknownName, match="swath scraper list"):
        Registry([tmp_path]).get("zzz")


def test_a_single_file_is_resolved_by_path_and_found_again_by_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "my-county", "my_scraper")
    monkeypatch.chdir(tmp_path)
    registry = Registry()
    made, source = registry.resolve("./my_scraper.py")
    assert made.id == "my-county"
    assert source == str(tmp_path / "my_scraper.py")
    assert registry.get("my-county", source) is made
    assert Registry().get("my-county", source).id == "my-county"
    with pytest.raises(BadInput, match="declares my-county, not 'other'"):
        registry.get("other", source)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("class Broken(:\n", r"^my\.py, line 1: "),
        ("x = 1\n", r"^my\.py declares no scraper"),
        ("from swath import HttpScraper\nclass A(HttpScraper): pass\n", r"^my\.py declares no scraper"),
        ("import nothing_of_the_kind\n", r"^my\.py, line 1: ModuleNotFoundError"),
        ("from swath import scraper\n\nscraper('Bad Id')\n", r"^my\.py: 'Bad Id' is no scraper id"),
        (TWO, r"^my\.py declares several scrapers \(a, b\)"),
    ],
    ids=["syntax", "nothing", "undeclared", "import", "bad id", "several"],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path, source: str, told: str) -> None:
    (tmp_path / "my.py").write_text(source)
    before = set(sys.modules)
    with pytest.raises(BadInput, match=told) as raised:
        Registry().resolve(str(tmp_path / "my.py"))
    assert "\n" not in str(raised.value)
    if "line" in told:  # it broke while it ran, and leaves nothing behind
        assert not {name for name in set(sys.modules) - before if name.startswith("swath_scraper_")}


def test_a_file_may_import_a_scraper_to_extend_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from swath import scraper\nfrom swath.scrapers.demo_county import DemoCounty\n"
        "@scraper('mine', version='2')\nclass Mine(DemoCounty): pass\n"
    )
    made, _ = Registry().resolve(str(tmp_path / "mine.py"))
    assert (made.id, made.version) == ("mine", "2")
    assert Registry().get("demo-county").version == "1"


@pytest.mark.parametrize("reference", ["missing.py", "./missing", "folder/thing"])
def test_a_missing_file_is_one_line(reference: str) -> None:
    with pytest.raises(BadInput, match="there is no scraper file"):
        Registry().resolve(reference)


def test_a_file_of_another_kind_is_no_scraper(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("parcel_id")
    with pytest.raises(BadInput, match=r"list.csv' is no scraper: that is a file ending in .py, "):
        Registry().resolve(str(tmp_path / "list.csv"))


@pytest.mark.req("K3")
def test_who_names_no_scraper_gets_the_default_or_is_told_how_to_set_one() -> None:
    scraper, source = Registry(default="example-mock").resolve(None)
    assert (scraper.id, source) == ("example-mock", None)
    with pytest.raises(BadInput, match="SWATH_DEFAULT_SCRAPER"):
        Registry().resolve(None)


DECLARED = """\
import sys
from pydantic import BaseModel
from swath import HttpScraper, scraper

@scraper("own")
class Own(HttpScraper):
    {body}
"""


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("Input = dict", 'scraper "own": Input must be a model, not dict: write class Input(swath.Input)'),
        ("Input = BaseModel", 'scraper "own": Input must be a model, not BaseModel'),
        ("Output = {}", 'scraper "own": Output must be a model, not dict'),
        ("async def extract(self, pages): return {}", 'scraper "own": extract must not be async: write def extract'),
        ("async def extract(self, pages): yield {}", 'scraper "own": extract must not be async'),
        ("async def validate_result(self, record): pass", 'scraper "own": validate_result must not be async'),
        ("async def start_url(self, item): return None", 'scraper "own": start_url must not be async'),
        ("extract = None", 'scraper "own": extract must be a method'),
        ("base_url = 5", 'scraper "own": base_url must be text: write base_url="5"'),
        ("def __init__(self, key): pass", 'scraper "own" cannot be made: TypeError: Own.__init__() missing 1'),
        ("def __init__(self): raise ValueError('a\\nb')", 'scraper "own" cannot be made: ValueError: a b'),
        ("def __init__(self): sys.exit()", 'scraper "own" cannot be made: SystemExit'),
        ("def __init__(self): self.version = 2", 'scraper "own": version must be text: write version="2"'),
        ("def __new__(cls): return 5", 'scraper "own" cannot be made: its class makes int'),
    ],
)
def test_a_class_that_no_item_could_be_scraped_with_is_refused_when_it_is_loaded(
    tmp_path: Path, body: str, told: str
) -> None:
    file = tmp_path / "own.py"
    file.write_text(DECLARED.format(body=body))
    for ask in (
        lambda: Registry().resolve(str(file)),
        lambda: Registry().get("own", str(file)),
        lambda: Registry([tmp_path]).get("own"),
    ):
        with pytest.raises(BadInput) as raised:
            ask()
        assert str(raised.value).removeprefix("own.py: ").startswith(told)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("id, version = 'own', 2", 'own.py: scraper "own": version must be text: write version="2"'),
        ("id, sites = 'own', 'a.example'", 'own.py: scraper "own": sites must be a list of text'),
        ("id = 5", "own.py: the scraper id must be text, not int"),
        ("id = ['own']", "own.py: the scraper id must be text, not list"),
        ("id = 'Own Id'", "own.py: 'Own Id' is no scraper id"),
    ],
)
def test_a_class_that_declares_itself_is_checked_too(tmp_path: Path, body: str, told: str) -> None:
    (tmp_path / "own.py").write_text(f"from swath import HttpScraper\nclass Own(HttpScraper):\n    {body}\n")
    with pytest.raises(BadInput) as raised:
        Registry().resolve(str(tmp_path / "own.py"))
    assert str(raised.value).startswith(told)


ENDINGS = {
    "import sys\nsys.exit(3)": "SystemExit: 3",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "class Odd(BaseException): pass\nraise Odd('a\\nb')": "Odd: a b",
    "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute": "Mute",
}


@pytest.mark.req("K1")
@pytest.mark.parametrize("source", ENDINGS)
def test_a_file_or_a_package_that_ends_the_process_is_one_line(tmp_path: Path, packages: Path, source: str) -> None:
    file = tmp_path / "ends.py"
    file.write_text(source)
    with pytest.raises(BadInput) as raised:
        Registry().resolve(str(file))
    assert str(raised.value) == f"ends.py, line {len(source.splitlines())}: {ENDINGS[source]}"
    (packages / "many_counties" / "c5.py").write_text(source)
    with pytest.raises(BadInput) as raised:
        Registry().get("pack-5")
    assert str(raised.value) == f"scraper 'pack-5' (many_counties.c5:Some) cannot be loaded: {ENDINGS[source]}"


def test_a_class_of_a_package_is_checked_too(packages: Path) -> None:
    (packages / "many_counties" / "c6.py").write_text(
        "from swath import HttpScraper\nclass Some(HttpScraper):\n    id, version = 'pack-6', 6\n"
    )
    with pytest.raises(BadInput, match='scraper "pack-6": version must be text: write version="6"'):
        Registry().get("pack-6")


@pytest.mark.req("K1", "Z5")
def test_a_scraper_without_fetch_is_refused_before_a_job_begins(tmp_path: Path) -> None:
    file = tmp_path / "idle.py"
    file.write_text('from swath import HttpScraper, scraper\n\n@scraper("idle")\nclass Idle(HttpScraper):\n    pass\n')
    with pytest.raises(BadInput, match="has no fetch"):
        Registry().resolve(str(file))


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    ("bases", "kind"), [("BrowserScraper", "browser"), ("swath.HttpScraper", "http"), ("Ours, Mixin", "")]
)
def test_the_kind_of_a_scraper_in_a_file_is_told_without_running_it(tmp_path: Path, bases: str, kind: str) -> None:
    (tmp_path / "x.py").write_text(f'@scraper("x")\nclass X({bases}):\n    pass\n')
    (info,) = [info for info in Registry([tmp_path]).infos() if info.id == "x"]
    assert info.kind == kind


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('block = ("images",)', "block must name some of font, image, media, stylesheet"),
        ('block = "image"', "block must name some of"),
        ('screenshot = "sometimes"', "screenshot must be one of never, failure, always"),
        ("keep_session = 1", "keep_session must be True or False"),
        ("mobile = None", "mobile must be True or False"),
        ("pass", r"has no fetch: write async def fetch\(self, item, browser\)"),
    ],
)
def test_a_browser_scraper_that_can_never_work_is_refused(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        f'from swath import BrowserScraper, scraper\n\n@scraper("x")\nclass X(BrowserScraper):\n    {line}\n'
    )
    with pytest.raises(BadInput, match=told):
        Registry().resolve(str(file))
