"""A real `swath serve` in a process of its own, as its callers see it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, BinaryIO, Final

from harness.fleet.measured_job import peak_bytes
from harness.processes import dying_with_parent

__all__ = ["MODULE", "Served", "environment_of", "serving"]

MODULE: Final = "swath.entrypoints.cli.main"
START_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 600.0
LEAVE_SECONDS: Final = 60.0
SEND_BYTES: Final = 256 << 10


@dataclass(frozen=True, kw_only=True)
class Served:
    """A controller that listens on this machine. `log` is what it says."""

    process: subprocess.Popen[bytes]
    host: str
    log: Path

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.host}"

    def connect(self) -> HTTPConnection:
        """A connection, which is kept as long as both want to."""
        return HTTPConnection(self.host, timeout=ANSWER_SECONDS, blocksize=SEND_BYTES)

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """What a request that must succeed is answered with; an open file is sent as it is, any other body as JSON."""
        told, content = dict(headers or {}), body
        if body is not None and not hasattr(body, "read"):
            told["Content-Type"], content = "application/json", json.dumps(body)
        connection = self.connect()
        try:
            return answered(connection, method, path, content, told)
        finally:
            connection.close()

    def peak_bytes(self) -> int:
        """The most memory that was resident at once."""
        return peak_bytes(self.process.pid)

    def stop(self) -> None:
        """In good order, or it is an error."""
        self.process.send_signal(signal.SIGTERM)
        if code := self.process.wait(LEAVE_SECONDS):
            raise SystemExit(f"the controller left with code {code}: see {self.log}")

    def kill(self) -> None:
        """At once, with whatever it was doing."""
        self.process.kill()
        self.process.wait()


def answered(
    connection: HTTPConnection, method: str, path: str, content: str | BinaryIO | None, headers: Mapping[str, str]
) -> Any:
    """The data of one answer on this connection. Raises SystemExit unless the request succeeds."""
    sized = {"Content-Length": str(_size(content))} if hasattr(content, "fileno") else {}
    connection.request(method, path, content, {**headers, **sized})
    answer = connection.getresponse()
    raw = answer.read()
    if answer.status >= 300:
        raise SystemExit(f"{method} {path}: {answer.status} {raw[:500].decode(errors='replace')}")
    return json.loads(raw)["data"]


def _size(file: Any) -> int:
    return os.fstat(file.fileno()).st_size


def environment_of(data: Path, **variables: str) -> dict[str, str]:
    """Ours without its SWATH_* variables; every setting is the default but for the folder and how much may be asked."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    return {**kept, "SWATH_DATA": str(data), "SWATH_REQUESTS_PER_MINUTE": "1000000000", **variables}


@contextmanager
def serving(data: Path, *arguments: str, module: str = MODULE, **variables: str) -> Iterator[Served]:
    """A controller at a free port, over the store in that folder; killed at the end if it still runs."""
    data.mkdir(parents=True, exist_ok=True)
    path = data.parent / f"{data.name}.log"
    with path.open("ab") as log:
        said_before = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", module, "serve", "--port", "0", *arguments],
            env=environment_of(data, **variables),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the supervisor, which then ends it
            preexec_fn=dying_with_parent(),  # noqa: PLW1509 nothing else runs in the supervisor now
        )
    try:
        yield Served(process=process, host=_host(process, path, said_before), log=path)
    finally:
        process.kill()
        process.wait()


def _host(process: subprocess.Popen[bytes], log: Path, said_before: int) -> str:
    """Read from what it says."""
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        if found := re.search(rb"listens at http://(\S+:[0-9]+)", log.read_bytes()[said_before:]):
            return found[1].decode()
        time.sleep(0.02)
    raise SystemExit(f"the controller does not listen: see {log}")
