"""Documents that only the holder of a lease may write: manifests, written by whoever ends a job.

A document is written in the lease's room (rooms.py) and renamed from there to its key; a removal renames it into the
room. A rename needs both folders, so once the room is removed the former holder can neither write nor remove anything,
even if it was stopped between writing a document and renaming it. Called by results.py, in its threads.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby

from swath.backends.embedded.folders import enter, opened, parent_of, sync_folder, write_file
from swath.backends.embedded.rooms import LEASES
from swath.domain.result import Artifact
from swath.observe.crash_points import reach

__all__ = ["put", "withdraw"]


def put(job: int, fence: int, documents: Mapping[str, bytes], *, fsync: bool) -> list[Artifact]:
    """Writes documents, each replacing its former whole. Raises FileNotFoundError when the room is gone."""
    new = _new_name()
    with opened(enter(job, f"{LEASES}/{fence}")) as room:
        for folder, keys in groupby(documents, lambda key: key.rpartition("/")[0]):
            with opened(enter(job, folder or ".", create=True)) as target:
                for key in keys:
                    write_file(room, new, documents[key], fsync=fsync)
                    reach("before_document")
                    os.rename(new, key.rpartition("/")[2], src_dir_fd=room, dst_dir_fd=target)
                sync_folder(target, fsync)
    return [Artifact(key, len(data), hashlib.sha256(data).hexdigest()) for key, data in documents.items()]


def withdraw(job: int, fence: int, keys: Sequence[str]) -> None:
    """Removes documents. Raises FileNotFoundError when the room is gone."""
    with opened(enter(job, f"{LEASES}/{fence}")) as room:
        for key in keys:
            reach("before_withdrawal")
            with suppress(FileNotFoundError), parent_of(job, key) as (folder, name):
                aside = _new_name()
                os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=room)
                os.unlink(aside, dir_fd=room)


def _new_name() -> str:
    """No encoded name begins with a dot, so no item's folder has this name."""
    return f".document-{secrets.token_hex(8)}"
