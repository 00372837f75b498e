"""All behaviours in one table: what the site serves, what the docs page shows, and what the tests expect."""

from __future__ import annotations

from typing import Final

from harness.fakes.hostile_site.behaviour import Behaviour, always, html, whole
from harness.fakes.hostile_site.body_lengths import LENGTHS
from harness.fakes.hostile_site.bombs import BOMBS
from harness.fakes.hostile_site.charsets import TEXTS
from harness.fakes.hostile_site.contents import CONTENTS
from harness.fakes.hostile_site.headers import HEADS
from harness.fakes.hostile_site.http2_frames import FRAMES
from harness.fakes.hostile_site.redirects import MOVES
from harness.fakes.hostile_site.scripts import SCRIPTS
from harness.fakes.hostile_site.slow import SLOW
from harness.fakes.hostile_site.statuses import STATUSES
from harness.fakes.hostile_site.tls_handshakes import HANDSHAKES
from swath.domain.failure import FailureKind

__all__ = ["BEHAVIOURS", "BROWSER_BEHAVIOURS", "FINE", "GROUPS", "MISSING", "behaviour", "markdown"]

# Whoever met one of the others goes on with this one.
FINE: Final = Behaviour("fine", "is a page like any other", (), always(whole(html("fine"), b"Content-Type: text/html")))

MISSING: Final = Behaviour(
    "missing",
    "has no such page",
    (FailureKind.NOT_FOUND_PAGE,),
    always(whole(html("missing"), status=b"404 Not Found")),
)

GROUPS: Final[dict[str, tuple[Behaviour, ...]]] = {
    "Slow and endless": SLOW,
    "Cut off, and lengths that lie": LENGTHS,
    "Bombs and bad encodings": BOMBS,
    "Redirects": MOVES,
    "Charsets": TEXTS,
    "Contents": CONTENTS,
    "Heads and cookies": HEADS,
    "Statuses": STATUSES,
    "TLS": HANDSHAKES,
    "HTTP/2": FRAMES,
}
BEHAVIOURS: Final[dict[str, Behaviour]] = {one.name: one for group in GROUPS.values() for one in group}
# Harmless to whoever has no browser.
BROWSER_BEHAVIOURS: Final[dict[str, Behaviour]] = {one.name: one for one in SCRIPTS}


def behaviour(name: str) -> Behaviour:
    """By its name; KeyError if there is none."""
    return BEHAVIOURS[name]


def markdown() -> str:
    """The tables of the docs page."""
    parts: list[str] = []
    for title, group in GROUPS.items():
        rows = [f"| `{one.name}` | {one.does} | {one.ends_as} |" for one in group]
        parts.append(
            "\n".join([f"### {title}", "", "| name | what the site does | how an item ends |", "|---|---|---|", *rows])
        )
    return "\n\n".join(parts)
