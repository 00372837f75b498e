"""A3: importers of installed packages come in by the same door as Chrome's, and a broken one costs one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.recordings.importers import import_recording

pytestmark = pytest.mark.req("A3")

CHROME = '{"title": "a", "steps": [{"type": "navigate", "url": "https://a.test/"}]}'
GOOD = """
from swath.recordings.importers import Imported, Remark
from swath.recordings.schema.recording import Recording

class Importer:
    name = "reel"

    def recognises(self, document):
        return isinstance(document, dict) and "reel" in document

    def read(self, document):
        steps = [{"do": "goto", "url": url} for url in document["reel"]]
        made = {"swath_recording": 1, "id": "reel", "steps": steps}
        import json
        return Imported(Recording.model_validate_json(json.dumps(made)), (Remark("wound back"),))
"""


SCRIPTED = GOOD.replace('"goto", "url": url}', '"javascript", "code": url}')


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """An installed package with an importer; a module name of its own for each test, as Python keeps modules."""
    name = f"reel_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(request.param, encoding="utf-8")
    info = tmp_path / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[swath.importers]\nreel = {name}:Importer\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("package", [GOOD], indirect=True)
def test_a_package_reads_its_own_recordings(package: None) -> None:
    found = import_recording('{"reel": ["https://a.test/1", "https://a.test/2"]}', "my.reel")
    assert [step.do for step in found.recording.steps] == ["goto", "goto"]
    assert [str(remark) for remark in found.remarks] == ["wound back"]


@pytest.mark.parametrize("package", [SCRIPTED], indirect=True)
def test_a_script_of_a_packages_recording_is_told_of(package: None) -> None:
    told = [str(remark) for remark in import_recording('{"reel": ["1"]}', "my.reel").remarks]
    assert told[0] == "wound back"
    assert "step 1 (javascript): is a script" in told[1]


@pytest.mark.parametrize("package", [GOOD], indirect=True)
def test_chromes_are_read_as_before(package: None) -> None:
    assert import_recording(CHROME, "flow.json").remarks == ()


@pytest.mark.parametrize("package", ["import nonsense_that_is_not_there", "raise SystemExit(3)"], indirect=True)
def test_a_package_that_cannot_be_loaded_is_told_of_and_stands_in_nobodys_way(package: None) -> None:
    (remark,) = import_recording(CHROME, "flow.json").remarks
    assert "the importer 'reel'" in str(remark)
    assert "cannot be loaded" in str(remark)
    with pytest.raises(BadInput, match=r"is no recording that is known here.*; and the importer 'reel'"):
        import_recording('{"reel": []}', "my.reel")


@pytest.mark.parametrize("package", ["Importer = 7"], indirect=True)
def test_what_is_no_importer_is_told_of(package: None) -> None:
    (remark,) = import_recording(CHROME, "flow.json").remarks
    assert "is no importer: it needs name, recognises(document) and read(document)" in str(remark)


@pytest.mark.parametrize(
    "package",
    [GOOD.replace('return isinstance(document, dict) and "reel" in document', "raise OSError('torn')")],
    indirect=True,
)
def test_one_that_cannot_tell_is_passed_over(package: None) -> None:
    (remark,) = import_recording(CHROME, "flow.json").remarks
    assert str(remark) == "the importer 'reel' cannot tell whether it is its own: OSError: torn"


@pytest.mark.parametrize(
    "package",
    [
        GOOD.replace("steps = [", "steps = 1 / 0 or ["),
        GOOD.replace("return Imported(", "return dict(x=0) or ("),
        GOOD.replace("return Imported(", "raise ValueError('many\\nlines'); return ("),
    ],
    indirect=True,
)
def test_one_that_fails_at_its_own_recording_is_named_in_one_line(package: None) -> None:
    with pytest.raises(BadInput, match=r"^my\.reel: the importer 'reel' ") as refused:
        import_recording('{"reel": ["https://a.test/1"]}', "my.reel")
    assert "\n" not in str(refused.value)
