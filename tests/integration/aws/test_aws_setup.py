"""Q3: what Swath needs of AWS is made, shown and removed by command, and what is wrong is said in one line."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.fakes.aws import Endpoints
from swath.backends.aws.client.client import Answer, AwsClients, Send
from swath.backends.aws.provisioning import QueueNames, keep_backups, make_table
from swath.backends.aws.s3.bucket import Bucket, drop_results
from tests.acceptance.conftest import SWATH
from tests.integration.aws.commands_shell import AwsShell

pytestmark = [
    pytest.mark.req("Q3"),
    pytest.mark.timeout(240),  # each starts many processes, on a machine that may be busy with others
]


@pytest.fixture
async def shell(tmp_path: Path, aws: Endpoints, aws_name: str) -> AsyncIterator[AwsShell]:
    shell = AwsShell(tmp_path, aws, aws_name)
    yield shell
    await shell.end_all()  # what is left on the servers goes with them


def _states(answer: Any) -> dict[tuple[str, str], bool]:
    return {(step["kind"], step["name"]): step["changed"] for step in answer["steps"]}


async def _keys(clients: AwsClients, shell: AwsShell) -> list[str]:
    found = await clients.call("s3", "list_objects_v2", Bucket="swath-test", Prefix=f"{shell.name}/")
    return [one["Key"] for one in found.get("Contents", ())]


def _run_small_job(shell: AwsShell) -> None:
    shell.write("items.csv", "n\n1\n2\n3\n")
    shell.done("run", "example-mock", "--items", "items.csv", "--job-id", "small", "--quiet")


async def test_init_makes_what_is_missing_and_leaves_alone_what_is_there(
    shell: AwsShell, clients: AwsClients, aws: Endpoints
) -> None:
    names = QueueNames.of(shell.name)
    queues = [("queue", name) for name in (names.main, names.express, names.dead)]
    results = ("results", f"s3://{aws.bucket}/{shell.name}")
    first = shell.json("aws", "init")
    assert _states(first) == {("table", shell.name): True, **dict.fromkeys(queues, True), results: False}
    table = (await clients.call("dynamodb", "describe_table", TableName=shell.name))["Table"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert await _keys(clients, shell) == []
    assert not any(_states(shell.json("aws", "init")).values())
    url = (await clients.call("sqs", "get_queue_url", QueueName=names.main))["QueueUrl"]
    set_wrong = {"VisibilityTimeout": "1"}
    await clients.call("sqs", "set_queue_attributes", QueueUrl=url, Attributes=set_wrong)
    await clients.call("sqs", "delete_queue", QueueUrl=url.replace(names.main, names.express))
    mended = _states(shell.json("aws", "init"))
    assert [key for key, changed in mended.items() if changed] == [("queue", names.main), ("queue", names.express)]
    found = await clients.call("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["All"])
    assert found["Attributes"]["VisibilityTimeout"] == "6"  # the length of a lease
    assert names.dead in found["Attributes"]["RedrivePolicy"]


async def test_a_table_can_be_kept_recoverable(aws: Endpoints, aws_name: str) -> None:
    asked: list[dict[str, Any]] = []

    async def answer(service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        if operation != "update_continuous_backups":  # which DynamoDB Local does not know
            return await send()
        asked.append(params)
        return {}

    clients = AwsClients(intercept=answer)
    await make_table(clients, aws_name)
    step = await keep_backups(clients, aws_name)
    await clients.close()
    assert (step.name, step.what) == (aws_name, "has point-in-time recovery")
    switch = {"PointInTimeRecoveryEnabled": True}
    assert asked == [{"TableName": aws_name, "PointInTimeRecoverySpecification": switch}]


def test_what_was_made_is_told_when_the_rest_could_not_be(shell: AwsShell) -> None:
    ran = shell.swath("aws", "init", "--recovery")
    assert ran.returncode == 1
    assert f"table    {shell.name}" in ran.stdout
    assert "update_continuous_backups" in ran.stderr
    shell.done("aws", "init")


async def test_two_may_set_it_up_at_once(shell: AwsShell) -> None:
    answers = await asyncio.gather(*(shell.run("aws", "init") for _ in range(3)))
    assert [code for code, _, _ in answers] == [0, 0, 0], answers


async def test_a_table_of_somebody_else_is_left_alone(shell: AwsShell, clients: AwsClients) -> None:
    await clients.call(
        "dynamodb",
        "create_table",
        TableName=shell.name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    for words in (("aws", "init"), ("jobs", "list"), ("aws", "destroy", "--yes", shell.name, "--results")):
        assert "somebody else's" in shell.refused(*words)
    assert shell.json("aws", "status", code=1)["table"]["state"] == "foreign"
    await clients.call("dynamodb", "describe_table", TableName=shell.name)


async def test_unfinished_uploads_go_with_the_results(shell: AwsShell, clients: AwsClients, aws: Endpoints) -> None:
    place = Bucket(aws.bucket, shell.name)
    await clients.call("s3", "create_multipart_upload", Bucket=place.name, Key=place.key("half"))
    assert "1 unfinished" in (await drop_results(clients, place)).what
    assert (await drop_results(clients, place)).what == "nothing was there"


async def test_a_bucket_is_made_only_when_asked_for(shell: AwsShell, clients: AwsClients) -> None:
    bucket = shell.name.lower()
    shell.environment["SWATH_RESULTS"] = f"s3://{bucket}/results"
    line = shell.refused("aws", "init")
    assert bucket in line
    assert "--create-bucket" in line
    made = shell.json("aws", "init", "--create-bucket")
    assert _states(made)["bucket", bucket]
    assert not any(_states(shell.json("aws", "init", "--create-bucket")).values())
    await clients.call("s3", "delete_bucket", Bucket=bucket)


async def test_destroy_wants_the_name_and_keeps_results_unless_told(shell: AwsShell, clients: AwsClients) -> None:
    shell.done("aws", "init")
    _run_small_job(shell)
    assert f"--yes {shell.name}" in shell.refused("aws", "destroy")
    assert "nothing was removed" in shell.refused("aws", "destroy", "--yes", "another")
    assert shell.json("jobs", "list")[0]["status"] == "completed"
    shell.done("aws", "destroy", "--yes", shell.name)
    assert await _keys(clients, shell) != []
    assert "swath aws init" in shell.refused("jobs", "list")
    assert shell.json("aws", "status", code=1)["table"]["state"] == "missing"
    shell.done("aws", "destroy", "--yes", shell.name, "--results")  # what is gone already is no trouble
    assert await _keys(clients, shell) == []


def test_destroy_asks_a_person_to_type_the_name(shell: AwsShell) -> None:
    shell.done("aws", "init")
    assert "nothing was removed" in _typed(shell, "no")
    assert shell.json("aws", "status")["ok"]
    assert "is gone" in _typed(shell, shell.name)
    assert shell.json("aws", "status", code=1)["table"]["state"] == "missing"


def _typed(shell: AwsShell, answer: str) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(SWATH), "aws", "destroy"],
        cwd=shell.folder,
        env=shell.environment,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        os.write(ours, f"{answer}\n".encode())
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0, out
    return out


@pytest.mark.req("W5")
async def test_status_tells_what_waits_and_how_much_that_is_for_each_worker(shell: AwsShell) -> None:
    shell.done("aws", "init")
    empty = shell.json("aws", "status")
    assert (empty["ok"], empty["backlog"]) == (True, {"items": 0, "per_worker": None, "jobs": []})
    shell.write("items.csv", "n\n" + "".join(f"{n}\n" for n in range(50)))
    shell.done("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "waits", "--quiet")
    standing = shell.json("aws", "status")
    assert standing["table"]["state"] == "ACTIVE"
    assert [queue["state"] for queue in standing["queues"]] == ["there"] * 3
    assert standing["queues"][0]["waiting"] > 0  # the job was announced
    (job,) = standing["backlog"]["jobs"]
    assert (job["job_id"], job["pending"], job["workers"], standing["backlog"]["items"]) == ("waits", 50, 0, 50)
    assert standing["results"]["state"] == "can be written"
    assert "50 items, no worker at them" in shell.done("aws", "status")


async def test_status_raises_the_alarm_for_dead_letters_and_missing_queues(
    shell: AwsShell, clients: AwsClients
) -> None:
    shell.done("aws", "init")
    names = QueueNames.of(shell.name)
    dead = (await clients.call("sqs", "get_queue_url", QueueName=names.dead))["QueueUrl"]
    await clients.call("sqs", "send_message", QueueUrl=dead, MessageBody="{}")
    told = shell.json("aws", "status", code=1)
    assert (told["ok"], told["queues"][2]["waiting"]) == (False, 1)
    assert names.dead in told["trouble"][0]
    await clients.call("sqs", "delete_queue", QueueUrl=dead)
    assert "is missing" in shell.json("aws", "status", code=1)["trouble"][0]
    assert "there is no queue" in shell.done("doctor", code=1)


@pytest.mark.req("O4")
def test_the_doctor_looks_at_what_is_on_aws(shell: AwsShell) -> None:
    assert "make it: `swath aws init`" in shell.done("doctor", code=1)
    shell.done("aws", "init")
    well = shell.done("doctor")
    assert f"DynamoDB table '{shell.name}' is active" in well
    assert "no dead letters" in well
    assert f"s3://swath-test/{shell.name} can be written" in well
    del shell.environment["SWATH_RESULTS"]
    assert "all machines must share it" in shell.done("doctor")


@pytest.mark.req("Z5", "Z9")
@pytest.mark.parametrize(
    ("variables", "code", "expected"),
    [
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, 2, "no AWS credentials"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": ""}, 2, "region"),
        ({"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:9"}, 1, "DynamoDB"),
        ({"SWATH_STORE": "dynamodb://not-there"}, 2, "there is no table 'not-there'"),
    ],
    ids=["no credentials", "no region", "nobody answers", "no table"],
)
def test_what_is_wrong_is_said_in_one_line(
    shell: AwsShell, variables: dict[str, str], code: int, expected: str
) -> None:
    shell.environment |= variables
    for name in [name for name, value in shell.environment.items() if not value]:
        del shell.environment[name]
    assert expected in shell.refused("jobs", "status", "one", code=code)


@pytest.mark.req("Z5", "W1")
@pytest.mark.parametrize("words", [("worker",), ("worker", "--processes", "2")], ids=" ".join)
def test_a_worker_without_its_table_says_so_and_ends(shell: AwsShell, words: tuple[str, ...]) -> None:
    assert "`swath aws init` makes it" in shell.refused(*words)


@pytest.mark.req("Z5", "W1")
def test_nobody_works_without_the_bucket(shell: AwsShell) -> None:
    shell.done("aws", "init")
    shell.environment["SWATH_RESULTS"] = f"s3://{shell.name.lower()}/nowhere"
    shell.write("items.csv", "n\n1\n")
    for words in (("worker", "--processes", "2"), ("run", "example-mock", "--items", "items.csv", "--quiet")):
        assert "--create-bucket" in shell.refused(*words)


@pytest.mark.req("Z5", "Z7")
def test_wrong_keys_are_told_and_no_key_ever_is(shell: AwsShell, aws: Endpoints) -> None:
    shell.environment |= {
        "SWATH_LOG_LEVEL": "debug",
        "AWS_SECRET_ACCESS_KEY": "wrong-but-secret",
        "AWS_SESSION_TOKEN": "a-token-of-hours",
    }
    del shell.environment["SWATH_STORE"]
    ran = shell.swath("aws", "init")  # of these servers only S3 looks at signatures
    assert ran.returncode == 2
    assert "these credentials may not use the bucket" in ran.stderr
    shown = ran.stderr
    shell.environment["SWATH_STORE"] = f"dynamodb://{shell.name}"
    for words in (("config", "show"), ("doctor",), ("jobs", "list")):
        told = shell.swath(*words)
        shown += told.stdout + told.stderr
    assert "DEBUG" in shown
    assert not any(secret in shown for secret in ("wrong-but-secret", "a-token-of-hours", aws.secret_key))


@pytest.mark.req("Q4")
def test_results_may_be_on_s3_with_the_store_in_a_folder(shell: AwsShell) -> None:
    del shell.environment["SWATH_STORE"]
    assert _states(shell.json("aws", "init")) == {("results", f"s3://swath-test/{shell.name}"): False}
    _run_small_job(shell)
    assert "3 items" in shell.done("jobs", "verify", "small")
    assert (shell.folder / "data" / "swath.db").exists()
    assert not (shell.folder / "data" / "results").exists()
    place = f"s3://swath-test/{shell.name}"
    assert "with --results alone" in shell.refused("aws", "destroy", "--yes", place)
    shell.done("aws", "destroy", "--yes", place, "--results")
    assert shell.done("jobs", "verify", "small", code=8)


@pytest.mark.req("Q4")
def test_results_may_be_in_a_folder_with_the_store_on_aws(shell: AwsShell) -> None:
    del shell.environment["SWATH_RESULTS"]
    shell.done("aws", "init")
    shell.write("items.csv", "n\n1\n")
    ran = shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "small", "--quiet")
    assert ran.returncode == 0, ran.stderr
    assert "all machines must share it" in ran.stderr
    assert (shell.folder / "data" / "results" / "small" / "job_metadata.json").is_file()
