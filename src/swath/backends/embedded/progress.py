"""What earlier leases did to an item that has not ended: its tries and attempts, and whether it is a suspect.
`silences`: how often its worker fell silent while it ran alone, since it was last tried.

Written when an item comes back (finishing.py, rescue.py), read when it is handed out, shown or swept. An item without
any never began.
"""

from __future__ import annotations

import msgspec

from swath.backends.embedded.schema import Rank
from swath.domain.attempt import Attempt, HandedBack, Tries

__all__ = ["NONE", "Progress", "read_progress"]


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """See ItemRecord for the fields."""

    tries: Tries = Tries()
    attempts: tuple[Attempt, ...] = ()
    suspect: bool = False
    silences: int = 0

    def after(self, back: HandedBack) -> Progress:
        """With what its worker says; a suspect that was tried and killed nobody is none any more."""
        tried = (back.tries, back.attempts) != (self.tries, self.attempts)
        return Progress(back.tries, back.attempts, self.suspect and not tried, 0 if tried else self.silences)

    def accused(self, *, alone: bool, died: bool) -> Progress:
        """Its worker was lost while it ran; `alone` if nothing ran beside it, `died` if that is proven."""
        tries = msgspec.structs.replace(self.tries, crashes=self.tries.crashes + (alone and died))
        return Progress(tries, self.attempts, suspect=True, silences=self.silences + (alone and not died))

    @property
    def rank(self) -> Rank:
        """Where it waits."""
        if self.suspect:
            return Rank.SUSPECT
        return Rank.UNTRIED if self == NONE else Rank.BEGUN

    @property
    def row(self) -> bytes | None:
        """As the item's row holds it."""
        return None if self == NONE else msgspec.json.encode(self)


NONE = Progress()

_decoder = msgspec.json.Decoder(Progress)


def read_progress(row: bytes | None) -> Progress:
    """What `row` was."""
    return NONE if row is None else _decoder.decode(row)
