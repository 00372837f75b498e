"""Property 39: secrets are planted wherever an operator or a caller may put them; then logs, metrics, traces of errors
and answers are searched."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from swath.demo.county import DemoCountyServer
from swath.domain.secret import Secret
from swath.domain.service_key import Scope
from swath.entrypoints.cli.runtime import _secrets
from swath.observability import logs
from swath.observability.masking import SecretMask
from swath.observability.task_context import ITEMS_LOGGER
from tests.integration.api.running import running, until_ended

pytestmark = pytest.mark.req("Z7", "property 39")

PASSWORD, ZONE, HOOK, TOKEN = "canary:P@ss/1 w", "canary-zone-2", "canary-hook-3456789012345678", "canary-token-4"
SETTINGS = {
    "proxy_custom_urls": (Secret(f"http://someone:{quote(PASSWORD, safe='')}@127.0.0.1:9"),),
    "proxy_customer": "customer1",
    "proxy_datacenter_zone": "datacenter",
    "proxy_datacenter_password": Secret(ZONE),
    "webhook_secret": (Secret(HOOK),),
    "webhook_url": f"http://127.0.0.1:9/hooks/{TOKEN}",
    "webhook_retry_seconds": (0.05,),
    "proxy_cooldown_seconds": 0.01,
    "allow_private": ("127.0.0.1:9",),
}
FAILS_AT_ITS_PROXY = {
    "job_id": "proxied",
    "scraper_id": "example-http",
    "execution_policy": {"proxy": {"type": "custom"}, "retries": {"max_retries": 0, "max_infrastructure_retries": 0}},
    "items": [{"item_id": "one", "input": {"test_param": "canary-input"}}],
}


def spellings(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield json.dumps(secret)[1:-1]
    yield base64.b64encode(secret.encode()).decode().rstrip("=")
    yield base64.b64encode(f"someone:{secret}".encode()).decode().rstrip("=")[12:]


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, logging.getLogger(ITEMS_LOGGER).disabled
    mask, logs._mask = logs._mask, SecretMask()
    yield io.StringIO()
    root.handlers[:], logs._mask = handlers, mask
    root.setLevel(level)
    logging.getLogger(ITEMS_LOGGER).disabled = disabled


async def test_planted_secrets_are_in_no_log_metric_or_answer(
    tmp_path: Path, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with DemoCountyServer() as county, running(tmp_path, work=True, demo_url=county.base_url, **SETTINGS) as api:
        monkeypatch.setenv("SWATH_DEMO_URL", county.base_url)
        logs.set_up_logging("DEBUG", "json", _secrets(api.services.settings), stream=lines)
        key = (await api.key(Scope.ADMIN)).reveal()
        client = api.client
        client.headers["X-Service-Key"] = key
        answers = [await client.post("/jobs", json=FAILS_AT_ITS_PROXY)]
        assert answers[0].status_code == 201, answers[0].text
        assert (await until_ended(api, "proxied"))["status"] == "failed"
        logging.getLogger("swath").error("a careless line: %s %s %s %s %s", PASSWORD, ZONE, HOOK, TOKEN, key)
        try:
            raise ValueError(f"{PASSWORD} and {key}")
        except ValueError:
            logging.getLogger("swath").exception("careless")
        answers += [
            await client.request(method, path, headers=headers)
            for method, path, headers in (
                ("GET", "/jobs/proxied", {}),
                ("GET", "/jobs/proxied/items/one", {}),
                ("GET", "/jobs/proxied/results", {}),
                ("GET", "/jobs/proxied/results?part=1", {}),
                ("GET", "/jobs/proxied/items/one/download?artifact=metadata", {}),
                ("GET", "/jobs/proxied/webhooks", {}),
                ("GET", "/health", {}),
                ("GET", "/readiness", {}),
                ("GET", "/metrics", {}),
                ("GET", "/openapi.json", {}),
                ("GET", f"/jobs?x_service_key={key}", {}),
                ("GET", "/jobs", {"X-Service-Key": key + "x"}),
                ("PUT", "/jobs", {}),
            )
        ]
    told = lines.getvalue()
    for line in told.splitlines():
        json.loads(line)
    assert '"error_reason": "proxy"' in told
    assert '"canary-input"' not in told
    everything = [told, *(answer.text + str(answer.headers) for answer in answers)]
    for secret in (PASSWORD, ZONE, HOOK, TOKEN, key[-20:]):
        for spelling in spellings(secret):
            assert [text for text in everything if spelling in text] == [], spelling


async def test_the_search_itself_would_find_them(lines: io.StringIO) -> None:
    logs.set_up_logging("DEBUG", "json", (), stream=lines)
    logging.getLogger("swath").error("%s", PASSWORD)
    assert any(spelling in lines.getvalue() for spelling in spellings(PASSWORD))
