from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.settings import Settings, load_settings
from tests.integration.api.serving import Place, Served
from tests.integration.cli.typed import TYPED


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with scrapers of its own."""
    (tmp_path / "scrapers").mkdir()
    (tmp_path / "scrapers/typed.py").write_text(TYPED)
    made = Place(tmp_path)
    made.environment["SWATH_SCRAPERS"] = str(tmp_path / "scrapers")
    return made


@pytest.fixture
async def idle(place: Place) -> AsyncIterator[Served]:
    """A controller without a worker: jobs stay as they were ordered."""
    async with place.serving("--no-worker") as served:
        yield served


@pytest.fixture
async def served(place: Place) -> AsyncIterator[Served]:
    """A controller with a worker."""
    async with place.serving() as served:
        yield served


@pytest.fixture
def here(place: Place, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a command that works on the same store."""
    monkeypatch.chdir(place.folder)
    return load_settings({name: value for name, value in place.environment.items() if name.startswith("SWATH_")})
