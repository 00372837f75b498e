"""The README's commands for the API work as they are pasted, on a machine without any network.

A network namespace of its own has loopback and nothing else, and there the ports of the page are free.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks_of, section_of
from tests.docs.shell import BIN

README = (ROOT / "README.md").read_text(encoding="utf-8")
ALONE = ["unshare", "--map-root-user", "--net"]
LOOPBACK_UP = (
    "import fcntl, socket, struct;"
    "fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, struct.pack('16sh14x', b'lo', 1))"
)
AFTER = """
curl -s http://127.0.0.1:8000/jobs/test-001/status > first.json
curl -s http://127.0.0.1:8000/jobs/circuit-test/status > second.json
curl -s 'http://127.0.0.1:8000/jobs/test-001/items/item-2/download?artifact=data' > data.json
kill $served
wait $served
"""


def possible() -> bool:
    if shutil.which("curl") is None or shutil.which("unshare") is None:
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.req("I2", "K5", "G1")
@pytest.mark.skipif(not possible(), reason="needs curl, and leave to make a network namespace")
def test_both_jobs_run_without_a_network(tmp_path: Path) -> None:
    serve, order = (block.text for block in blocks_of(section_of(README, "## Over HTTP")))
    ready = "curl -s --retry 30 --retry-connrefused --retry-delay 1 http://127.0.0.1:8000/readiness > ready.json"
    script = f'python -c "{LOOPBACK_UP}"\n{serve.strip()} > serve.log 2>&1 & served=$!\n{ready}\n{order}{AFTER}'
    environment = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [*ALONE, "sh", "-e", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
    log = (tmp_path / "serve.log").read_text(encoding="utf-8")
    assert done.returncode == 0, f"{done.stdout!r} {done.stderr!r} {log}"

    first, second = (data_in(tmp_path / name) for name in ("first.json", "second.json"))
    assert (first["status"], first["counts"]["success"]) == ("completed", 2), log
    assert json.loads((tmp_path / "data.json").read_bytes())["echo"] == {"test_param": "world"}
    counts = second["counts"]
    assert (second["status"], second["circuit"]["state"]) == ("failed", "open"), log
    assert (counts["failed"], counts["cancelled"], counts["total"]) == (5, 5, 10), log


def data_in(path: Path) -> dict[str, Any]:
    answer = json.loads(path.read_bytes())
    assert answer["success"]
    data: dict[str, Any] = answer["data"]
    return data
