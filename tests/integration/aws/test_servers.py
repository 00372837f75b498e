"""The servers of the tests: real ones, one set for a whole run, gone with their last user however that ends."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.fakes.aws import Endpoints, Servers, SharedServers, servers
from harness.fakes.aws.endpoints import CREDENTIALS
from harness.fakes.aws.servers import ServerProcess
from swath.backends.aws.client.client import AwsClients
from swath.domain.errors import UserError

USER = """
import sys
from pathlib import Path
from harness.fakes.aws import shared_servers
with shared_servers(Path(sys.argv[1])) as shared:
    print(shared.keeper_pid, *shared.server_pids, flush=True)
    sys.stdin.read()
"""
OWNER = """
import sys
from pathlib import Path
from harness.fakes.aws.servers import ServerProcess
print(ServerProcess("sleeper", ["sleep", "600"], Path(sys.argv[1])).pid, flush=True)
sys.stdin.read()
"""


def start(script: str, folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """A process, and the ids that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, [int(pid) for pid in process.stdout.readline().split()]


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def running(pids: Iterable[int]) -> list[int]:
    """Those that are there and have not ended; whoever inherits an ended one may be slow to notice."""
    left = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            left.append(pid)
    return left


def assert_gone(pids: Iterable[int], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while left := running(pids):
        assert time.monotonic() < until, f"still running: {left}"
        time.sleep(0.05)


@pytest.mark.req("Q3")
def test_processes_of_a_run_share_one_set_which_ends_with_the_last_of_them(tmp_path: Path) -> None:
    first, pids = start(USER, tmp_path)
    second, same = start(USER, tmp_path)
    assert len(pids) == 4
    assert same == pids
    kill(first)
    time.sleep(0.5)
    assert running(pids) == pids
    kill(second)
    assert_gone(pids)


@pytest.mark.req("Q3")
def test_a_server_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    owner, pids = start(OWNER, tmp_path)
    assert running(pids) == pids
    kill(owner)
    assert_gone(pids)


@pytest.mark.req("Q3")
def test_stopping_a_server_ends_what_it_has_started(tmp_path: Path) -> None:
    script = "trap '' TERM; sleep 600 & echo $!; wait"
    server = ServerProcess("stubborn", ["sh", "-c", script], tmp_path)
    while not (told := server.tail().split()):
        time.sleep(0.02)
    server.stop()
    assert not server.running
    assert_gone([server.pid, int(told[0])])


@pytest.mark.req("Q3")
async def test_a_server_that_fails_shows_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path, *_: object) -> ServerProcess:
        return ServerProcess("broken", ["sh", "-c", "echo no such thing; exit 3"], folder)

    for name in ("_dynamodb_local", "_ministack", "_seaweedfs"):
        monkeypatch.setattr(servers, name, broken)
    started = Servers(tmp_path)
    with pytest.raises(servers.ServersFailed, match=r"(?s)broken does not answer.*no such thing"):
        await started.ready()
    started.stop()


@pytest.mark.req("Q3")
def test_servers_that_are_not_installed_say_how_to_install_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for look in (servers.dynamodb_local, servers.java, lambda: servers.server_program("weed")):
        with pytest.raises(servers.NotInstalled, match=r"not found.*`make servers`"):
            look()


@pytest.mark.req("Q3")
def test_run_by_hand_they_print_what_a_shell_needs(tmp_path: Path) -> None:
    by_hand = subprocess.Popen(
        [sys.executable, "-m", "harness.fakes.aws"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert by_hand.stdout is not None
    lines = []
    for line in by_hand.stdout:
        lines.append(line)
        if line.startswith("#"):
            break
    by_hand.send_signal(signal.SIGINT)
    _, errors = by_hand.communicate(timeout=60)
    assert (by_hand.returncode, errors) == (0, "")
    assert sum(bool(re.match(r"export AWS_ENDPOINT_URL_\w+=http://127\.0\.0\.1:\d+$", line)) for line in lines) == 3
    assert f"export AWS_ACCESS_KEY_ID={CREDENTIALS[0]}\n" in lines


@pytest.mark.req("Q3")
def test_they_listen_on_loopback_where_they_can(aws_servers: SharedServers) -> None:
    _, *others = aws_servers.server_pids  # DynamoDB Local listens everywhere; nothing can be set about it
    ours = {fd.stat().st_ino for pid in others for fd in Path(f"/proc/{pid}/fd").iterdir()}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    lines6 = [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    listening = [fields[1] for fields in lines + lines6 if fields[3] == "0A" and int(fields[9]) in ours]
    assert len(listening) >= 8
    assert {address.partition(":")[0] for address in listening} == {"0100007F"}


@pytest.mark.req("Q3")
async def test_s3_checks_signatures(aws: Endpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    clients = AwsClients()
    with pytest.raises(UserError):
        await clients.call("s3", "put_object", Bucket=aws.bucket, Key="x", Body=b"")
    await clients.close()
