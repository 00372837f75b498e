"""T3, Z7: a settings file or data folder that nobody named is used only if nobody else made it, and gets no secrets."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.settings import load, load_settings
from tests.support.warm import run_warm

pytestmark = pytest.mark.req("T3", "Z7")

EVE = 61_001  # nobody on this system
MALLORY = 61_002

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away and become somebody else")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _refused(environment: dict[str, str] | None = None) -> str:
    with pytest.raises(BadInput) as refused:
        load(environment or {})
    assert "\n" not in str(refused.value)
    return str(refused.value)


@as_root
@pytest.mark.parametrize("name", ["swath.toml", "sites.yaml"])
def test_a_file_of_another_user_is_refused_and_a_named_one_is_not(here: Path, name: str) -> None:
    text = {"swath.toml": "max_items = 3\n", "sites.yaml": "sites: {}\n"}[name]
    variable = {"swath.toml": "SWATH_CONFIG", "sites.yaml": "SWATH_SITES"}[name]
    (here / name).write_text(text)
    load({})
    os.chown(here / name, EVE, 0)
    told = _refused()
    assert f"{name} belongs to uid {EVE}" in told
    assert f"{variable}={name}" in told
    assert "chown" in told
    load({variable: name})


@pytest.mark.parametrize("mode", [0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(here: Path, mode: int) -> None:
    (here / "swath.toml").write_text("max_items = 3\n")
    (here / "swath.toml").chmod(mode)
    assert "chmod go-w swath.toml" in _refused()
    assert load_settings({"SWATH_CONFIG": "swath.toml"}).max_items == 3


@as_root
def test_a_group_may_write_only_if_the_user_is_alone_in_it(here: Path) -> None:
    file = here / "swath.toml"
    file.write_text("max_items = 3\n")
    file.chmod(0o660)
    assert load_settings({}).max_items == 3  # root's own group, as the files of most people belong to their own
    os.chown(file, 0, EVE)
    assert "chmod go-w" in _refused()


def test_a_folder_in_which_others_may_exchange_it_is_refused_unless_sticky(here: Path) -> None:
    (here / "swath.toml").write_text("max_items = 3\n")
    here.chmod(0o777)
    assert f"chmod go-w {here}" in _refused()
    here.chmod(0o1777)
    assert load_settings({}).max_items == 3
    here.chmod(0o755)
    here.parent.chmod(0o777)
    assert f"chmod go-w {here.parent}" in _refused()


@as_root
def test_a_link_of_another_user_is_refused(here: Path) -> None:
    (here / "mine.toml").write_text("max_items = 3\n")
    (here / "swath.toml").symlink_to("mine.toml")
    assert load_settings({}).max_items == 3
    os.chown(here / "swath.toml", EVE, EVE, follow_symlinks=False)
    assert f"uid {EVE}" in _refused()


@as_root
def test_the_users_own_file_is_looked_at_too(here: Path, tmp_path: Path) -> None:
    own = tmp_path / "config" / "swath" / "swath.toml"
    own.parent.mkdir(parents=True)
    own.write_text("max_items = 3\n")
    assert load_settings({"XDG_CONFIG_HOME": str(tmp_path / "config")}).max_items == 3
    os.chown(own, EVE, EVE)
    assert f"uid {EVE}" in _refused({"XDG_CONFIG_HOME": str(tmp_path / "config")})


@as_root
def test_another_user_is_served_by_roots_file_and_not_by_a_third_ones(here: Path) -> None:
    for folder in (here, *here.parents):  # pytest closes its own
        if folder == Path("/tmp") or str(folder) == "/":
            break
        folder.chmod(0o755)
    file = here / "swath.toml"
    file.write_text("max_items = 3\n")
    ask = "import sys; from swath.settings import load_settings; print(load_settings({}).max_items)"

    def as_eve() -> subprocess.CompletedProcess[str]:
        become = f"import os; os.setgroups([]); os.setgid({EVE}); os.setuid({EVE}); "
        command = [sys.executable, "-c", f"import sys; from swath.settings import load_settings; {become}{ask}"]
        return subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=120, check=False)

    assert as_eve().stdout == "3\n"
    os.chown(file, MALLORY, MALLORY)
    file.chmod(0o644)
    ran = as_eve()
    assert ran.returncode != 0
    assert f"belongs to uid {MALLORY}" in ran.stderr


@as_root
@pytest.mark.parametrize("linked", [False, True])
def test_a_data_folder_of_another_user_is_refused_and_a_named_one_is_not(here: Path, linked: bool) -> None:
    load({})
    folder = here / ("elsewhere" if linked else "swath-data")
    folder.mkdir(mode=0o755)
    if linked:
        (here / "swath-data").symlink_to("elsewhere")
    load({})
    os.chown(here / "swath-data", EVE, 0, follow_symlinks=False)
    told = _refused()
    assert f"swath-data is not used: it belongs to uid {EVE}" in told
    assert "SWATH_DATA=swath-data" in told
    assert load_settings({"SWATH_DATA": "swath-data"}).data == Path("swath-data")
    (here / "swath.toml").write_text('data = "swath-data"\n')
    load({})
    assert sorted(path.name for path in folder.iterdir()) == []


@pytest.mark.parametrize("mode", [0o702, 0o1777, 0o775])
def test_a_data_folder_to_which_others_may_write_is_refused(
    here: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.settings.loader._is_private", lambda _: False)
    (here / "swath-data").mkdir()
    (here / "swath-data").chmod(mode)
    assert "chmod go-w swath-data" in _refused()
    (here / "swath-data").chmod(0o755)
    load({})


@as_root
def test_a_planted_data_folder_is_neither_filled_nor_followed_by_a_command(here: Path) -> None:
    """A real command of root in a folder where somebody else was first: what it stores would be theirs to read."""
    secret = here / "secret"
    secret.write_text("of root alone")
    data = here / "swath-data"
    data.mkdir()
    data.chmod(0o777)
    (data / "swath.db-pulse").symlink_to(secret)
    for path in (data, data / "swath.db-pulse"):
        os.chown(path, EVE, EVE, follow_symlinks=False)
    (here / "items.csv").write_text("ssn\n123-45-6789\n")
    words = ["run", "example-mock", "--items", "items.csv", "--job-id", "job", "--quiet"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    ran = run_warm(words, here, clean, None, 120)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert [path.name for path in data.iterdir()] == ["swath.db-pulse"]
    named = run_warm(words, here, clean | {"SWATH_DATA": "swath-data"}, None, 120)
    assert named.returncode == 0, named.stderr
    assert secret.read_text() == "of root alone"


SECRETS = [
    ("service_key", "sk_" + "1" * 40, 'server = "http://127.0.0.1:1"'),
    ("webhook_secret", "x" * 32, 'webhook_url = "http://127.0.0.1:1/"'),
    ("webhook_secret", "x" * 32, 'public_url = "http://127.0.0.1:1/"'),
    ("browserbase_api_key", "bb_secret", 'browserbase_url = "http://127.0.0.1:1"'),
    ("proxy_datacenter_password", "hunter2", 'proxy_url = "http://127.0.0.1:1"'),
    ("proxy_residential_password", "hunter2", 'proxy_url = "http://127.0.0.1:1"'),
    ("proxy_web_unlocker_password", "hunter2", 'proxy_ca_file = "ca.pem"'),
]


@pytest.mark.parametrize(("secret", "value", "line"), SECRETS)
def test_an_address_of_a_found_file_gets_no_secret_of_the_environment(
    here: Path, secret: str, value: str, line: str
) -> None:
    variable, address = f"SWATH_{secret.upper()}", line.partition(" ")[0]
    (here / "swath.toml").write_text(line + "\n")
    told = _refused({variable: value})
    assert all(part in told for part in ("swath.toml", variable, f"SWATH_{address.upper()}", "SWATH_CONFIG="))
    assert value not in told
    load({variable: value, "SWATH_CONFIG": "swath.toml"})  # whoever names the file consents
    (here / "swath.toml").write_text(f'{line}\n{secret} = "{value}"\n')
    load({})  # the file has both
    (here / "swath.toml").write_text("max_items = 3\n")
    load({variable: value, f"SWATH_{address.upper()}": line.partition('"')[2].rstrip('"')})  # the environment has both


def test_every_secret_that_is_sent_somewhere_is_in_the_rule() -> None:
    """A secret that comes anew has to be thought about here."""
    from swath.domain.secret import Secret
    from swath.settings import loader
    from swath.settings.model import Settings

    secrets = {name for name, kind in Settings.__annotations__.items() if Secret.__name__ in str(kind)}
    with_their_own_address = {"proxy_custom_urls", "browser_cdp_url"}
    assert secrets == set(loader._SECRET_DESTINATIONS) | with_their_own_address


async def test_the_key_does_not_leave_for_a_server_of_a_found_file(here: Path) -> None:
    """A real command and a real listener: with the file named the key arrives, else nothing does."""
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    key = "sk_" + "7" * 40
    (here / "swath.toml").write_text(f'server = "http://127.0.0.1:{server.sockets[0].getsockname()[1]}"\n')
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    ran = await asyncio.to_thread(_jobs_list, here, clean | {"SWATH_SERVICE_KEY": key})
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert heard == []
    named = clean | {"SWATH_SERVICE_KEY": key, "SWATH_CONFIG": "swath.toml"}
    await asyncio.to_thread(_jobs_list, here, named)
    assert any(key.encode() in request for request in heard)
    server.close()


def _jobs_list(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run_warm(["jobs", "list"], folder, environment, None, 90)
