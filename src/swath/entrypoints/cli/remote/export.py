"""`jobs export --server`: the controller makes the export, and what comes is written to a file here (R5).

The file gets its name when all of it is there. Before: GET /jobs/{id}/export.
"""

from __future__ import annotations

import asyncio
import tarfile
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import urlencode

import click

from swath.domain.errors import BadInput, SwathError
from swath.domain.job import JobStatus
from swath.entrypoints.cli.remote.answers import Client
from swath.entrypoints.cli.remote.shapes import status_of
from swath.pipeline.results.export import Format, Wish
from swath.pipeline.results.part import check_target, writing

__all__ = ["export_there", "status_there"]


async def status_there(client: Client, job_id: str) -> JobStatus:
    """Where the job stands."""
    view = await client.ask("GET", "jobs", job_id, "status")
    with client.understanding():
        return status_of(view)


async def export_there(client: Client, job_id: str, wish: Wish, target: Path | None, *, replace: bool) -> int:
    """Writes the export to that file or folder, or to stdout; answers with how many bytes. Raises BadInput when it
    cannot be written there, and Unreachable when it breaks off."""
    async with aclosing(_pieces(client, job_id, wish)) as pieces:
        if target is None:
            return await _to_stdout(pieces)
        folder = wish.format is Format.FILES
        real = check_target(target, folder=folder, replace=replace)
        try:
            with writing(real, folder=folder) as part:
                size = await (_to_folder(pieces, part.path) if folder else _to_file(pieces, part.path))
                await asyncio.to_thread(part.publish, replace=replace)
        except OSError as error:
            raise BadInput(f"{target} cannot be written: {error.strerror or error}") from error
        return size


async def _pieces(client: Client, job_id: str, wish: Wish) -> AsyncGenerator[bytes, None]:
    query = {
        "format": wish.format.value,
        "raw": str(wish.raw).lower(),
        "state": "all" if wish.everything else "success",
        "partial": str(wish.partial).lower(),
    }
    path = f"{client.address.path('jobs', job_id, 'export')}?{urlencode(query)}"
    async with client.wire.streaming(path, {}) as stream:
        if stream.status != 200:
            client.data_of(await stream.whole())
        async for piece in stream.pieces():
            yield piece


async def _to_stdout(pieces: AsyncGenerator[bytes, None]) -> int:
    size = 0
    async for piece in pieces:
        size += len(piece)
        await asyncio.to_thread(click.echo, piece, nl=False)
    return size


async def _to_file(pieces: AsyncGenerator[bytes, None], path: Path) -> int:
    with path.open("wb") as file:
        return await _write(pieces, file)


async def _to_folder(pieces: AsyncGenerator[bytes, None], folder: Path) -> int:
    """What comes is an archive; it is kept beside the folder until all of it is there."""
    with tempfile.TemporaryFile(dir=folder.parent, prefix=".swath-") as archive:
        await _write(pieces, archive)
        archive.seek(0)
        return await asyncio.to_thread(_unpack, archive, folder)


async def _write(pieces: AsyncGenerator[bytes, None], file: BinaryIO) -> int:
    size = 0
    async for piece in pieces:
        size += len(piece)
        await asyncio.to_thread(file.write, piece)
    return size


def _unpack(archive: BinaryIO, folder: Path) -> int:
    """Plain files below the folder, and nothing else: what a controller sends must not be written anywhere else."""
    size = 0
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                if not member.isreg() or name.is_absolute() or ".." in name.parts:
                    raise SwathError(f"the archive has {member.name!r}, which is no file of an export")
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                found = tar.extractfile(member)
                data = b"" if found is None else found.read()
                path.write_bytes(data)
                size += len(data)
    except tarfile.TarError as error:
        raise SwathError(f"the archive cannot be read: {error}") from error
    return size
