"""Q3: what is taken away is Swath's, is told as soon as it is gone, and what AWS does not let go ends in one line.

No servers: the answers of AWS are written down here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from swath.backends.aws.client.client import Answer, AwsClients, Send
from swath.backends.aws.provisioning import QueueNames, drop_queue, drop_table, find_table, make_table, read_table_state
from swath.backends.aws.s3.bucket import Bucket, drop_results
from swath.backends.aws.s3.credentials import CredentialChain
from swath.domain.errors import Conflict, SwathError, UserError
from swath.entrypoints.cli import aws_resources
from swath.entrypoints.cli import aws_resources as command
from swath.entrypoints.cli.aws_resources import AwsResources
from swath.entrypoints.cli.doctor import services as doctor
from swath.entrypoints.cli.doctor.check_result import CheckContext, CheckLevel
from swath.settings import Settings, load_settings
from tests.support.clock import FakeClock

pytestmark = pytest.mark.req("Q3", "Z5")

FOREIGN = {"TableStatus": "ACTIVE", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}
SENTENCE = "the table 'billing' is somebody else's: its keys are id; name another one"
Reply = Callable[[dict[str, Any]], Answer]


def refusing(code: str) -> Reply:
    def reply(_: dict[str, Any]) -> Answer:
        said: Any = {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        raise ClientError(said, "any")

    return reply


class Scripted:
    """AWS as far as it is written down; what was asked is kept in `asked`."""

    def __init__(self, **replies: Reply | Answer) -> None:
        self.replies = replies
        self.asked: list[str] = []
        self.clients = AwsClients("eu-west-1", patience_seconds=0.5, intercept=self._answer)

    async def _answer(self, service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        self.asked.append(operation)
        reply = self.replies[operation]
        return reply(params) if callable(reply) else reply


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.delenv("AWS_PROFILE", raising=False)


@pytest.fixture
def settings() -> Settings:
    return load_settings({"SWATH_STORE": "dynamodb://billing", "SWATH_RESULTS": "s3://bucket/jobs"})


@pytest.fixture
def led(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scripted], None]:
    """Leads the commands to an AWS that is written down."""

    def lead(aws: Scripted) -> None:
        @asynccontextmanager
        async def reach(*_: object) -> AsyncIterator[AwsResources]:
            yield AwsResources(
                table="billing",
                queues=QueueNames.of("billing"),
                bucket=Bucket("bucket", "jobs"),
                bucket_region=None,
                of_table=aws.clients,
                of_queues=aws.clients,
                of_bucket=aws.clients,
            )
            await aws.clients.close()

        monkeypatch.setattr(command, "open_resources", reach)  # the doctor imports it when it looks

    return lead


async def test_a_table_with_other_keys_is_neither_used_nor_removed() -> None:
    aws = Scripted(describe_table={"Table": FOREIGN})
    for ask in (find_table, make_table, drop_table):
        with pytest.raises(Conflict) as raised:
            await ask(aws.clients, "billing")
        assert str(raised.value) == SENTENCE
    found = await read_table_state(aws.clients, "billing")
    assert (found.state, found.usable, found.why) == ("foreign", False, SENTENCE)
    assert set(aws.asked) == {"describe_table"}


async def test_destroy_removes_nothing_when_the_table_is_somebody_elses(
    settings: Settings, led: Callable[[Scripted], None]
) -> None:
    aws = Scripted(describe_table={"Table": FOREIGN})
    led(aws)
    with pytest.raises(Conflict, match="somebody else's"):
        await command.destroy_resources(settings, "billing", results=True, as_json=False)
    assert aws.asked == ["describe_table"]


async def test_status_raises_the_alarm_for_a_table_of_somebody_else(
    settings: Settings, led: Callable[[Scripted], None], capsys: pytest.CaptureFixture[str]
) -> None:
    aws = Scripted(
        describe_table={"Table": FOREIGN},
        get_queue_url={"QueueUrl": "u"},
        get_queue_attributes={"Attributes": {}},
        head_bucket={},
        put_object={},
        delete_object={},
    )
    led(aws)
    assert await aws_resources.show_status(settings, as_json=False) != 0
    assert f"trouble: {SENTENCE}" in capsys.readouterr().err


def test_the_doctor_fails_a_table_of_somebody_else(settings: Settings, led: Callable[[Scripted], None]) -> None:
    led(Scripted(describe_table={"Table": FOREIGN}))
    finding = doctor.check_table(CheckContext(settings=settings, reading=None, trouble="", clock=FakeClock()))
    assert (finding.level, finding.message) == (CheckLevel.FAIL, SENTENCE)


async def test_what_was_not_there_is_told_so() -> None:
    aws = Scripted(
        describe_table=refusing("ResourceNotFoundException"),
        get_queue_url=refusing("QueueDoesNotExist"),
        list_multipart_uploads={},
        list_objects_v2={},
    )
    steps = [
        await drop_table(aws.clients, "jobs"),
        await drop_queue(aws.clients, "jobs"),
        await drop_results(aws.clients, Bucket("bucket", "jobs")),
    ]
    assert [(step.what, step.changed) for step in steps] == [
        ("was not there", False),
        ("was not there", False),
        ("nothing was there", False),
    ]


async def test_each_step_of_destroy_is_told_before_the_next_is_tried(
    settings: Settings, led: Callable[[Scripted], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def delete(params: dict[str, Any]) -> Answer:
        return refusing("AccessDenied")(params) if "dead" in params["QueueUrl"] else {}

    aws = Scripted(
        describe_table=refusing("ResourceNotFoundException"),
        get_queue_url=lambda params: {"QueueUrl": f"http://there/{params['QueueName']}"},
        delete_queue=delete,
    )
    led(aws)
    with pytest.raises(UserError, match="AccessDenied"):
        await command.destroy_resources(settings, "billing", results=False, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["what", "name", "state"],
        ["queue", "billing", "is", "gone"],
        ["queue", "billing-express", "is", "gone"],
    ]
    assert len({line.index(word) for line, word in zip(lines, ("state", "is", "is"), strict=True)}) == 1


async def test_init_that_fails_at_once_prints_no_table(
    settings: Settings, led: Callable[[Scripted], None], capsys: pytest.CaptureFixture[str]
) -> None:
    led(Scripted(describe_table={"Table": FOREIGN}))
    with pytest.raises(Conflict):
        await command.create_resources(settings, recovery=False, create_bucket=False, as_json=False)
    assert capsys.readouterr().out == ""


class Shelf:
    """Objects of a bucket in pages of two, some of which are not let go."""

    def __init__(self, keys: list[str], kept: set[str]) -> None:
        self.keys = keys
        self.kept = kept
        self.aborted: list[str] = []
        self.aws = Scripted(
            list_objects_v2=self._list,
            delete_objects=self._delete,
            list_multipart_uploads=self._uploads,
            abort_multipart_upload=self._abort,
        )

    def _list(self, params: dict[str, Any]) -> Answer:
        assert params["Prefix"] == "jobs/"
        assert len(self.aws.asked) < 50, "it never ends"
        left = [key for key in self.keys if key > params.get("ContinuationToken", "")]
        page = {"Contents": [{"Key": key} for key in left[:2]], "IsTruncated": len(left) > 2}
        return page | ({"NextContinuationToken": left[1]} if len(left) > 2 else {})

    def _delete(self, params: dict[str, Any]) -> Answer:
        asked = [one["Key"] for one in params["Delete"]["Objects"]]
        self.keys = [key for key in self.keys if key not in asked or key in self.kept]
        return {"Errors": [{"Key": key, "Code": "AccessDenied"} for key in asked if key in self.kept]}

    def _uploads(self, params: dict[str, Any]) -> Answer:
        if "KeyMarker" in params:
            assert (params["KeyMarker"], params["UploadIdMarker"]) == ("jobs/u", "1")
            return {"Uploads": [{"Key": "jobs/u", "UploadId": "2"}, {"Key": "jobs/u", "UploadId": "ended"}]}
        first = {"Key": "jobs/u", "UploadId": "1"}
        return {"Uploads": [first], "IsTruncated": True, "NextKeyMarker": "jobs/u", "NextUploadIdMarker": "1"}

    def _abort(self, params: dict[str, Any]) -> Answer:
        if params["UploadId"] == "ended":
            return refusing("NoSuchUpload")(params)
        self.aborted.append(params["UploadId"])
        return {}


async def test_objects_that_are_not_let_go_are_told_and_not_counted() -> None:
    shelf = Shelf([f"jobs/{n}" for n in range(7)], kept={"jobs/1", "jobs/6"})
    with pytest.raises(UserError) as raised:
        await drop_results(shelf.aws.clients, Bucket("bucket", "jobs"))
    told = "S3 does not let s3://bucket/jobs be removed: AccessDenied: jobs/1; 5 objects are gone"
    assert str(raised.value) == told
    assert shelf.keys == ["jobs/1", "jobs/6"]


async def test_a_bucket_that_lets_nothing_go_is_not_read_to_its_end() -> None:
    keys = [f"jobs/{n}" for n in range(9)]
    shelf = Shelf(keys, kept=set(keys))
    with pytest.raises(UserError, match="0 objects are gone"):
        await drop_results(shelf.aws.clients, Bucket("bucket", "jobs"))
    assert shelf.aws.asked.count("delete_objects") == 1


async def test_unfinished_uploads_go_with_the_objects() -> None:
    shelf = Shelf(["jobs/0", "jobs/1", "jobs/2"], kept=set())
    step = await drop_results(shelf.aws.clients, Bucket("bucket", "jobs"))
    assert step.what == "3 objects are gone, and 2 unfinished uploads"
    assert (shelf.keys, shelf.aborted) == ([], ["1", "2"])


@pytest.mark.parametrize("url", ["foo", "localhost:8000", "http://[::1", "http://there:99999"])
async def test_an_endpoint_that_is_no_url_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    clients = AwsClients("eu-west-1", patience_seconds=0.5)
    with pytest.raises(SwathError, match="correct AWS_ENDPOINT_URL_DYNAMODB or") as raised:
        await clients.call("dynamodb", "list_tables")
    assert type(raised.value) is UserError
    await clients.close()
    with pytest.raises(UserError, match="correct AWS_ENDPOINT_URL_S3 or"):
        CredentialChain(FakeClock(), "eu-west-1").endpoint()
