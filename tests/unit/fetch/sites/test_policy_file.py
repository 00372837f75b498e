"""Site policies in YAML: mistakes are named in one line, traps of YAML are none, and nothing is lost on the way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.errors import BadInput
from swath.domain.execution_policy import ProxyType
from swath.domain.site_policy import HeaderSet, RobotsMode, SignatureKind, SitePolicy
from swath.fetch.sites.policies import PolicyFile, SiteDirectory, parse_policies, read_policies, write_policies
from swath.fetch.sites.strict_yaml import write_yaml

pytestmark = pytest.mark.req("D1")


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sites: {a: {concurency: 3}}", "sites.a.concurency: is not known; did you mean 'concurrency'?"),
        ("sites: {a: {rate: {token: 3}}}", "sites.a.rate.token: is not known; did you mean 'tokens'?"),
        ("sites: {a: {rate: {xyz: 3}}}", "sites.a.rate.xyz: is not known; allowed: tokens, per_seconds"),
        ("sites: {a: {allowed_hours: {windows: [{form: 8:00, until: 9:00}]}}}", "did you mean 'from'?"),
        ("default: {rate: {tokens: 0}}", "default.rate.tokens: should be greater than 0 (is 0)"),
        ("default: {rate: {tokens: '5'}}", "default.rate.tokens: should be a valid number (is '5')"),
        ("default: {concurrency: true}", "default.concurrency: should be a valid integer (is True)"),
        ("default: {concurrency: 010}", "default.concurrency: should be a valid integer (is '010')"),
        ("default: {robots: off}", "default.robots: should be 'obey', 'warn' or 'ignore' (is 'off')"),
        ("default: {remember_tier: yes}", "default.remember_tier: should be a valid boolean (is 'yes')"),
        ("default: {domains: [x.example]}", "default.domains: the default is for every site without an entry"),
        ("default: {breaker: {window: 3, failures: 5}}", "default.breaker: failures (5) can never be reached"),
        ("default: {signatures: [{kind: blocked, body: '('}]}", "default.signatures.0.body: is no regular expression"),
        ("default: {signatures: [{kind: blocked, css: 'a[['}]}", "default.signatures.0.css: is no CSS selector"),
        (
            "sites: {a.example: {concurrency: !!timestamp 2020-01-01}}",
            "sites.a.example: holds something that is neither",
        ),
        ("sites: {a.example: {user_agent: !!binary aGk=}}", "sites.a.example: holds something that is neither"),
        ("sites: {a.example: {domains: !!set {a, b}}}", "sites.a.example: holds something that is neither"),
        ("default: {signatures: [{status: [403]}]}", "default.signatures.0.kind: is missing"),
        ("default: {allowed_hours: {time_zone: Mars, windows: [{from: 8:00, until: 9:00}]}}", "'Mars' is no time zone"),
        ("sites: {a: {domains: [A.example]}}", "sites.a.domains: 'A.example' is no host name"),
        ("sites: {My County: {}}", "sites.My County: is no name; use letters"),
        ("sites: {job:1: {}}", "sites.job:1: is no name"),
        ("sites: {my_county: {}}", "sites.my_county: has no domains, and its name is none; add domains"),
        ("sites: {1: {}}", "sites.1: is no text; write the name in quotes"),
        ("sites: [a]", "sites: is not a mapping of names to values"),
        ("sites: {a: 5}", "sites.a: is not a mapping"),
        ("- a", "is not a mapping"),
        ("linkedin.com: {}", "linkedin.com: is not known; sites are listed under `sites:`"),
        ("site: {}", "site: is not known; did you mean 'sites'?"),
        ("sites: {a: {}, a: {}}", "line 1: the key 'a' is there twice"),
        ("default: &x {}\nsites: {a: *x}", "line 2: aliases (*name) are not allowed"),
        ("default: {\n", "line 2: "),
        ("default: !!python/object:os.system {}", "line 1: "),
        ("default: {user_agent: \x07}", "special characters are not allowed"),
        ("a: " + "[" * 1_500, "is nested too deep"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_the_field_and_what_to_do(text: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_policies(text, "my.yaml")
    message = str(refused.value)
    assert message.startswith("my.yaml: ")
    assert said in message
    assert "\n" not in message


@pytest.mark.req("Z5")
def test_a_file_that_cannot_be_read_is_told_too(tmp_path: Path) -> None:
    for name, content, said in (
        ("none.yaml", None, "there is no such file"),
        ("latin.yaml", b"default: {}\n# caf\xe9", "line 2: is not UTF-8"),
        ("huge.yaml", b"#" * (5 << 20), "is larger than 4 MiB"),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(BadInput, match=re.escape(f"{path}: {said}")):
            read_policies(path)
    with pytest.raises(BadInput, match="cannot be read"):
        read_policies(tmp_path)


def test_what_yaml_would_take_for_something_else_is_read_as_it_is_written() -> None:
    file = parse_policies(
        """
        default:
          user_agent: 2026-01-01
        sites:
          no:
            domains: [no, on]
            allowed_hours:
              time_zone: Europe/Oslo
              windows: [{from: 22:00, until: 06:30, days: [sat, sun]}, {from: 9:05, until: 24:00}]
          empty.example:
        """,
        "my.yaml",
    )
    site = file.sites["no"]
    assert site.domains == ("no", "on")
    assert site.allowed_hours is not None
    assert [(w.opens, w.closes) for w in site.allowed_hours.windows] == [(1320, 390), (545, 1440)]
    assert file.default.user_agent == "2026-01-01"
    assert file.sites["empty.example"].model_fields_set == set()


def test_an_empty_file_says_nothing() -> None:
    for text in ("", "# nothing\n", "default:\nsites:\n"):
        assert parse_policies(text, "my.yaml").sites == {}


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfsites: {a.example: {}}")
    assert read_policies(tmp_path / "a.yaml").sites.keys() == {"a.example"}


# -- round trip --------------------------------------------------------------------------------------------------------

_positive = st.floats(0.001, 80_000, allow_subnormal=False)
_TRAPS = [
    "no",
    "1e3",
    "22:00",
    "~",
    "null",
    "0x1f",
    "1_000",
    "=",
    "<<",
    "2026-01-01",
    "#c",
    "010",
    ".5",
    "true",
    "0",
    "-",
]
_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30) | st.sampled_from(_TRAPS)
_clock = st.integers(0, 23).map(lambda hour: f"{hour}:30")
_window = st.fixed_dictionaries(
    {"from": _clock, "until": st.sampled_from(["24:00", "0:00", "12:15"])},
    optional={"days": st.lists(st.sampled_from(["mon", "tue", "sat"]), min_size=1, unique=True)},
)
_signature = st.fixed_dictionaries(
    {"kind": st.sampled_from([kind.value for kind in SignatureKind]), "body": _text.map(re.escape)},
    optional={
        "status": st.lists(st.integers(100, 999), max_size=3),
        "css": st.sampled_from(["h1", "#a > .b", 'a[href="x"]', "div:first-child"]),
        "title": _text.map(re.escape),
        "largest_bytes": st.integers(1, 10**9),
    },
)
_domain = st.from_regex(r"[a-z]{1,8}\.example(:[1-9][0-9]{0,3})?", fullmatch=True)
_policy: dict[str, st.SearchStrategy[Any]] = {
    "rate": st.fixed_dictionaries({}, optional={"tokens": _positive | st.integers(1, 999), "per_seconds": _positive}),
    "concurrency": st.integers(1, 10_000),
    "slow_down_seconds": _positive,
    "allowed_hours": st.none()
    | st.fixed_dictionaries(
        {"windows": st.lists(_window, min_size=1, max_size=3)},
        optional={"time_zone": st.sampled_from(["America/Phoenix", "UTC"]), "drain_seconds": st.floats(0, 900)},
    ),
    "robots": st.sampled_from([mode.value for mode in RobotsMode]),
    "breaker": st.fixed_dictionaries({}, optional={"window": st.integers(5, 99), "reopen_seconds": _positive}),
    "signatures": st.lists(_signature, max_size=3),
    "proxy_ladder": st.just([ProxyType.NONE.value, ProxyType.DATACENTER.value]),
    "remember_tier": st.booleans(),
    "action_delay_ms": st.integers(0, 900).map(lambda least: [least, 2 * least]),
    "header_set": st.sampled_from([header_set.value for header_set in HeaderSet]),
    "user_agent": st.none() | st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=30),
    "impersonate": st.none() | _text,
}
_entry = st.fixed_dictionaries({}, optional=_policy)
_names = ["county.example", "no", "on", "linkedin.com", "demo-county", "y"]


@pytest.mark.req("property 23")
@pytest.mark.parametrize(
    "text",
    [*_TRAPS, "- a", "a: b", "é\n", "\u2028", "a\x85 b", "\ufeff", "\t", " a ", "😀", "'\"\\", "x" * 500 + " y" * 500],
)
def test_text_of_any_kind_comes_back_as_it_was(text: str) -> None:
    file = PolicyFile(SitePolicy(impersonate=text), {})
    assert parse_policies(write_policies(file), "my.yaml") == file


@st.composite
def _files(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(_names), unique=True))
    sites = {name: draw(_entry) for name in names}
    for name, domains in zip(names, draw(st.lists(st.lists(_domain, max_size=2), max_size=len(names))), strict=False):
        sites[name] = {**sites[name], "domains": [f"{number}-{domain}" for number, domain in enumerate(domains)]}
    taken: set[str] = set()
    for entry in sites.values():
        entry["domains"] = [one for one in entry.get("domains", []) if not (one in taken or taken.add(one))]  # type: ignore[func-returns-value] # seen
        if not entry["domains"]:
            del entry["domains"]
    return {"default": draw(_entry), "sites": sites}


@pytest.mark.req("property 23")
@settings(max_examples=50, deadline=None)
@given(_files())
def test_property_23_site_policies_survive_load_dump_load(content: dict[str, Any]) -> None:
    first = parse_policies(write_yaml(content), "first.yaml")
    written = write_policies(first)
    second = parse_policies(written, "second.yaml")
    assert second == first
    assert [p.model_fields_set for p in second.sites.values()] == [p.model_fields_set for p in first.sites.values()]
    assert write_policies(second) == written
    for name, entry in content["sites"].items():
        policy = first.sites[name]
        assert policy.model_fields_set == entry.keys(), "and nothing was lost on the way in"
        for field in entry.keys() & {"user_agent", "concurrency", "slow_down_seconds", "robots", "remember_tier"}:
            assert getattr(policy, field) == entry[field]
        assert [one.body for one in policy.signatures] == [one["body"] for one in entry.get("signatures", [])]


@pytest.mark.req("property 23")
@settings(max_examples=15, deadline=None)
@given(content=_files())
def test_property_23_a_directory_survives_too_shipped_entries_and_all(
    content: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("sites") / "sites.yaml"
    path.write_text(write_yaml(content), encoding="utf-8")
    first = SiteDirectory.load(path)
    path.write_text(first.dump(), encoding="utf-8")
    second = SiteDirectory.load(path)
    assert (second.default, second.sites) == (first.default, first.sites)
    assert second.dump() == first.dump()
