"""Policies that people write: read strictly, refused in one line with the path, what is wrong and what is allowed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.domain.execution_policy import Backoff, ExecutionPolicy, ProxyType
from swath.pipeline.ingest.job_spec import POLICY_LIMIT_BYTES, read_policy

pytestmark = pytest.mark.req("J1", "Z5")

WANTED = {
    "throttling": {"max_concurrent_workers": 3, "requests_per_second": 2.5},
    "retries": {"max_retries": 1, "backoff": "fixed", "kinds": {"blocked": {"max_retries": 0}}},
    "proxy": {"ladder": ["none", "residential"]},
}
YAML = """
# polite
throttling: {max_concurrent_workers: 3, requests_per_second: 2.5}
retries:
  max_retries: 1
  backoff: fixed
  kinds: {blocked: {max_retries: 0}}
proxy:
  ladder: [none, residential]
"""


def written(tmp_path: Path, text: str | bytes, name: str = "policy.yaml") -> Path:
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def complaint(file: Path) -> str:
    with pytest.raises(BadInput) as raised:
        read_policy(file)
    message = str(raised.value)
    assert "\n" not in message
    assert message.startswith(f"{file}: ")
    return message.removeprefix(f"{file}: ")


@pytest.mark.parametrize(("text", "name"), [(YAML, "p.yaml"), (YAML, "p.yml"), (json.dumps(WANTED), "p.json")])
def test_yaml_and_json_say_the_same(tmp_path: Path, text: str, name: str) -> None:
    policy = read_policy(written(tmp_path, "\ufeff" + text, name))
    assert policy == ExecutionPolicy.model_validate(WANTED)
    assert policy.retries.backoff is Backoff.FIXED
    assert policy.proxy.ladder == (ProxyType.NONE, ProxyType.RESIDENTIAL)


def test_what_a_policy_dumps_it_reads_again(tmp_path: Path) -> None:
    policy = ExecutionPolicy.model_validate(WANTED)
    assert read_policy(written(tmp_path, json.dumps(policy.as_json()), "p.json")) == policy
    assert read_policy(written(tmp_path, "{}")) == ExecutionPolicy()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("throttling: {max_concurrent_workers: 0}", "throttling.max_concurrent_workers: must be at least 1 (is 0)"),
        (
            "throttling: {max_concurrent_workers: '8'}",
            "throttling.max_concurrent_workers: must be a whole number (is '8')",
        ),
        (
            "throttling: {max_concurrent_workers: yes}",
            "throttling.max_concurrent_workers: must be a whole number (is 'yes')",
        ),
        (
            "throttling: {max_concurrent_workers: 2.5}",
            "throttling.max_concurrent_workers: must be a whole number (is 2.5)",
        ),
        (
            "throttling: {requests_per_second: 1e999}",
            "throttling.requests_per_second: must be a finite number (is inf)",
        ),
        ("throttling: {requests_per_second: fast}", "throttling.requests_per_second: must be a number (is 'fast')"),
        ("timeouts: {item_seconds: 90000}", "timeouts.item_seconds: must be at most 86400 (is 90000)"),
        ("timeouts: {item_seconds: 0}", "timeouts.item_seconds: must be more than 0 (is 0)"),
        ("retries: {backoff: cubic}", "retries.backoff: must be 'exponential', 'linear' or 'fixed' (is 'cubic')"),
        ("proxy: {country: 7}", "proxy.country: must be text (is 7)"),
        ("proxy: {ladder: none}", "proxy.ladder: must be a list (is 'none')"),
        ("throttling: 3", "throttling: must be a mapping of names to values (is 3)"),
        ("throttling:", "throttling: must be a mapping of names to values (is None)"),
        (
            "throttling: {max_concurent_workers: 3}",
            "throttling.max_concurent_workers: is not known; did you mean 'max_concurrent_workers'?",
        ),
        ("throtling: {}", "throtling: is not known; did you mean 'throttling'?"),
        (
            "speed: 3",
            "speed: is not known; allowed: 'throttling', 'retries', 'timeouts', 'circuit_breaker', 'proxy', 'keep'",
        ),
        (
            "retries: {kinds: {blocked: {max_retry: 3}}}",
            "retries.kinds.blocked.max_retry: is not known; did you mean 'max_retries'?",
        ),
        ("retries: {kinds: {blokced: {}}}", "retries.kinds.blokced: is not known; did you mean 'blocked'?"),
        (
            "circuit_breaker: {failure_threshold_percentage: 50}",
            "circuit_breaker.failure_threshold_percentage: is a fraction between 0 and 1; for 50 % write 0.5",
        ),
        (
            "throttling: {max_concurrent_workers: 0}\nkeep: x",
            "throttling.max_concurrent_workers: must be at least 1 (is 0) (and 1 more)",
        ),
        ("keep: !!timestamp 2020-01-01", "has a date or another value that JSON does not know; write it in quotes"),
        ("- a\n- b", "is not a mapping; it may have 'throttling'"),
        ("just words", "is not a mapping"),
        ("# nothing", "is empty; it may have 'throttling'"),
        ("keep: data\nkeep: both", "line 2: the key 'keep' is there twice"),
        ("keep: [data", "line 1: "),
        ("keep: data\n\tproxy: {}", "line 2: "),
        ("a: &x [1]\nb: *x", "line 2: aliases (*name) are not allowed"),
        ("? [a]\n: b", "line 1: "),
        ("keep: !!python/object:os.system x", "line 1: could not determine a constructor"),
        ("[" * 5_000, "is nested too deep"),
        ("keep: \x00", "unacceptable character"),
    ],
)
def test_a_wrong_policy_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    assert complaint(written(tmp_path, text)).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"keep": "data",\n}', "line 2: is not valid JSON"),
        ('{"keep": "data", "keep": "both"}', "the key 'keep' is there twice"),
        ('{"throttling": {"requests_per_second": NaN}}', "throttling.requests_per_second: must be"),
        ("", "is empty"),
        ("[" * 100_000, "is nested too deep"),
    ],
)
def test_a_wrong_json_policy_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    assert complaint(written(tmp_path, text, "policy.json")).startswith(said)


def test_a_bomb_of_aliases_is_refused_before_it_grows(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
    assert "line 2: aliases" in complaint(written(tmp_path, "\n".join(lines)))


def test_files_that_cannot_be_policies_are_refused(tmp_path: Path) -> None:
    assert "there is no such file" in complaint(tmp_path / "nowhere.yaml")
    assert "is a directory" in complaint(tmp_path)
    assert "line 2: is not UTF-8" in complaint(written(tmp_path, b"keep: data\n# \xe9\n"))
    assert "larger than 1 MiB" in complaint(written(tmp_path, b"#" * (POLICY_LIMIT_BYTES + 1)))
    assert "is a pipe or a device" in complaint(Path("/dev/zero"))
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe or a device" in complaint(tmp_path / "pipe")
