"""What pins every dependency is pinned itself: `make lock` installs it by hash or not at all."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEEL = "uv-1.0-py3-none-any.whl"

pytestmark = pytest.mark.req("Z5")


def test_every_install_of_the_makefile_checks_hashes() -> None:
    lines = [line for line in (ROOT / "Makefile").read_text().splitlines() if re.search(r"pip\b.* install\b", line)]
    lines += [line for line in (ROOT / "Makefile").read_text().splitlines() if "$(PIP) install" in line]
    own = [line for line in lines if line.startswith("INSTALL_SELF")]
    assert len(own) == 1  # the project itself, from this folder, without dependencies and without an index
    assert len(lines) > 4
    assert [line for line in lines if "--require-hashes" not in line and line not in own] == []


def test_the_pins_of_the_lock_tool_name_no_place() -> None:
    pins = (ROOT / "requirements-lock.txt").read_text()
    assert re.search(r"^uv==[\d.]+ \\$", pins, re.MULTILINE)
    assert "://" not in pins
    assert "index-url" not in pins


def test_a_lock_tool_that_is_not_the_pinned_one_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    pinned = _wheel(tmp_path, "pinned")
    (tmp_path / "requirements-lock.txt").write_text(f"uv==1.0 --hash=sha256:{pinned}\n")
    ran = _make(tmp_path)
    assert ran.returncode == 0, ran.stderr
    tool = tmp_path / ".venv" / "lock-tool"
    (module,) = tool.glob("lib/python*/site-packages/uv_stub.py")
    assert "pinned" in module.read_text()

    assert _wheel(tmp_path, "another") != pinned
    os.utime(tmp_path / "requirements-lock.txt")  # make installs it again
    os.utime(tool / ".installed", (0, 0))
    ran = _make(tmp_path)
    assert ran.returncode != 0
    assert "HASH" in ran.stderr.upper()
    assert "another" not in module.read_text()


def _make(folder: Path) -> subprocess.CompletedProcess[str]:
    """Without any index: the wheels beside the Makefile are all there is."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "MAKE"))}
    given = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    command = ["make", f"PYTHON={sys.executable}", ".venv/lock-tool/.installed"]
    return subprocess.run(
        command, cwd=folder, env=clean | given, capture_output=True, text=True, timeout=300, check=False
    )


def _wheel(folder: Path, content: str) -> str:
    """A wheel that calls itself uv; answers with its digest."""
    metadata = "Metadata-Version: 2.1\nName: uv\nVersion: 1.0\n"
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {"uv_stub.py": f"NAME = {content!r}\n", "uv-1.0.dist-info/METADATA": metadata}
    files["uv-1.0.dist-info/WHEEL"] = kind
    digests = {name: hashlib.sha256(text.encode()).digest() for name, text in files.items()}
    lines = [f"{name},sha256={base64.urlsafe_b64encode(d).decode().rstrip('=')}," for name, d in digests.items()]
    files["uv-1.0.dist-info/RECORD"] = "\n".join([*lines, "uv-1.0.dist-info/RECORD,,", ""])
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()
