"""The pages on site policies say what the code says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from swath.domain.site_policy import AllowedHours, Breaker, RobotsMode, Signature, SignatureKind, SitePolicy
from swath.fetch.sites.policies import SiteDirectory, parse_policies
from tests.docs.pages import ROOT, blocks_of, code_in, rows_of, section_of

if TYPE_CHECKING:
    from pydantic import BaseModel

pytestmark = pytest.mark.req("G1", "D1")

PAGE = (ROOT / "docs/reference/site-policies.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("## Fields", SitePolicy),
        ("### allowed_hours", AllowedHours),
        ("### breaker", Breaker),
        ("### signatures", Signature),
    ],
)
def test_every_field_is_in_its_table(heading: str, model: type[BaseModel]) -> None:
    section = section_of(PAGE, heading).strip().partition("\n### ")[0]
    listed = [name for cells in rows_of(section) for name in code_in(cells[0])]
    assert sorted(listed) == sorted(model.model_fields)


def test_the_defaults_are_those_of_the_code() -> None:
    default = SitePolicy()
    shown = {cells[0].strip("`"): cells[1] for cells in rows_of(section_of(PAGE, "## Fields").partition("\n### ")[0])}
    assert shown["concurrency"] == str(default.concurrency)
    assert shown["slow_down_seconds"] == f"{default.slow_down_seconds:g}"
    assert shown["robots"] == f"`{default.robots}`"
    assert shown["header_set"] == f"`{default.header_set}`"
    assert shown["action_delay_ms"] == f"`{list(default.action_delay_ms)}`"
    for section, fields in (("rate", default.rate), ("breaker", default.breaker)):
        assert shown[section] == ", ".join(f"`{name}: {value:g}`" for name, value in fields)


def test_all_modes_and_kinds_are_named() -> None:
    fields = section_of(PAGE, "## Fields").partition("\n### ")[0]
    assert {mode.value for mode in RobotsMode} <= set(code_in(fields))
    assert {kind.value for kind in SignatureKind} <= set(code_in(section_of(PAGE, "### signatures")))


def test_shipped_entries_are_named() -> None:
    assert SiteDirectory.load(None).sites.keys() <= set(code_in(section_of(PAGE, "## Shipped")))
    assert not any(site.policy.proxy_ladder for site in SiteDirectory.load(None).sites.values())


@pytest.mark.parametrize("page", ["docs/reference/site-policies.md", "docs/how-to/be-kind-to-a-site.md"])
def test_the_examples_are_site_policies(page: str) -> None:
    examples = [block for block in blocks_of((ROOT / page).read_text(encoding="utf-8")) if "sites:" in block.text]
    assert examples
    for block in examples:
        if block.language == "yaml":
            assert parse_policies(block.text, page).sites
