"""The pages of `make bench-browser`: the benchmark's parcels, of which a script in the page renders a part.

Six of the fifteen fields and the table of documents are in the answer as data only. browser_site.py serves them.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from hashlib import blake2b
from itertools import product
from struct import pack
from typing import Final
from zlib import compress, crc32

from harness.bench.pages import FIELDS, truth_of
from swath.demo.county.parcel_pages import page
from swath.demo.county.parcels import parcel

__all__ = ["IMAGES", "RENDERED", "SCRIPT", "STYLE", "image", "rendered_body_of"]

RENDERED: Final = ("last_sale_date", "last_sale_price", "total_value", "assessed_value", "total_due", "status")
DOCUMENTS: Final = 60
IMAGES: Final = tuple(f"/static/image-{number}.png" for number in range(5))
SIDE_PIXELS: Final = 48
_KINDS: Final = ("WARRANTY DEED", "DEED OF TRUST", "RELEASE", "QUIT CLAIM DEED", "AFFIDAVIT OF VALUE")
_HEAD: Final = (
    '<link rel="icon" href="data:,">\n'  # or browsers would ask for one more file, some of them
    '<link rel="stylesheet" href="/static/style.css">\n<script src="/static/app.js" defer></script>\n</head>'
)
_SHOWN: Final = "\n".join(f'<img src="{path}" width="{SIDE_PIXELS}" height="{SIDE_PIXELS}" alt="">' for path in IMAGES)
_BEFORE: Final = "<h2>Ways to pay</h2>"

SCRIPT: Final = b"""\
document.addEventListener("DOMContentLoaded", () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const [id, text] of Object.entries(data.fields)) document.getElementById(id).textContent = text;
  const body = document.querySelector("#gvDocuments tbody");
  for (const [name, kind, pages] of data.documents) {
    const row = body.insertRow();
    row.className = "gridviewRow";
    const link = row.insertCell().appendChild(document.createElement("a"));
    link.href = "/recorder/" + name;
    link.textContent = name;
    for (const text of [kind, pages + " pages", "certified"]) row.insertCell().textContent = text;
  }
});
"""
STYLE: Final = "".join(
    f"#main .{name}-{number}{{margin:{number}px;padding:{number}px {number}px}}\n"
    for name, number in product(("column", "row", "cell", "note"), range(12))
).encode()


def rendered_body_of(parcel_id: str) -> bytes:
    """About 12 KB. What a script must put in is empty."""
    html = page(replace(parcel(parcel_id), layout="list")).body.decode()
    truth = truth_of(parcel_id)
    data = {"fields": {FIELDS[name][1:]: truth[name] for name in RENDERED}, "documents": _documents(parcel_id)}
    for name in RENDERED:
        html = re.sub(rf'(id="{FIELDS[name][1:]}"[^>]*>)[^<]*<', r"\1<", html, count=1)
    table = '<h2>Recorded documents</h2>\n<table id="gvDocuments"><tbody></tbody></table>\n'
    told = f'<script type="application/json" id="data">{json.dumps(data)}</script>\n'
    return html.replace("</head>", _HEAD, 1).replace(_BEFORE, f"{_SHOWN}\n{table}{told}{_BEFORE}", 1).encode()


def image(number: int) -> bytes:
    """A small picture, each of another colour and with some noise in it."""
    noise = blake2b(bytes([number]), digest_size=SIDE_PIXELS).digest()
    lines = b"".join(
        b"\0" + b"".join(bytes([40 * number, noise[x], noise[y]]) for x in range(SIDE_PIXELS))
        for y in range(SIDE_PIXELS)
    )
    head = pack(">IIBBBBB", SIDE_PIXELS, SIDE_PIXELS, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", compress(lines)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + kind + data + pack(">I", crc32(kind + data))


def _documents(parcel_id: str) -> list[tuple[str, str, int]]:
    drawn = blake2b(parcel_id.encode(), digest_size=DOCUMENTS, person=b"bench-documents").digest()
    return [
        (f"{1966 + number}-{draw * 3911:07d}", _KINDS[draw % len(_KINDS)], draw % 40 + 1)
        for number, draw in enumerate(drawn)
    ]
