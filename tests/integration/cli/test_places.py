"""Q4: store, queue and results are chosen by URL; what makes no sense is said in one line that holds no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.settings import (
    DynamoLocation,
    FolderLocation,
    S3Location,
    SqliteLocation,
    SqsLocation,
    StorageLocations,
    load,
    load_settings,
)

pytestmark = pytest.mark.req("Q4")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _places(**variables: str) -> StorageLocations:
    return load_settings({f"SWATH_{name.upper()}": value for name, value in variables.items()}).places


def test_without_urls_everything_is_in_the_data_folder_and_nobody_needs_a_queue() -> None:
    places = _places(data="/srv/jobs")
    assert places == StorageLocations(
        store=SqliteLocation(Path("/srv/jobs")), queue=None, results=FolderLocation(Path("/srv/jobs/results"))
    )
    assert not places.uses_aws
    assert places.doubt is None


def test_urls_win_over_the_data_folder() -> None:
    places = _places(data="/srv/jobs", store="sqlite:///var/store", results="file:///mnt/all%20of%20it")
    assert places.store == SqliteLocation(Path("/var/store"))
    assert places.results == FolderLocation(Path("/mnt/all of it"))
    assert not places.uses_aws


def test_the_file_of_the_store_names_its_folder() -> None:
    assert _places(store="sqlite:////var/store/swath.db").store == SqliteLocation(Path("/var/store"))


def test_a_table_names_its_queues_unless_others_are_named() -> None:
    assert _places(store="dynamodb://jobs.2026?region=eu-west-1").queue == SqsLocation("jobs-2026", "eu-west-1")
    places = _places(store="dynamodb://jobs", queue="sqs://hints?region=us-east-2", results="s3://bucket/a/b/")
    assert places.store == DynamoLocation("jobs")
    assert places.queue == SqsLocation("hints", "us-east-2")
    assert places.results == S3Location("bucket", "a/b")
    assert places.uses_aws
    assert places.doubt is None


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///srv/swath",
        "dynamodb://jobs?region=eu-central-1",
        "sqs://hints",
        "file:///srv/results",
        "s3://bucket/prefix?region=us-gov-west-1",
        "s3://bucket",
    ],
)
def test_a_place_is_written_as_it_was_given(url: str) -> None:
    scheme = url.partition(":")[0]
    variable = {"sqs": "queue", "file": "results", "s3": "results"}.get(scheme, "store")
    others = {"store": "dynamodb://jobs"} if scheme == "sqs" else {}
    assert str(getattr(_places(**{variable: url, **others}), variable)) == url


def test_results_in_a_folder_with_a_store_on_aws_are_allowed_and_doubted() -> None:
    places = _places(store="dynamodb://jobs")
    assert places.results == FolderLocation(Path("swath-data/results"))
    assert places.doubt is not None
    assert "SWATH_RESULTS=s3://" in places.doubt
    assert _places(results="s3://bucket/prefix").doubt is None


def test_leases_on_aws_are_longer_unless_somebody_said_how_long() -> None:
    on_aws = load_settings({"SWATH_STORE": "dynamodb://jobs"})
    assert (on_aws.lease_seconds, on_aws.heartbeat_seconds) == (30, 10)
    said = load_settings({"SWATH_STORE": "dynamodb://jobs", "SWATH_LEASE_SECONDS": "6"})
    assert (said.lease_seconds, said.heartbeat_seconds) == (6, 2)
    embedded = load_settings({"SWATH_STORE": "sqlite:///srv/swath"})
    assert (embedded.lease_seconds, embedded.heartbeat_seconds) == (15, 5)


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"store": "mysql://host/db"}, ["SWATH_STORE", "sqlite:// or dynamodb://"]),
        ({"store": "jobs"}, ["SWATH_STORE", "dynamodb://"]),
        ({"store": "sqlite://relative/path"}, ["sqlite:///srv/swath"]),
        ({"store": "sqlite:///"}, ["whole path"]),
        ({"store": "sqlite:///srv/other.db"}, ["swath.db"]),
        ({"store": "sqlite:///srv/swath?mode=ro"}, ["no options"]),
        ({"store": "dynamodb://ab"}, ["3 to 255"]),
        ({"store": "dynamodb://"}, ["dynamodb://TABLE"]),
        ({"store": "dynamodb://jobs/more"}, ["dynamodb://TABLE"]),
        ({"store": "dynamodb://jobs?zone=a"}, ["?region="]),
        ({"store": "dynamodb://jobs?region=Mars"}, ["?region="]),
        ({"store": "dynamodb://jobs?region"}, ["SWATH_STORE"]),
        ({"store": "dynamodb://[jobs"}, ["SWATH_STORE", "no URL"]),
        ({"store": f"dynamodb://{'t' * 100}"}, ["too long", "SWATH_QUEUE=sqs://"]),
        ({"queue": "sqs://hints"}, ["SWATH_QUEUE", "SWATH_STORE=dynamodb://"]),
        ({"store": "sqlite:///srv/swath", "queue": "sqs://hints"}, ["DynamoDB store only"]),
        ({"store": "dynamodb://jobs", "queue": "sqs://a.b"}, ["sqs://NAME"]),
        ({"store": "dynamodb://jobs", "queue": "https://sqs/q"}, ["must begin with sqs://"]),
        ({"results": "s3://Bucket/x"}, ["small letters"]),
        ({"results": "s3://bucket/a//b"}, ["single slashes"]),
        ({"results": "s3://bucket/../b"}, ["prefix"]),
        ({"results": "file://host/share"}, ["three slashes"]),
        ({"results": "ftp://host/x"}, ["file:// or s3://"]),
        ({"results": "s3://bucket/ä#?x"}, ["cannot be used", "'#'", "leave it out"]),
        ({"results": "s3://bucket/a?x"}, ["cannot be used", "?region=NAME alone"]),
        ({"results": "s3://bucket/a?&"}, ["?region=NAME alone"]),
        ({"results": "file:///srv/a#b"}, ["'#'", "%23"]),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(variables: dict[str, str], expected: list[str]) -> None:
    with pytest.raises(BadInput) as refused:
        _places(**variables)
    told = str(refused.value)
    assert all(part in told for part in expected), told
    assert "\n" not in told


@pytest.mark.req("Z7")
@pytest.mark.parametrize(
    ("variable", "url"),
    [
        ("store", "dynamodb://AKIAKEY:se/cret@jobs"),
        ("queue", "sqs://AKIAKEY:secret@hints"),
        ("results", "s3://AKIAKEY:se/cret@bucket/prefix"),
        ("results", "https://AKIAKEY:secret@bucket"),
    ],
)
def test_credentials_in_a_url_are_refused_and_not_told(variable: str, url: str) -> None:
    with pytest.raises(BadInput, match="credentials") as refused:
        _places(**{variable: url})
    assert "AKIA" not in str(refused.value)
    assert "cret" not in str(refused.value)


def test_the_settings_file_names_places_too(here: Path) -> None:
    (here / "swath.toml").write_text('store = "dynamodb://jobs"\nresults = "s3://bucket/prefix"\n')
    reading = load({"SWATH_STORE": "dynamodb://others"})
    assert reading.settings.places.store == DynamoLocation("others")
    assert reading.settings.places.results == S3Location("bucket", "prefix")
    assert (reading.origins["store"].source, reading.origins["results"].source) == ("environment", "file")
