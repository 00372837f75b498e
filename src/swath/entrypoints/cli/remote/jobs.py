"""ServerJobs: the jobs of a controller, asked over its API; does what cli/jobs/here.py does with a store.

Before: cli/jobs/opened.py chose it, because of `--server` or SWATH_SERVER. After: the controller.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Final
from urllib.parse import quote

import msgspec

from swath.domain.errors import BadInput
from swath.domain.explain import listed
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.layout import file_of
from swath.domain.policy import ExecutionPolicy
from swath.domain.result import Artifact
from swath.domain.selection import Selection
from swath.domain.webhook import Webhook
from swath.entrypoints.cli.order import Order
from swath.entrypoints.cli.output import command
from swath.entrypoints.cli.progress import Display
from swath.entrypoints.cli.remote.answers import Client, Refused
from swath.entrypoints.cli.remote.create import create
from swath.entrypoints.cli.remote.events import follow
from swath.entrypoints.cli.remote.patience import until_ended, until_gone, until_sent
from swath.entrypoints.cli.remote.shapes import item_of, merge_patch, status_of, webhook_of
from swath.pipeline.results.evidence import Evidence

__all__ = ["ServerJobs"]

PAGE: Final = 1_000  # the most that the API gives at once


class ServerJobs:
    """See Jobs. Nothing is kept between calls."""

    def __init__(self, client: Client, default_scraper: str | None = None) -> None:
        self._client = client
        self._default_scraper = default_scraper

    async def create(self, order: Order, display: Display) -> JobStatus:
        """See Jobs."""
        scraper = order.scraper or self._default_scraper
        if scraper is None:
            raise BadInput("name a scraper of the controller, or set SWATH_DEFAULT_SCRAPER")
        if scraper.endswith(".py") or "/" in scraper or "\\" in scraper:
            raise BadInput(
                f"{scraper}: a file is not sent to a controller; put it into a folder of SWATH_SCRAPERS there, and "
                "give the id of its scraper"
            )
        return await create(self._client, order, scraper, display)

    async def jobs(self, limit: int) -> list[JobStatus]:
        """See Jobs."""
        found: list[JobStatus] = []
        cursor: str | None = None
        while len(found) < limit:
            query = {"limit": min(PAGE, limit - len(found)), "cursor": cursor, "on_demand": "true"}
            page = await self._client.ask("GET", "jobs", query=query)
            with self._client.understanding():
                found += map(status_of, page["jobs"])
                cursor = page["next_cursor"]
            if cursor is None:
                break
        return found

    async def status(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._asked("GET", job_id, "status")

    def follow(self, job_id: str, note: Callable[[str], None]) -> AsyncGenerator[JobStatus, None]:
        """See Jobs."""
        return follow(self._client, job_id, note)

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        """See Jobs."""
        view = await self._client.ask("GET", "jobs", job_id, "items", item_id)
        with self._client.understanding():
            return item_of(view)

    async def evidence(self, job_id: str, item_id: str) -> Evidence:
        """See Jobs."""
        view = await self._client.ask("GET", "jobs", job_id, "items", item_id, query={"evidence": "true"})
        with self._client.understanding():
            return msgspec.convert(view["evidence"], Evidence)

    async def pause(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._asked("POST", job_id, "pause")

    async def resume(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await self._asked("POST", job_id, "resume")

    async def cancel(self, job_id: str) -> JobStatus:
        """See Jobs."""
        return await until_ended(self._client, await self._asked("POST", job_id, "cancel"))

    async def change_policy(
        self, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None = None
    ) -> JobStatus:
        """See Jobs. The controller looks whether others were faster: it makes what is sent a part of what there is."""
        former = expected or (await self.status(job_id)).job.policy
        part = merge_patch(
            former.model_dump(mode="json"), policy.model_dump(mode="json"), only_changes=expected is not None
        )
        await self._client.ask("PATCH", "jobs", job_id, "policy", body=part)
        return await self.status(job_id)

    async def retry(self, job_id: str, selection: Selection) -> JobStatus:
        """See Jobs."""
        asked = sorted(selection.item_ids)
        body = {
            "failed": selection.failed,
            "kinds": sorted(selection.kinds),
            "not_run": selection.not_run,
            "item_ids": asked,
            "since": selection.since,
        }
        try:
            return await self._asked("POST", job_id, "retry", body=body)
        except Refused as refused:
            fields = [str(field.get("path")) for field in refused.details.get("fields", ())]
            unknown = [asked[int(path[9:-1])] for path in fields if path.startswith("item_ids[")]
            if not unknown:
                raise
            told = f"job {job_id!r} has no item {listed(unknown)}; nothing is run again"
            raise BadInput(told) from refused

    async def delete(self, job_id: str) -> None:
        """See Jobs."""
        await self._client.ask("DELETE", "jobs", job_id)

    async def removed(self, job_id: str, note: Callable[[str], None]) -> bool:
        """See Jobs."""
        del note
        return await until_gone(self._client, job_id)

    async def webhooks(self, job_id: str) -> list[dict[str, Any]]:
        """See Jobs."""
        found: list[dict[str, Any]] = await self._client.ask("GET", "jobs", job_id, "webhooks")
        return found

    async def resend(self, job_id: str) -> Webhook:
        """See Jobs."""
        entry = await self._client.ask("POST", "jobs", job_id, "webhooks", "resend")
        with self._client.understanding():
            webhook_id = entry["webhook_id"]
        sent = await until_sent(self._client, job_id, webhook_id)
        with self._client.understanding():
            return webhook_of(sent)

    def location(self, job_id: str) -> str:
        """See Jobs."""
        return f"{self._client.address.url}/jobs/{quote(job_id, safe='')}/results"

    def place_of(self, job_id: str, item_id: str, artifact: Artifact) -> str:
        """See Jobs."""
        path = "/".join(quote(part, safe="") for part in ("jobs", job_id, "items", item_id, "download"))
        name = quote(file_of(item_id, artifact.key), safe="")
        return f"{self._client.address.url}/{path}?artifact={name}"

    def command(self, *words: str) -> str:
        """See Jobs."""
        return command(*words, "--server", self._client.address.url)

    def who_works(self, job_id: str) -> str:
        """See Jobs."""
        return f"the workers of the controller run it: `{self.command('jobs', 'watch', job_id)}`"

    async def _asked(self, method: str, job_id: str, what: str, body: object = None) -> JobStatus:
        view = await self._client.ask(method, "jobs", job_id, what, body=body)
        with self._client.understanding():
            return status_of(view)
