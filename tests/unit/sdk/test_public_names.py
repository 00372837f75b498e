import subprocess
import sys

import pytest

import swath


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_swath_loads_nothing_heavy() -> None:
    loaded = run(
        "import sys, swath; swath.__version__; dir(swath); "
        "print([m for m in ('pydantic', 'wreq', 'selectolax', 'msgspec', 'asyncio', 'swath.sdk') if m in sys.modules])"
    )
    assert loaded == "[]"


def test_authors_and_the_registry_do_not_load_the_http_client() -> None:
    loaded = run(
        "import sys; from swath import HttpScraper, scraper; from swath.sdk.registry import Registry; "
        "import swath.fetch.http.client.transport; Registry().get('example-mock'); print('wreq' in sys.modules)"
    )
    assert loaded == "False"


@pytest.mark.req("K1")
def test_browser_scrapers_are_listed_and_loaded_without_the_browser_extra() -> None:
    loaded = run(
        "import sys; sys.modules['patchright'] = sys.modules['psutil'] = None; "
        "from swath import BrowserScraper, BrowserSession; from swath.sdk.registry import Registry; "
        "registry = Registry(); kinds = {info.id: info.kind for info in registry.infos()}; "
        "print(kinds['demo-county-browser'], registry.get('demo-county-browser').kind, kinds['demo-county'])"
    )
    assert loaded == "browser browser http"


@pytest.mark.parametrize("name", swath.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(swath, name) is not None
    assert name in dir(swath)


def test_the_lazy_table_and_the_list_agree() -> None:
    assert sorted(swath._HOMES) == sorted(swath.__all__)


def test_a_name_that_is_not_there_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = swath.Nothing  # type: ignore[attr-defined]
