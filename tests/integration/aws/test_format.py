"""Z10: processes of different versions of Swath meet on one table, and neither drops what it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.fakes.aws import Endpoints
from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.client.rows import FORMAT, SITE_FORMAT, Put, PutRequest, Row, decode_body, dynamo_key
from swath.backends.aws.dynamo.layout import job_row_key, name_key
from swath.backends.aws.dynamo.table import FORMAT_KEY, Key, Table
from swath.backends.aws.provisioning import make_table
from swath.backends.aws.sites.site_rows import SiteRow
from swath.backends.aws.sites.site_state import AwsSiteState
from swath.backends.aws.store.job_row import (
    HeldLease,
    JobRow,
    LeasePurpose,
    WaitingCounts,
    WorkerShare,
    decode_job_row,
    encode_job_row,
)
from swath.backends.aws.store.returned_items import ReturnedItem
from swath.domain.errors import NewerStore, StoreDamaged, UserError
from swath.domain.transitions import JobState
from tests.contract.suites.builders import (
    batch,
    claim_all,
    end_job,
    finished,
    listing,
    new_job,
    ready,
    run_all,
    success,
)
from tests.integration.aws.commands_shell import AwsShell
from tests.integration.aws.previous_format import Head as PreviousHead
from tests.integration.aws.previous_format import HeadWithoutVersions, PreviousProcess, make_table_of_format_1
from tests.integration.aws.previous_format import StoreDamaged as PreviousRefusal
from tests.integration.aws.stores import Line, Stores
from tests.support.clock import FakeClock

pytestmark = pytest.mark.req("Z10")

NEXT = FORMAT + 1
OLDER = f"format 1 of an older version of Swath, and this one needs format {FORMAT}"
NEWER = f"written by a newer version of Swath (format {NEXT}, this one knows {FORMAT})"


@pytest.fixture
async def former(line: Line, clients: AwsClients, aws_name: str) -> AsyncIterator[Stores]:
    """A table of format 1, for stores of today."""
    await make_table_of_format_1(clients, aws_name)
    stores = Stores(line, aws_name)
    yield stores
    await stores.close()


async def _item(clients: AwsClients, table: str, key: Key) -> Any:
    return (await clients.call("dynamodb", "get_item", TableName=table, Key=dynamo_key(key), ConsistentRead=True))[
        "Item"
    ]


async def _number(clients: AwsClients, table: str, job_id: str) -> int:
    return int((await Table(clients, table).get(name_key(job_id)))[name_key(job_id)].body)


async def _rewritten_by_newer(clients: AwsClients, table: str, key: Key) -> Any:
    """The row as a process of the next format would have written it a moment later."""
    row = (await Table(clients, table).get(key))[key]
    put = Put(key, row.body, row.version + 1, format=NEXT)
    await clients.call("dynamodb", "put_item", TableName=table, Item=PutRequest(put).item())
    return await _item(clients, table, key)


async def _upgraded_by_newer(clients: AwsClients, table: str) -> None:
    """What `swath aws init` of the next version will do to the table."""
    put = Put(FORMAT_KEY, b"", NEXT, format=NEXT)
    await clients.call("dynamodb", "put_item", TableName=table, Item=PutRequest(put).item())


# -- what the former version left --------------------------------------------------------------------------------------


async def test_a_table_of_the_former_format_is_refused_until_it_is_upgraded(
    former: Stores, clients: AwsClients, clock: FakeClock, tmp_path: Path
) -> None:
    store = former.open(tmp_path, clock)
    for ask in (store.backlog, lambda: store.status("done"), lambda: store.submit(new_job("new"))):
        with pytest.raises(UserError, match=OLDER) as refused:
            await ask()
        assert "`swath aws init`" in str(refused.value)
        assert "\n" not in str(refused.value)
    step = await make_table(clients, former.name)
    assert (step.changed, step.what) == (True, f"was there, and is upgraded from format 1 to {FORMAT}")
    assert not (await make_table(clients, former.name)).changed
    assert (await store.status("done")).state is JobState.COMPLETED


async def test_what_the_former_version_wrote_is_read_and_goes_on(
    former: Stores, line: Line, clients: AwsClients, clock: FakeClock, tmp_path: Path
) -> None:
    await make_table(clients, former.name)
    store = former.open(tmp_path, clock)
    done, again = await store.status("done"), await store.status("again")
    assert (done.versions, done.current_version, done.counts.success) == (2, 2, 3)
    assert (again.generation, again.counts.pending) == (2, 3)
    assert len((await store.item("again", "1")).earlier) == 1
    assert [webhook.webhook_id for webhook in await store.take_webhooks(5.0)] == ["again-1"]
    assert [key.name for key in await store.keys()] == ["ci"]
    states = await AwsSiteState(line.bridge, Table(line.clients, former.name), clock).states()
    assert states["county.example"].tier == "residential"
    await store.load("loading", batch(1, 3, ["c"]))
    await store.seal("loading", 2)
    assert await store.rescue("cleaner") == []  # from now on the silence of the worker that died is counted
    clock.advance(60.0)
    for rescued in await store.rescue("cleaner"):
        await store.release("cleaner", rescued.fence)
    await run_all(store)
    assert (await store.status("half")).counts.success == 250
    for _ in ("again", "half", "loading"):
        assert (await end_job(store)).state is JobState.COMPLETED
    lease = await store.claim_deletion("worker")
    assert lease is not None
    assert lease.job.job_id == "doomed"
    while await store.purge(lease, 10):
        pass
    assert [status.job.job_id for status in await store.jobs()] == ["loading", "half", "again", "done"]


# -- a process of the former version, still running --------------------------------------------------------------------


@pytest.mark.parametrize("knows", [PreviousHead, HeadWithoutVersions], ids=["last", "before that"])
async def test_a_process_of_the_former_version_drops_nothing(
    stores: Stores, clients: AwsClients, clock: FakeClock, tmp_path: Path, knows: type[PreviousHead]
) -> None:
    store = stores.open(tmp_path, clock)
    await ready(store)
    await run_all(store)
    await end_job(store)
    assert await store.add_version("job") == 2
    number = await _number(clients, stores.name, "job")
    before = await _item(clients, stores.name, job_row_key(number))
    old = PreviousProcess(clients, stores.name, knows)
    with pytest.raises(PreviousRefusal, match="cannot be read") as refused:
        await old.change(number, lambda head: setattr(head, "deleting", True))
    assert "\n" not in str(refused.value)
    assert await _item(clients, stores.name, job_row_key(number)) == before
    assert (await store.status("job")).versions == 2


async def test_without_the_number_it_would_drop_the_versions_of_a_job(former: Stores, clients: AwsClients) -> None:
    """What the number is for: a head in the former format loses two fields in a process that does not know them."""
    old = PreviousProcess(clients, former.name, HeadWithoutVersions)
    number = 1
    assert (await PreviousProcess(clients, former.name).head(number)).versions == 2
    assert await old.change(number, lambda head: setattr(head, "served", 9))
    assert (await PreviousProcess(clients, former.name).head(number)).versions == 1


async def test_a_worker_of_the_former_version_ends_when_the_table_is_upgraded(
    former: Stores, clients: AwsClients
) -> None:
    old = PreviousProcess(clients, former.name)
    assert await old.active() == [2, 3, 4, 5]
    await make_table(clients, former.name)
    with pytest.raises(PreviousRefusal, match="upgrade-swath") as refused:
        await old.active()
    assert "\n" not in str(refused.value)


async def test_what_it_has_begun_it_may_finish_until_a_newer_process_changes_the_job(
    former: Stores, clients: AwsClients, clock: FakeClock, tmp_path: Path
) -> None:
    await make_table(clients, former.name)
    old, number = PreviousProcess(clients, former.name), 3
    assert await old.change(number, lambda head: setattr(head, "cost", 1.5))
    store = former.open(tmp_path, clock)
    assert (await store.status("half")).cost == 1.5
    await store.pause("half")
    with pytest.raises(PreviousRefusal):
        await old.change(number, lambda head: setattr(head, "cost", 0.0))
    assert (await store.status("half")).cost == 1.5


async def test_both_versions_keep_to_one_rate_while_they_meet(
    former: Stores, line: Line, clients: AwsClients, clock: FakeClock
) -> None:
    """What is known of sites is still written in the former format: nothing in it is new."""
    await make_table(clients, former.name)
    book = AwsSiteState(line.bridge, Table(line.clients, former.name), clock)
    await book.remember_tier("county.example", "datacenter")
    row = await PreviousProcess(clients, former.name).body("site/county.example", "state")
    assert msgspec.msgpack.decode(row)["tier"] == "datacenter"
    assert SITE_FORMAT == 1


# -- a process of a later version --------------------------------------------------------------------------------------


async def test_a_table_of_a_later_format_is_refused_at_opening(
    stores: Stores, clients: AwsClients, clock: FakeClock, tmp_path: Path
) -> None:
    await _upgraded_by_newer(clients, stores.name)
    with pytest.raises(NewerStore) as refused:
        await stores.open(tmp_path, clock).backlog()
    assert NEWER in str(refused.value)
    with pytest.raises(NewerStore):
        await make_table(clients, stores.name)


async def test_a_row_of_a_later_format_is_refused_at_the_next_write_and_stays(
    stores: Stores, clients: AwsClients, clock: FakeClock, tmp_path: Path
) -> None:
    store = stores.open(tmp_path, clock)
    await ready(store)
    (lease,) = await claim_all(store)
    key = job_row_key(await _number(clients, stores.name, "job"))
    newer = await _rewritten_by_newer(clients, stores.name, key)
    changes: list[Callable[[], Any]] = [
        lambda: finished(store, lease, [success(1)]),
        lambda: store.pause("job"),
        lambda: store.release(lease.worker_id, lease.fence),
        lambda: store.claim("another"),
    ]
    for change in changes:
        with pytest.raises(NewerStore) as refused:
            await change()
        assert NEWER in str(refused.value)
    assert await _item(clients, stores.name, key) == newer


async def test_an_upgrade_under_a_running_process_is_noticed_at_its_next_look_for_work(
    stores: Stores, clients: AwsClients, clock: FakeClock, tmp_path: Path
) -> None:
    store = stores.open(tmp_path, clock)
    await ready(store)
    await listing(store)
    await _upgraded_by_newer(clients, stores.name)
    for look in (lambda: store.claim("worker"), lambda: store.rescue("worker"), store.backlog):
        with pytest.raises(NewerStore):
            await look()


async def test_a_row_that_is_not_ours_is_damaged_and_not_of_a_later_format(
    stores: Stores, clients: AwsClients, clock: FakeClock, tmp_path: Path
) -> None:
    store = stores.open(tmp_path, clock)
    await ready(store)
    key = job_row_key(await _number(clients, stores.name, "job"))
    item = await _item(clients, stores.name, key)
    for body in (b"new", b"\x00", b"\x01" + item["b"]["B"][1:], b"x"):
        await clients.call("dynamodb", "put_item", TableName=stores.name, Item=item | {"b": {"B": body}})
        with pytest.raises(StoreDamaged, match="cannot be read"):
            await store.status("job")


# -- fields that are not known -----------------------------------------------------------------------------------------


def _head() -> JobRow:
    lease = HeldLease(1, "worker", "host", LeasePurpose.RUN, 0)
    return JobRow(7, "job", waiting={5: WaitingCounts(1)}, shares={"worker": WorkerShare(1)}, leases=[lease])


def _fields(body: bytes) -> list[Any]:
    fields: list[Any] = msgspec.msgpack.decode(body, strict=False)
    return fields


@pytest.mark.parametrize("of", ["head", "lease", "share", "waiting"])
def test_a_head_with_a_field_more_is_refused(of: str) -> None:
    fields = _fields(encode_job_row(_head()))
    assert decode_job_row(msgspec.msgpack.encode(fields)) == _head()
    names = JobRow.__struct_fields__
    part: list[Any] = {
        "head": fields,
        "lease": fields[names.index("leases")][0],
        "share": fields[names.index("shares")]["worker"],
        "waiting": fields[names.index("waiting")][5],
    }[of]
    part.append("new")
    with pytest.raises(StoreDamaged, match="cannot be read: Expected `array` of at most length") as refused:
        decode_job_row(msgspec.msgpack.encode(fields))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("decoder", "body"),
    [
        (msgspec.msgpack.Decoder(list[ReturnedItem]), [[*_fields(msgspec.msgpack.encode(ReturnedItem(1))), "new"]]),
        (msgspec.msgpack.Decoder(SiteRow), {"zero": 1, "new": 2}),
    ],
    ids=["items that came back", "site"],
)
def test_other_rows_with_a_field_more_are_refused(decoder: Any, body: object) -> None:
    with pytest.raises(StoreDamaged, match=r"the row \(p, s\) of the table cannot be read"):
        decode_body(decoder, Row(Key("p", "s"), msgspec.msgpack.encode(body)))


# -- the commands ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def shell(tmp_path: Path, aws: Endpoints, aws_name: str) -> AsyncIterator[AwsShell]:
    shell = AwsShell(tmp_path, aws, aws_name)
    yield shell
    await shell.end_all()


@pytest.mark.timeout(240)
@pytest.mark.req("Z5", "Q3")
async def test_every_command_refuses_a_table_of_the_former_format_and_init_upgrades_it(
    shell: AwsShell, clients: AwsClients
) -> None:
    shell.done("aws", "init")
    await clients.call("dynamodb", "delete_item", TableName=shell.name, Key=dynamo_key(FORMAT_KEY))
    for words in (("worker",), ("jobs", "list"), ("serve", "--port", "0")):
        line = shell.refused(*words)
        assert OLDER in line
        assert "`swath aws init`" in line
    assert OLDER in shell.done("doctor", code=1)
    told = shell.json("aws", "status", code=1)
    assert told["table"]["format"] == 1
    assert OLDER in told["trouble"][0]
    assert f"upgraded from format 1 to {FORMAT}" in shell.done("aws", "init")
    assert shell.json("aws", "status")["table"]["format"] == FORMAT
    assert shell.json("jobs", "list") == []


@pytest.mark.timeout(240)
@pytest.mark.req("Z5", "W1")
@pytest.mark.parametrize("words", [("worker",), ("serve", "--port", "0")], ids=" ".join)
async def test_a_running_process_ends_in_one_line_when_the_table_is_upgraded(
    shell: AwsShell, clients: AwsClients, words: tuple[str, ...]
) -> None:
    shell.done("aws", "init")
    process = await shell.start(*words)
    async with asyncio.timeout(120):
        leads = {"TableName": shell.name, "Key": dynamo_key(Key("fleet", "leader"))}
        while "Item" not in await clients.call("dynamodb", "get_item", **leads):  # until it works
            await asyncio.sleep(0.1)
        await _upgraded_by_newer(clients, shell.name)
        _, errors = await process.communicate()
    told = [line for line in errors.decode().splitlines() if line.startswith("swath: ")]
    assert len(told) == 1, errors.decode()
    assert NEWER in told[0]
    assert "Traceback" not in errors.decode()
    assert process.returncode == 2
