"""The contract of the LeaseBook port, sentence by sentence, in seven parts: handing out, whose turn it is, committing,
losing, the circuit, poison, and what waits."""

from __future__ import annotations

from swath.testing.contracts.lease_book_backlog import BacklogContract
from swath.testing.contracts.lease_book_circuit import CircuitContract
from swath.testing.contracts.lease_book_claim import ClaimContract
from swath.testing.contracts.lease_book_finish import FinishContract
from swath.testing.contracts.lease_book_poison import PoisonContract
from swath.testing.contracts.lease_book_rescue import RescueContract
from swath.testing.contracts.lease_book_turns import TurnsContract

__all__ = ["LeaseBookContract"]


class LeaseBookContract(  # one suite in seven files
    ClaimContract, TurnsContract, FinishContract, RescueContract, CircuitContract, PoisonContract, BacklogContract
):
    """Fixtures to give: `store` (a Store, closed afterwards) on `clock` (a FakeClock), and `kill` (see orders.Kill)."""
