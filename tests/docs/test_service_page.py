"""The page about running as a service does what it says: as root, in a namespace whose changes to /etc are lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import AS_ROOT, ROOT, blocks_of
from tests.docs.shell import PageRun, demo_site

pytestmark = pytest.mark.req("G1", "Z7")

WITHIN = 60  # seconds, against hanging
# What the page changes is laid over what is there, and gone with the namespace. The interpreter of a developer may lie
# in the home of root, where the user of the service cannot enter.
PREPARE = """
mount -t tmpfs tmpfs "$1"
for folder in etc var opt root usr/local; do
    mkdir -p "$1/$folder/new" "$1/$folder/work"
    chmod --reference=/$folder "$1/$folder/new"
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$1/$folder/new,workdir=$1/$folder/work" /$folder
done
chmod 0755 /root
ln -s "$2" /opt/swath
echo ready
exec sleep infinity
"""


class RootRun(PageRun):
    """Follows a page in a mount namespace of another process."""

    def __init__(self, folder: Path, site: str, process: int) -> None:
        super().__init__(folder, site)
        self._script = folder.with_suffix(".sh")
        self._within = f"nsenter --mount=/proc/{process}/ns/mnt --wdns={folder}"

    def _execute(self, text: str, language: str) -> tuple[int, str]:
        assert language == "sh", "only commands can be followed as root"
        self._script.write_text(text, encoding="utf-8")
        return super()._execute(f"exec {self._within} sh -e {self._script}", language)


@contextlib.contextmanager
def namespace(work: Path) -> Iterator[int]:
    process = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-e", "-c", PREPARE, "sh", work, sys.prefix],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != "ready\n":
            pytest.skip(f"no namespace can be made here: {process.stderr.read()}")
        yield process.pid
    finally:
        process.kill()
        process.communicate(timeout=WITHIN)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a user")
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("page", AS_ROOT)
def test_every_block_of_a_page_for_root_works_as_shown(page: str, tmp_path: Path) -> None:
    before = Path("/etc/passwd").read_bytes()
    folder = tmp_path / "here"
    folder.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    with namespace(work) as process, demo_site() as site:
        run = RootRun(folder, site, process)
        try:
            run.follow(blocks_of((ROOT / page).read_text(encoding="utf-8")))
        finally:
            run.end()
    assert Path("/etc/passwd").read_bytes() == before
    assert not Path("/var/lib/swath").exists()
