"""Which Chromium is found, and in which sandbox it can run."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.fetch.browser.chromium import find as finding
from swath.fetch.browser.chromium import sandbox
from swath.fetch.browser.chromium.find import find, find_binary, version_of
from swath.fetch.browser.chromium.sandbox import sandbox_for

pytestmark = pytest.mark.req("B1")


def program(path: Path, text: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_one_of_this_machine_is_found_and_says_its_version() -> None:
    found = find()
    assert found.binary.read_bytes()[:2] != b"#!"  # no script around it
    version = version_of(found.binary)
    assert version is not None
    assert int(version.split(".")[0]) > 100
    assert found.sandbox.on, found.sandbox.words


def test_a_named_one_comes_before_all_others(tmp_path: Path) -> None:
    named = program(tmp_path / "mine")
    assert find_binary(named) == named


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("x"), lambda path: path.mkdir()])
def test_a_named_one_that_cannot_be_run_is_told_in_a_line(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "named")
    with pytest.raises(BadInput, match=r"^SWATH_CHROMIUM: .*named is no program") as caught:
        find_binary(tmp_path / "named")
    assert "\n" not in str(caught.value)


def test_system_names_come_in_order_and_before_the_drivers_own(tmp_path: Path) -> None:
    cache = program(tmp_path / "cache/chromium-1248/chrome-linux64/chrome").parents[2]
    folder = tmp_path / "bin"
    folder.mkdir()
    assert find_binary(path=str(folder), cache=cache).name == "chrome"
    chrome = program(folder / "google-chrome")
    assert find_binary(path=str(folder), cache=cache) == chrome
    program(folder / "chromium")
    assert find_binary(path=str(folder), cache=cache).name == "chromium"


def test_of_the_drivers_own_the_newest_is_taken(tmp_path: Path) -> None:
    for number in (999, 1248, 1100):
        program(tmp_path / f"chromium-{number}/chrome-linux64/chrome")
    program(tmp_path / "chromium_headless_shell-2000/chrome-linux64/chrome")
    assert "1248" in str(find_binary(path=str(tmp_path / "none"), cache=tmp_path))


def test_what_stands_behind_a_script_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = program(tmp_path / "bin/chromium", "#!/bin/sh\nexec /usr/lib/chromium/chromium --flag")
    monkeypatch.setattr(finding, "BEHIND_SCRIPTS", (tmp_path / "lib/{name}/{name}",))
    monkeypatch.setattr(finding, "SYSTEM_FOLDERS", (script.parent,))
    assert find_binary(script) == script  # there is nothing behind it
    behind = program(tmp_path / "lib/chromium/chromium")
    assert find_binary(script) == behind
    mine = program(tmp_path / "mine/chromium", "#!/bin/sh\nexec something else")
    assert find_binary(mine) == mine
    assert find_binary(path=str(script.parent), cache=tmp_path) == behind


def test_a_snap_is_no_chromium_for_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "BEHIND_SCRIPTS", ())
    program(tmp_path / "bin/chromium-browser", "#!/bin/sh\nexec /snap/bin/chromium")
    with pytest.raises(BadInput, match=r"apt-get install chromium.*patchright install chromium.*SWATH_CHROMIUM"):
        find_binary(path=str(tmp_path / "bin"), cache=tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another user")
def test_root_runs_it_as_another_user_who_must_exist_and_be_able_to(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="SWATH_BROWSER_USER: there is no user 'nobody-at-all'"):
        sandbox_for(find_binary(), "nobody-at-all")
    assert not sandbox_for(find_binary(), "root").on
    hidden = program(tmp_path / "hidden/chromium")
    hidden.parent.chmod(0o700)
    refused = sandbox_for(hidden, "nobody")
    assert not refused.on
    assert "nobody may not run" in refused.words
    allowed = sandbox_for(find_binary(), "nobody")
    assert (allowed.on, allowed.uid) == (True, pwd.getpwnam("nobody").pw_uid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another user")
@pytest.mark.req("Z4")
def test_unless_one_is_named_each_browser_of_root_is_a_user_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find()
    assert (found.sandbox.on, found.sandbox.own_users, found.sandbox.uid) == (True, True, None)
    assert "each browser as a user of its own" in found.sandbox.words
    hidden = program(tmp_path / "hidden/chromium")
    hidden.parent.chmod(0o700)
    assert "an ordinary user may not run" in sandbox_for(hidden).words
    monkeypatch.setattr(sandbox, "own_range", lambda: None)  # as in a user namespace with root alone
    refused = sandbox_for(found.binary)
    assert not refused.on
    assert "no other users" in refused.words


def test_without_namespaces_and_helper_there_is_no_sandbox_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_namespaces", lambda ids: False)
    monkeypatch.setattr(sandbox, "may_use", lambda binary, uid, gid: True)
    binary = program(tmp_path / "chromium")
    refused = sandbox_for(binary, "nobody")
    assert not refused.on
    assert "without a sandbox: this machine allows no user namespaces" in refused.words
    if os.geteuid() == 0:
        program(tmp_path / "chrome-sandbox").chmod(0o4755)
        helped = sandbox_for(binary, "nobody")
        assert helped.on
        assert helped.helped


def test_looking_for_one_needs_no_driver() -> None:
    modules = "swath.fetch.browser.chromium.find, swath.fetch.browser.pool.pool"
    code = f"import sys, {modules}; print('patchright' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
