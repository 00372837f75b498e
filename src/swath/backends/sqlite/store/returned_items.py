"""What earlier leases did to an item that has not ended: its tries and attempts, and whether it is a suspect.

Written when an item comes back, read when it is handed out, shown or swept. An item without progress never began.
`silences` counts how often its worker fell silent while the item ran alone, since it was last tried.
"""

from __future__ import annotations

import msgspec

from swath.backends.sqlite.schema import Rank
from swath.domain.item import Attempt, HandedBackItem, TryCounts

__all__ = ["NO_PROGRESS", "ItemProgress", "read_progress"]


class ItemProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """See ItemRecord for the fields."""

    tries: TryCounts = TryCounts()
    attempts: tuple[Attempt, ...] = ()
    suspect: bool = False
    silences: int = 0

    def after(self, back: HandedBackItem) -> ItemProgress:
        """With what its worker says; a suspect that was tried and killed nobody is none any more."""
        tried = (back.tries, back.attempts) != (self.tries, self.attempts)
        return ItemProgress(back.tries, back.attempts, self.suspect and not tried, 0 if tried else self.silences)

    def accused(self, *, alone: bool, died: bool) -> ItemProgress:
        """Its worker was lost while it ran; `alone` if nothing ran beside it, `died` if that is proven."""
        tries = msgspec.structs.replace(self.tries, crashes=self.tries.crashes + (alone and died))
        return ItemProgress(tries, self.attempts, suspect=True, silences=self.silences + (alone and not died))

    @property
    def rank(self) -> Rank:
        """Where it waits."""
        if self.suspect:
            return Rank.SUSPECT
        return Rank.UNTRIED if self == NO_PROGRESS else Rank.BEGUN

    @property
    def row(self) -> bytes | None:
        """As the item's row holds it."""
        return None if self == NO_PROGRESS else msgspec.json.encode(self)


NO_PROGRESS = ItemProgress()

_decoder = msgspec.json.Decoder(ItemProgress)


def read_progress(row: bytes | None) -> ItemProgress:
    """What `row` was."""
    return NO_PROGRESS if row is None else _decoder.decode(row)
