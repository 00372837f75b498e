"""The reference pages say what the code says: failure kinds, policy fields, JSON keys, and the author's API."""

import re
from typing import Any

import msgspec
import pytest

import swath
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import RULES, FailureKind, KindRule, ProxyEffect
from swath.domain.item import ItemRecord
from swath.domain.job import Counts, Job, JobStatus, SiteOutlook
from swath.domain.manifest import JobMetadata, manifest_entry
from swath.domain.site_policy import SitePolicy
from swath.domain.transitions import ItemState, JobState
from swath.fetch.http.blocks.classify import classify
from swath.fetch.http.messages import Response
from swath.fetch.sites.policies import SiteDirectory
from swath.pipeline.formats.artifacts import StoredPage
from swath.pipeline.results.verify.report import ProblemCode, VerifyReport
from swath.pipeline.worker.site_outlook import with_site_outlook
from swath.ports.site_state import SiteShareRequest
from tests.docs.pages import ROOT, code_in, rows_of, section_of
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState

pytestmark = pytest.mark.req("G1")

REFERENCE = ROOT / "docs/reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


# -- failure kinds -----------------------------------------------------------------------------------------------------


def kind_row(kind: FailureKind, rule: KindRule) -> str:
    retry = "no"
    if rule.retryable:
        delay = f", after {rule.min_delay_seconds:g} s" if rule.min_delay_seconds else ""
        retry = f"yes{', own budget' if rule.own_budget else ''}{delay}"
    circuits = " | ".join("yes" if counts else "no" for counts in (rule.job_circuit, rule.site_circuit))
    proxy = "" if rule.proxy is ProxyEffect.NONE else rule.proxy.value.replace("_", " ")
    return f"| `{kind}` | {rule.trigger} | {retry} | {rule.culprit} | {circuits} | {proxy} |"


@pytest.mark.req("H2")
def test_the_table_of_failure_kinds_is_the_one_in_the_code() -> None:
    table = "\n".join(kind_row(kind, rule) for kind, rule in RULES.items())
    assert table in page("failure-kinds.md"), f"the table should be:\n{table}"


def test_every_kind_is_raised_by_something() -> None:
    raised: set[str] = set()
    for file in (ROOT / "src/swath").rglob("*.py"):
        if file.parent.name in {"testing", "scrapers"} or "testing" in file.parts or file.name == "failure.py":
            continue
        raised |= set(re.findall(r"\b(?:FailureKind|_K)\.([A-Z_]+)\b", file.read_text(encoding="utf-8")))
    assert raised >= {kind.name for kind in FailureKind}


@pytest.mark.parametrize(
    ("statuses", "headers"),
    [
        ((429,), ()),
        ((503,), (("retry-after", "1"),)),
        ((403, 999), ()),
        ((404, 410), ()),
        ((408, 425, 500, 502, 503), ()),
        ((401,), (("www-authenticate", "Basic realm=x"),)),
        ((419, 440), ()),
        ((400, 418, 304), ()),
    ],
)
def test_status_codes_become_what_the_page_says(
    statuses: tuple[int, ...], headers: tuple[tuple[str, str], ...]
) -> None:
    rows = rows_of(section_of(page("failure-kinds.md"), "## What a status code becomes"))
    said: dict[str, str] = {}
    for answer, kind in rows:  # of several rows the first counts, as on the page
        for number in re.findall(r"\b\d{3}\b", answer):
            said.setdefault(number, code_in(kind)[0])
    for status in statuses:
        failure = classify(Response(url="http://a/", status=status, headers=headers), SitePolicy(), now=0.0).failure
        assert failure is not None
        expected = "server_error" if status in {500, 502, 503} and not headers else said.get(str(status), "http_error")
        assert failure.kind == expected


# -- policy ------------------------------------------------------------------------------------------------------------


def schema_of(section: str) -> dict[str, Any]:
    schema = ExecutionPolicy.model_json_schema()
    if section == "keep":
        return {"keep": {"enum": schema["$defs"]["Keep"]["enum"], "default": "both"}}
    if "$ref" not in schema["properties"][section]:  # a plain value, which has a section of its own
        return {section: schema["properties"][section]}
    name = schema["properties"][section]["$ref"].rpartition("/")[2]
    fields: dict[str, Any] = schema["$defs"][name]["properties"]
    return {key: value | _referred(schema, value) for key, value in fields.items()}


def _referred(schema: dict[str, Any], field: dict[str, Any]) -> dict[str, Any]:
    target = schema["$defs"].get(field.get("$ref", "").rpartition("/")[2], {})
    return {"enum": target["enum"]} if "enum" in target else {}


