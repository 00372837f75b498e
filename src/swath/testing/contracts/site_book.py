"""The contract of the SiteBook port, sentence by sentence, in three parts: rates, shares, circuits and the rest."""

from __future__ import annotations

from swath.testing.contracts.site_book_circuit import SiteCircuitContract
from swath.testing.contracts.site_book_pace import PaceContract
from swath.testing.contracts.site_book_share import ShareContract

__all__ = ["SiteBookContract"]


class SiteBookContract(PaceContract, ShareContract, SiteCircuitContract):
    """Fixture to give: `book`, a SiteBook with nothing in it, on `clock`, a FakeClock."""
