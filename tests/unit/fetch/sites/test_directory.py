"""Which site an address belongs to, and whose word counts when files are laid over each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.domain.site_policy import RobotsMode, SitePolicy
from swath.fetch.sites.policies import SiteDirectory

pytestmark = pytest.mark.req("D1")


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "sites.yaml"


def load(path: Path, text: str) -> SiteDirectory:
    path.write_text(text, encoding="utf-8")
    return SiteDirectory.load(path)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://www.linkedin.com/in/somebody?x=1#top", "linkedin.com"),
        ("https://de.linkedin.com", "linkedin.com"),
        ("linkedin.com", "linkedin.com"),
        ("https://LNKD.in/abc", "linkedin.com"),
        ("https://notlinkedin.com/", "notlinkedin.com"),
        ("https://linkedin.com.example.org/", "linkedin.com.example.org"),
        ("https://linkedin.com@example.org/", "example.org"),
        ("https://example.org/https://linkedin.com/", "example.org"),
        ("https://example.org?u=linkedin.com", "example.org"),
        ("https://WWW.Example.ORG.:8443/", "example.org"),
        ("http://user:secret@www.indeed.com:8080/", "indeed.com"),
        ("http://demo.local/", "demo-county"),
        ("http://127.0.0.1:8011/", "127.0.0.1"),
        ("http://[::1]:8010/", "[::1]"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
    ],
)
def test_an_address_belongs_to_the_site_that_names_its_host_or_a_parent_of_it(address: str, name: str) -> None:
    directory = SiteDirectory.load(None)
    assert directory.of(address).name == name
    assert directory.of(address) is directory.of(address)


def test_a_port_is_looked_for_first_and_then_the_host_alone(written: Path) -> None:
    directory = load(
        written,
        """
        sites:
          admin: {domains: ["county.example:8443", "plain.example:80"]}
          county.example: {}
        """,
    )
    assert directory.of("https://county.example:8443/").name == "admin"
    assert directory.of("https://county.example/").name == "county.example"
    assert directory.of("http://plain.example/").name == "admin"
    assert directory.of("https://plain.example/").name == "plain.example"
    assert directory.of("https://sub.county.example:8443/").name == "county.example"


def test_domains_that_share_a_back_end_are_one_site(written: Path) -> None:
    directory = load(written, "sites: {vendor: {domains: [a.example, b.example], concurrency: 2}}")
    assert directory.of("https://www.a.example/") is directory.of("https://b.example/")
    assert directory.of("https://a.example/").policy.concurrency == 2


def test_entries_inherit_what_they_leave_unset_each_field_as_a_whole(written: Path) -> None:
    directory = load(
        written,
        """
        default: {concurrency: 3, rate: {tokens: 6, per_seconds: 60}, robots: warn}
        sites:
          county.example: {rate: {tokens: 2}}
        """,
    )
    policy = directory.of("https://county.example/").policy
    assert (policy.concurrency, policy.robots, policy.rate.per_second) == (3, RobotsMode.WARN, 2.0)
    assert directory.of("https://unknown.example/").policy.rate.per_second == 0.1
    assert directory.of("https://www.linkedin.com/").policy.robots is RobotsMode.WARN


def test_the_operator_changes_shipped_entries_field_by_field(written: Path) -> None:
    shipped = SiteDirectory.load(None).of("linkedin.com").policy
    changed = load(written, "sites: {linkedin.com: {concurrency: 4}}").of("lnkd.in").policy
    assert changed == shipped.model_copy(update={"concurrency": 4})


def test_the_operator_may_take_a_domain_away_from_a_shipped_entry(written: Path) -> None:
    directory = load(written, "sites: {jobs: {domains: [indeed.com, lnkd.in], concurrency: 1}}")
    assert directory.of("indeed.com").name == directory.of("lnkd.in").name == "jobs"
    assert directory.of("linkedin.com").name == "linkedin.com"
    assert "indeed.com" not in directory.sites


def test_two_sites_that_claim_one_domain_are_refused(written: Path) -> None:
    with pytest.raises(BadInput, match=r"sites\.yaml: sites\.b\.domains: x\.example belongs to site 'a' already"):
        load(written, "sites: {a: {domains: [x.example]}, b: {domains: [y.example, x.example]}}")
    with pytest.raises(BadInput, match=r"sites\.x\.example\.domains"):
        load(written, "sites: {a: {domains: [x.example]}, x.example: {}}")


def test_further_domains_come_on_top_unless_the_operator_has_given_them_away(written: Path) -> None:
    extra = {"demo-county": ["127.0.0.1:8010"]}
    assert SiteDirectory.load(None, extra).of("http://127.0.0.1:8010/search").name == "demo-county"
    assert SiteDirectory.load(None, extra).of("http://demo.local/search").name == "demo-county"
    written.write_text("sites: {mine: {domains: ['127.0.0.1:8010']}}", encoding="utf-8")
    assert SiteDirectory.load(written, extra).of("http://127.0.0.1:8010/search").name == "mine"


def test_the_shipped_default_is_that_of_the_code() -> None:
    assert SiteDirectory.load(None).of("https://unknown.example/").policy == SitePolicy()
    assert SiteDirectory.load(None).sites.keys() == {"linkedin.com", "indeed.com", "demo-county"}


def test_a_crawl_of_the_whole_web_does_not_fill_the_memory() -> None:
    directory = SiteDirectory.load(None)
    for number in range(25_000):
        directory.of(f"https://host-{number}.example/")
    assert len(directory._known) <= 10_000
