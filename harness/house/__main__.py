"""`make house`: how large the product's modules are, and how many of them an item and a scrape on demand run through.

What runs is counted, not timed: a job of 200 items and one of 400 run under a profiler, and the difference is what
200 more items cost. Modules count that were called at least once for every ten more items.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Final

FEW, MANY = 200, 400
FEW_SCRAPES, MANY_SCRAPES = 20, 40
START_SECONDS: Final = 120.0
PAGE: Final = (
    b"<html><head><title>Parcel</title></head><body><h1>Parcel</h1>"
    + b"".join(b"<p>Row %d of the page of this parcel, with some text in it.</p>" % n for n in range(40))
    + b'<span id="owner">Ada Lovelace</span></body></html>'
)
SCRAPER: Final = """
from swath import HttpScraper, Input, Output, Pages, WebPage, WebSession, scraper

class Parcel(Input):
    parcel_id: str
    url: str

class Found(Output):
    owner: str

@scraper("house", version="1", description="One page, one field.")
class House(HttpScraper):
    Input = Parcel
    Output = Found

    async def fetch(self, item: Parcel, web: WebSession) -> WebPage:
        return await web.get(item.url)

    def extract(self, pages: Pages) -> dict[str, str]:
        return pages.main.texts_of({"owner": "#owner"}, "")
"""


@dataclass(frozen=True)
class Counts:
    """Of one run: calls by module of Swath, all Python calls, steps of SQLite."""

    by_module: Counter[str]
    calls: int
    steps: int

    def beyond(self, other: Counts, more: int) -> tuple[set[str], float, float]:
        """What `more` more of something added: modules, and calls and steps for each."""
        added = self.by_module - other.by_module
        return (
            {module for module, calls in added.items() if calls >= more / 10},
            (self.calls - other.calls) / more,
            (self.steps - other.steps) / more,
        )


def main(arguments: list[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="make house")
    parser.add_argument("--source", type=Path, default=Path("src"), help="the folder that `swath` is in (src)")
    parser.add_argument("--list", action="store_true", help="name the modules that an item runs through")
    options = parser.parse_args(arguments)
    sizes = _sizes(options.source / "swath")
    rows: list[tuple[str, str]] = [
        ("modules, lines of the product", f"{len(sizes):,}, {sum(sizes):,}"),
        (
            "lines of a module: median, p95, largest",
            f"{statistics.median(sizes):.0f}, {statistics.quantiles(sizes, n=20)[-1]:.0f}, {max(sizes)}",
        ),
    ]
    with tempfile.TemporaryDirectory(prefix="swath-house-") as folder:
        few, many = (_run(Path(folder) / str(n), options.source, n) for n in (FEW, MANY))
        modules, calls, steps = many.beyond(few, MANY - FEW)
        rows += [
            ("modules that one more HTTP item runs through", f"{len(modules)}"),
            ("Python calls, SQLite steps of one more item", f"{calls:,.0f}, {steps:,.0f}"),
        ]
        few, many = (_scrape(Path(folder) / f"scrape-{n}", options.source, n) for n in (FEW_SCRAPES, MANY_SCRAPES))
        scraped, calls, steps = many.beyond(few, MANY_SCRAPES - FEW_SCRAPES)
        rows += [
            ("modules that one more POST /api/v1/scrape/sync runs through", f"{len(scraped)}"),
            ("Python calls, SQLite steps of one more scrape", f"{calls:,.0f}, {steps:,.0f}"),
        ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")
    if options.list:
        print("\n".join(sorted(modules)))
    return 0


def _sizes(product: Path) -> list[int]:
    files = [file for file in product.rglob("*.py") if "testing" not in file.relative_to(product).parts[:1]]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return [
        text.count("\n")
        for file, text in zip(files, texts, strict=True)
        if file.name != "__init__.py" or text.count("\n") > 5
    ]


def _run(folder: Path, source: Path, items: int) -> Counts:
    folder.mkdir()
    (folder / "house.py").write_text(SCRAPER, encoding="utf-8")
    (folder / "policy.json").write_text(json.dumps({"throttling": {"max_concurrent_workers": 8}}), encoding="utf-8")
    with _site() as url:
        rows = [f"p{n},{url}/parcel/{n}" for n in range(items)]
        (folder / "items.csv").write_text("\n".join(["parcel_id,url", *rows]) + "\n", encoding="utf-8")
        host = url.removeprefix("http://")
        policy = {
            "domains": [host.partition(":")[0]],
            "rate": {"tokens": 100_000},
            "concurrency": 8,
            "robots": "ignore",
        }
        (folder / "sites.yaml").write_text(json.dumps({"sites": {"house": policy}}), encoding="utf-8")
        command = ["run", "./house.py", "--items", "items.csv", "--policy", "policy.json", "--quiet"]
        done = subprocess.run(
            _traced(folder, command),
            cwd=folder,
            env=_environment(folder, source, host),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"swath run ended with {done.returncode}: {done.stdout}{done.stderr}")
    return _counts(folder, source)


def _scrape(folder: Path, source: Path, scrapes: int) -> Counts:
    folder.mkdir()
    command = _traced(folder, ["serve", "--port", "0"])
    with subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(folder, source, ""),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        found = re.search(r"http://[^;\s]+", process.stdout.readline())
        if not found:
            process.terminate()
            raise SystemExit("swath serve said no address")
        wanted = {"target_type": "example-http", "target_url": "https://example.com/", "timeout_seconds": START_SECONDS}
        body = json.dumps(wanted).encode()
        for _ in range(scrapes):
            address = f"{found[0]}/api/v1/scrape/sync"
            request = urllib.request.Request(address, body, {"Content-Type": "application/json"})  # noqa: S310 our own server
            with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:  # noqa: S310 our own server
                said = json.load(answer)
            if said["data"]["status"] != "completed":
                process.kill()
                raise SystemExit(f"a scrape was not completed: {said}")
        process.terminate()
        process.stdout.read()
    return _counts(folder, source)


def _traced(folder: Path, command: list[str]) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("traced.py").resolve()), str(folder / "counts.json"), *command]


def _environment(folder: Path, source: Path, host: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    kept |= {"PYTHONPATH": str(source.resolve()), "SWATH_DATA": str(folder / "data"), "PWD": str(folder)}
    return kept | ({"SWATH_SITES": str(folder / "sites.yaml"), "SWATH_ALLOW_PRIVATE": host} if host else {})


def _counts(folder: Path, source: Path) -> Counts:
    found = json.loads((folder / "counts.json").read_text(encoding="utf-8"))
    product = str((source / "swath").resolve()) + "/"
    by_module: Counter[str] = Counter()
    for file, calls in found["calls"].items():
        if file.startswith(product):
            by_module[file.removeprefix(product)] += calls
    return Counts(by_module, sum(found["calls"].values()), found["steps"])


class _Site(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            _, _, self._received = self._received.partition(b"\r\n\r\n")
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(PAGE)
            self._transport.write(head + PAGE)


@contextmanager
def _site() -> Iterator[str]:
    """In a thread: it serves one page under every address."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(_Site, "127.0.0.1", 0))
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()


if __name__ == "__main__":
    sys.exit(main())
