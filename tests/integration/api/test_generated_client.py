"""I1, I2: a client that openapi-python-client makes of our OpenAPI document can do all that the document offers."""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.integration.api.serving import Place, Served

pytestmark = pytest.mark.req("I1", "I2")

PACKAGE = "swath_client_of_test"
CONFIG = f"package_name_override: {PACKAGE}\nproject_name_override: {PACKAGE}\npost_hooks: []\n"
ITEMS = [{"test_param": "hello"}, {"item_id": "second", "input": {"test_param": "world"}}]
BODIES = {
    "ndjson": "".join(json.dumps(item) + "\n" for item in ITEMS),
    "json": json.dumps(ITEMS),
    "csv": "item_id,test_param\nfirst,hello\nsecond,world\n",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The generated package is found while the test lasts."""
    (tmp_path / "client").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "client"))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


async def generate(served: Served, folder: Path) -> str:
    """Makes the client as people do; answers with what the generator says."""
    config, made = folder / "generator.yaml", folder / "client"
    config.write_text(CONFIG, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("openapi-python-client")), "generate", "--url"]
    options = ["--output-path", str(made), "--overwrite", "--config", str(config)]
    process = await asyncio.create_subprocess_exec(
        *command,
        f"{served.url}/openapi.json",
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    importlib.invalidate_caches()
    return said.decode()


class Client:
    """The generated client. Operations by their method and path."""

    def __init__(self, served: Served, document: dict[str, Any], key: str) -> None:
        operations = {
            f"{method} {path}": (operation["tags"][0], operation["operationId"].replace("__", "_"))
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }
        self.modules = {
            name: importlib.import_module(f"{PACKAGE}.api.{tag}.{module}") for name, (tag, module) in operations.items()
        }
        self.models = importlib.import_module(f"{PACKAGE}.models")
        self.types = importlib.import_module(f"{PACKAGE}.types")
        made: ModuleType = importlib.import_module(PACKAGE)
        self.client = made.AuthenticatedClient(
            base_url=served.url,
            token=key,
            prefix="",
            auth_header_name="X-Service-Key",
            raise_on_unexpected_status=True,
        )

    async def answer(self, operation: str, *arguments: Any, **options: Any) -> Any:
        """Status, content and what was parsed. Not by the client's async functions, which send no files."""
        call = self.modules[operation].sync_detailed
        return await asyncio.to_thread(call, *arguments, client=self.client, **options)

    async def ask(self, operation: str, *arguments: Any, **options: Any) -> Any:
        """The answer as the generated models have it."""
        answer = await self.answer(operation, *arguments, **options)
        assert answer.status_code < 300, answer.content
        assert answer.parsed is not None
        return answer.parsed

    async def until_completed(self, job_id: str) -> Any:
        """The status of a job once it is completed; two minutes only guard against hanging."""
        async with asyncio.timeout(120):
            while True:
                found = (await self.ask("get /jobs/{job_id}/status", job_id)).data
                if found.status == "completed":
                    return found
                await asyncio.sleep(0.05)


async def test_a_generated_client_orders_loads_follows_and_downloads(place: Place, tmp_path: Path) -> None:
    code, key, err = await place.run("keys", "create", "client", "--scope", "submit")
    assert code == 0, err
    async with place.serving() as served:
        said = await generate(served, tmp_path)
        assert "Endpoint will not be generated" not in said, said
        document = (await served.client.get("/openapi.json")).json()
        client = Client(served, document, key.strip())
        for form, body in BODIES.items():
            await load_and_follow(client, form, body)
        await order_and_read(client)
        client.client.get_httpx_client().close()


async def load_and_follow(client: Client, form: str, body: str) -> None:
    """A job without items gets them as bytes, whose first character says what they are."""
    await client.ask("post /jobs", body=client.models.NewJob(job_id=form, scraper_id="example-http"))
    file = client.types.File(payload=io.BytesIO(body.encode()))
    options = {"id_column": "item_id"} if form == "csv" else {}
    loaded = await client.ask("post /jobs/{job_id}/items", form, body=file, **options)
    assert (loaded.success, loaded.data.added, loaded.data.error_count) == (True, 2, 0)
    await client.ask("post /jobs/{job_id}/start", form)
    assert (await client.until_completed(form)).counts.success == 2
    stored = await client.ask("get /jobs/{job_id}/items/{item_id}/download", form, "second")
    assert json.load(stored.payload)["echo"]["test_param"] == "world"


async def order_and_read(client: Client) -> None:
    """A job with items; its results, its export, and an error."""
    models = client.models
    item = models.NewItem(item_id="only", input_=models.NewItemInput.from_dict({"test_param": "hello"}))
    order = models.NewJob(job_id="whole", scraper_id="example-http", items=[item])
    assert (await client.ask("post /jobs", body=order)).data.job_id == "whole"
    assert (await client.until_completed("whole")).counts.total == 1
    results = (await client.ask("get /jobs/{job_id}/results", "whole")).data
    assert results.counts["success"] == 1
    form = models.ExportJobsJobIdExportGetFormat("csv")
    exported = await client.ask("get /jobs/{job_id}/export", "whole", format_=form)
    assert b"only" in exported.payload.read()
    missing = await client.answer("get /jobs/{job_id}", "nobody")
    assert (missing.status_code, missing.parsed.error.code) == (404, "job_not_found")
