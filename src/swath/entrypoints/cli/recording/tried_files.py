"""What `swath recording try` leaves in its folder: pages, pictures and files by their names, and the record as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from swath.backends.host.private_files import make_folder, make_private_file
from swath.domain.errors import BadInput
from swath.domain.keys import REFUSED_PAGE, download_name, page_name

if TYPE_CHECKING:
    from swath.web.collected import Collected

__all__ = ["write_tried"]

_LIST: Final = ".tried"  # names what a try has left, so that the next one can take it away, and nothing else


def write_tried(folder: Path, collected: Collected | None, data: Any) -> list[str]:
    """The names of the files, in the place of all that an earlier try has left: a picture of a step that was not
    reached this time would tell a tale."""
    files: dict[str, bytes] = {}
    if collected is not None:
        files |= {page_name(name): page.body for name, page in collected.kept.items()}
        files |= {download_name(kept.name): kept.page.body for kept in collected.downloads}
        if collected.refused is not None:
            files[page_name(REFUSED_PAGE)] = collected.refused.body
    if data is not None:
        files["record.json"] = json.dumps(data, indent=2, ensure_ascii=False).encode()
    try:
        _take_away(folder)
        for name, body in files.items():
            path = folder / name
            make_folder(path.parent)
            make_private_file(path)
            path.write_bytes(body)
        if files:
            make_private_file(folder / _LIST)
            (folder / _LIST).write_text("\n".join(sorted(files)), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written: {error.strerror}; choose another with --output") from None
    return sorted(files)


def _take_away(folder: Path) -> None:
    try:
        left = (folder / _LIST).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return
    root = folder.resolve()
    for name in left:
        path = (folder / name).resolve()
        if path.is_relative_to(root) and path.is_file():
            path.unlink()
