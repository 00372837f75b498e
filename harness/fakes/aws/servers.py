"""Starts the three servers on free loopback ports, in process groups that cannot outlive their owner."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore.exceptions import BotoCoreError, ClientError

from harness.fakes.aws.endpoints import BUCKET, CREDENTIALS, REGION, Endpoints
from harness.processes import dying_with_parent

__all__ = [
    "NotInstalled",
    "ServerProcess",
    "Servers",
    "ServersFailed",
    "dynamodb_local",
    "java",
    "running_servers",
    "server_program",
]

ROOT: Final = Path(__file__).parents[3]
_HOW: Final = "`make servers` installs the AWS services of the tests"


class NotInstalled(Exception):
    """A server is missing. The message says what to do."""


def java() -> str:
    """The program that runs DynamoDB Local."""
    found = shutil.which("java")
    if found is None:
        raise NotInstalled(f"java not found (Debian: apt-get install default-jre-headless); {_HOW}")
    return found


def dynamodb_local() -> Path:
    """The jar, beside its libraries."""
    jars = sorted((ROOT / ".servers/package/lib").glob("dynamodb_local_*/DynamoDBLocal.jar"))
    if not jars:
        raise NotInstalled(f"DynamoDB Local not found; {_HOW}")
    return jars[-1]


def server_program(name: str) -> Path:
    """A program of the servers' own Python environment."""
    program = ROOT / ".venv-servers/bin" / name
    if not program.exists():
        raise NotInstalled(f"{name} not found; {_HOW}")
    return program


_TAIL_BYTES: Final = 4_096


class ServerProcess:
    """Started at once; its output goes to a file in `folder`. Start it from the main thread: the kernel ends it with
    the thread that started it."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as log:
            self._popen = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dying_with_parent(),  # noqa: PLW1509 starts before there are threads
            )

    @property
    def pid(self) -> int:
        """Also the id of its process group."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def tail(self) -> str:
        """The last of what it wrote."""
        with contextlib.suppress(OSError):
            return self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        return ""

    def stop(self) -> None:
        """Ends it and whatever it started, at once: what it knows is thrown away anyway."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()


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
    jar = dynamodb_local()
    library = f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}"
    told = ["-jar", str(jar), "-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)]
    # It lives for minutes: to compile what it does most a second time, and better, costs more than it gains.
    machine = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ServerProcess("dynamodb-local", [java(), *machine, library, *told], folder)


def _ministack(folder: Path, port: int) -> ServerProcess:
    told = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": "127.0.0.1",  # what it calls itself in the URLs of queues
        "MINISTACK_REGION": REGION,
        "SERVICES": "sqs",
        "TMPDIR": str(folder),
    }
    return ServerProcess("ministack", [str(server_program("ministack"))], folder, told)


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
        str(server_program("weed")),
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
