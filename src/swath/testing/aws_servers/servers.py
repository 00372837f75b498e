"""Servers: the three of them on free loopback ports, with their data in a folder that goes away with them.

keeper.py holds one set for a whole test run; tools that measure start their own.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore.exceptions import BotoCoreError, ClientError

from swath.testing.aws_servers import installed
from swath.testing.aws_servers.endpoints import BUCKET, CREDENTIALS, REGION, Endpoints
from swath.testing.aws_servers.process import ServerProcess

__all__ = ["Servers", "ServersFailed", "running_servers"]

_START_SECONDS: Final = 60.0
_STARTS: Final = 3
_ASK_SECONDS: Final = 0.1
_SEAWEED_PORTS: Final = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port.grpc",
)
_SOCKETS: Final = Path("/tmp")  # noqa: S108 SeaweedFS knows no other place for them


class ServersFailed(Exception):
    """A server did not come up; the message has the last lines of its log."""


class Servers:
    """The processes that run, and where they listen."""

    def __init__(self, folder: Path) -> None:
        """Starts all three at once. `ready` waits for them."""
        ports = iter(_free_ports(10))
        dynamodb, sqs, s3 = next(ports), next(ports), next(ports)
        inner = dict(zip(_SEAWEED_PORTS, ports, strict=True))
        self.endpoints = Endpoints(dynamodb_url=_url(dynamodb), sqs_url=_url(sqs), s3_url=_url(s3))
        self.processes: list[ServerProcess] = []
        self._litter = [
            _SOCKETS / f"seaweedfs-{name.partition('.')[0]}-grpc-{port}.sock" for name, port in inner.items()
        ]
        try:
            self.processes.append(_dynamodb_local(folder, dynamodb))
            self.processes.append(_ministack(folder, sqs))
            self.processes.append(_seaweedfs(folder, s3, inner))
        except BaseException:
            self.stop()
            raise

    async def ready(self) -> None:
        """Returns when each has answered. Raises ServersFailed when one has ended or takes too long."""
        session = AioSession()
        session.set_credentials(*CREDENTIALS)
        asking = [
            self._answers(session, "dynamodb", self.endpoints.dynamodb_url, self.processes[0]),
            self._answers(session, "sqs", self.endpoints.sqs_url, self.processes[1]),
            self._answers(session, "s3", self.endpoints.s3_url, self.processes[2]),
        ]
        await asyncio.gather(*asking)

    def stop(self) -> None:
        """Ends all of them."""
        for process in self.processes:
            process.stop()
        for path in self._litter:
            path.unlink(missing_ok=True)

    async def _answers(self, session: AioSession, service: str, url: str, process: ServerProcess) -> None:
        config = AioConfig(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1})
        making: Any = session.create_client(service, region_name=REGION, endpoint_url=url, config=config)  # type: ignore[call-overload]  # by name
        until = asyncio.get_running_loop().time() + _START_SECONDS
        async with making as client:
            while True:
                try:
                    await _FIRST_WORDS[service](client)
                except (BotoCoreError, ClientError, OSError) as error:
                    if not process.running or asyncio.get_running_loop().time() > until:
                        told = f"{process.name} does not answer ({error}); the end of its log:\n{process.tail()}"
                        raise ServersFailed(told) from error
                    await asyncio.sleep(_ASK_SECONDS)
                else:
                    return


async def _ask_dynamodb(client: Any) -> None:
    await client.list_tables()


async def _ask_sqs(client: Any) -> None:
    await client.list_queues()


async def _ask_s3(client: Any) -> None:
    """SeaweedFS answers before it has room for a first object, so only an object shows that it is up."""
    try:
        await client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    except ClientError as error:
        if "BucketAlready" not in str(error):
            raise
    await client.put_object(Bucket=BUCKET, Key="ready", Body=b"yes")
    await client.delete_object(Bucket=BUCKET, Key="ready")


_FIRST_WORDS: Final = {"dynamodb": _ask_dynamodb, "sqs": _ask_sqs, "s3": _ask_s3}


@contextmanager
def running_servers() -> Iterator[Servers]:
    """A set of one's own, while the context lasts. Enter it on the main thread, outside of any event loop."""
    for starts in range(1, _STARTS + 1):
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="swath-aws-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            servers = Servers(folder)
            stack.callback(servers.stop)
            try:
                asyncio.run(servers.ready())
            except ServersFailed as error:
                if starts == _STARTS:
                    raise
                print(f"starting the servers again: {error}", file=sys.stderr)
                continue  # somebody else may have taken a port meanwhile
            yield servers
            return


def _dynamodb_local(folder: Path, port: int) -> ServerProcess:
    jar = installed.dynamodb_local()
    library = f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}"
    told = ["-jar", str(jar), "-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)]
    # It lives for minutes: to compile what it does most a second time, and better, costs more than it gains.
    machine = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ServerProcess("dynamodb-local", [installed.java(), *machine, library, *told], folder)


def _ministack(folder: Path, port: int) -> ServerProcess:
    told = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": "127.0.0.1",  # what it calls itself in the URLs of queues
        "MINISTACK_REGION": REGION,
        "SERVICES": "sqs",
        "TMPDIR": str(folder),
    }
    return ServerProcess("ministack", [str(installed.server_program("ministack"))], folder, told)


def _seaweedfs(folder: Path, s3: int, ports: dict[str, int]) -> ServerProcess:
    data = folder / "seaweedfs"
    data.mkdir()
    key, secret = CREDENTIALS
    identity = {
        "name": "swath",
        "credentials": [{"accessKey": key, "secretKey": secret}],
        "actions": ["Admin", "Read", "List", "Tagging", "Write"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    command = [
        str(installed.server_program("weed")),
        "server",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={data}",
        f"-filer.localSocket={folder / 'filer.sock'}",
        f"-s3.localSocket={folder / 's3.sock'}",
        "-s3",
        f"-s3.port={s3}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={folder / 's3.json'}",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=256",
        "-volume.max=50",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]
    return ServerProcess("seaweedfs", command, folder)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listened on a moment ago; held together, so that they differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"
