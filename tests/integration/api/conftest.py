from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.integration.api.running import Api, running


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The API on a store of its own, without a worker: jobs stay as they were ordered."""
    async with running(tmp_path) as opened:
        yield opened


@pytest.fixture
async def working_api(tmp_path: Path) -> AsyncIterator[Api]:
    """The same with a worker."""
    async with running(tmp_path, work=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def loop_runner() -> Iterator[asyncio.Runner]:
    """An event loop for tests of Hypothesis, which are no coroutines."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def shared_api(loop_runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One API for all examples of a module, on the loop of `loop_runner`."""
    stack = AsyncExitStack()
    folder = tmp_path_factory.mktemp("api")
    yield loop_runner.run(stack.enter_async_context(running(folder)))
    loop_runner.run(stack.aclose())
