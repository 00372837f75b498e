"""Whether the site policies can be used, and what their circuits say."""

from __future__ import annotations

import asyncio

from swath.backends.embedded import examine
from swath.bootstrap.services import make_directory, open_sites
from swath.domain.errors import StoreUnavailable, UserError
from swath.domain.site_circuit import CircuitState
from swath.entrypoints.cli.doctor.finding import Finding, Subject, fail, ok, warn
from swath.entrypoints.cli.output import counted
from swath.settings import SqlitePlace

__all__ = ["check_sites"]


def check_sites(subject: Subject) -> Finding:
    """The file is in order, and no site is being left alone."""
    try:
        directory = make_directory(subject.settings)
    except UserError as error:
        return fail(str(error), "correct the file, or the setting SWATH_SITES")
    entries = counted(len(directory.sites), "site")  # of which there are shipped ones, so never none
    place = subject.settings.places.store
    if isinstance(place, SqlitePlace) and not (place.folder / "sites.sqlite").is_file():
        return ok(f"policies of {entries}; none was visited yet")
    if isinstance(place, SqlitePlace) and (locked := examine.held_sites(place.folder)) is not None:
        return fail(locked.told, locked.remedy) if locked.stopped else warn(locked.told, locked.remedy)
    try:
        held = asyncio.run(_held(subject))
    except StoreUnavailable as error:
        return warn(str(error), "look again later; nothing is sent meanwhile")
    except UserError as error:
        on_disk = isinstance(place, SqlitePlace)
        return fail(str(error), "remove the file; it starts afresh" if on_disk else "do as it says")
    if held:
        told = f"left alone, because they failed: {', '.join(held)}"
        return warn(told, "see whether they are up; a probe goes out by itself")
    return ok(f"policies of {entries}; none is left alone")


async def _held(subject: Subject) -> list[str]:
    async with open_sites(subject.settings) as book:
        states = await book.states()
    return sorted(name for name, state in states.items() if state.circuit.state is not CircuitState.CLOSED)
