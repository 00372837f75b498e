"""T3: settings come from variables and from a TOML file; the variable wins, and nothing wrong passes in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.domain.proxy_products import ProxyType
from swath.domain.secret import Secret
from swath.fetch.proxies.config import Price, Zone
from swath.settings import MASK, Settings, is_shell_completion, load, load_settings, mask_setting

pytestmark = pytest.mark.req("T3")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_without_anything_the_defaults_count() -> None:
    reading = load({})
    assert reading.settings == Settings()
    assert reading.file is None
    assert {origin.source for origin in reading.origins.values()} == {"default"}


def test_a_variable_wins_over_the_file_and_both_say_where_they_are(here: Path) -> None:
    (here / "swath.toml").write_text('max_items = 7\nlease_seconds = 6\nscrapers = ["mine"]\nfsync = true\n')
    reading = load({"SWATH_MAX_ITEMS": "9"})
    assert (reading.settings.max_items, reading.settings.lease_seconds, reading.settings.fsync) == (9, 6.0, True)
    assert reading.settings.heartbeat_seconds == 2  # a third of the lease, wherever that came from
    assert reading.origins["max_items"].source == "environment"
    assert reading.origins["max_items"].name == "SWATH_MAX_ITEMS"
    assert reading.origins["lease_seconds"].source == "file"
    assert "swath.toml" in reading.origins["lease_seconds"].name


def test_the_named_file_counts_before_the_one_here_and_that_before_the_users(here: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config" / "swath").mkdir(parents=True)
    (home / ".config" / "swath" / "swath.toml").write_text("max_items = 1\n")
    assert load_settings({"HOME": str(home)}).max_items == 1
    other = tmp_path / "xdg" / "swath"
    other.mkdir(parents=True)
    (other / "swath.toml").write_text("max_items = 2\n")
    assert load_settings({"HOME": str(home), "XDG_CONFIG_HOME": str(other.parent)}).max_items == 2
    (here / "swath.toml").write_text("max_items = 3\n")
    assert load_settings({"HOME": str(home)}).max_items == 3
    named = tmp_path / "named.toml"
    named.write_text("max_items = 4\n")
    assert load_settings({"HOME": str(home), "SWATH_CONFIG": str(named)}).max_items == 4


def test_a_relative_folder_in_a_file_counts_from_that_file(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "swath.toml"
    file.parent.mkdir()
    file.write_text('data = "jobs"\nscrapers = ["a", "/b"]\n')
    settings = load_settings({"SWATH_CONFIG": str(file)})
    assert settings.data == tmp_path / "etc" / "jobs"
    assert settings.scrapers == (tmp_path / "etc" / "a", Path("/b"))


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lease_second = 3\n", ["'lease_second'", "did you mean 'lease_seconds'?"]),
        ("zzz = 3\n", ["'zzz'", "lease_seconds"]),
        ('lease_seconds = "soon"\n', ["lease_seconds", "number above 0", "'soon'"]),
        ("lease_seconds = true\n", ["number above 0"]),
        ("max_items = 2.5\n", ["whole number"]),
        ("data = 3\n", ["data", "text"]),
        ("scrapers = 3\n", ["list of folders"]),
        ('fsync = "perhaps"\n', ["1 or 0"]),
        ('log_level = "loud"\n', ["debug", "'loud'"]),
        ("data = [\n", ["TOML"]),
        ('data = "x\\u0000y"\n', ["data", "NUL"]),
        ('scrapers = ["x\\u0000y"]\n', ["scrapers", "NUL"]),
        ('default_scraper = "x\\u0000y"\n', ["default_scraper", "NUL"]),
        ('allow_private = ["localhost"]\n', ["host:port", "'localhost'"]),
        ('allow_private = ["localhost:70000"]\n', ["host:port"]),
        ('allow_private = ["http://localhost:80"]\n', ["host:port"]),
        ("allow_private = 3\n", ["list of host:port"]),
        ('demo_url = "127.0.0.1:8010"\n', ["demo_url", "http://"]),
        ('proxy_url = "brd.superproxy.io"\n', ["proxy_url", "http://host:port"]),
        ('proxy_customer = "a b"\n', ["proxy_customer", "letters"]),
        ('proxy_residential_zone = "a/b"\n', ["proxy_residential_zone", "letters"]),
        ("proxy_custom_urls = 3\n", ["proxy_custom_urls", "list of addresses"]),
        ('proxy_custom_urls = ["http://u:p@h:1", "nothing"]\n', ["address 2", "must begin with http://"]),
        ("proxy_custom_price_per_gb = -1\n", ["proxy_custom_price_per_gb", "number above 0"]),
        ("proxy_cooldown_seconds = 0\n", ["proxy_cooldown_seconds"]),
        ("heartbeat_seconds = 15\n", ["heartbeat_seconds (15", "lease_seconds (15, default)"]),
        ("lease_seconds = 2\nheartbeat_seconds = 3\n", ["heartbeat_seconds (3", "lease_seconds (2"]),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_what_is_allowed(here: Path, text: str, expected: list[str]) -> None:
    (here / "swath.toml").write_text(text)
    with pytest.raises(BadInput) as refused:
        load({})
    assert all(part in str(refused.value) for part in ["swath.toml", *expected]), str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_named_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(BadInput, match="SWATH_CONFIG"):
        load({"SWATH_CONFIG": "nowhere.toml"})


@pytest.mark.req("Z7")
def test_unknown_variables_are_told_and_their_secrets_are_not() -> None:
    reading = load(
        {
            "SWATH_MAX_ITMES": "9",
            "SWATH_PROXY_PASSWORD": "hunter2",
            "SWATH_PROXY_CUSTOM_PASWORD": "hunter2",
            "SWATH_UPSTREAM": "http://me:hun@ter/2@proxy:1",
            "SWATH_DEMO_URL": "http://127.0.0.1:1",
            "SWATH_EMPTY": "",
            "OTHER": "1",
        }
    )
    assert reading.unknown == {
        "SWATH_MAX_ITMES": "9",
        "SWATH_PROXY_CUSTOM_PASWORD": MASK,
        "SWATH_PROXY_PASSWORD": MASK,
        "SWATH_UPSTREAM": f"http://{MASK}@proxy:1",
    }
    assert mask_setting("SWATH_ETL_KEY", "abc") == MASK


def test_site_policies_are_read_from_the_file_here_unless_another_is_named(here: Path) -> None:
    assert load_settings({}).sites is None
    (here / "sites.yaml").write_text("sites: {}\n")
    assert load_settings({}).sites == Path("sites.yaml")
    assert load_settings({"SWATH_SITES": "other.yaml"}).sites == Path("other.yaml")


@pytest.mark.req("Z4")
def test_private_targets_are_named_by_host_and_port() -> None:
    text = "localhost:3000, 10.0.0.7:80 [::1]:8080\nIntra.Example:443"
    expected = ("localhost:3000", "10.0.0.7:80", "[::1]:8080", "intra.example:443")
    assert load_settings({"SWATH_ALLOW_PRIVATE": text}).allow_private == expected


def test_the_demo_site_is_a_setting_like_any_other() -> None:
    assert load_settings({}).demo_url == "http://127.0.0.1:8010"
    assert load_settings({"SWATH_DEMO_URL": "http://127.0.0.1:9999/"}).demo_url == "http://127.0.0.1:9999"
    assert load_settings({}).robots_agent == "swath"


@pytest.mark.req("P1")
def test_proxies_are_set_up_by_variables_and_by_the_file(here: Path) -> None:
    (here / "swath.toml").write_text(
        'proxy_residential_zone = "res"\nproxy_residential_password = "from-file"\n'
        'proxy_custom_urls = ["http://u:p@one.example:1", "http://two.example:2"]\nproxy_ca_file = "brd.crt"\n'
        "proxy_residential_price_per_gb = 8\nproxy_web_unlocker_price_per_1000 = 0\n"
    )
    setup = load_settings(
        {
            "SWATH_CONFIG": "swath.toml",  # named, since it says where the password below goes
            "SWATH_PROXY_CUSTOMER": "hl_1",
            "SWATH_PROXY_DATACENTER_ZONE": "dc",
            "SWATH_PROXY_DATACENTER_PASSWORD": "pw",
            "SWATH_PROXY_COOLDOWN_SECONDS": "5",
        }
    ).proxies
    assert (setup.url, setup.customer) == ("http://brd.superproxy.io:44445", "hl_1")
    assert setup.zones[ProxyType.DATACENTER] == Zone("dc", Secret("pw"))
    assert setup.zones[ProxyType.RESIDENTIAL] == Zone("res", Secret("from-file"))
    assert setup.zones[ProxyType.WEB_UNLOCKER] == Zone()
    assert [url.reveal() for url in setup.custom_urls] == ["http://u:p@one.example:1", "http://two.example:2"]
    assert setup.ca_file == Path("brd.crt")
    assert (setup.cooldown_seconds, setup.recheck_seconds) == (5, 60)
    assert setup.price(ProxyType.RESIDENTIAL) == Price(8.0, None)
    assert setup.price(ProxyType.WEB_UNLOCKER).known
    assert not setup.price(ProxyType.CUSTOM).known


@pytest.mark.req("P1")
def test_a_list_of_proxies_may_be_parted_by_commas_or_spaces() -> None:
    text = " http://u:p@one.example:1,http://two.example:2\n http://three.example:3 "
    assert len(load_settings({"SWATH_PROXY_CUSTOM_URLS": text}).proxy_custom_urls) == 3


def test_a_shell_that_completes_is_told_from_a_person() -> None:
    assert is_shell_completion({"_SWATH_COMPLETE": "bash_complete"})
    assert not is_shell_completion({})