def _spoken(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if isinstance(value, str) else f"{value:g}"


def spoken_range(field: dict[str, Any]) -> str | None:
    """As the page writes it; None where words are needed."""
    if "enum" in field:
        return ", ".join(f"`{word}`" for word in field["enum"])
    if field.get("type") == "boolean":
        return "`true`, `false`"
    number: dict[str, Any] = next(
        (one for one in field.get("anyOf", [field]) if one.get("type") in {"integer", "number"}), {}
    )
    if "minimum" in number:
        return f"{number['minimum']:g} to {number['maximum']}".replace(".0", "")
    if "exclusiveMinimum" in number:
        highest = number.get("maximum", 1)  # shares of one, checked by a validator
        return f"above {number['exclusiveMinimum']:g}, to {highest}".replace(".0", "")
    return None


@pytest.mark.req("J1")
@pytest.mark.parametrize("section", ExecutionPolicy.model_fields)
def test_every_field_of_a_policy_is_told_with_default_and_range(section: str) -> None:
    rows = {cells[0].strip("`"): cells for cells in rows_of(section_of(page("execution-policy.md"), f"## {section}"))}
    fields = schema_of(section)
    assert rows.keys() == fields.keys()
    for name, field in fields.items():
        _, default, told_range, _ = rows[name]
        value = field.get("default")
        empty = value is None or value in ({}, [], ())
        assert default == ("none" if empty else _spoken(value))
        assert spoken_range(field) in {None, told_range}, name


def test_parts_of_a_policy_that_nothing_acts_on_are_said_to_be_data_only() -> None:
    told = {cells[0].strip("`") for cells in rows_of(page("execution-policy.md")) if "**data only**" in cells[3]}
    assert told == set()
    code = "".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "src/swath").rglob("*.py") if file.name != "policy.py"
    )
    for name in told:
        assert f".{name}" not in code, f"{name} is read by something now: say what it does"


# -- shapes ------------------------------------------------------------------------------------------------------------

JOB = Job(job_id="j", scraper_id="s")
RECORD = ItemRecord(seq=1, item_id="i", input={}, state=ItemState.SUCCESS)


def fields_in(section: str) -> list[str]:
    """Names in the first column; a cell may have several."""
    return [name for cells in rows_of(section) for name in code_in(cells[0])]


@pytest.mark.req("J7")
def test_every_key_of_a_status_is_told() -> None:
    text = page("job-status.md")
    status = JobStatus(job=JOB, state=JobState.PENDING)
    assert fields_in(text.partition("## counts")[0]) == list(status.as_json())
    assert fields_in(section_of(text, "## counts")) == list(Counts.__struct_fields__)
    assert fields_in(section_of(text, "## sites")) == list(SiteOutlook.__struct_fields__)


@pytest.mark.req("J7", "D3")
async def test_the_page_says_which_sites_a_job_has() -> None:
    clock = FakeClock()
    book, directory = MemorySiteState(clock), SiteDirectory.load(None)
    for name in ("broken.example", "fine.example"):
        await book.ask(name, "worker", SiteShareRequest(rate=1.0, concurrency=1))
        breaker = directory.default.breaker
        await book.record(name, breaker, [name == "fine.example"] * breaker.failures, 0)
    found: dict[tuple[str, ...], list[str]] = {}
    for sites in ((), ("named.example",)):
        job = msgspec.structs.replace(JOB, sites=sites)
        status = await with_site_outlook(JobStatus(job=job, state=JobState.RUNNING), directory, book, clock)
        found[sites] = [site.name for site in status.sites]
    assert found == {(): ["broken.example"], ("named.example",): ["named.example"]}
    told = section_of(page("job-status.md"), "## sites")
    assert "names its sites (`sites`, `base_url`): each of them, in any state" in told
    assert "names none: each site of any job whose circuit is `open` or `half_open`" in told


@pytest.mark.req("R3")
def test_every_key_of_the_manifests_is_told() -> None:
    text = page("manifests.md")
    assert set(fields_in(section_of(text, "## Manifest entries"))) == set(manifest_entry(JOB, RECORD))
    assert set(fields_in(section_of(text, "## job_metadata.json"))) == set(JobMetadata.__struct_fields__)
    metadata = next(cells for cells in rows_of(text) if cells[0] == "`pages`")
    assert set(code_in(metadata[1])) == set(StoredPage.__struct_fields__)


@pytest.mark.req("R4")
def test_everything_that_verify_reports_is_told() -> None:
    text = page("manifests.md")
    assert set(fields_in(section_of(text, "## The report of verify"))) == {"ok", *VerifyReport.__struct_fields__}
    assert fields_in(section_of(text, "## Problems that verify finds")) == [code.value for code in ProblemCode]


# -- the author's API --------------------------------------------------------------------------------------------------


def public_members(cls: type) -> set[str]:
    names = {*vars(cls), *getattr(cls, "__struct_fields__", ()), *getattr(cls, "__annotations__", ())}
    return {name for name in names if not name.startswith("_")}


@pytest.mark.req("K1")
@pytest.mark.parametrize("name", swath.__all__)
def test_every_name_for_authors_is_told_with_its_members(name: str) -> None:
    text = page("scraper-kit.md")
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    heading = next(line for line in headings if name in line.split(", "))
    thing = getattr(swath, name)
    if isinstance(thing, type) and name not in {"Input", "Output", "FailureKind", "Failure", "Failed", "NotFound"}:
        told = set(re.findall(r"\w+", " ".join(code_in(section_of(text, f"## {heading}")))))
        assert public_members(thing) <= told


# -- words -------------------------------------------------------------------------------------------------------------

WORDS = "Job Item Attempt Lease Fence Generation Scraper Page Result Artifact Manifest Failure Site Circuit Session"


def test_the_glossary_has_every_word() -> None:
    text = (ROOT / "docs/explanation/glossary.md").read_text(encoding="utf-8")
    listed = [cells[0].strip("*") for cells in rows_of(text)]
    assert {*WORDS.split(), "Controller", "Dispatcher"} <= set(listed)
    assert len(listed) == len(set(listed))
