"""Files of `swath recording`: recordings of any kind are read, ours are written, and none is overwritten unasked."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from swath.actions.document import dump_json, dump_yaml, parse_recording
from swath.actions.importing import import_recording, read_mapping
from swath.actions.importing.strict_json import MOST_CHARS
from swath.actions.language.recording import Recording
from swath.domain.errors import BadInput
from swath.pipeline.accept.raw_bytes import chunks_of, open_bytes

__all__ = ["read_any", "read_text", "write_recording"]

_PIPES: Final = ("/dev/stdin", "/dev/fd/")


def read_text(path: str) -> str:
    """The text of a file. Raises BadInput, in one line."""
    place = Path(path)
    if not path.startswith(_PIPES) and place.exists() and not (place.is_file() or place.is_dir()):
        raise BadInput(f"{path}: is a pipe or a device, not a file; name a file")
    raw = bytearray()
    with open_bytes(path, None) as file:
        for chunk in chunks_of(path, file):
            raw += chunk
            if len(raw) > MOST_CHARS:
                raise BadInput(f"{path}: is larger than 16 MiB, which no recording is; name the right file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}: line {line}: is not UTF-8 text; save it as UTF-8") from None


def read_any(path: str, mapping: str | None = None) -> Recording:
    """A recording of ours, or one that Chrome, a plug-in or a mapping file knows. JavaScript may be in it: it is only
    looked at."""
    text = read_text(path)
    if mapping is not None:
        return import_recording(text, path, mapping=read_mapping(mapping)).recording
    if "swath_recording" in text or not text.lstrip().startswith("{"):
        return parse_recording(text, path, javascript=True)
    return import_recording(text, path).recording


def write_recording(recording: Recording, path: str, *, force: bool) -> None:
    """As JSON if the name ends so, else as YAML. Raises BadInput when there is something and `force` is not given."""
    text = dump_json(recording) if path.lower().endswith(".json") else dump_yaml(recording)
    try:
        with Path(path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput(f"{path}: is there already; --force replaces it") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None
