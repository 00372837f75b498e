"""Removes presence files: the lock files in `workers/` by which the workers of one host see that the others live.

The workers go on living. So a missing file must not count as a death: nobody's lease may be taken because of it, and no
item blamed.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

__all__ = ["remove_presence"]


def remove_presence(folder: Path, luck: random.Random) -> str | None:
    """Removes the whole folder or some of its files; says which. None when there was nothing to remove."""
    files = sorted(folder.glob("*")) if folder.is_dir() else []
    if not files:
        return None
    if luck.random() < 0.5:
        shutil.rmtree(folder, ignore_errors=True)
        return "folder"
    for file in luck.sample(files, luck.randint(1, len(files))):
        file.unlink(missing_ok=True)
    return "files"
