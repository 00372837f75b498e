"""Packs: objects that hold what many items of a lease left, `packs/{fence}-…`. One call wrote each, and none grows.

results.py asks here when a lease is settled; what is seen of packs is in the rooms (rooms.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from swath.backends.aws.results.files import File, Files
from swath.backends.aws.results.objects import Objects
from swath.domain.layout import PACKS

__all__ = ["Packs", "too_long"]


class Packs:
    """Jobs are given by their folder."""

    def __init__(self, objects: Objects, files: Files) -> None:
        self._objects = objects
        self._files = files

    async def find(self, job: str, fence: int) -> dict[str, int]:
        """What lies there of a lease, whether it counts or not, with the sizes; documents beside it are none."""
        found = await self._objects.beginning(f"{job}/{PACKS.rstrip('/')}", f"{fence}-")
        return {path.removeprefix(f"{job}/"): size for path, size in found.items()}

    async def cut(self, job: str, sizes: Mapping[str, int], needed: Mapping[str, int]) -> None:
        """Takes away what is behind the bytes needed."""
        for key in too_long(sizes, needed):
            await self._files.put(job, File(key, await self._files.read(job, key, 0, needed[key])))


def too_long(sizes: Mapping[str, int], needed: Mapping[str, int]) -> list[str]:
    """Those that hold more than is needed of them."""
    return [key for key, size in sizes.items() if needed.get(key, size) < size]
