"""P2: a controller that looks at robots.txt before an order leaves the proxy's turn to the job's first item."""

from __future__ import annotations

from pathlib import Path

import pytest

from swath.domain.secret import Secret
from tests.acceptance.test_cool_down import SCRAPER, proxy
from tests.integration.api.running import running, until_ended


@pytest.mark.req("P2", "H5")
async def test_the_look_at_robots_before_an_order_uses_up_no_turn(tmp_path: Path) -> None:
    (tmp_path / "scrapers").mkdir()
    (tmp_path / "scrapers/proxied.py").write_text(SCRAPER)
    async with proxy() as (place, asked):
        chosen = {
            "proxy_custom_urls": (Secret(f"http://{place}"),),
            "proxy_cooldown_seconds": 3_600.0,
            "allow_private": (place, "127.0.0.1:9"),
        }
        async with running(tmp_path, work=True, **chosen) as api:
            order = {
                "job_id": "j",
                "scraper_id": "proxied",
                "items": [{"item_id": "one", "input": {"n": 1}}],
                "execution_policy": {"proxy": {"type": "custom"}},
            }
            await api.data("POST", "/jobs", json=order)
            assert (await until_ended(api, "j"))["counts"]["success"] == 1
    assert asked == ["http://127.0.0.1:9/robots.txt", "http://127.0.0.1:9/1"]
