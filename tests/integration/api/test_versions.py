"""Versions of results over HTTP: ordered, made by the worker, listed with their diff, and chosen (R6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.api.running import running, until_ended

MOCK: dict[str, Any] = {
    "job_id": "a",
    "scraper_id": "example-mock",
    "items": [{"item_id": "one", "input": {"x": 1}}, {"item_id": "two", "input": {"x": 2}}],
}


@pytest.mark.req("R6")
@pytest.mark.parametrize("layout", ["files", "warc"])
async def test_a_version_is_ordered_listed_and_chosen(tmp_path: Path, layout: str) -> None:
    async with running(tmp_path, work=True) as api:
        await api.data("POST", "/jobs", json={**MOCK, "layout": layout})
        await until_ended(api, "a")
        made = await api.data("POST", "/jobs/a/reextract", json={"scraper_id": "example-mock", "scraper_version": "1"})
        assert (made["job_id"], made["extracts"], made["layout"]) == ("a.v2", "a", "warc")
        await until_ended(api, "a.v2")
        told = await api.data("GET", "/jobs/a/versions")
        assert (told["current_version"], [one["job_id"] for one in told["versions"]]) == (2, ["a", "a.v2"])
        newest = told["versions"][1]
        assert (newest["current"], newest["status"], newest["counts"]["success"]) == (True, "completed", 2)
        assert (newest["diff"]["same_items"], newest["diff"]["fields"]["count"]["same"]) == (2, 2)
        back = await api.data("POST", "/jobs/a/versions/current", json={"version": 1})
        assert (back["current_version"], back["versions"]) == (1, 2)


@pytest.mark.req("R6")
async def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    async with running(tmp_path, work=True) as api:
        await api.data("POST", "/jobs", json=MOCK)
        await until_ended(api, "a")
        order = {"scraper_id": "example-mock"}
        error = await api.error("POST", "/jobs/a/reextract", json={**order, "scraper_version": "9"})
        assert error["details"]["fields"][0]["path"] == "scraper_version"
        assert (await api.error("POST", "/jobs/a/reextract", json={"scraper_id": "x"}))["code"] == "scraper_not_found"
        assert (await api.error("POST", "/jobs/b/reextract", json=order))["code"] == "job_not_found"
        assert (await api.error("GET", "/jobs/b/versions"))["code"] == "job_not_found"
        error = await api.error("POST", "/jobs/a/versions/current", json={"version": 2})
        assert (error["code"], "no version 2" in error["message"]) == ("validation_error", True)
        await api.data("POST", "/jobs/a/reextract", json=order)
        await until_ended(api, "a.v2")
        again = {"item_ids": ["one"]}
        await api.data("POST", "/jobs/a/retry", json=again)
        await until_ended(api, "a")
        error = await api.error("POST", "/jobs/a.v2/retry", json=again)
        assert (error["code"], "ran again since 'a.v2' was begun" in error["message"]) == ("conflict", True)
        error = await api.error("DELETE", "/jobs/a.v2")
        assert (error["code"], "swath jobs use a --version 1" in error["message"]) == ("conflict", True)
