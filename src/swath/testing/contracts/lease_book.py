"""The contract of the LeaseBook port, sentence by sentence, in four parts: handing out, committing, losing, ending."""

from __future__ import annotations

from swath.testing.contracts.lease_book_claim import ClaimContract
from swath.testing.contracts.lease_book_end import EndContract
from swath.testing.contracts.lease_book_finish import FinishContract
from swath.testing.contracts.lease_book_rescue import RescueContract

__all__ = ["LeaseBookContract"]


class LeaseBookContract(ClaimContract, FinishContract, RescueContract, EndContract):  # one suite in four files
    """Fixtures to give: `store` (a Store, closed afterwards) on `clock` (a FakeClock), and `kill` (see orders.Kill)."""
