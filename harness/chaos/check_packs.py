"""The independent count of a packed job: every record and line where the store says, packs whole, indexes true.

Like check_files.py, which does the rest: zlib and json, and nothing of the product.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.chaos import expected
from harness.chaos.check_files import FileCheck, Known
from harness.chaos.findings import Findings, Kind

__all__ = ["PackCheck"]

_PACKED: Final = re.compile(r"(packs/[^/@]+)@([0-9]+)\+([0-9]+)/(.+)")
_END: Final = b"\r\n\r\n"
_UNREADABLE: Final = (ValueError, KeyError, TypeError, zlib.error)


class _Span(NamedTuple):
    start: int
    end: int


class PackCheck(FileCheck):
    """Files of a job whose layout is `warc`. A later generation leaves records behind that nobody refers to."""

    has_entries = False

    def __init__(self, folder: Path, findings: Findings, *, generation: int) -> None:
        super().__init__(folder, findings)
        self._generation = generation
        self._spans: defaultdict[str, set[_Span]] = defaultdict(set)

    def load(self, key: str) -> bytes:
        """The bytes that a key stands for."""
        packed = _PACKED.fullmatch(key)
        if packed is None:
            return super().load(key)
        pack, start, length = packed[1], int(packed[2]), int(packed[3])
        self.referred.add(pack)
        self._spans[pack].add(_Span(start, start + length))
        with (self.folder / pack).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def _check_content(self, item_id: str, item: Known, key: str, name: str, body: bytes) -> None:
        try:
            if name == "html.html":
                right = _body(body) == expected.page(item_id)
            else:
                line = json.loads(body)
                about = line["metadata"]
                told = (line["item_id"], about["item_id"], about["state"], about["outcome"])
                right = told == (item_id, item_id, item.state, item.outcome) and body.endswith(b"}\n")
                if name == "data.json":
                    right &= line["data"] == expected.record(item_id)
        except _UNREADABLE as error:
            self.findings.add(Kind.TORN, key, f"it cannot be read: {error}")
        else:
            self.findings.expect(right, Kind.TORN, key, f"it is not what belongs to {item_id}")

    def find_strays(self) -> None:
        """Every pack must be whole from end to end, and have an index that says where its pages are."""
        for pack, spans in self._spans.items():
            body = self.read(pack)
            if body is None:
                continue
            end = max(span.end for span in spans)
            exact = self._generation == 1
            fits = len(body) == end if exact else len(body) >= end
            self.findings.expect(fits, Kind.TORN, pack, f"it has {len(body)} bytes, and {end} are needed")
            if pack.endswith(".gz"):
                self._check_members(pack, body, spans)
            else:
                starts = {0, *(span.end for span in spans)} if exact else set()
                whole = body.endswith(b"\n") and all(span.start in starts for span in spans if exact)
                self.findings.expect(whole, Kind.TORN, pack, "its lines do not follow one another")
        super().find_strays()

    def _check_members(self, pack: str, body: bytes, spans: set[_Span]) -> None:
        """Unpacks the file as any reader of WARC would, and compares its index with it."""
        try:
            pages = _pages(body)
        except _UNREADABLE as error:
            self.findings.add(Kind.TORN, pack, f"it is no WARC: {error}")
            return
        self.findings.expect(spans <= pages, Kind.LOST, pack, "it lacks records that the store refers to")
        self.findings.expect(
            self._generation > 1 or spans == pages, Kind.STRAY, pack, "it has pages that nobody refers to"
        )
        index = pack.removesuffix("warc.gz") + "cdxj"
        lines = (self.read(index) or b"").decode().splitlines()
        told = [json.loads(line.split(" ", 2)[2]) for line in lines]
        found = {_Span(int(line["offset"]), int(line["offset"]) + int(line["length"])) for line in told}
        self.findings.expect(found == pages, Kind.WRONG, index, "it does not name the pages of the pack")
        self.findings.expect(lines == sorted(lines), Kind.WRONG, index, "it is not sorted")


def _pages(body: bytes) -> set[_Span]:
    """Where the records with a page are. Raises for anything that is no sequence of whole records."""
    found, start = set(), 0
    while start < len(body):
        unpacking = zlib.decompressobj(31)
        record = unpacking.decompress(body[start:])
        if not unpacking.eof or not record.startswith(b"WARC/1.1\r\n") or not record.endswith(_END):
            raise ValueError(f"no whole record at byte {start}")
        end = len(body) - len(unpacking.unused_data)
        if b"\r\nWARC-Type: warcinfo\r\n" not in record and b"\r\nWARC-Type: request\r\n" not in record:
            found.add(_Span(start, end))
        start = end
    return found


def _body(member: bytes) -> bytes:
    """The page in a record, as its headers give its length."""
    head, _, block = zlib.decompress(member, 31).partition(_END)
    fields: dict[str, Any] = dict(line.split(": ", 1) for line in head.decode().splitlines()[1:])
    block = block[: int(fields["Content-Length"])]
    return block.partition(_END)[2] if fields["WARC-Type"] == "response" else block
