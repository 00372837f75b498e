"""A loop that reads the stored pages of a job and parses them, and no more: reextract.py is held against it.

`python -m harness.bench.bare_parse FOLDER ORDER`: a job's results in either layout, and which fields are read.
Prints how many pages there were, and what they took.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from isal import isal_zlib
from selectolax.lexbor import LexborHTMLParser

__all__ = ["bodies", "main"]

_GZIP_WBITS: Final = 31


def main() -> None:
    """Parses all of them in one process."""
    folder, order = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    fields: dict[str, str] = order["fields"]
    began, used, pages = time.perf_counter(), time.process_time(), 0
    for body in bodies(folder):
        tree = LexborHTMLParser(body)
        found = {name: tree.css_first(selector).text(strip=True) for name, selector in fields.items()}  # type: ignore[union-attr]  # every page has them
        pages += len(found) == len(fields)
    took = {"pages": pages, "seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - used}
    print(json.dumps(took))


def bodies(folder: Path) -> Iterator[bytes]:
    """The pages as they were fetched."""
    for file in folder.glob("items/*/html.html.gz"):
        yield isal_zlib.decompress(file.read_bytes(), _GZIP_WBITS)
    for pack in folder.glob("packs/*.warc.gz"):
        rest = pack.read_bytes()
        while rest:
            member = isal_zlib.decompressobj(_GZIP_WBITS)
            record = member.decompress(rest)
            rest = member.unused_data
            head, _, block = record.partition(b"\r\n\r\n")
            if b"WARC-Type: resource" in head:
                yield block


if __name__ == "__main__":
    main()
