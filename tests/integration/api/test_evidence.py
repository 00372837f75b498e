"""R8: the evidence of an item over HTTP, and values of the current version."""

from __future__ import annotations

import pytest

from swath.domain.execution_policy import Keep
from swath.domain.storage_keys import Layout
from tests.contract.suites.builders import policy
from tests.integration.api.running import Api
from tests.unit.pipeline.making import BOTH_LAYOUTS, Made, make_job, page

pytestmark = pytest.mark.req("R8", "I2")

PAGES = (page("html", b"<b>ANN</b>"), page("bill", b"<p>17</p>"))
URL = "/jobs/job/items/1"


async def stored(api: Api, layout: Layout) -> None:
    services = api.services
    items = {"1": Made(data={"owner": "ANN", "due": 17}, pages=PAGES), "2": Made(data={"owner": "BOB"}, pages=PAGES)}
    await make_job(services.store, services.storage, services.clock, items, layout=layout)


@pytest.mark.parametrize("layout", BOTH_LAYOUTS)
async def test_evidence_comes_when_it_is_asked_for(api: Api, layout: Layout) -> None:
    await stored(api, layout)
    assert (await api.data("GET", URL))["evidence"] is None
    evidence = (await api.data("GET", f"{URL}?evidence=true"))["evidence"]
    assert {one["field"]: one["found_in"] for one in evidence["values"]} == {"owner": ["html"], "due": ["bill"]}
    assert [(one["name"], one["sha256"]) for one in evidence["pages"]] == [(one.name, one.sha256) for one in PAGES]
    assert (await api.error("GET", f"{URL}?evidence=perhaps"))["code"] == "validation_error"


@pytest.mark.req("R6")
@pytest.mark.parametrize("layout", BOTH_LAYOUTS)
async def test_data_is_that_of_the_current_version_and_pages_are_those_of_the_job(api: Api, layout: Layout) -> None:
    await stored(api, layout)
    services = api.services
    await services.store.add_version("job")
    more = {"extracts": "job", "policy": policy(100, keep=Keep.DATA.value)}
    newer = {"1": Made(data={"owner": "ANNA"}, pages=PAGES)}
    await make_job(services.store, services.storage, services.clock, newer, "job.v2", layout, **more)
    await services.store.set_current("job", 2)
    for item, name, body in (
        ("1", "data", b'{"owner":"ANNA"}'),
        ("1", "html", b"<b>ANN</b>"),
        ("2", "data", b'{"owner":"BOB"}'),  # which the version does not have
    ):
        assert (await api.client.get(f"/jobs/job/items/{item}/download?artifact={name}")).content == body
    await services.store.set_current("job", 1)
    assert (await api.client.get(f"{URL}/download")).json() == {"owner": "ANN", "due": 17}
